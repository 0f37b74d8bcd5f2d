//! Locality-based least connections: a destination stays with its server, the one that weighted
//! least connections gave it first, until that is not eligible or overloaded while another idles.
//! For caches. Each lcore has its own memory of destinations.

use std::sync::Arc;

use super::destinations::{Destinations, is_overloaded};
use super::positions::Positions;
use super::{Arrival, Cursor, SchedFlags, Schedule, WeightedLeast};
use crate::live::LoadView;
use crate::pool::Pool;

/// What the lcores remember, and whom they ask for a server that is new to a destination.
#[derive(Debug)]
pub struct Locality {
    least: WeightedLeast,
    positions: Positions,
    lcores: Arc<[Destinations<1>]>,
}

impl Schedule for Locality {
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
        let own = destination.slots().next().filter(|slot| load.weight(*slot) > 0);
        if let Some(slot) = own
            && let Some(at) = self.positions.of(slot)
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
