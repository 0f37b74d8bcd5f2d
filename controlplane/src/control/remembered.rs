//! Health survives a restart of the daemon: who was down does not get connections until somebody
//! says so again.

use std::net::IpAddr;
use std::path::PathBuf;

use config::{Endpoint, Settings};
use serde::{Deserialize, Serialize};

use super::health::States;
use super::state_file;
use crate::states::Health;
use crate::store::Store;

/// Time between two writes of the file, in ms.
const SAVE_MS: u64 = 100;
const WHAT: &str = "health of servers is";

/// A server of one service.
#[derive(Serialize, Deserialize)]
struct Told {
    service: Endpoint,
    address: IpAddr,
    port: u16,
    #[serde(with = "config::text")]
    health: Health,
}

/// The file.
pub(super) struct Remembered {
    file: PathBuf,
    /// [`States::marks`] up to which it is true.
    marks: u64,
    due_ms: u64,
}

impl Remembered {
    /// Tells `states` what an earlier process knew.
    pub(super) fn load(
        settings: &Settings,
        store: &Store,
        states: &mut States,
        now_ms: u64,
    ) -> Self {
        let file = settings.director.state_file().with_extension("health");
        for told in state_file::read::<Told>(&file, WHAT) {
            let Ok(entry) = store.service(&told.service.into()) else { continue };
            let at = (told.address, Some(told.port));
            let found = entry.members.iter().find(|m| (m.spec.address, m.spec.port) == at);
            found.into_iter().for_each(|m| states.set(m.slot, told.health, now_ms));
        }
        // Servers that are no more are dropped from the file with the next change.
        Self { file, marks: states.marks(), due_ms: 0 }
    }

    /// Writes what has changed, unless it did so just before.
    pub(super) fn tick(&mut self, store: &Store, states: &States, now_ms: u64) {
        if self.marks != states.marks() && now_ms >= self.due_ms {
            self.due_ms = now_ms + SAVE_MS;
            self.save(store, states);
        }
    }

    /// Writes what has changed.
    pub(super) fn save(&mut self, store: &Store, states: &States) {
        if self.marks == states.marks() {
            return;
        }
        self.marks = states.marks();
        let members = store.services().flat_map(|e| e.members.iter().map(move |m| (e, m)));
        let told = members.map(|(entry, m)| Told {
            service: entry.spec.endpoint(),
            address: m.spec.address,
            port: m.spec.port.unwrap_or_default(),
            health: states.of(m.slot).health,
        });
        let told: Vec<Told> = told.filter(|t| t.health != Health::Unknown).collect();
        state_file::write(&self.file, WHAT, &told);
    }
}
