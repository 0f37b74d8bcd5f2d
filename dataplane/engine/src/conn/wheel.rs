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

    /// The next entry that is due for a visit at `now`, taken out of its slot; `None` when the
    /// wheel has caught up. `nth` moves on by one from call to call, so that all chains have turns.
    #[inline]
    pub(super) fn next_due(&mut self, now: Ticks, nth: usize) -> Option<u32> {
        // Behind by more than a round (a table taken over, a clock that jumped): every slot is due
        // once, and that is all there is.
        let round = (now.0 / SLOT_TICKS).saturating_sub(SLOTS as u64 - 1);
        *self.turned = round.max(*self.turned);
        while *self.turned * SLOT_TICKS <= now.0 {
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
