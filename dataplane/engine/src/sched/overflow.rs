//! Weighted overflow: the eligible server of the highest weight until it has more active connections
//! than its weight, then the next. When all overflow, a client is refused, as LVS does.
//!
//! A server so takes weight + 1 connections. On all lcores the same server is filled: nothing is
//! rotated here, and what other lcores picked within the last millisecond may come on top.

use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Overflow;

impl Schedule for Overflow {
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
            if weight > highest.0 && load.counts(server.slot).active <= u64::from(weight) {
                highest = (weight, Some(at));
            }
        }
        highest.1
    }
}
