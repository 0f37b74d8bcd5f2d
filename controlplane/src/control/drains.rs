//! Deadlines of draining servers: what ends when. They survive a restart of the daemon in a file
//! beside its socket, which is there only while one runs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use config::spec::{Admin, OnRemove, ServerRef, ServiceRef};
use config::{Endpoint, Settings};
use serde::{Deserialize, Serialize};

use super::state_file;
use crate::change::{Change, ServerEdit};
use crate::store::{Member, Store};

const WHAT: &str = "deadlines of drains are";

/// A server of one service that drains until a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Drain {
    service: Endpoint,
    address: IpAddr,
    port: u16,
    pub(super) then: OnRemove,
    pub(super) by: String,
    /// In ms of [`Drains`]' clock; in the file since 1970.
    pub(super) until_ms: u64,
}

impl Drain {
    fn place(&self) -> (ServiceRef, ServerRef) {
        let server = ServerRef::Address(self.address, Some(self.port));
        (self.service.into(), server)
    }

    fn is(&self, service: Endpoint, member: &Member) -> bool {
        let place = (member.spec.address, member.spec.port.unwrap_or_default());
        service == self.service && place == (self.address, self.port)
    }

    /// Whether the server is still there, and still drains.
    fn stands(&self, store: &Store) -> bool {
        let Ok(entry) = store.service(&self.service.into()) else { return false };
        let mut members = entry.members.iter().filter(|m| self.is(self.service, m));
        members.any(|m| m.spec.admin == Admin::Drain)
    }
}

/// All deadlines.
pub(super) struct Drains {
    list: Vec<Drain>,
    file: PathBuf,
    /// What the control thread's clock lacks to the time since 1970, in ms.
    epoch_ms: u64,
    saved: bool,
}

impl Drains {
    /// What an earlier process left: its servers drain again in `store`.
    pub(super) fn load(settings: &Settings, store: &mut Store, now_ms: u64) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let epoch_ms = u64::try_from(unix).unwrap_or(u64::MAX).saturating_sub(now_ms);
        let file = settings.director.state_file();
        let mut drains = Self { list: Vec::new(), file, epoch_ms, saved: true };
        for drain in state_file::read::<Drain>(&drains.file, WHAT) {
            let (service, server) = drain.place();
            let edit = ServerEdit { admin: Some(Admin::Drain), ..ServerEdit::default() };
            if store.apply(&[Change::EditServer { service, server, edit }]).is_ok() {
                let until_ms = drain.until_ms.saturating_sub(epoch_ms);
                drains.list.push(Drain { until_ms, ..drain });
            } else {
                drains.saved = false;
            }
        }
        drains
    }

    /// Notes what an applied change says about deadlines.
    pub(super) fn note(&mut self, change: &Change, store: &Store, by: &str, now_ms: u64) {
        let Change::DrainServer { server, deadline, then } = change else { return };
        for (service, place) in store.everywhere(server) {
            let Ok(entry) = store.service(&service) else { continue };
            let ServerRef::Address(address, port) = place else { continue };
            let (service, port) = (entry.spec.endpoint(), port.unwrap_or_default());
            self.list.retain(|d| (d.service, d.address, d.port) != (service, address, port));
            if let Some(secs) = deadline {
                let until_ms = now_ms + u64::from(*secs) * 1000;
                let (then, by) = (then.unwrap_or(OnRemove::Reset), by.to_owned());
                self.list.push(Drain { service, address, port, then, by, until_ms });
            }
            self.saved = false;
        }
    }

    /// The deadline of a server.
    pub(super) fn of(&self, service: Endpoint, member: &Member) -> Option<&Drain> {
        self.list.iter().find(|d| d.is(service, member))
    }

    /// What is due now. Deadlines of servers that no longer drain are forgotten.
    pub(super) fn tick(&mut self, store: &Store, now_ms: u64) -> Vec<(Change, String)> {
        let before = self.list.len();
        self.list.retain(|d| d.stands(store));
        let due = self.list.extract_if(.., |d| d.until_ms <= now_ms);
        let due: Vec<_> = due
            .map(|d| {
                let (service, server) = d.place();
                (Change::EndConnections { service, server, then: d.then }, d.by)
            })
            .collect();
        self.saved &= before == self.list.len();
        if !self.saved {
            self.saved = true;
            self.save();
        }
        due
    }

    fn save(&self) {
        let since_1970 = |d: &Drain| Drain { until_ms: d.until_ms + self.epoch_ms, ..d.clone() };
        let list: Vec<Drain> = self.list.iter().map(since_1970).collect();
        state_file::write(&self.file, WHAT, &list);
    }
}
