//! Weighted failover: everything goes to the eligible server of the highest weight, the first of
//! equals. On all lcores the same one: nothing is rotated here.

use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Failover;

impl Schedule for Failover {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        _: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let mut highest = (0, None);
        for (at, server) in pool.servers.iter().enumerate() {
            let weight = load.weight(server.slot);
            highest = if weight > highest.0 { (weight, Some(at)) } else { highest };
        }
        highest.1
    }
}
