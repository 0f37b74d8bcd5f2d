//! The servers that a service may pick from, and the trail of their changes.
//!
//! A pool is changed on the control thread, one server at a time, and then published as a whole.
//! Schedulers keep a place in it per lcore ([`crate::sched::Cursor`]); what a change does to such a
//! place follows from the trail, so an lcore that sees ten changes at once ends where it would have
//! ended had it seen them one by one.
//!
//! ```text
//!   servers   [ seq 9 | seq 7 | seq 4 ]      newest first: the order of LVS's walk
//!   changes   [ … | version − 1 | version ]  what each change left behind
//! ```

use crate::addr::Addr;

/// One member of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// Its slot.
    pub slot: u32,
    /// When it was added: greater is newer, unique in the director, above 0. A cursor remembers
    /// this number, so it keeps its place whatever joins or leaves the pool.
    pub seq: u64,
    /// The configured weight, 0 … 2³¹ − 1.
    pub weight: u32,
    /// The last configured weight above 0; 0 if there was none. `mh` keeps the places of a server
    /// that was set to weight 0 by it, as LVS does.
    pub last_weight: u32,
    /// Its address, for consistent hashing.
    pub addr: Addr,
    /// Its port, for consistent hashing.
    pub port: u16,
}

impl PoolServer {
    /// A server as it is first added.
    #[must_use]
    pub const fn new(slot: u32, seq: u64, weight: u32, addr: Addr, port: u16) -> Self {
        Self { slot, seq, weight, last_weight: weight, addr, port }
    }
}

/// What one change of a pool left behind, as far as a cursor must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolChange {
    /// Greatest common divisor of the weights above 0; 1 when there are none.
    pub gcd: u32,
    /// The greatest weight.
    pub max: u32,
    /// The `seq` of the newest server; 0 when there is none.
    pub newest: u64,
    /// `wrr`: the current weight of an lcore that has picked nothing up to this change.
    pub unused_weight: u32,
}

impl PoolChange {
    /// Where the current weight of `wrr` starts over: the greatest value that is 1 modulo the
    /// divisor and that the greatest weight still reaches. 0 when all weights are 0.
    #[must_use]
    pub const fn top(self) -> u32 {
        self.max.saturating_sub(self.gcd - 1)
    }

    /// The current weight of `wrr` after this change, by the one before it.
    #[must_use]
    pub const fn carry(self, current: u32) -> u32 {
        if current == 0 || current > self.top() {
            self.top()
        } else if self.gcd > 1 {
            current / self.gcd * self.gcd + 1
        } else {
            current
        }
    }
}

/// The servers that may be picked, newest first, as LVS walks them.
///
/// Servers whose admin state is not `enabled` stay in the pool: the [`crate::live::LiveView`] gives
/// them weight 0. Removed servers are gone.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Newest first: `seq` falls strictly.
    pub servers: Vec<PoolServer>,
    /// How many changes (add, edit, delete of a server) the pool has seen.
    pub version: u64,
    /// The last changes, oldest first; the last one is change number `version`. Bounded.
    pub changes: Vec<PoolChange>,
}

impl Pool {
    /// How many changes a pool remembers. An lcore that picked nothing for longer goes on like one
    /// that never picked.
    pub const CHANGES: usize = 64;

    /// Adds a server at the head. Its `seq` must be greater than all before it.
    pub fn add(&mut self, server: PoolServer) {
        debug_assert!(server.seq > self.newest(), "the newest server has the greatest seq");
        self.servers.insert(0, server);
        self.note_change();
    }

    /// Sets the configured weight of a slot. A change even when the weight stays: LVS's editing
    /// starts `wrr` over. False when the slot is not in the pool.
    pub fn set_weight(&mut self, slot: u32, weight: u32) -> bool {
        let Some(server) = self.servers.iter_mut().find(|s| s.slot == slot) else {
            return false;
        };
        server.weight = weight;
        if weight > 0 {
            server.last_weight = weight;
        }
        self.note_change();
        true
    }

    /// Removes a slot. False when it is not in the pool.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = self.servers.iter().position(|s| s.slot == slot) else {
            return false;
        };
        self.servers.remove(at);
        self.note_change();
        true
    }

    /// Notes the present servers as one more change. Called after each single change, so that a
    /// batch leaves the same trail as its changes one by one.
    pub fn note_change(&mut self) {
        let mut change = self.present();
        change.unused_weight = change.carry(self.changes.last().map_or(0, |c| c.unused_weight));
        self.version += 1;
        if self.changes.len() == Self::CHANGES {
            self.changes.remove(0);
        }
        self.changes.push(change);
    }

    /// Forgets the trail: all lcores start over, as LVS does when a service gets another scheduler
    /// (but not when it gets the same again, or other flags).
    pub fn start_over(&mut self) {
        self.changes.clear();
        // One more than is ever remembered: no cursor can believe it missed only what is left.
        self.version += Self::CHANGES as u64;
        self.note_change();
    }

    /// The changes after `version`, or `None` when they are not all remembered.
    #[must_use]
    pub fn changes_since(&self, version: u64) -> Option<&[PoolChange]> {
        let missed = usize::try_from(self.version.checked_sub(version)?).ok()?;
        Some(&self.changes[self.changes.len().checked_sub(missed)?..])
    }

    /// The last change; computed for a pool that was put together without any.
    #[must_use]
    pub fn last_change(&self) -> PoolChange {
        self.changes.last().copied().unwrap_or_else(|| self.present())
    }

    /// Whether both have the same servers with the same weights in the same places, so that one
    /// hash table of positions serves both. Slots may differ.
    #[must_use]
    pub fn same_members(&self, other: &Self) -> bool {
        let member = |s: &PoolServer| (s.addr, s.port, s.weight, s.last_weight);
        self.servers.iter().map(member).eq(other.servers.iter().map(member))
    }

    fn present(&self) -> PoolChange {
        let weights = self.servers.iter().map(|s| s.weight);
        let gcd = weights.clone().fold(0, gcd).max(1);
        let max = weights.max().unwrap_or(0);
        let first = PoolChange { gcd, max, newest: self.newest(), unused_weight: 0 };
        PoolChange { unused_weight: first.top(), ..first }
    }

    fn newest(&self) -> u64 {
        self.servers.first().map_or(0, |s| s.seq)
    }
}

/// Greatest common divisor (Euclid); that of 0 and `b` is `b`.
#[must_use]
pub const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(weights: &[u32]) -> Pool {
        let mut pool = Pool::default();
        for (slot, weight) in (0..).zip(weights) {
            pool.add(PoolServer::new(slot, u64::from(slot) + 1, *weight, Addr::UNSPECIFIED, 80));
        }
        pool
    }

    #[test]
    fn a_trail_is_complete_or_not_given() {
        let mut pool = pool(&[1; 70]);
        assert_eq!((pool.version, pool.changes.len()), (70, Pool::CHANGES));
        assert_eq!(pool.changes_since(69), Some(&pool.changes[63..]));
        assert_eq!(pool.changes_since(6).map(<[_]>::len), Some(64));
        assert_eq!((pool.changes_since(5), pool.changes_since(71)), (None, None));
        pool.start_over();
        assert_eq!(pool.changes_since(70), None);
        assert_eq!(pool.changes_since(pool.version), Some(&[][..]));
    }

    #[test]
    fn wrr_starts_in_the_last_round_after_adds_and_in_the_first_after_a_start_over() {
        // 10, 20, 30: rounds 21, 11, 1. The first add alone has the one round 1.
        let mut pool = pool(&[10, 20, 30]);
        assert_eq!((pool.last_change().top(), pool.last_change().unused_weight), (21, 1));
        pool.start_over();
        assert_eq!(pool.last_change().unused_weight, 21);
    }

    #[test]
    fn a_server_set_to_0_remembers_its_weight() {
        let mut pool = pool(&[4, 6, 0]);
        assert!(pool.set_weight(1, 0) && !pool.set_weight(9, 1));
        let weights: Vec<_> = pool.servers.iter().map(|s| (s.weight, s.last_weight)).collect();
        assert_eq!(weights, [(0, 0), (0, 6), (4, 4)]);
        assert!(pool.remove(0) && !pool.remove(0));
        let change = pool.last_change();
        assert_eq!((change.gcd, change.max, change.newest, change.top()), (1, 0, 3, 0));
    }
}
