//! LVS's connection thresholds, to the exact number however many lcores there are.
//!
//! A server that has an upper threshold has one word that all lcores share:
//!
//! ```text
//!  bit 63            48 47         46          45          30 29           0
//!     |  generation    | full      | half full | half open   | connections  |
//! ```
//! It is changed by compare-and-swap when a connection begins or ends (TCP: also when it leaves its
//! first state), never on a hit, and never for a server without a threshold. *Full* is LVS's
//! overload: set when the connections reach the upper threshold, taken back when they are fewer
//! than the lower one, or than three quarters of the upper one if there is no lower. A server that
//! is full is not eligible.
//!
//! At most three quarters of the upper threshold (rounded up, and 65,535) may be connections that
//! are still in their first handshake: spoofed SYNs take no more of a server than that. At that many
//! it gets no new ones until a quarter of them has gone, so that a flood makes it no flicker.
//!
//! Each lcore counts as its snapshot says. When it takes a snapshot in which a server's threshold is
//! new, it adds the connections that it has; when the threshold is gone, it takes them away. An
//! older generation's connections count nowhere: the first of a new generation starts from 0.

use crossbeam::utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

/// A server's thresholds, in connections: active and inactive ones together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// The most there may be; 0 is no threshold.
    pub upper: u32,
    /// A full server takes connections again below this; 0 is three quarters of `upper`.
    pub lower: u32,
}

impl Thresholds {
    /// The greatest threshold.
    pub const MAX: u32 = (1 << 30) - 1;

    /// Whether there are any.
    #[inline(always)]
    #[must_use]
    pub const fn any(self) -> bool {
        self.upper > 0
    }

    /// How many connections may be in their first handshake.
    #[must_use]
    pub const fn half_open(self) -> u32 {
        let most = self.upper - self.upper / 4;
        if most < 65_535 { most } else { 65_535 }
    }

    const fn is_below(self, conns: u32) -> bool {
        match self.lower {
            0 => (conns as u64) * 4 < self.upper as u64 * 3,
            lower => conns < lower,
        }
    }
}

/// What a shared word says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// The life of the slot.
    pub generation: u16,
    /// It reached the upper threshold, and has not fallen to the lower one since.
    pub full: bool,
    /// Too many connections are in their first handshake.
    pub half_full: bool,
    /// Connections in their first handshake.
    pub half_open: u32,
    /// Connections.
    pub conns: u32,
}

impl Occupancy {
    const fn unpack(word: u64) -> Self {
        Self {
            generation: (word >> 48) as u16,
            full: word >> 47 & 1 == 1,
            half_full: word >> 46 & 1 == 1,
            half_open: (word >> 30) as u32 & 0xffff,
            conns: word as u32 & Thresholds::MAX,
        }
    }

    const fn pack(self) -> u64 {
        (self.generation as u64) << 48
            | (self.full as u64) << 47
            | (self.half_full as u64) << 46
            | (self.half_open as u64) << 30
            | self.conns as u64
    }

    /// The same for `generation`: nothing, if that is newer. `None` if it is older. A word that
    /// counts nothing belongs to any: generations go round while it is not used.
    const fn of(self, generation: u16) -> Option<Self> {
        if self.conns == 0 {
            return Some(Self { generation, ..Self::unpack(0) });
        }
        match generation.wrapping_sub(self.generation) {
            0 => Some(self),
            1..0x8000 => Some(Self { generation, ..Self::unpack(0) }),
            _ => None,
        }
    }

    const fn is_eligible(self) -> bool {
        !self.full && !self.half_full
    }

    /// What decides who may be picked.
    const fn seen(self) -> (u16, bool) {
        (self.generation, self.is_eligible())
    }

    /// With the marks that follow from the counts.
    const fn marked(mut self, to: Thresholds) -> Self {
        if self.conns >= to.upper {
            self.full = true;
        } else if to.is_below(self.conns) {
            self.full = false;
        }
        let most = to.half_open();
        if self.half_open >= most {
            self.half_full = true;
        } else if (self.half_open as u64) * 4 < most as u64 * 3 {
            self.half_full = false;
        }
        self
    }
}

/// The shared words of all server slots.
#[derive(Debug)]
pub struct Occupancies {
    words: Box<[CachePadded<AtomicU64>]>,
    /// How often a server has become full or free again.
    flips: CachePadded<AtomicU64>,
}

impl Occupancies {
    /// Of `max_servers` slots.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        let words = (0..max_servers).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Self { words, flips: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Bytes that `max_servers` slots take.
    #[must_use]
    pub const fn bytes(max_servers: u64) -> u64 {
        max_servers * size_of::<CachePadded<AtomicU64>>() as u64
    }

    /// How often a server has become full or free again. Whoever sees a number here sees the
    /// servers as they were then, or later.
    #[inline(always)]
    #[must_use]
    pub fn flips(&self) -> u64 {
        self.flips.load(Ordering::Acquire)
    }

    /// What a slot's word says now. For any reader.
    #[inline(always)]
    #[must_use]
    pub fn read(&self, slot: u32) -> Occupancy {
        Occupancy::unpack(self.words[slot as usize].load(Ordering::Relaxed))
    }

    /// Whether a slot's generation may get one more connection.
    #[inline(always)]
    #[must_use]
    pub fn is_eligible(&self, slot: u32, generation: u16) -> bool {
        let now = self.read(slot);
        now.generation != generation || now.is_eligible()
    }

    /// Takes a place for a new connection, in its first handshake if `half_open`. False: there is
    /// none. A connection of a generation that is over takes none, and is always let in: it ends
    /// with the lcore's next snapshot.
    #[inline(never)]
    #[must_use]
    pub fn enter(&self, slot: u32, generation: u16, to: Thresholds, half_open: bool) -> bool {
        let mut refused = false;
        self.change(slot, generation, |mut now| {
            refused = !now.is_eligible() || now.conns >= to.upper;
            now.conns += u32::from(!refused);
            now.half_open += u32::from(!refused && half_open);
            now.marked(to)
        });
        !refused
    }

    /// Counts a new connection that is let in whether there is a place or not.
    pub fn enter_anyway(&self, slot: u32, generation: u16, to: Thresholds, half_open: bool) {
        self.change(slot, generation, |mut now| {
            now.conns = (now.conns + 1).min(Thresholds::MAX);
            now.half_open = (now.half_open + u32::from(half_open)).min(0xffff);
            now.marked(to)
        });
    }

    /// A connection's first handshake is over.
    #[inline(never)]
    pub fn establish(&self, slot: u32, generation: u16, to: Thresholds) {
        self.change(slot, generation, |mut now| {
            now.half_open = now.half_open.saturating_sub(1);
            now.marked(to)
        });
    }

    /// Gives a place back.
    #[cold]
    #[inline(never)]
    pub fn leave(&self, slot: u32, generation: u16, to: Thresholds, half_open: bool) {
        self.subtract(slot, generation, to, 1, u32::from(half_open));
    }

    /// Counts connections that are there already: the server has got a threshold.
    pub fn join(&self, slot: u32, generation: u16, to: Thresholds, conns: u32) {
        self.change(slot, generation, |mut now| {
            now.conns = (now.conns + conns).min(Thresholds::MAX);
            now.marked(to)
        });
    }

    /// Counts connections no more: the server's threshold is gone.
    pub fn part(&self, slot: u32, generation: u16, to: Thresholds, conns: u32) {
        self.subtract(slot, generation, to, conns, 0);
    }

    /// Thresholds have changed. As in LVS, a greater upper one opens a full server at once.
    pub fn adjust(&self, slot: u32, generation: u16, from: Thresholds, to: Thresholds) {
        self.change(slot, generation, |mut now| {
            now.full &= to.upper <= from.upper;
            now.marked(to)
        });
    }

    /// Has all lcores look again at who is full.
    pub(crate) fn flip(&self) {
        self.flips.fetch_add(1, Ordering::Release);
    }

    fn subtract(&self, slot: u32, generation: u16, to: Thresholds, conns: u32, half_open: u32) {
        self.change(slot, generation, |mut now| {
            debug_assert!(now.conns >= conns, "more left than came: {now:?}");
            now.conns = now.conns.saturating_sub(conns);
            // Whoever was here before the threshold was never counted as half open.
            now.half_open = now.half_open.saturating_sub(half_open).min(now.conns);
            now.marked(to)
        });
    }

    /// Replaces a word of this or an earlier generation.
    fn change(&self, slot: u32, generation: u16, mut to: impl FnMut(Occupancy) -> Occupancy) {
        let cell = &self.words[slot as usize];
        let mut word = cell.load(Ordering::Relaxed);
        loop {
            let old = Occupancy::unpack(word);
            let Some(new) = old.of(generation).map(&mut to) else { return };
            if new == old {
                return;
            }
            let packed = new.pack();
            match cell.compare_exchange_weak(word, packed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if new.seen() != old.seen() => return self.flip(),
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn limit(upper: u32, lower: u32) -> Thresholds {
        Thresholds { upper, lower }
    }

    #[test]
    fn a_full_server_opens_below_the_lower_mark() {
        for (to, opens_at) in [(limit(8, 0), 5), (limit(8, 3), 2), (limit(1, 0), 0)] {
            let all = Occupancies::new(1);
            (0..to.upper).for_each(|_| assert!(all.enter(0, 0, to, false)));
            assert!(!all.enter(0, 0, to, false) && !all.is_eligible(0, 0));
            for left in (0..to.upper).rev() {
                all.leave(0, 0, to, false);
                assert_eq!(all.is_eligible(0, 0), left <= opens_at, "{to:?} at {left}");
            }
            assert_eq!(all.read(0), Occupancy::default());
        }
    }

    #[test]
    fn handshakes_take_three_quarters() {
        let (all, to) = (Occupancies::new(1), limit(8, 0));
        (0..6).for_each(|_| assert!(all.enter(0, 0, to, true)));
        assert!(!all.enter(0, 0, to, true) && !all.is_eligible(0, 0));
        all.establish(0, 0, to);
        assert!(!all.is_eligible(0, 0), "5 of 6 is more than three quarters");
        all.leave(0, 0, to, true);
        assert!(all.enter(0, 0, to, true));
        assert_eq!((all.read(0).half_open, all.read(0).conns), (5, 6));
        let most = [1, 2, 3, 4, 7, 100, Thresholds::MAX].map(|u| limit(u, 0).half_open());
        assert_eq!(most, [1, 2, 3, 3, 6, 75, 65_535]);
    }

    #[test]
    fn every_flip_is_told() {
        let (all, to) = (Occupancies::new(2), limit(4, 0));
        let mut told = 0;
        let mut moved = |all: &Occupancies| {
            let before = std::mem::replace(&mut told, all.flips());
            all.flips() > before
        };
        assert!(all.enter(0, 0, to, false) && !moved(&all));
        (0..2).for_each(|_| assert!(all.enter(0, 0, to, false)));
        assert!(!moved(&all), "3 of 4");
        assert!(all.enter(0, 0, to, false) && moved(&all), "full");
        assert!(!all.enter(0, 0, to, false) && !moved(&all), "still");
        all.leave(0, 0, to, false);
        assert!(!moved(&all), "3 of 4 is not below three quarters");
        all.leave(0, 0, to, false);
        assert!(moved(&all), "free");
        // A life that a view takes for empty turns out full at once.
        assert!(all.enter(0, 1, limit(1, 0), false) && moved(&all));
        all.leave(0, 1, limit(1, 0), false);
        assert!(moved(&all));
    }

    /// Threads that come and go as fast as they can: never more than the threshold inside.
    #[test]
    fn four_threads_never_exceed_a_threshold() {
        for upper in [1, 3] {
            let (all, to) = (Occupancies::new(1), limit(upper, upper));
            let [inside, entered] = [0; 2].map(AtomicU64::new);
            std::thread::scope(|scope| {
                (0..4).for_each(|_| {
                    scope.spawn(|| {
                        for n in 0..20_000 {
                            if !all.enter(0, 0, to, n % 2 == 0) {
                                continue;
                            }
                            let now = inside.fetch_add(1, Ordering::Relaxed) + 1;
                            assert!(now <= upper.into(), "{now} of {upper}");
                            entered.fetch_add(1, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            all.leave(0, 0, to, n % 2 == 0);
                        }
                    });
                });
            });
            assert!(entered.load(Ordering::Relaxed) > 0);
            let left = all.read(0);
            assert_eq!((left.conns, left.half_open, left.full), (0, 0, false));
        }
    }

    #[test]
    fn a_new_generation_starts_from_zero_and_the_old_one_counts_nowhere() {
        let (all, to) = (Occupancies::new(1), limit(1, 0));
        assert!(all.enter(0, u16::MAX, to, false) && !all.is_eligible(0, u16::MAX));
        assert!(all.is_eligible(0, 0) && all.enter(0, 0, to, false));
        all.leave(0, u16::MAX, to, false);
        assert!(all.enter(0, u16::MAX, to, false), "it ends with the next snapshot");
        assert_eq!((all.read(0).generation, all.read(0).conns), (0, 1));
    }

    #[test]
    fn thresholds_come_move_and_go() {
        let (all, to) = (Occupancies::new(1), limit(3, 0));
        all.join(0, 0, to, 5);
        assert!(!all.is_eligible(0, 0));
        all.adjust(0, 0, to, limit(6, 0));
        assert!(all.enter(0, 0, limit(6, 0), false) && !all.is_eligible(0, 0));
        all.adjust(0, 0, limit(6, 0), limit(6, 0));
        assert!(!all.is_eligible(0, 0));
        all.part(0, 0, limit(6, 0), 6);
        assert_eq!(all.read(0), Occupancy::default());
    }
}
