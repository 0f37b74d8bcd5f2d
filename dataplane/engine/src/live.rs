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
use std::hint::cold_path;
use std::sync::Arc;

use crate::pace::Paces;
use crate::stats::{ConnCounts, LcoreBoard};
use crate::sync::{AtomicU32, AtomicU64, Ordering, own};
use crate::thresholds::Occupancies;

/// One server slot as the control thread sees it for one lcore.
#[derive(Debug, Default)]
pub struct LiveSlot {
    others_active: AtomicU32,
    others_inactive: AtomicU32,
    /// 0 = must not be picked (drained, down, or the configured weight is 0). With
    /// [`LiveView::LOOK_FURTHER`] that is not all.
    weight: AtomicU32,
    /// With [`KEEPS`] or without.
    generation: AtomicU32,
}

/// Above all generations: clients that the server has a template for still go to it.
const KEEPS: u32 = 1 << 16;
/// Beside it: whether schedulers leave the server to its turns.
const HELD: u32 = KEEPS << 1;

/// Director-wide loads for one lcore, by server slot. Written by the control thread only.
#[derive(Debug)]
pub struct LiveView {
    slots: Box<[LiveSlot]>,
    version: AtomicU64,
    occupancies: Arc<Occupancies>,
    paces: Paces,
}

impl LiveView {
    /// Above all weights: whether the server may be picked depends on more than its weight. So only
    /// such servers cost a pick more than one look.
    pub const LOOK_FURTHER: u32 = 1 << 31;

    /// A view of `max_servers` slots, none of them eligible. Its version is 1.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        Self::sharing(max_servers, &Arc::new(Occupancies::new(max_servers)))
    }

    /// The same for one of several lcores, which share the counts of servers with thresholds.
    #[must_use]
    pub fn sharing(max_servers: usize, occupancies: &Arc<Occupancies>) -> Self {
        let slots = (0..max_servers).map(|_| LiveSlot::default()).collect();
        let (occupancies, paces) = (Arc::clone(occupancies), Paces::new(max_servers));
        Self { slots, version: AtomicU64::new(1), occupancies, paces }
    }

    /// The servers that start slowly.
    #[inline(always)]
    #[must_use]
    pub const fn paces(&self) -> &Paces {
        &self.paces
    }

    /// The counts of servers with thresholds.
    #[inline(always)]
    #[must_use]
    pub fn occupancies(&self) -> &Occupancies {
        &self.occupancies
    }

    /// Sets the other lcores' counts of a slot; they are used from the next
    /// [`LiveView::publish`] on. Control thread only.
    pub fn set_others(&self, slot: u32, counts: ConnCounts) {
        let s = &self.slots[slot as usize];
        s.others_active.store(counts.active, Ordering::Relaxed);
        s.others_inactive.store(counts.inactive, Ordering::Relaxed);
    }

    /// Sets a slot's effective weight (0: not eligible) and the generation that own counts must
    /// have, at once. With [`LiveView::LOOK_FURTHER`] in the weight, lcores ask further before they
    /// pick the server. Control thread only.
    pub fn set_weight(&self, slot: u32, weight: u32, generation: u16) {
        let s = &self.slots[slot as usize];
        let (old_weight, old) = (own!(s.weight), own!(s.generation));
        let generation = u32::from(generation) | old & (KEEPS | HELD);
        if (old_weight, old) != (weight, generation) {
            s.generation.store(generation, Ordering::Relaxed);
            s.weight.store(weight, Ordering::Relaxed);
            self.publish();
        }
    }

    /// Says whether a server of weight 0 still serves clients with a template for it. Control thread
    /// only.
    pub fn set_keeps(&self, slot: u32, keeps: bool) {
        let s = &self.slots[slot as usize];
        let others = own!(s.generation) & !KEEPS;
        s.generation.store(others | if keeps { KEEPS } else { 0 }, Ordering::Relaxed);
    }

    /// Whether clients with a template for the server go to it.
    #[must_use]
    pub fn serves_known(&self, slot: u32) -> bool {
        self.weight(slot) > 0
            || self.slots[slot as usize].generation.load(Ordering::Relaxed) & KEEPS != 0
    }

    /// Says whether schedulers leave a server to its turns (see [`crate::pace`]), at once; then its
    /// weight must ask to [`LiveView::LOOK_FURTHER`]. Control thread only.
    pub fn hold(&self, slot: u32, held: bool) {
        if self.holds(slot) != held {
            let s = &self.slots[slot as usize];
            s.generation.store(own!(s.generation) ^ HELD, Ordering::Relaxed);
            self.publish();
        }
    }

    /// Whether schedulers leave a server to its turns.
    #[inline(always)]
    #[must_use]
    pub fn holds(&self, slot: u32) -> bool {
        self.slots[slot as usize].generation.load(Ordering::Relaxed) & HELD != 0
    }

    /// Moves the version: what was set before is used by picks from now on. Control thread only.
    pub fn publish(&self) {
        self.version.store(own!(self.version) + 1, Ordering::Release);
    }

    /// The effective weight, whether the server is full or not; 0 means that it must not be picked.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self, slot: u32) -> u32 {
        self.slots[slot as usize].weight.load(Ordering::Relaxed) & !Self::LOOK_FURTHER
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
        let weight = self.live.slots[slot as usize].weight.load(Ordering::Relaxed);
        if weight & LiveView::LOOK_FURTHER == 0 {
            return weight;
        }
        cold_path();
        if self.is_barred(slot) { 0 } else { weight & !LiveView::LOOK_FURTHER }
    }

    /// The effective weight of a server that may be full or held back: to compare loads by, and for flows that
    /// will have no entry. Nobody sees those end, so they count towards no threshold, and one that
    /// moves must not move them.
    #[inline(always)]
    #[must_use]
    pub fn nominal_weight(&self, slot: u32) -> u32 {
        self.live.weight(slot)
    }

    /// Whether a server may be picked: its effective weight is not 0.
    #[inline(always)]
    #[must_use]
    pub fn is_eligible(&self, slot: u32) -> bool {
        let weight = self.live.slots[slot as usize].weight.load(Ordering::Relaxed);
        if weight.wrapping_sub(1) < LiveView::LOOK_FURTHER - 1 {
            return true;
        }
        cold_path();
        weight > LiveView::LOOK_FURTHER && !self.is_barred(slot)
    }

    /// Inlined although it is seldom asked: a call in the loops of schedulers costs those that
    /// never make it their registers.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "generations are stored from u16")]
    fn is_barred(&self, slot: u32) -> bool {
        let word = self.live.slots[slot as usize].generation.load(Ordering::Relaxed);
        word & HELD != 0 || !self.live.occupancies.is_eligible(slot, word as u16)
    }

    /// Whether schedulers leave a server to its turns.
    #[must_use]
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.live.holds(slot)
    }

    /// Whether a server may be picked if it is its turn: see [`crate::pace`].
    #[must_use]
    pub(crate) fn is_eligible_in_turn(&self, slot: u32) -> bool {
        let (_, generation) = self.others(slot);
        self.live.weight(slot) > 0 && self.live.occupancies.is_eligible(slot, generation)
    }

    /// The servers that start slowly.
    #[inline(always)]
    #[must_use]
    pub const fn paces(&self) -> &'a Paces {
        &self.live.paces
    }

    /// Moves whenever weights or others' counts have and, if `limited`, when a server anywhere has
    /// become full or free again.
    #[inline(always)]
    #[must_use]
    pub fn version(&self, limited: bool) -> u64 {
        // Both only grow.
        let flips = if limited { self.live.occupancies.flips() } else { 0 };
        self.live.version.load(Ordering::Acquire) + flips
    }

    /// Whether a server may be full now and free then.
    #[must_use]
    pub fn is_limited(&self, slot: u32) -> bool {
        let weight = self.live.slots[slot as usize].weight.load(Ordering::Relaxed);
        weight & LiveView::LOOK_FURTHER != 0
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
        let product = |cost, weight| {
            u128::from(self.overhead(cost)) * u128::from(self.nominal_weight(weight))
        };
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
