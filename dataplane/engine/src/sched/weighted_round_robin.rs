//! Being built.
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::service::Pool;

/// Being built.
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin;

impl Schedule for WeightedRoundRobin {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }
    fn pick(
        &self,
        pool: &Pool,
        _: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        pool.servers.iter().position(|s| load.weight(s.slot) > 0)
    }
}
