//! What the least-connection family shares: the server whose load divided by its weight is least,
//! the first of equals in the order of the walk.
//!
//! Each lcore keeps a tournament over the pool: a binary tree whose leaves are the servers, and
//! whose nodes are copies of the winner among the leaves below. The root is the pick. When a load
//! changes, its leaf plays again on its way up: a connection costs log n comparisons, not n.
//!
//! ```text
//!   node 1               c             left wins a draw: the first of equals
//!        2 3         b       c
//!        4 5 6 7   a   b   c   d       leaves
//! ```
//! Changes are noted in a list and played at the next pick: a server that changed often plays once.
//!
//! With several lcores each sees the others' counts as they were at the control thread's last look.
//! Lcores that all fill the same gap overfill it, so an lcore takes it that each of the others has
//! done since then what it did itself, and starts its walk elsewhere to break ties differently.

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use super::{Arrival, Cursor, SchedFlags, Schedule, Who};
use crate::counter::Counter;
use crate::live::{LoadView, Loads};
use crate::pace::Offer;
use crate::pool::Pool;
use crate::stats::ConnCounts;
use crate::sync::{AtomicU32, Ordering};

/// What an algorithm of the family calls the least: the quotient of a cost and a weight.
pub trait Measure {
    /// What an active connection adds to a server's load.
    const ACTIVE: u64;
    /// What an inactive one adds.
    const INACTIVE: u64;
    /// The cost of a server with this load.
    fn cost(load: u64) -> u64;
    /// What the cost is divided by; 0 if and only if the effective weight is 0.
    fn divisor(weight: u32) -> u32;
}

/// An algorithm of the family: tournaments for one pool, by lcore.
#[derive(Debug)]
pub struct Least<M> {
    lcores: Box<[Tournament]>,
    measure: PhantomData<M>,
}

/// One lcore's tournament. Written by that lcore only; atomics only because the pool is shared.
#[derive(Debug)]
#[repr(align(128))]
struct Tournament {
    /// How many servers there are.
    n: u32,
    /// How many leaves: a power of two. Those without a server never win.
    leaves: u32,
    /// The position in the pool of leaf 0.
    start: u32,
    /// How often others' loads stand for what this lcore does: the number of the other lcores.
    others: u64,
    /// The version of the view that is played; 0 before the first pick.
    seen: Counter,
    /// 1: some server may be full now and free then, and the version tells.
    limited: Word,
    /// Length of the list of changes.
    changes: Word,
    /// The tree, two rivals a place: node n is one of the pair n / 2, the root one of pair 0.
    pairs: Apart<[Node; 2]>,
    servers: Apart<Server>,
}

/// Who won. Compared by `cost` / `divisor`.
#[derive(Debug, Default)]
struct Node {
    cost: Counter,
    /// The divisor in the upper half, the leaf in the lower.
    who: Counter,
}

/// What is behind a leaf.
#[derive(Debug, Default)]
struct Server {
    /// What the load is without this lcore's own: see [`Tournament::load`]. Signed.
    base: Counter,
    slot: u32,
    /// The generation that own counts must have; [`LISTED`] while the leaf is in the list.
    generation: Word,
    /// Not of this server: the leaf that has this place in the list of changes.
    change: Word,
}

const LISTED: u32 = 1 << 31;

/// A number that one thread reads and writes.
#[derive(Debug, Default)]
struct Word(AtomicU32);

impl Word {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, n: u32) {
        self.0.store(n, Ordering::Relaxed);
    }
}

/// An array that shares no cache line with another lcore's: 128 bytes at both ends are not used.
#[derive(Debug)]
struct Apart<T>(Box<[T]>);

impl<T: Default> Apart<T> {
    const GAP: usize = 128 / size_of::<T>();

    fn new(n: usize) -> Self {
        Self((0..n + 2 * Self::GAP).map(|_| T::default()).collect())
    }

    #[inline(always)]
    fn at(&self, i: u32) -> &T {
        &self.0[i as usize + Self::GAP]
    }

    fn at_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i + Self::GAP]
    }
}

impl<M: Measure> Schedule for Least<M> {
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        let lcores = flags.lcores.max(1);
        let tournament = |lcore| Tournament::new(pool, Who { lcore, lcores });
        Self { lcores: (0..lcores).map(tournament).collect(), measure: PhantomData }
    }

    #[inline]
    fn pick(
        &self,
        _: &Pool,
        arrival: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let tournament = &self.lcores[usize::from(arrival.who.lcore)];
        if tournament.seen.get() == load.version(tournament.limited.get() != 0) {
            tournament.play_changes::<M>(load);
        } else {
            tournament.play_all::<M>(load);
        }
        tournament.winner()
    }

    /// Taken unless the server has more than the part of its weight says.
    fn offer(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
        offer: Offer,
    ) -> bool {
        let quotient = |slot| {
            let Loads { active, inactive } = load.counts(slot);
            let cost = M::cost(active * M::ACTIVE + inactive * M::INACTIVE);
            (cost, M::divisor(load.nominal_weight(slot)))
        };
        let rival = self.pick(pool, arrival, cursor, load);
        rival.is_none_or(|at| offer.is_least(quotient(offer.slot), quotient(pool.servers[at].slot)))
    }

    #[inline]
    fn changed(&self, lcore: u16, at: u32) {
        self.lcores[usize::from(lcore)].note(at);
    }
}

/// A node's contents: cost, divisor and leaf.
type Player = (u64, u64);
/// Greater than all others: 1 / 0.
const NEVER: Player = (1, 0);

/// Whether `a` is less than `b`, or no more if `draw`. By cross-multiplication: exact for all loads
/// and weights, of which 41 and 31 bits do not fit in 64. Most pools have equal weights, and plain
/// comparisons are a third as long a chain.
#[inline(always)]
fn beats(a: Player, b: Player, draw: bool) -> bool {
    let (by_a, by_b) = (a.1 >> 32, b.1 >> 32);
    if by_a == by_b {
        return a.0 < b.0 + u64::from(draw);
    }
    let product = |cost: u64, by: u64| u128::from(cost) * u128::from(by);
    product(a.0, by_b) < product(b.0, by_a) + u128::from(draw)
}

/// A server with a load. One that must not be picked never wins, whatever its load.
#[inline(always)]
fn player<M: Measure>(load: u64, who: u64) -> Player {
    (if who >> 32 == 0 { NEVER.0 } else { M::cost(load) }, who)
}

impl Node {
    #[inline(always)]
    fn get(&self) -> Player {
        (self.cost.get(), self.who.get())
    }

    #[inline(always)]
    fn set(&self, player: Player) {
        self.cost.set(player.0);
        self.who.set(player.1);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "positions are below 2^32")]
impl Tournament {
    fn new(pool: &Pool, who: Who) -> Self {
        let n = pool.servers.len();
        let (start, leaves) = (who.start(n), n.next_power_of_two());
        let mut servers: Apart<Server> = Apart::new(n);
        let walk = pool.servers[start..].iter().chain(&pool.servers[..start]);
        walk.enumerate().for_each(|(leaf, server)| servers.at_mut(leaf).slot = server.slot);
        Self {
            n: n as u32,
            leaves: leaves as u32,
            start: start as u32,
            others: u64::from(who.lcores) - 1,
            seen: Counter::default(),
            limited: Word::default(),
            changes: Word::default(),
            pairs: Apart::new(leaves),
            servers,
        }
    }

    /// The position in the pool of who won.
    #[inline(always)]
    fn winner(&self) -> Option<usize> {
        let (_, who) = self.node(1).get();
        if who >> 32 == 0 {
            return None;
        }
        let at = who as u32 + self.start;
        Some(if at < self.n { at } else { at - self.n } as usize)
    }

    /// Notes that the lcore's counts of the server at a position of the pool have changed.
    #[inline(always)]
    fn note(&self, at: u32) {
        if at >= self.n {
            return;
        }
        let leaf = if at >= self.start { at - self.start } else { at + self.n - self.start };
        let listed = &self.servers.at(leaf).generation;
        if listed.get() & LISTED == 0 {
            listed.set(listed.get() | LISTED);
            self.servers.at(self.changes.get()).change.set(leaf);
            self.changes.set(self.changes.get() + 1);
        }
    }

    #[inline(always)]
    fn play_changes<M: Measure>(&self, load: LoadView<'_>) {
        for change in 0..self.changes.get() {
            let leaf = self.servers.at(change).change.get();
            let server = self.servers.at(leaf);
            server.generation.set(server.generation.get() & !LISTED);
            self.play::<M>(leaf, self.load::<M>(server, load));
        }
        self.changes.set(0);
    }

    #[inline(always)]
    fn node(&self, n: u32) -> &Node {
        &self.pairs.at(n / 2)[n as usize % 2]
    }

    /// The director-wide load of a server: what this lcore has, and what the others are taken to
    /// have, which is what they had, and once for each of them what this lcore has got since.
    /// `base` = others' at the last look − number of others × own at that time.
    #[inline(always)]
    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "loads have 41 bits")]
    fn load<M: Measure>(&self, server: &Server, load: LoadView<'_>) -> u64 {
        let own = sum::<M>(load.own(server.slot, server.generation.get() as u16));
        let others = server.base.get().wrapping_add(self.others * own) as i64;
        own + others.max(0) as u64
    }

    /// Plays a leaf with a new load up to the root, or to where nothing changes any more.
    #[inline(always)]
    fn play<M: Measure>(&self, leaf: u32, load: u64) {
        let mut side = leaf as usize % 2;
        let mut at = (self.leaves + leaf) / 2;
        let mut pair = self.pairs.at(at);
        let mut best = player::<M>(load, pair[side].who.get());
        pair[side].cost.set(best.0);
        while at > 0 {
            let rival = pair[side ^ 1].get();
            let loses = beats(rival, best, side == 1);
            // Whether a branch would be taken is anybody's guess.
            best = (
                select_unpredictable(loses, rival.0, best.0),
                select_unpredictable(loses, rival.1, best.1),
            );
            side = at as usize % 2;
            at /= 2;
            pair = self.pairs.at(at);
            if pair[side].get() == best {
                break;
            }
            pair[side].set(best);
        }
    }

    /// Takes over the view and plays everything anew.
    #[cold]
    #[inline(never)]
    fn play_all<M: Measure>(&self, load: LoadView<'_>) {
        // Before anything is looked at: what moves meanwhile is seen at the next pick.
        let versions = [false, true].map(|limited| load.version(limited));
        let mut limited = false;
        for leaf in 0..self.leaves {
            let node = self.node(self.leaves + leaf);
            if leaf >= self.n {
                node.set(NEVER);
                continue;
            }
            let server = self.servers.at(leaf);
            let (others, generation) = load.others(server.slot);
            let own = sum::<M>(load.own(server.slot, generation));
            server.base.set(sum::<M>(others).wrapping_sub(self.others * own));
            server.generation.set(generation.into());
            limited |= load.is_limited(server.slot);
            let divisor = M::divisor(load.weight(server.slot));
            let who = u64::from(divisor) << 32 | u64::from(leaf);
            node.set(player::<M>(self.load::<M>(server, load), who));
        }
        self.changes.set(0);
        for node in (1..self.leaves).rev() {
            let (left, right) = (self.node(2 * node).get(), self.node(2 * node + 1).get());
            self.node(node).set(if beats(right, left, false) { right } else { left });
        }
        self.limited.set(limited.into());
        self.seen.set(versions[usize::from(limited)]);
    }
}

fn sum<M: Measure>(counts: ConnCounts) -> u64 {
    u64::from(counts.active) * M::ACTIVE + u64::from(counts.inactive) * M::INACTIVE
}
