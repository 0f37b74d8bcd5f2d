//! Locality-based least connections with replication: a destination has a set of servers and goes to
//! the least loaded of them. When that is overloaded while another server idles, the set grows by the
//! least loaded of all; a set that has not changed for a day loses its most loaded server.

use std::cmp::Ordering;
use std::sync::Arc;

use super::destinations::{Destination, Destinations, is_overloaded};
use super::positions::Positions;
use super::{Arrival, Cursor, SchedFlags, Schedule, WeightedLeast};
use crate::live::LoadView;
use crate::pool::Pool;

/// The most servers of a destination; LVS knows no limit.
const SET: usize = 24;

/// What the lcores remember, and whom they ask for a server that is new to a destination.
#[derive(Debug)]
pub struct LocalityReplicated {
    least: WeightedLeast,
    positions: Positions,
    lcores: Arc<[Destinations<SET>]>,
}

impl Schedule for LocalityReplicated {
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        let lcores = (0..flags.lcores.max(1)).map(|_| Destinations::new()).collect();
        Self { least: WeightedLeast::build(pool, flags), positions: Positions::new(pool), lcores }
    }

    fn rebuild(&self, pool: &Pool, flags: SchedFlags) -> Self {
        let lcores = Arc::clone(&self.lcores);
        Self { least: WeightedLeast::build(pool, flags), positions: Positions::new(pool), lcores }
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let Arrival { key, family, who, now } = arrival;
        let destination = self.lcores[usize::from(who.lcore)].of(key.dst(family), now);
        let least = self.eligible(destination, load).min_by(|a, b| compare(a.0, b.0, load));
        if destination.may_shrink(now)
            // The first of equals, where `max_by` gives the last.
            && let Some((most, _)) =
                self.eligible(destination, load).reduce(|a, b| if compare(a.0, b.0, load).is_lt() { b } else { a })
        {
            destination.remove(most, now);
        }
        if let Some((slot, at)) = least
            && !is_overloaded(pool, slot, load)
        {
            return Some(at);
        }
        let at = self.least.pick(pool, arrival, cursor, load)?;
        destination.insert(pool.servers[at].slot, now);
        Some(at)
    }

    #[inline]
    fn changed(&self, lcore: u16, at: u32) {
        self.least.changed(lcore, at);
    }
}

impl LocalityReplicated {
    /// The servers of a destination that may be picked: slot and position.
    fn eligible(
        &self,
        destination: &Destination<SET>,
        load: LoadView<'_>,
    ) -> impl Iterator<Item = (u32, usize)> {
        let slots = destination.slots().filter(move |slot| load.weight(*slot) > 0);
        slots.filter_map(|slot| Some((slot, self.positions.of(slot)?)))
    }
}

/// Compares two servers by their load, divided by weight.
fn compare(a: u32, b: u32, load: LoadView<'_>) -> Ordering {
    let product = |cost, weight| u128::from(load.overhead(cost)) * u128::from(load.weight(weight));
    product(a, b).cmp(&product(b, a))
}
