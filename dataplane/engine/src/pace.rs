//! The pace of servers that start slowly: at most their share of a service's new connections.
//!
//! An effective weight alone does not hold a joining server back: it has no connections, so least
//! connections would give it all until it is level. A server with a *pace* is therefore not among
//! those that a scheduler picks from ([`LoadView::weight`] says 0); it has turns instead. With each
//! new connection of its service it gains its share of a credit, a turn costs one, and unused turns
//! do not pile up:
//!
//! ```text
//!   share 0.3    credit  .3  .6  .9  1.2 → turn  .2  .5  .8  1.1 → turn  .1  …
//! ```
//! So of any n connections in a row that come to an lcore it gets n × share + 1 at most. When its
//! turn has come, the scheduler is offered it and may decline ([`crate::sched::Schedule::offer`]):
//! one that goes by loads does so while the server has more than its part.
//!
//! Shares come from the control thread, and change without a move of the view's version. Credits
//! belong to the lcore. Lcores begin with different ones, so that their turns do not coincide.

use crate::live::LoadView;
use crate::pool::Pool;
use crate::sched::{Arrival, Cursor, Schedule, Who};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A credit of one turn; shares are parts of it.
const TURN: u64 = 1 << 32;

/// What [`Pace::part`] is in units of.
pub const WHOLE: u32 = 1 << 16;

/// The pace of one server, as the control thread sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Its slot.
    pub slot: u32,
    /// Its position in the pool of its service.
    pub place: u32,
    /// Its share of its service's new connections, in 2⁻³².
    pub share: u32,
    /// The part of its weight that counts, in [`WHOLE`]s.
    pub part: u32,
    /// Tells this start from all others.
    pub number: u32,
}

/// A server whose turn has come.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its slot.
    pub slot: u32,
    /// Its position in the pool.
    pub place: usize,
    part: u32,
}

impl Offer {
    /// Whether this server's cost, divided by the part of its weight that counts, is no more than
    /// another's, each a pair of cost and weight. Exact: 41, 31 and 17 bits fit in 128.
    #[inline]
    #[must_use]
    pub fn is_least(&self, own: (u64, u32), other: (u64, u32)) -> bool {
        let own_cost = u128::from(own.0) * u128::from(other.1) * u128::from(WHOLE);
        own_cost <= u128::from(other.0) * u128::from(own.1) * u128::from(self.part)
    }
}

/// One place in the list.
#[derive(Debug, Default)]
struct Entry {
    /// Place and slot. Control thread.
    who: AtomicU64,
    /// Control thread; 0 while nobody is here.
    number: AtomicU32,
    /// Control thread.
    share: AtomicU32,
    /// Control thread.
    part: AtomicU32,
    /// The number that the credit belongs to. Lcore.
    begun: AtomicU32,
    /// Lcore.
    credit: AtomicU64,
}

/// All paces of the director, for one lcore.
#[derive(Debug)]
pub struct Paces {
    /// Places up to the last that is taken. Control thread.
    len: AtomicU32,
    entries: Box<[Entry]>,
}

impl Paces {
    /// How many servers of a director may start slowly at once; others start at once.
    pub const MAX: usize = 1024;

    /// Nobody has a pace.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        let entries = (0..max_servers.min(Self::MAX)).map(|_| Entry::default()).collect();
        Self { len: AtomicU32::new(0), entries }
    }

    /// How many there may be.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Replaces all. A start keeps its place in `paces` and its number to its end. Control thread.
    ///
    /// An lcore that reads meanwhile may join one start's slot to another's share for one pick.
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX")]
    pub fn set(&self, paces: &[Option<Pace>]) {
        let len = paces.len().min(self.entries.len());
        for (entry, pace) in self.entries.iter().zip(paces) {
            let number = pace.map_or(0, |p| p.number);
            if let Some(pace) = pace {
                let who = u64::from(pace.place) << 32 | u64::from(pace.slot);
                entry.who.store(who, Ordering::Relaxed);
                entry.share.store(pace.share, Ordering::Relaxed);
                entry.part.store(pace.part, Ordering::Relaxed);
            }
            entry.number.store(number, Ordering::Relaxed);
        }
        self.len.store(len as u32, Ordering::Release);
    }

    /// Whether anybody has one.
    #[inline(always)]
    #[must_use]
    pub fn any(&self) -> bool {
        self.len.load(Ordering::Acquire) > 0
    }

    /// One more connection comes to a pool: whose turn it is, if it is anybody's. Its lcore only.
    pub(crate) fn arrive(&self, pool: &Pool, who: Who) -> Option<Turn<'_>> {
        let len = self.len.load(Ordering::Acquire) as usize;
        let mut first: Option<(u64, Turn<'_>)> = None;
        for entry in &self.entries[..len] {
            let number = entry.number.load(Ordering::Relaxed);
            let at = entry.who.load(Ordering::Relaxed);
            let (slot, place) = (at as u32, (at >> 32) as usize);
            if number == 0 || pool.servers.get(place).is_none_or(|s| s.slot != slot) {
                continue;
            }
            let had = entry.credit(number, who);
            // Two may be due at once; the other's turn is then the next.
            let has = (had + u64::from(entry.share.load(Ordering::Relaxed))).min(2 * TURN);
            entry.credit.store(has, Ordering::Relaxed);
            if has >= TURN && first.as_ref().is_none_or(|(most, _)| has > *most) {
                let offer = Offer { slot, place, part: entry.part.load(Ordering::Relaxed) };
                first = Some((has, Turn { offer, credit: &entry.credit }));
            }
        }
        first.map(|(_, turn)| turn)
    }
}

impl Entry {
    /// What a start has by now on this lcore.
    #[inline]
    fn credit(&self, number: u32, who: Who) -> u64 {
        if self.begun.load(Ordering::Relaxed) == number {
            return self.credit.load(Ordering::Relaxed);
        }
        self.begun.store(number, Ordering::Relaxed);
        u64::from(who.lcore) * TURN / u64::from(who.lcores.max(1))
    }
}

/// Somebody's turn.
pub(crate) struct Turn<'a> {
    pub(crate) offer: Offer,
    credit: &'a AtomicU64,
}

impl Turn<'_> {
    /// It is taken.
    pub(crate) fn take(&self) {
        let credit = self.credit.load(Ordering::Relaxed);
        self.credit.store(credit - TURN, Ordering::Relaxed);
    }

    /// It is declined, and there will not be two instead.
    pub(crate) fn decline(&self) {
        self.credit.store(TURN, Ordering::Relaxed);
    }
}

/// A pick while servers start slowly: whose turn it is, or whom the scheduler picks. Where nobody
/// else is eligible, nobody is held back.
#[inline]
pub(crate) fn pick<S: Schedule>(
    scheduler: &S,
    pool: &Pool,
    arrival: Arrival<'_>,
    cursor: &mut Cursor,
    load: LoadView<'_>,
) -> Option<usize> {
    if let Some(turn) = load.paces().arrive(pool, arrival.who) {
        let Offer { slot, place, .. } = turn.offer;
        if load.is_eligible_in_turn(slot)
            && scheduler.offer(pool, arrival, cursor, load, turn.offer)
        {
            turn.take();
            return Some(place);
        }
        turn.decline();
    }
    let is_held = |slot| load.holds(slot) && load.is_eligible_in_turn(slot);
    let held = || pool.servers.iter().position(|s| is_held(s.slot));
    scheduler.pick(pool, arrival, cursor, load).or_else(held)
}
