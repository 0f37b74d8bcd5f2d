//! Where a server slot stands in a pool.

use crate::pool::Pool;

/// The positions of a pool by slot.
#[derive(Debug)]
pub(super) struct Positions(Box<[(u32, u32)]>);

impl Positions {
    /// Of a pool as it is now.
    pub(super) fn new(pool: &Pool) -> Self {
        let mut all: Box<[_]> = pool.servers.iter().map(|s| s.slot).zip(0..).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The position of a slot, if it is in the pool.
    pub(super) fn of(&self, slot: u32) -> Option<usize> {
        let at = self.0.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(self.0[at].1 as usize)
    }
}
