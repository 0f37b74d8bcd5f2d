//! Tells each lcore what the others have.
//!
//! An lcore notes the slots whose counts it changes (`engine::changes`). So a tick reads what has
//! changed and no more: what it costs follows the connections that begin and end, not the product
//! of lcores and slots. All slots are looked at when the configuration has changed, and those of an
//! lcore that noted more than its log holds.

use std::sync::Arc;

use engine::live::LiveView;
use engine::stats::{ConnCounts, LcoreBoard};

use crate::slots::Slot;

/// Sums the lcores' counts up, and writes into each one's view what the others have.
#[derive(Debug)]
pub struct Feeder {
    lcores: Vec<Lcore>,
    sums: Vec<Sum>,
    /// The slots whose sum has changed in this tick.
    changed: Vec<u32>,
    /// The configuration at the last look at all slots.
    version: Option<u64>,
}

#[derive(Debug)]
struct Lcore {
    board: Arc<LcoreBoard>,
    live: Arc<LiveView>,
    /// How far its log is read.
    read: u64,
    /// What it had of each slot at the last look.
    had: Vec<ConnCounts>,
}

/// What all lcores had of a slot at the last look at each of them.
#[derive(Clone, Debug, Default)]
struct Sum {
    active: u64,
    inactive: u64,
    /// Whether it is among the changed.
    listed: bool,
}

impl Feeder {
    /// For these lcores, each with its view, which says that the others have nothing.
    #[must_use]
    pub fn new(lcores: impl Iterator<Item = (Arc<LcoreBoard>, Arc<LiveView>)>) -> Self {
        let lcore = |(board, live): (Arc<LcoreBoard>, _)| {
            let had = vec![ConnCounts::default(); board.servers.len()];
            Lcore { board, live, read: 0, had }
        };
        let lcores: Vec<_> = lcores.map(lcore).collect();
        let slots = lcores.first().map_or(0, |l| l.had.len());
        let sums = vec![Sum::default(); slots];
        Self { lcores, sums, changed: Vec::new(), version: None }
    }

    /// Brings the views up to date. `version` moves whenever a slot's generation or use does.
    pub fn tick(&mut self, version: u64, slots: &[Slot]) {
        let [_, _, ..] = *self.lcores else { return };
        let reconfigured = self.version.replace(version) != Some(version);
        for Lcore { board, read, had, .. } in &mut self.lcores {
            let (sums, changed) = (&mut self.sums, &mut self.changed);
            let mut look = |slot: u32| {
                let at = slot as usize;
                let Some(s) = slots.get(at).filter(|s| s.resolves()) else { return };
                let has = board.servers[at].counts(s.generation);
                let had = std::mem::replace(&mut had[at], has);
                if had != has {
                    sums[at].follow(had, has);
                    if !std::mem::replace(&mut sums[at].listed, true) {
                        changed.push(slot);
                    }
                }
            };
            if !board.changes.since(read, &mut look) || reconfigured {
                (0_u32..).zip(slots).for_each(|(slot, _)| look(slot));
            }
        }
        self.publish();
    }

    fn publish(&mut self) {
        if self.changed.is_empty() {
            return;
        }
        for Lcore { live, had, .. } in &self.lcores {
            for slot in &self.changed {
                let at = *slot as usize;
                live.set_others(*slot, self.sums[at].without(had[at]));
            }
            live.publish();
        }
        self.changed.drain(..).for_each(|slot| self.sums[slot as usize].listed = false);
    }
}

impl Sum {
    fn follow(&mut self, had: ConnCounts, has: ConnCounts) {
        self.active = self.active - u64::from(had.active) + u64::from(has.active);
        self.inactive = self.inactive - u64::from(had.inactive) + u64::from(has.inactive);
    }

    fn without(&self, own: ConnCounts) -> ConnCounts {
        let rest = |sum: u64, own: u32| u32::try_from(sum - u64::from(own)).unwrap_or(u32::MAX);
        ConnCounts {
            active: rest(self.active, own.active),
            inactive: rest(self.inactive, own.inactive),
        }
    }
}

#[cfg(test)]
mod tests;
