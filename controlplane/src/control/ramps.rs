//! Slow start: servers that join a serving pool, and the share that each has by now.
//!
//! A start begins when a server's effective weight rises from 0, whatever the reason – it was added,
//! enabled, is up again – while another server of its service went on serving. When the whole pool is
//! new there is nobody to spare, so nobody starts slowly, and starts end when only starters are left.
//!
//! ```text
//!   part of the weight       1        ┌──────────── share × 5/4, doubling, until it is level
//!                            │     ╱  ┊
//!                      floor ├──╱     ┊
//!                            └────────┴─────
//!                            0    slow-start
//! ```
//! Then, where loads decide, it may still have far fewer connections than others, and would be
//! flooded. So its pace lasts until it is level with one of them, and is faster meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::live::LiveView;
use engine::pace::{Pace, Paces, WHOLE};
use engine::sched::SchedulerKind;
use engine::service::ServiceId;

use crate::store::{Entry, Store};

/// Time between two looks at shares, in ms.
const STEP_MS: u64 = 20;
/// What a server may have over its share after its ramp, until it is level.
const CATCH_UP: f64 = 1.25;

/// A server that starts slowly.
#[derive(Clone, Copy, Debug)]
struct Ramp {
    slot: u32,
    service: ServiceId,
    since_ms: u64,
    number: u32,
    /// The part of its weight that it has by now.
    part: f64,
    /// How long its weight still grows, in ms.
    left_ms: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ramps {
    /// A start keeps its place: lcores keep its credit there.
    list: Vec<Option<Ramp>>,
    last_number: u32,
    looked_ms: u64,
    /// Some began or ended since lcores were told.
    moved: bool,
}

/// A server as a look at shares sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Its effective weight.
    pub(super) weight: u32,
    /// Connections as its scheduler weighs them.
    pub(super) load: u64,
}

impl Ramps {
    /// What of its weight a server has by now, and how long that still grows, in ms.
    pub(super) fn of(&self, slot: u32) -> Option<(f64, u64)> {
        self.find(slot).map(|r| (r.part, r.left_ms))
    }

    /// Whether a server starts slowly.
    pub(super) fn holds(&self, slot: u32) -> bool {
        self.find(slot).is_some()
    }

    /// The effective weights of a service's servers move, from and to, in the order of its members.
    pub(super) fn follow(&mut self, entry: &Entry, weights: &[(u32, u32)], now_ms: u64) {
        let slots = || entry.members.iter().map(|m| m.slot);
        let serves = |slot: u32| slots().zip(weights).any(|(s, w)| s == slot && w.1 > 0);
        self.end(|r| r.service == entry.id && !serves(r.slot));
        let stays = |(slot, w): (u32, &(u32, u32))| w.0 > 0 && w.1 > 0 && !self.holds(slot);
        let alone = !slots().zip(weights).any(stays);
        if entry.spec.slow_start.is_none() || alone {
            return self.end(|r| r.service == entry.id);
        }
        let joined: Vec<u32> =
            slots().zip(weights).filter(|(_, w)| w.0 == 0 && w.1 > 0).map(|(s, _)| s).collect();
        joined.into_iter().for_each(|slot| self.begin(slot, entry, now_ms));
    }

    /// Servers that are in no service any more.
    pub(super) fn forget(&mut self, gone: impl Fn(u32) -> bool) {
        self.end(|r| gone(r.slot));
    }

    fn begin(&mut self, slot: u32, entry: &Entry, now_ms: u64) {
        let Some(start) = entry.spec.slow_start else { return };
        let free = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        if free == Paces::MAX {
            tracing::warn!(service = entry.spec.name, "too many servers start: one starts at once");
            return;
        }
        self.last_number = self.last_number.wrapping_add(1).max(1);
        let (service, number, left_ms) = (entry.id, self.last_number, u64::from(start.secs) * 1000);
        let ramp = Ramp { slot, service, since_ms: now_ms, number, part: start.part(0), left_ms };
        self.list.resize(self.list.len().max(free + 1), None);
        self.list[free] = Some(ramp);
        self.moved = true;
    }

    fn end(&mut self, is: impl Fn(&Ramp) -> bool) {
        for place in self.list.iter_mut().filter(|p| p.as_ref().is_some_and(&is)) {
            (*place, self.moved) = (None, true);
        }
        while self.list.last().is_some_and(Option::is_none) {
            self.list.pop();
        }
    }

    fn find(&self, slot: u32) -> Option<&Ramp> {
        self.list.iter().flatten().find(|r| r.slot == slot)
    }

    /// Tells lcores the shares of now, if it is time; gives the services in which a start is over.
    pub(super) fn tick(
        &mut self,
        store: &Store,
        seen: impl Fn(&Entry, u32) -> Seen,
        lives: &[Arc<LiveView>],
        now_ms: u64,
    ) -> Vec<ServiceId> {
        let due = now_ms >= self.looked_ms + STEP_MS && !self.list.is_empty();
        if !due && !self.moved {
            return Vec::new();
        }
        (self.looked_ms, self.moved) = (now_ms, false);
        let (mut over, mut shares) = (Vec::new(), HashMap::new());
        let busy: HashSet<ServiceId> = self.list.iter().flatten().map(|r| r.service).collect();
        for entry in store.services().filter(|e| busy.contains(&e.id)) {
            for (slot, share) in self.shares(entry, &seen, now_ms) {
                match share {
                    Some(share) => drop(shares.insert(slot, share)),
                    None => {
                        self.end(|r| r.slot == slot);
                        over.push(entry.id);
                    }
                }
            }
        }
        let pace = |ramp: &Ramp| {
            let (share, place) = *shares.get(&ramp.slot)?;
            let (slot, number) = (ramp.slot, ramp.number);
            let part = fixed(ramp.part, f64::from(WHOLE)).max(1);
            Some(Pace { slot, place, share: fixed(share, 2_f64.powi(32)), part, number })
        };
        let paces: Vec<_> = self.list.iter().map(|r| r.as_ref().and_then(pace)).collect();
        lives.iter().for_each(|live| live.paces().set(&paces));
        self.moved = false;
        over
    }

    /// By slot: the share of a service's connections that each of its starters may have now, with
    /// its position in the pool; `None`: its start is over.
    fn shares(
        &mut self,
        entry: &Entry,
        seen: &impl Fn(&Entry, u32) -> Seen,
        now_ms: u64,
    ) -> Vec<(u32, Option<(f64, u32)>)> {
        let Some(start) = entry.spec.slow_start else { return Vec::new() };
        for ramp in self.list.iter_mut().flatten().filter(|r| r.service == entry.id) {
            let ms = now_ms - ramp.since_ms;
            ramp.part = start.part(ms);
            ramp.left_ms = (u64::from(start.secs) * 1000).saturating_sub(ms);
        }
        let all: Vec<_> = entry.members.iter().map(|m| (m.slot, seen(entry, m.slot))).collect();
        let counted =
            |slot, weight| self.of(slot).map_or(1.0, |(part, _)| part) * f64::from(weight);
        let sum: f64 = all.iter().map(|(slot, s)| counted(*slot, s.weight)).sum();
        let rivals = || all.iter().filter(|(slot, s)| s.weight > 0 && !self.holds(*slot));
        let starters = self.list.iter().flatten().filter(|r| r.service == entry.id);
        let share = |ramp: &Ramp| {
            let own = all.iter().find(|(slot, _)| *slot == ramp.slot)?.1;
            let place = entry.pool.servers.iter().position(|s| s.slot == ramp.slot)?;
            let mut share = counted(ramp.slot, own.weight) / sum;
            if ramp.left_ms == 0 {
                let product = |a: Seen, b: Seen| u128::from(a.load) * u128::from(b.weight);
                let is_level =
                    rivals().any(|(_, other)| product(own, *other) >= product(*other, own));
                let ramps = (now_ms - ramp.since_ms) as f64 / (f64::from(start.secs) * 1000.0);
                share *= CATCH_UP * (ramps - 2.0).max(0.0).exp2();
                if !goes_by_load(entry.spec.scheduler) || is_level || share >= 1.0 {
                    return None;
                }
            }
            Some((share, u32::try_from(place).ok()?))
        };
        starters.map(|ramp| (ramp.slot, share(ramp))).collect()
    }
}

/// Whether a server with few connections is flooded.
const fn goes_by_load(scheduler: SchedulerKind) -> bool {
    !matches!(scheduler, SchedulerKind::Rr | SchedulerKind::Wrr)
}

/// Whether all servers count alike.
pub(super) const fn is_unweighted(scheduler: SchedulerKind) -> bool {
    matches!(scheduler, SchedulerKind::Rr | SchedulerKind::Lc)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn fixed(part: f64, whole: f64) -> u32 {
    (part * whole) as u32
}
