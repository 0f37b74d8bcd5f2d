//! What `lblc` and `lblcr` remember: which servers a destination goes to. One table an lcore.
//!
//! ```text
//!   bucket   [ destination | destination | …  8 ]      128 buckets
//!   destination   address · last used · set last changed · servers, the newest first
//! ```
//! Bounded: in a full bucket the destination that was not used for longest makes room, as LVS's
//! table makes room under pressure. What was not used for [`EXPIRATION`] counts as forgotten.

use std::sync::Arc;

use super::positions::Positions;
use super::{Arrival, Cursor, SchedFlags, Schedule, WeightedLeast};
use crate::addr::Addr;
use crate::live::LoadView;
use crate::pace::Offer;
use crate::pool::Pool;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::ticks::Ticks;

/// How long a destination is remembered without use, and how long a set may stay unchanged before it
/// shrinks, in seconds: LVS's lblc_expiration and lblcr_expiration.
pub(super) const EXPIRATION: u32 = 24 * 3600;

const BUCKETS: usize = 128;
const WAYS: usize = 8;

/// What both algorithms are made of: the lcores' tables, which outlive a change of the pool, and
/// whom they ask for a server that is new to a destination.
#[derive(Debug)]
pub(super) struct Memory<const N: usize> {
    least: WeightedLeast,
    positions: Positions,
    lcores: Arc<[Destinations<N>]>,
}

impl<const N: usize> Memory<N> {
    /// Nothing is remembered yet.
    pub(super) fn new(pool: &Pool, flags: SchedFlags) -> Self {
        let lcores = (0..flags.lcores.max(1)).map(|_| Destinations::new()).collect();
        Self::with(lcores, pool, flags)
    }

    /// The same tables, for another state of the pool.
    pub(super) fn rebuilt(&self, pool: &Pool, flags: SchedFlags) -> Self {
        Self::with(Arc::clone(&self.lcores), pool, flags)
    }

    fn with(lcores: Arc<[Destinations<N>]>, pool: &Pool, flags: SchedFlags) -> Self {
        Self { least: WeightedLeast::build(pool, flags), positions: Positions::new(pool), lcores }
    }

    /// Where an arrival wants to go, noted as used now.
    #[inline]
    pub(super) fn destination(&self, arrival: Arrival<'_>) -> &Destination<N> {
        let Arrival { key, family, who, now } = arrival;
        self.lcores[usize::from(who.lcore)].of(key.dst(family), now)
    }

    /// The servers of a destination that may be picked: slot and position.
    #[inline]
    pub(super) fn eligible(
        &self,
        destination: &Destination<N>,
        load: LoadView<'_>,
    ) -> impl Iterator<Item = (u32, usize)> {
        let slots = destination.slots().filter(move |slot| load.is_eligible(*slot));
        slots.filter_map(|slot| Some((slot, self.positions.of(slot)?)))
    }

    /// Gives a destination the least loaded server of all.
    #[inline]
    pub(super) fn extend(
        &self,
        destination: &Destination<N>,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let at = self.least.pick(pool, arrival, cursor, load)?;
        destination.insert(pool.servers[at].slot, arrival.now);
        Some(at)
    }

    /// Offers a destination that needs one a server that starts slowly.
    pub(super) fn offer(
        &self,
        destination: &Destination<N>,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
        offer: Offer,
    ) -> bool {
        let taken = self.least.offer(pool, arrival, cursor, load, offer);
        if taken {
            destination.insert(offer.slot, arrival.now);
        }
        taken
    }

    /// See [`Schedule::changed`].
    #[inline]
    pub(super) fn changed(&self, lcore: u16, at: u32) {
        self.least.changed(lcore, at);
    }
}

/// One lcore's table, with up to `N` servers a destination. Written by that lcore only; atomics only
/// because the scheduler is shared.
#[derive(Debug)]
#[repr(align(128))]
struct Destinations<const N: usize>(Box<[Destination<N>]>);

/// The servers of one destination.
#[derive(Debug)]
pub(super) struct Destination<const N: usize> {
    /// Network order, in two halves; all zero while the place is vacant.
    address: [AtomicU64; 2],
    /// When a connection went there last, in seconds.
    used: AtomicU32,
    /// When a server joined or left the set, in seconds.
    changed: AtomicU32,
    len: AtomicU32,
    /// Slots.
    servers: [AtomicU32; N],
}

impl<const N: usize> Destinations<N> {
    /// An empty table. Control thread.
    fn new() -> Self {
        let vacant = || Destination {
            address: Default::default(),
            used: AtomicU32::new(0),
            changed: AtomicU32::new(0),
            len: AtomicU32::new(0),
            servers: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        Self((0..BUCKETS * WAYS).map(|_| vacant()).collect())
    }

    /// The servers of an address, noted as used now; none yet when it was not remembered.
    fn of(&self, addr: Addr, now: Ticks) -> &Destination<N> {
        let now = seconds(now);
        let address = halves(addr);
        let bucket = bucket(address) * WAYS;
        let places = &self.0[bucket..bucket + WAYS];
        let age = |d: &Destination<N>| now.wrapping_sub(d.used.load(Ordering::Relaxed));
        let known = places.iter().find(|d| d.has(address) && age(d) <= EXPIRATION);
        let found = known.unwrap_or_else(|| {
            let oldest =
                places.iter().max_by_key(|d| if d.has([0; 2]) { u32::MAX } else { age(d) });
            let place = oldest.expect("a bucket has places");
            place
                .address
                .iter()
                .zip(address)
                .for_each(|(at, half)| at.store(half, Ordering::Relaxed));
            place.len.store(0, Ordering::Relaxed);
            place
        });
        found.used.store(now, Ordering::Relaxed);
        found
    }
}

impl<const N: usize> Destination<N> {
    fn has(&self, address: [u64; 2]) -> bool {
        self.address.iter().zip(address).all(|(at, half)| at.load(Ordering::Relaxed) == half)
    }

    /// The slots of its servers, the newest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let len = self.len.load(Ordering::Relaxed) as usize;
        self.servers.iter().take(len).map(|slot| slot.load(Ordering::Relaxed))
    }

    /// Adds a server as the newest, unless it is there. A full set loses its oldest.
    pub(super) fn insert(&self, slot: u32, now: Ticks) {
        if self.slots().any(|known| known == slot) {
            return;
        }
        let mut moved = slot;
        for place in &self.servers {
            let next = place.load(Ordering::Relaxed);
            place.store(moved, Ordering::Relaxed);
            moved = next;
        }
        let len = self.len.load(Ordering::Relaxed) + 1;
        self.resize(len.min(N as u32), now);
    }

    /// Removes a server.
    pub(super) fn remove(&self, slot: u32, now: Ticks) {
        let Some(at) = self.slots().position(|known| known == slot) else { return };
        for pair in self.servers[at..].windows(2) {
            pair[0].store(pair[1].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.resize(self.len.load(Ordering::Relaxed) - 1, now);
    }

    fn resize(&self, len: u32, now: Ticks) {
        self.len.store(len, Ordering::Relaxed);
        self.changed.store(seconds(now), Ordering::Relaxed);
    }

    /// Whether the set has several servers and has been the same for [`EXPIRATION`].
    pub(super) fn may_shrink(&self, now: Ticks) -> bool {
        let age = seconds(now).wrapping_sub(self.changed.load(Ordering::Relaxed));
        self.len.load(Ordering::Relaxed) > 1 && age > EXPIRATION
    }
}

/// Whether a server has more active connections than its weight while another has less than half:
/// then its destinations go elsewhere.
pub(super) fn is_overloaded(pool: &Pool, slot: u32, load: LoadView<'_>) -> bool {
    let idle = |s: u32| load.counts(s).active * 2 < u64::from(load.nominal_weight(s));
    load.counts(slot).active > u64::from(load.nominal_weight(slot))
        && pool.servers.iter().any(|server| idle(server.slot))
}

#[allow(clippy::cast_possible_truncation, reason = "wraps after 136 years")]
const fn seconds(now: Ticks) -> u32 {
    (now.0 / 1000) as u32
}

fn halves(addr: Addr) -> [u64; 2] {
    let half =
        |at: usize| u64::from_be_bytes(addr.0[at..at + 8].try_into().expect("8 of 16 bytes"));
    [half(0), half(8)]
}

/// The bucket of an address: the top bits of its product with the golden ratio.
const fn bucket([high, low]: [u64; 2]) -> usize {
    let product = (high.rotate_left(32) ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (u64::BITS - BUCKETS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticks::TickSpan;

    const DAY: TickSpan = TickSpan::from_secs(24 * 3600);

    fn slots<const N: usize>(destination: &Destination<N>) -> Vec<u32> {
        destination.slots().collect()
    }

    fn at(seconds: u64) -> Ticks {
        Ticks(0) + TickSpan::from_secs(seconds)
    }

    #[test]
    fn a_set_has_its_newest_first_and_loses_its_oldest() {
        let table = Destinations::<3>::new();
        let set = table.of(Addr::v4([1, 2, 3, 4]), at(5));
        [7, 8, 9, 8].into_iter().for_each(|slot| set.insert(slot, at(5)));
        assert_eq!(slots(set), [9, 8, 7]);
        set.insert(4, at(5));
        assert_eq!(slots(set), [4, 9, 8]);
        set.remove(9, at(5));
        set.remove(9, at(5));
        assert_eq!(slots(set), [4, 8]);
        assert_eq!(slots(table.of(Addr::v4([1, 2, 3, 4]), at(6))), [4, 8]);
        assert!(slots(table.of(Addr::v4([1, 2, 3, 5]), at(6))).is_empty());
    }

    #[test]
    fn a_destination_is_forgotten_after_a_day_without_use() {
        let (table, addr) = (Destinations::<1>::new(), Addr::v4([1, 2, 3, 4]));
        table.of(addr, at(5)).insert(7, at(5));
        assert_eq!(slots(table.of(addr, at(5) + DAY)), [7]);
        assert_eq!(slots(table.of(addr, at(5) + DAY + DAY)), [7]);
        assert!(slots(table.of(addr, at(6) + DAY + DAY + DAY)).is_empty());
    }

    #[test]
    fn a_set_may_shrink_when_it_has_not_changed_for_a_day() {
        let (table, addr) = (Destinations::<3>::new(), Addr::v4([1, 2, 3, 4]));
        let set = table.of(addr, at(5));
        set.insert(7, at(5));
        assert!(!set.may_shrink(at(6) + DAY), "it has one server");
        set.insert(8, at(9));
        set.insert(8, at(99));
        assert!(!set.may_shrink(at(9) + DAY) && set.may_shrink(at(10) + DAY));
        set.remove(7, at(10) + DAY);
        assert!(!set.may_shrink(at(20) + DAY));
    }

    #[test]
    fn a_full_table_forgets_what_was_not_used_for_longest() {
        let table = Destinations::<1>::new();
        let addr = |n: u32| Addr::v4((0x0a00_0000 + n).to_be_bytes());
        for n in 0..5000 {
            table.of(addr(n), at(n.into())).insert(n, at(n.into()));
            // In use all the time.
            assert_eq!(slots(table.of(addr(0), at(n.into()))), [0]);
        }
        let known = |n: &u32| table.0.iter().any(|d| d.has(halves(addr(*n))));
        assert!((4900..5000).all(|n| known(&n)));
        let all = (0..5000).filter(known).count();
        assert!((900..=BUCKETS * WAYS).contains(&all), "{all} are known");
    }
}
