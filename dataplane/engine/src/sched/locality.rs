//! Locality-based least connections: a destination stays with its server, the one that weighted
//! least connections gave it first, until that is not eligible or overloaded while another idles.
//! For caches. Each lcore has its own memory of destinations.

use super::destinations::{Memory, is_overloaded};
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pace::Offer;
use crate::pool::Pool;

/// A destination has one server.
#[derive(Debug)]
pub struct Locality(Memory<1>);

impl Schedule for Locality {
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
        if let Some((slot, at)) = self.0.eligible(destination, load).next()
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
        let server = self.0.eligible(destination, load).next();
        server.is_none_or(|(slot, _)| is_overloaded(pool, slot, load))
            && self.0.offer(destination, pool, arrival, cursor, load, offer)
    }

    #[inline]
    fn changed(&self, lcore: u16, at: u32) {
        self.0.changed(lcore, at);
    }
}
