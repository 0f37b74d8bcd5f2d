//! What changes too often for a snapshot: loads, effective weights, who may be picked.
//!
//! One [`LiveView`] per lcore, written by the control thread about every millisecond, read by the
//! lcore for new connections only. It holds the counts of the *other* lcores; the lcore adds its
//! own exact counts at the time of the choice. So a director with one lcore sees exact numbers, and
//! one with many sees its own picks at once and the others' at most a millisecond late.

use crate::stats::{ConnCounts, LcoreBoard};
use crate::sync::{AtomicU32, Ordering};

/// One server slot as the control thread sees it for one lcore.
#[derive(Debug, Default)]
pub struct LiveSlot {
    others_active: AtomicU32,
    others_inactive: AtomicU32,
    /// 0 = must not be picked (drained, down, or the configured weight is 0).
    weight: AtomicU32,
    generation: AtomicU32,
}

/// Director-wide loads for one lcore, by server slot. Written by the control thread only.
#[derive(Debug)]
pub struct LiveView(Box<[LiveSlot]>);

impl LiveView {
    /// A view of `max_servers` slots, none of them eligible.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        Self((0..max_servers).map(|_| LiveSlot::default()).collect())
    }

    /// Sets the other lcores' counts of a slot. Control thread only.
    pub fn set_others(&self, slot: u32, counts: ConnCounts) {
        let s = &self.0[slot as usize];
        s.others_active.store(counts.active, Ordering::Relaxed);
        s.others_inactive.store(counts.inactive, Ordering::Relaxed);
    }

    /// Sets a slot's effective weight (0: not eligible) and the generation that own counts must
    /// have. Control thread only.
    pub fn set_weight(&self, slot: u32, weight: u32, generation: u16) {
        let s = &self.0[slot as usize];
        s.generation.store(u32::from(generation), Ordering::Relaxed);
        s.weight.store(weight, Ordering::Relaxed);
    }

    /// The effective weight; 0 means that the server must not be picked.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, slot: u32) -> u32 {
        self.0[slot as usize].weight.load(Ordering::Relaxed)
    }
}

/// A director-wide view of loads at the time of one choice: others' counts plus own.
#[derive(Clone, Copy, Debug)]
pub struct LoadView<'a> {
    live: &'a LiveView,
    own: &'a LcoreBoard,
}

impl<'a> LoadView<'a> {
    /// Joins the control thread's view with the lcore's own board.
    #[inline(always)]
    #[must_use]
    pub const fn new(live: &'a LiveView, own: &'a LcoreBoard) -> Self {
        Self { live, own }
    }

    /// The effective weight; 0 means that the server must not be picked.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, slot: u32) -> u32 {
        self.live.weight(slot)
    }

    /// LVS's cost of a server: an active connection counts as much as 256 inactive ones.
    #[inline(always)]
    #[must_use]
    pub fn overhead(&self, slot: u32) -> u64 {
        let Loads { active, inactive } = self.counts(slot);
        (active << 8) + inactive
    }

    /// ActiveConn and InActConn of a server over the whole director.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "generations are stored from u16")]
    pub fn counts(&self, slot: u32) -> Loads {
        let s = &self.live.0[slot as usize];
        let generation = s.generation.load(Ordering::Relaxed) as u16;
        let own = self.own.servers[slot as usize].counts(generation);
        let sum = |others: &AtomicU32, own: u32| {
            u64::from(others.load(Ordering::Relaxed)) + u64::from(own)
        };
        Loads {
            active: sum(&s.others_active, own.active),
            inactive: sum(&s.others_inactive, own.inactive),
        }
    }
}

/// What a server has over the whole director: sums of two [`ConnCounts`], which 32 bits might not
/// hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loads {
    /// ActiveConn.
    pub active: u64,
    /// InActConn.
    pub inactive: u64,
}
