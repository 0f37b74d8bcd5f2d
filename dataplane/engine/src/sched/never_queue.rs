//! Never queue: an idle server if there is one, else the smallest (active + 1) / weight; the first of
//! equals.

use super::least::walk;
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct NeverQueue;

impl Schedule for NeverQueue {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let mut least = (1_u64, 0_u32, None);
        walk(pool, arrival.who, cursor, |at, slot| {
            let (active, weight) = (load.counts(slot).active, load.weight(slot));
            let cost = if active == 0 { 0 } else { active + 1 };
            let less =
                u128::from(cost) * u128::from(least.1) < u128::from(least.0) * u128::from(weight);
            least = if less { (cost, weight, Some(at)) } else { least };
        });
        least.2
    }
}
