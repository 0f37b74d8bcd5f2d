//! Brings each snapshot to every lcore, and every old one home.
//!
//! The publisher keeps a reference of its own to each snapshot that an lcore may hold, until the
//! last of them has sent it back: so the last reference is always dropped here, never on an lcore.
//! A full ring never blocks: what an lcore has not been given is tried again on the next tick, and
//! only the newest snapshot is ever given.
//!
//! ```text
//!   publish ─► current ──give──► ring ─► lcore ─► Retired ─► home: one holder less ─► dropped
//! ```

use std::sync::Arc;

use engine::mailbox::{ControlEnd, Order};
use engine::snapshot::Snapshot;

/// A snapshot that some lcores were given.
#[derive(Debug)]
struct Kept {
    snapshot: Arc<Snapshot>,
    /// Lcores that were given it and have not sent it back.
    holders: usize,
}

/// The snapshots that exist.
#[derive(Debug)]
pub struct Publisher {
    kept: Vec<Kept>,
    current: Arc<Snapshot>,
    /// By lcore: the version it was given last.
    given: Vec<u64>,
}

impl Publisher {
    /// Every one of `lcores` starts with this snapshot.
    #[must_use]
    pub fn new(first: Arc<Snapshot>, lcores: usize) -> Self {
        let kept = vec![Kept { snapshot: Arc::clone(&first), holders: lcores }];
        Self { given: vec![first.version; lcores], kept, current: first }
    }

    /// The newest snapshot.
    #[must_use]
    pub const fn current(&self) -> &Arc<Snapshot> {
        &self.current
    }

    /// There is a newer snapshot.
    pub fn publish(&mut self, snapshot: Arc<Snapshot>) {
        self.current = snapshot;
    }

    /// Gives the newest snapshot to an lcore that has not got it; true if its ring took it.
    pub fn give(&mut self, lcore: usize, end: &mut ControlEnd) -> bool {
        let version = self.current.version;
        if self.given[lcore] == version {
            return false;
        }
        if end.orders.push(Order::Snapshot(Arc::clone(&self.current))).is_err() {
            return false;
        }
        self.given[lcore] = version;
        match self.kept.iter_mut().find(|k| k.snapshot.version == version) {
            Some(kept) => kept.holders += 1,
            None => self.kept.push(Kept { snapshot: Arc::clone(&self.current), holders: 1 }),
        }
        true
    }

    /// An lcore has sent a snapshot back.
    pub fn home(&mut self, snapshot: &Snapshot) {
        if let Some(kept) = self.kept.iter_mut().find(|k| k.snapshot.version == snapshot.version) {
            debug_assert!(kept.holders > 0, "a snapshot came home twice from one lcore");
            kept.holders = kept.holders.saturating_sub(1);
        }
        self.kept.retain(|k| k.holders > 0);
    }

    /// How many snapshots lcores may hold.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests;
