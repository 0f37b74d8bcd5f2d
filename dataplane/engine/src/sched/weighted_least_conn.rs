//! Weighted least connections: the smallest (256 × active + inactive) / weight, the first of equals.

use super::least::walk;
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct WeightedLeastConn;

impl Schedule for WeightedLeastConn {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    /// Quotients are compared by cross-multiplication: no division, exact for all weights and
    /// counts. The start value is 1 / 0, greater than all; a server of weight 0 is never less.
    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let mut least = (1, 0, None);
        walk(pool, arrival.who, cursor, |at, slot| {
            let (cost, weight) = (load.overhead(slot), load.weight(slot));
            let less = product(cost, least.1) < product(least.0, weight);
            least = if less { (cost, weight, Some(at)) } else { least };
        });
        least.2
    }
}

/// 41 bits of cost by 31 bits of weight do not fit in 64; one widening multiplication does it.
#[inline(always)]
fn product(cost: u64, weight: u32) -> u128 {
    u128::from(cost) * u128::from(weight)
}
