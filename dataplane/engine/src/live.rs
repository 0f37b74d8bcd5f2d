//! What changes too often for a snapshot: loads, effective weights, who may be picked.
//!
//! One [`LiveView`] per lcore, written by the control thread about every millisecond, read by the
//! lcore for new connections only. It holds the counts of the *other* lcores; the lcore adds its
//! own exact counts at the time of the choice. So a director with one lcore sees exact numbers, and
//! one with many sees its own picks at once and the others' at most a millisecond late.
//!
//! Schedulers that keep something computed from it look at its version, and compute anew when that
//! has moved.

use std::cmp;

use crate::stats::{ConnCounts, LcoreBoard};
use crate::sync::{AtomicU32, AtomicU64, Ordering, own};

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
pub struct LiveView {
    slots: Box<[LiveSlot]>,
    version: AtomicU64,
}

impl LiveView {
    /// A view of `max_servers` slots, none of them eligible. Its version is 1.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        let slots = (0..max_servers).map(|_| LiveSlot::default()).collect();
        Self { slots, version: AtomicU64::new(1) }
    }

    /// Sets the other lcores' counts of a slot; they are used from the next
    /// [`LiveView::publish`] on. Control thread only.
    pub fn set_others(&self, slot: u32, counts: ConnCounts) {
        let s = &self.slots[slot as usize];
        s.others_active.store(counts.active, Ordering::Relaxed);
        s.others_inactive.store(counts.inactive, Ordering::Relaxed);
    }

    /// Sets a slot's effective weight (0: not eligible) and the generation that own counts must
    /// have, at once. Control thread only.
    pub fn set_weight(&self, slot: u32, weight: u32, generation: u16) {
        let s = &self.slots[slot as usize];
        let old = (own!(s.weight), own!(s.generation));
        if old != (weight, u32::from(generation)) {
            s.generation.store(u32::from(generation), Ordering::Relaxed);
            s.weight.store(weight, Ordering::Relaxed);
            self.publish();
        }
    }

    /// Moves the version: what was set before is used by picks from now on. Control thread only.
    pub fn publish(&self) {
        self.version.store(own!(self.version) + 1, Ordering::Release);
    }

    /// The effective weight; 0 means that the server must not be picked.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, slot: u32) -> u32 {
        self.slots[slot as usize].weight.load(Ordering::Relaxed)
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

    /// Moves whenever weights or others' counts have.
    #[inline(always)]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.live.version.load(Ordering::Acquire)
    }

    /// The other lcores' counts of a server at the control thread's last look, and the generation
    /// that own counts must have.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "generations are stored from u16")]
    pub fn others(&self, slot: u32) -> (ConnCounts, u16) {
        let s = &self.live.slots[slot as usize];
        let counts = ConnCounts {
            active: s.others_active.load(Ordering::Relaxed),
            inactive: s.others_inactive.load(Ordering::Relaxed),
        };
        (counts, s.generation.load(Ordering::Relaxed) as u16)
    }

    /// This lcore's own counts of a server in a generation.
    #[inline(always)]
    #[must_use]
    pub fn own(&self, slot: u32, generation: u16) -> ConnCounts {
        self.own.servers[slot as usize].counts(generation)
    }

    /// LVS's cost of a server: an active connection counts as much as 256 inactive ones.
    #[inline(always)]
    #[must_use]
    pub fn overhead(&self, slot: u32) -> u64 {
        let Loads { active, inactive } = self.counts(slot);
        (active << 8) + inactive
    }

    /// Compares two servers by their overhead, each divided by its weight: exactly, by
    /// cross-multiplication.
    #[inline]
    #[must_use]
    pub fn compare(&self, a: u32, b: u32) -> cmp::Ordering {
        let product =
            |cost, weight| u128::from(self.overhead(cost)) * u128::from(self.weight(weight));
        product(a, b).cmp(&product(b, a))
    }

    /// ActiveConn and InActConn of a server over the whole director.
    #[inline(always)]
    #[must_use]
    pub fn counts(&self, slot: u32) -> Loads {
        let (others, generation) = self.others(slot);
        let own = self.own(slot, generation);
        Loads {
            active: u64::from(others.active) + u64::from(own.active),
            inactive: u64::from(others.inactive) + u64::from(own.inactive),
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
