//! Servers that stand in for a service's own.
//!
//! A pool beside the pool, with a scheduler of its own, so that the picks among a service's servers
//! are the same with backups as without. It is asked when the service's scheduler has nobody; when
//! that is, the control thread says by weights: those of backups are 0 while they are not needed,
//! and those of the others are 0 while backups stand in for them.

use std::sync::Arc;

use crate::flow::{Family, FlowKey};
use crate::live::LoadView;
use crate::pool::Pool;
use crate::sched::maglev::Maglev;
use crate::sched::{Arrival, Cursor, Scheduler};

/// The backups of one service.
#[derive(Debug)]
pub struct Backup {
    /// Who may be picked.
    pub pool: Pool,
    /// How: the service's own way.
    pub scheduler: Scheduler,
    /// For flows that get no entry.
    pub fallback: Arc<Maglev>,
}

impl Backup {
    /// The slot that the scheduler picks.
    pub fn pick(
        &self,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<u32> {
        let at = self.scheduler.pick(&self.pool, arrival, cursor, load)?;
        Some(self.pool.servers[at].slot)
    }

    /// Tells the scheduler that an lcore's counts of the server at a place have changed, if that is
    /// a backup: they have the places behind the `servers`.
    #[inline(never)]
    #[allow(clippy::cast_possible_truncation, reason = "positions are below 2^32")]
    pub fn changed(&self, lcore: u16, place: u32, servers: usize) {
        self.scheduler.changed(lcore, place.wrapping_sub(servers as u32));
    }

    /// The slot that the consistent hash names.
    #[must_use]
    pub fn pick_stateless(&self, key: &FlowKey, family: Family, load: LoadView<'_>) -> Option<u32> {
        let at = self.fallback.pick_stateless(&self.pool, key, family, load)?;
        Some(self.pool.servers[at].slot)
    }
}
