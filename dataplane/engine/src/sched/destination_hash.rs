//! Destination hashing: a virtual address has its server, by 256 buckets dealt out in turn.
//!
//! Weights do not count, but a destination whose server has weight 0 is refused, as LVS does.

use super::buckets::{bucket, fold};
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct DestinationHash;

impl Schedule for DestinationHash {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let bucket = bucket(fold(arrival.key.dst(arrival.family)));
        let at = bucket.checked_rem(pool.servers.len())?;
        load.is_eligible(pool.servers[at].slot).then_some(at)
    }
}
