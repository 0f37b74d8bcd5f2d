//! The one mutable truth about services: what is valid, what a change does.
//!
//! A batch works on a copy that replaces the truth at its end, so it is applied as a whole or not
//! at all. Services are shared by reference between the copies; a service that a batch did not
//! touch is the same `Arc` afterwards, which is how the compiler knows what to re-use.

mod edit;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use config::check::{Fault, Network};
use config::spec::{Admin, Timeouts};
use config::{Endpoint, ServerRef, ServerSpec, ServiceRef, ServiceSpec, Settings};
use engine::service::{Pool, ServiceId};

use crate::change::{Change, Refusal, RefusalCode, Wanted};
use crate::slots::Slots;

/// A server of a service.
#[derive(Clone, Debug)]
pub struct Member {
    /// As the operator says it, resolved.
    pub spec: Arc<ServerSpec>,
    /// Its slot.
    pub slot: u32,
}

/// A service.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its index at the lcores.
    pub id: ServiceId,
    /// As the operator says it, resolved; its `servers` are empty: they are the members.
    pub spec: ServiceSpec,
    /// Its servers, in the order of addition.
    pub members: Vec<Member>,
    /// The same as the scheduler sees them, with the trail of changes; without backups.
    pub pool: Pool,
    /// The backups.
    pub backups: Pool,
}

impl Entry {
    /// Whether it is what a resolved spec says.
    #[must_use]
    pub fn says(&self, spec: &ServiceSpec) -> bool {
        let shape = |s: &ServiceSpec| ServiceSpec { servers: Vec::new(), ..s.clone() };
        shape(&self.spec) == shape(spec) && self.members.iter().map(|m| &*m.spec).eq(&spec.servers)
    }

    /// The pool that a server belongs to.
    const fn pool_of(&mut self, spec: &ServerSpec) -> &mut Pool {
        if spec.backup { &mut self.backups } else { &mut self.pool }
    }

    /// The highest version of its pools.
    fn trail(&self) -> u64 {
        self.pool.version.max(self.backups.version)
    }

    /// The service with its servers.
    #[must_use]
    pub fn full_spec(&self) -> ServiceSpec {
        let servers = self.members.iter().map(|m| (*m.spec).clone()).collect();
        ServiceSpec { servers, ..self.spec.clone() }
    }
}

/// Services, servers, slots, timeouts.
#[derive(Clone, Debug)]
pub struct Store {
    version: u64,
    /// By order of addition.
    services: BTreeMap<u64, Arc<Entry>>,
    by_endpoint: HashMap<Endpoint, u64>,
    slots: Slots,
    ids: Ids,
    timeouts: Timeouts,
    network: Arc<Network>,
    last_order: u64,
    last_seq: u64,
    /// The highest [`Pool::version`] ever given: the trails of all pools continue one count, so a
    /// cursor of an ended service can never fit the next one with its index.
    trail: u64,
}

impl Store {
    /// The state that the config wishes, as version 1.
    ///
    /// # Errors
    /// As [`Store::apply`].
    pub fn new(settings: &Settings) -> Result<Self, Refusal> {
        let director = &settings.director;
        let mut store = Self {
            version: 0,
            services: BTreeMap::new(),
            by_endpoint: HashMap::new(),
            slots: Slots::new(director.max_servers),
            ids: Ids { free: Vec::new(), next: 0, leaving: Vec::new(), max: director.max_services },
            timeouts: director.timeouts,
            network: Arc::new(Network::new(&settings.ports)),
            last_order: 0,
            last_seq: 0,
            trail: 0,
        };
        let wanted =
            Wanted { services: settings.services.clone(), timeouts: Some(director.timeouts) };
        store.apply(&[Change::Restore(wanted)])?;
        Ok(store)
    }

    /// Applies all changes, or none; gives the new version.
    ///
    /// # Errors
    /// The first change that is refused, with its place in the batch.
    pub fn apply(&mut self, changes: &[Change]) -> Result<u64, Refusal> {
        let mut next = self.clone();
        next.version += 1;
        for (i, change) in changes.iter().enumerate() {
            next.one(change).map_err(|refusal| Refusal {
                change: (changes.len() > 1).then_some(i),
                ..refusal
            })?;
        }
        next.check_apart()?;
        if !changes.is_empty() {
            *self = next;
        }
        Ok(self.version)
    }

    fn one(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            Change::AddService(spec) => self.add_service(spec),
            Change::EditService { service, edit } => self.edit_service(service, edit),
            Change::DelService { service } => self.del_service(self.find(service)?.0),
            Change::Flush => self.flush(),
            Change::AddServer { service, server } => self.add_server(self.find(service)?.0, server),
            Change::EditServer { service, server, edit } => self.edit_server(service, server, edit),
            Change::DelServer { service, server, then } => self.del_server(service, server, *then),
            Change::DrainServer { server, .. } => self.set_admin(server, Admin::Drain),
            Change::EnableServer { server } => self.set_admin(server, Admin::Enabled),
            Change::EndConnections { service, server, then } => {
                self.end_connections(service, server, *then)
            }
            Change::SetTimeouts(timeouts) => self.set_timeouts(*timeouts),
            Change::Restore(wanted) => self.restore(wanted),
        }
    }

    /// The number of the running state; the first is 1.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// All services, in the order of addition.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &Arc<Entry>> {
        self.services.values()
    }

    /// The slots.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The idle times.
    #[must_use]
    pub const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The networks of the ports.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// One service.
    ///
    /// # Errors
    /// When there is none.
    pub fn service(&self, service: &ServiceRef) -> Result<&Arc<Entry>, Refusal> {
        self.find(service).map(|(_, entry)| entry)
    }

    /// Frees slots and service indices that no lcore needs any more; see [`Slots::reclaim`].
    pub fn reclaim(&mut self, applied: u64, idle: impl Fn(u32, u16) -> bool) -> Freed {
        Freed { slots: self.slots.reclaim(applied, idle), services: self.ids.reclaim(applied) }
    }

    fn find(&self, service: &ServiceRef) -> Result<(u64, &Arc<Entry>), Refusal> {
        let found = match service {
            ServiceRef::Endpoint(e) => {
                self.by_endpoint.get(e).and_then(|order| self.services.get_key_value(order))
            }
            ServiceRef::Name(name) => self.services.iter().find(|(_, e)| e.spec.name == *name),
        };
        found.map(|(order, entry)| (*order, entry)).ok_or_else(|| {
            let message = format!("there is no service {service}");
            Refusal::new(RefusalCode::NoSuchService, message).hint("sluicectl service list")
        })
    }

    /// No server has the address of a service: the director would forward to itself.
    fn check_apart(&self) -> Result<(), Refusal> {
        let vips: HashSet<IpAddr> = self.services().map(|e| e.spec.address).collect();
        let mut members = self.services().flat_map(|e| &e.members);
        match members.find(|m| vips.contains(&m.spec.address)) {
            None => Ok(()),
            Some(m) => {
                let message = format!("{} is a server's and a service's address", m.spec.address);
                Err(Refusal::new(RefusalCode::BadValue, message))
            }
        }
    }

    fn name_is_free(&self, name: &str, except: Option<u64>) -> Result<(), Refusal> {
        let taken = self.services.iter().any(|(o, e)| Some(*o) != except && e.spec.name == name);
        if taken { Err(name_taken(name)) } else { Ok(()) }
    }

    /// A pool without servers, whose trail no cursor fits.
    fn fresh_pool(trail: &mut u64) -> Pool {
        *trail += Pool::CHANGES as u64 + 1;
        Pool { version: *trail, ..Pool::default() }
    }
}

/// What became free.
#[derive(Debug, Default)]
pub struct Freed {
    /// Slots, with the service they belonged to.
    pub slots: Vec<(u32, ServiceId)>,
    /// Service indices.
    pub services: Vec<ServiceId>,
}

/// The indices of services. One is used again only when all lcores have left the snapshots that
/// knew the service it meant.
#[derive(Clone, Debug)]
struct Ids {
    free: Vec<ServiceId>,
    next: ServiceId,
    leaving: Vec<(ServiceId, u64)>,
    max: u16,
}

impl Ids {
    fn take(&mut self) -> Option<ServiceId> {
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        let id = self.next;
        (id < self.max).then(|| {
            self.next += 1;
            id
        })
    }

    fn reclaim(&mut self, applied: u64) -> Vec<ServiceId> {
        let (gone, wait): (Vec<_>, Vec<_>) =
            self.leaving.drain(..).partition(|(_, since)| *since <= applied);
        self.leaving = wait;
        let ids: Vec<ServiceId> = gone.into_iter().map(|(id, _)| id).collect();
        self.free.extend(&ids);
        ids
    }
}

fn name_taken(name: &str) -> Refusal {
    let message = format!("the name {name} is taken");
    Refusal::new(RefusalCode::NameTaken, message).hint("another `name`")
}

fn limit(what: &str, key: &str) -> Refusal {
    let message = format!("there is no room for another {what}");
    Refusal::new(RefusalCode::LimitReached, message)
        .hint(format!("a higher `{key}` in [director]; removed ones may need a moment to leave"))
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let code = if fault.unsupported { RefusalCode::Unsupported } else { RefusalCode::BadValue };
        let refusal = Self::new(code, format!("`{}`: {}", fault.key, fault.message));
        Self { hint: fault.hint.map(|h| format!("allowed: {h}")), ..refusal }
    }
}

fn no_such_server(server: &ServerRef, service: &ServiceSpec) -> Refusal {
    let message = format!("service {} has no server {server}", service.name);
    Refusal::new(RefusalCode::NoSuchServer, message).hint("sluicectl server list")
}
