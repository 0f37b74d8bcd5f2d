//! Which connections may have ended by now: a hashed timing wheel, threaded through the entries.
//!
//! One level of 8,192 slots of 128 ms, 17 minutes in all. A packet writes only `last_seen`; when an
//! entry's slot comes round, the caller computes its true end and either ends it or arms it again.
//! So a busy connection costs one visit per timeout, and one whose timeout exceeds the wheel one
//! visit per 17 minutes. One large level instead of a hierarchy: with millions of equal timeouts a
//! cascade moves whole slots at once, which is the burst of work that an lcore must not have.
//!
//! A slot is eight chains, visited in turn: where a chain goes on is known only when its entry has
//! come from memory, and so eight are on their way at a time. With one chain a visit costs a whole
//! miss, and the end of a million connections in a second took a fifth of the lcore.
//!
//! Links are indices. `wheel_prev` of a chain's first entry names the chain, with the top bit set,
//! so that unlinking needs no search and no back pointer to the wheel.

use super::entry::Conn;
use crate::ticks::{TickSpan, Ticks};

/// Slots of the wheel.
pub const SLOTS: usize = 8192;
/// Length of a slot.
pub const SLOT_TICKS: u64 = 128;
/// Chains of a slot: half a cache line of heads.
pub(super) const CHAINS: usize = 8;
const HEAD: u32 = 1 << 31;
/// Slots that one turn passes at most: 65 s, 16 KB of heads. A table that was taken over, or whose
/// clock jumped, can be a whole round behind; it catches up in 16 turns.
const STRIDE: u64 = 512;

/// The heads of the slots' chains, and how far the wheel has turned. The entries are passed in.
pub(super) struct Wheel<'a> {
    pub(super) heads: &'a mut [u32],
    pub(super) entries: &'a mut [Conn],
    /// Number of the next slot to visit, counted without wrapping.
    pub(super) turned: &'a mut u64,
}

#[allow(clippy::cast_possible_truncation, reason = "chains are numbered below 65,536")]
impl Wheel<'_> {
    /// Arms an entry that is in no slot, to be visited not before `due`.
    #[inline(always)]
    pub(super) fn arm(&mut self, id: u32, due: Ticks) {
        let latest = *self.turned + SLOTS as u64 - 1;
        let number = due.0.div_ceil(SLOT_TICKS).clamp(*self.turned, latest);
        let chain = number as usize % SLOTS * CHAINS + id as usize % CHAINS;
        let first = self.heads[chain];
        if first != 0 {
            self.entries[first as usize].wheel_prev = id;
        }
        let entry = &mut self.entries[id as usize];
        entry.wheel_next = first;
        entry.wheel_prev = HEAD | chain as u32;
        self.heads[chain] = id;
    }

    /// Takes an entry out of its slot.
    pub(super) fn disarm(&mut self, id: u32) {
        let Conn { wheel_next: next, wheel_prev: prev, .. } = self.entries[id as usize];
        if prev & HEAD != 0 {
            self.heads[(prev & !HEAD) as usize] = next;
        } else {
            self.entries[prev as usize].wheel_next = next;
        }
        if next != 0 {
            self.entries[next as usize].wheel_prev = prev;
        }
    }

    /// The last slot that a turn at `now` may visit, with so many entries in all slots.
    #[inline(always)]
    pub(super) fn reach(&mut self, now: Ticks, armed: u32) -> u64 {
        let last = now.0 / SLOT_TICKS;
        if last < *self.turned + STRIDE { last } else { self.catch_up(last, armed) }
    }

    #[cold]
    fn catch_up(&mut self, last: u64, armed: u32) -> u64 {
        // Behind by more than a round: every slot is due once, and that is all there is.
        let first = if armed == 0 { last } else { last.saturating_sub(SLOTS as u64 - 1) };
        *self.turned = first.max(*self.turned);
        last.min(*self.turned + STRIDE - 1)
    }

    /// The next entry in a slot up to `reach`, taken out of it; `None` when there is none. `nth` moves
    /// on by one from call to call, so that all chains have turns.
    #[inline]
    pub(super) fn next_due(&mut self, reach: u64, nth: usize) -> Option<u32> {
        while *self.turned <= reach {
            let slot = *self.turned as usize % SLOTS * CHAINS;
            let heads = &self.heads[slot..slot + CHAINS];
            // All at once, for most slots of a quiet lcore are empty.
            if heads.iter().fold(0, |any, head| any | head) == 0 {
                *self.turned += 1;
                continue;
            }
            let id = (0..CHAINS).map(|n| heads[(nth + n) % CHAINS]).find(|id| *id != 0)?;
            self.disarm(id);
            let after = self.entries[id as usize].wheel_next;
            crate::cpu::prefetch(&self.entries[after as usize]);
            return Some(id);
        }
        None
    }
}

/// The longest time for which an entry can be armed at once.
pub const HORIZON: TickSpan = TickSpan(SLOT_TICKS * (SLOTS as u64 - 1));

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        heads: Vec<u32>,
        entries: Vec<Conn>,
        turned: u64,
    }

    impl Rig {
        fn new() -> Self {
            Self { heads: vec![0; SLOTS * CHAINS], entries: vec![Conn::FREE; 10], turned: 0 }
        }

        fn wheel(&mut self) -> Wheel<'_> {
            Wheel { heads: &mut self.heads, entries: &mut self.entries, turned: &mut self.turned }
        }

        /// One turn: what it finds.
        fn turn(&mut self, now: Ticks, armed: u32) -> Vec<u32> {
            let mut wheel = self.wheel();
            let reach = wheel.reach(now, armed);
            std::iter::from_fn(|| wheel.next_due(reach, 0)).collect()
        }
    }

    #[test]
    fn a_wheel_that_is_behind_catches_up_in_strides() {
        for (behind, strides) in
            [(HORIZON.0, 16), (100 * HORIZON.0, 16), ((STRIDE + 1) * SLOT_TICKS, 2)]
        {
            let mut rig = Rig::new();
            rig.turn(Ticks(0), 0);
            rig.wheel().arm(1, Ticks(0));
            rig.wheel().arm(2, Ticks(behind));
            let (mut found, mut turns, now) = (Vec::new(), 0, Ticks(behind));
            while rig.turned * SLOT_TICKS <= now.0 {
                let before = rig.turned.max((now.0 / SLOT_TICKS).saturating_sub(SLOTS as u64 - 1));
                found.extend(rig.turn(now, 2));
                assert!(rig.turned - before <= STRIDE, "one turn passes no more slots");
                turns += 1;
            }
            found.sort_unstable();
            assert_eq!((&*found, turns), (&[1, 2][..], strides), "{behind} behind");
        }
    }

    #[test]
    fn an_empty_wheel_has_nothing_to_catch_up_with() {
        let mut rig = Rig::new();
        let now = Ticks(3 * HORIZON.0);
        assert_eq!(rig.turn(now, 0), []);
        assert_eq!(rig.turned, now.0 / SLOT_TICKS + 1);
    }

    #[test]
    fn an_entry_is_visited_in_its_slot_and_not_before() {
        let mut rig = Rig::new();
        rig.wheel().arm(3, Ticks(5 * SLOT_TICKS));
        assert_eq!(rig.turn(Ticks(5 * SLOT_TICKS - 1), 1), []);
        assert_eq!(rig.turn(Ticks(5 * SLOT_TICKS), 1), [3]);
    }
}
