//! Health of servers, and the effective weights that lcores pick by.
//!
//! Health is kept by server slot and is no configuration: a change of it moves words of the
//! lcores' live views at once, and neither the store's version nor a snapshot. A server that is
//! removed takes it along; one that is added is `unknown`.
//!
//! By the same words backups stand in for servers, and back: see [`crate::states`].

use std::collections::HashMap;
use std::sync::Arc;

use config::ServerRef;
use engine::live::LiveView;
use engine::sched::SchedulerKind;
use engine::service::ServiceId;
use engine::stats::ConnCounts;
use serde::{Deserialize, Serialize};

use super::ramps::{Ramps, Seen, is_unweighted};
use crate::change::Refusal;
use crate::collect::Collector;
use crate::slots::Use;
use crate::states::{Health, Stand, Why, keeps, obstacle};
use crate::store::{Entry, Member, Store};

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

/// A service's state.
#[derive(Clone, Copy, Debug, Default)]
struct Duty {
    stand: Stand,
    /// What the log says of it.
    told: Stand,
    /// Not before.
    tell_ms: u64,
}

/// Time between two lines about one service in the log, in ms.
const TELL_MS: u64 = 1_000;

/// The states of all slots and services.
#[derive(Debug, Default)]
pub(super) struct States {
    slots: Vec<State>,
    services: HashMap<ServiceId, Duty>,
    /// Whether something is to be told.
    news: bool,
    /// How often somebody's health has changed.
    marks: u64,
    /// Servers that start slowly.
    pub(super) ramps: Ramps,
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

    /// Moves whenever somebody's health has changed.
    pub(super) const fn marks(&self) -> u64 {
        self.marks
    }

    /// Sets a slot's health; it counts with its service's next weights.
    pub(super) fn set(&mut self, slot: u32, health: Health, now_ms: u64) {
        let slot = slot as usize;
        self.slots.resize(self.slots.len().max(slot + 1), State::default());
        let state = &mut self.slots[slot];
        if state.health != health {
            (state.health, state.since_ms) = (health, Some(now_ms));
            self.marks += 1;
        }
    }

    /// How a service stands.
    pub(super) fn stand(&self, service: ServiceId) -> Stand {
        self.services.get(&service).map_or_else(Stand::default, |duty| duty.stand)
    }

    /// Gives every slot of the store its effective weight.
    pub(super) fn follow(&mut self, store: &Store, lives: &[Arc<LiveView>], now_ms: u64) {
        let slots = store.slots().all();
        self.slots.resize(slots.len(), State::default());
        for (slot, s) in (0_u32..).zip(slots).filter(|(_, s)| s.usage != Use::Member) {
            let gone = std::mem::take(&mut self.slots[slot as usize]);
            self.marks += u64::from(gone.health != Health::Unknown);
            for live in lives {
                live.hold(slot, false);
                live.set_weight(slot, 0, s.generation);
                live.set_keeps(slot, false);
            }
        }
        let before = std::mem::take(&mut self.services);
        for entry in store.services() {
            self.services.extend(before.get(&entry.id).map(|duty| (entry.id, *duty)));
            self.weigh(entry, store, lives, now_ms);
        }
        self.ramps.forget(|slot| slots[slot as usize].usage != Use::Member);
    }

    /// Lets slow starts go on.
    pub(super) fn tick(
        &mut self,
        store: &Store,
        collector: &Collector,
        lives: &[Arc<LiveView>],
        now_ms: u64,
    ) {
        let states = &self.slots;
        let seen = |entry: &Entry, slot: u32| {
            let ConnCounts { active, inactive } =
                collector.counts(slot, store.slots().all()[slot as usize].generation);
            let weight = states.get(slot as usize).map_or(0, |s| s.weight);
            let scheduler = entry.spec.scheduler;
            Seen {
                weight: if is_unweighted(scheduler) { weight.min(1) } else { weight },
                load: match scheduler {
                    SchedulerKind::Sed | SchedulerKind::Nq => active.into(),
                    _ => u64::from(active) * 256 + u64::from(inactive),
                },
            }
        };
        let over = self.ramps.tick(store, seen, lives, now_ms);
        for entry in store.services().filter(|e| over.contains(&e.id)) {
            self.weigh(entry, store, lives, now_ms);
        }
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
            self.set(slot, health, now_ms);
            self.weigh(entry, store, lives, now_ms);
            services.push(entry.spec.name.clone());
        }
        services.dedup();
        Ok(Marked { server: server.clone(), health, services })
    }

    /// Gives the servers of a service their effective weights.
    fn weigh(&mut self, entry: &Entry, store: &Store, lives: &[Arc<LiveView>], now_ms: u64) {
        let by_itself =
            |m: &Member| (m.spec.backup, obstacle(&m.spec, self.slots[m.slot as usize].health));
        let servers: Vec<_> = entry.members.iter().map(by_itself).collect();
        let duty = self.services.entry(entry.id).or_default();
        duty.stand = Stand::of(&entry.spec, duty.stand.lost, &servers);
        // A service that is being put together is no news.
        self.news |= duty.stand != duty.told && !servers.is_empty();
        let mut moves = Vec::with_capacity(servers.len());
        for (member, (backup, obstacle)) in entry.members.iter().zip(servers) {
            let state = &mut self.slots[member.slot as usize];
            let before = state.weight;
            state.why = duty.stand.bars(backup, obstacle);
            state.weight = if state.why.is_some() { 0 } else { member.spec.weight };
            moves.push((before, state.weight));
        }
        self.ramps.follow(entry, &moves, now_ms);
        // Who takes over does so before the others cease: no moment without anybody.
        let mut weights: Vec<_> = entry.members.iter().zip(moves).collect();
        weights.sort_by_key(|(_, (_, weight))| *weight == 0);
        for (Member { slot, spec }, (_, weight)) in weights {
            let generation = store.slots().all()[*slot as usize].generation;
            let held = self.ramps.holds(*slot);
            let state = &self.slots[*slot as usize];
            let keeps = keeps(&entry.spec, state.why, state.health);
            let marks = if held || spec.thresholds().any() { LiveView::LOOK_FURTHER } else { 0 };
            for live in lives {
                live.hold(*slot, held);
                live.set_weight(*slot, weight | marks, generation);
                live.set_keeps(*slot, keeps);
            }
        }
    }

    /// Services that stand otherwise than was said last, each at most once a second.
    pub(super) fn news(&mut self, store: &Store, now_ms: u64) -> Vec<(String, Stand)> {
        let mut news = Vec::new();
        if !std::mem::take(&mut self.news) {
            return news;
        }
        for entry in store.services() {
            let Some(duty) = self.services.get_mut(&entry.id) else { continue };
            if duty.stand == duty.told {
                continue;
            }
            if now_ms < duty.tell_ms {
                self.news = true;
                continue;
            }
            (duty.told, duty.tell_ms) = (duty.stand, now_ms + TELL_MS);
            news.push((entry.spec.name.clone(), duty.stand));
        }
        news
    }
}
