//! Least connections: the smallest 256 × active + inactive, the first of equals.

use super::least::walk;
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct LeastConn;

impl Schedule for LeastConn {
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
        let mut least = (u64::MAX, None);
        walk(pool, arrival.who, cursor, |at, slot| {
            let cost = if load.weight(slot) > 0 { load.overhead(slot) } else { u64::MAX };
            least = if cost < least.0 { (cost, Some(at)) } else { least };
        });
        least.1
    }
}
