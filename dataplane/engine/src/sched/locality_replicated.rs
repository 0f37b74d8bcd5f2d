//! Locality-based least connections with replication: a destination has a set of servers and goes to
//! the least loaded of them. When that is overloaded while another server idles, the set grows by the
//! least loaded of all; a set that has not changed for a day loses its most loaded server.

use super::destinations::{Memory, is_overloaded};
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pace::Offer;
use crate::pool::Pool;

/// The most servers of a destination; LVS knows no limit.
const SET: usize = 24;

/// A destination has a set of servers.
#[derive(Debug)]
pub struct LocalityReplicated(Memory<SET>);

impl Schedule for LocalityReplicated {
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        Self(Memory::new(pool, flags))
    }

    fn rebuild(&self, pool: &Pool, flags: SchedFlags) -> Self {
        Self(self.0.rebuilt(pool, flags))
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let destination = self.0.destination(arrival);
        let eligible = || self.0.eligible(destination, load);
        let least = eligible().min_by(|a, b| load.compare(a.0, b.0));
        if destination.may_shrink(arrival.now)
            // The first of equals, where `max_by` gives the last.
            && let Some((most, _)) =
                eligible().reduce(|a, b| if load.compare(a.0, b.0).is_lt() { b } else { a })
        {
            destination.remove(most, arrival.now);
        }
        if let Some((slot, at)) = least
            && !is_overloaded(pool, slot, load)
        {
            return Some(at);
        }
        self.0.extend(destination, pool, arrival, cursor, load)
    }

    fn offer(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
        offer: Offer,
    ) -> bool {
        let destination = self.0.destination(arrival);
        let least = self.0.eligible(destination, load).min_by(|a, b| load.compare(a.0, b.0));
        least.is_none_or(|(slot, _)| is_overloaded(pool, slot, load))
            && self.0.offer(destination, pool, arrival, cursor, load, offer)
    }

    #[inline]
    fn changed(&self, lcore: u16, at: u32) {
        self.0.changed(lcore, at);
    }
}
