//! Health of servers, and the effective weights that lcores pick by.
//!
//! Health is kept by server slot and is no configuration: a change of it moves words of the
//! lcores' live views at once, and neither the store's version nor a snapshot. A server that is
//! removed takes it along; one that is added is `unknown`. It does not survive the process.

use std::sync::Arc;

use config::ServerRef;
use engine::live::LiveView;
use serde::{Deserialize, Serialize};

use crate::change::Refusal;
use crate::slots::Use;
use crate::states::{Health, Why, obstacle};
use crate::store::{Entry, Store};

/// A server slot's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) health: Health,
    /// When its health last changed; `None`: never.
    pub(super) since_ms: Option<u64>,
    /// The effective weight.
    pub(super) weight: u32,
    /// Why that is 0.
    pub(super) why: Option<Why>,
}

/// The states of all slots.
#[derive(Debug, Default)]
pub(super) struct States {
    slots: Vec<State>,
}

/// A server whose health was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Which.
    pub server: ServerRef,
    /// Its health.
    #[serde(with = "config::text")]
    pub health: Health,
    /// The services that have it.
    pub services: Vec<String>,
}

impl States {
    /// The state of a slot.
    pub(super) fn of(&self, slot: u32) -> State {
        self.slots.get(slot as usize).copied().unwrap_or_default()
    }

    /// Gives every slot of the store its effective weight.
    pub(super) fn follow(&mut self, store: &Store, lives: &[Arc<LiveView>]) {
        let slots = store.slots().all();
        self.slots.resize(slots.len(), State::default());
        for (slot, s) in (0_u32..).zip(slots).filter(|(_, s)| s.usage != Use::Member) {
            self.slots[slot as usize] = State::default();
            lives.iter().for_each(|live| live.set_weight(slot, 0, s.generation));
        }
        store.services().for_each(|entry| self.weigh(entry, store, lives));
    }

    /// Sets a server's health in all its services.
    pub(super) fn mark(
        &mut self,
        server: &ServerRef,
        health: Health,
        store: &Store,
        lives: &[Arc<LiveView>],
        now_ms: u64,
    ) -> Result<Marked, Refusal> {
        let found = store.members(server)?;
        self.slots.resize(store.slots().all().len(), State::default());
        let mut services = Vec::new();
        for (entry, slot) in found {
            let state = &mut self.slots[slot as usize];
            if state.health != health {
                (state.health, state.since_ms) = (health, Some(now_ms));
            }
            self.weigh(entry, store, lives);
            services.push(entry.spec.name.clone());
        }
        services.dedup();
        Ok(Marked { server: server.clone(), health, services })
    }

    /// Gives the servers of a service their effective weights.
    fn weigh(&mut self, entry: &Entry, store: &Store, lives: &[Arc<LiveView>]) {
        for member in &entry.members {
            let state = &mut self.slots[member.slot as usize];
            state.why = obstacle(&member.spec, state.health);
            state.weight = if state.why.is_some() { 0 } else { member.spec.weight };
            let generation = store.slots().all()[member.slot as usize].generation;
            let limited = member.spec.thresholds().any();
            let weight = state.weight | if limited { LiveView::LOOK_FURTHER } else { 0 };
            lives.iter().for_each(|live| live.set_weight(member.slot, weight, generation));
        }
    }
}
