//! Backups of a world's services. When they stand in is the test's decision, as it is the control
//! thread's: by [`World::set_eligible`].

use std::sync::Arc;

use super::{KnownService, World};
use crate::addr::Addr;
use crate::backup::Backup;
use crate::forward::ForwarderKind;
use crate::sched::maglev::Maglev;
use crate::sched::{SchedFlags, Scheduler};
use crate::service::Service;

impl World {
    /// Adds a backup, eligible at once; its slot.
    pub fn add_backup(
        &mut self,
        service: u16,
        at: (Addr, u16),
        weight: u32,
        forwarder: ForwarderKind,
    ) -> u32 {
        let member = self.member(service, at, weight, forwarder);
        self.services[usize::from(service)].backups.add(member);
        member.slot
    }
}

impl KnownService {
    /// The backups as lcores see them.
    pub(super) fn compile_backups(
        &self,
        flags: SchedFlags,
        last: Option<&Service>,
    ) -> Option<Box<Backup>> {
        let pool = &self.backups;
        if pool.servers.is_empty() {
            return None;
        }
        let scheduler = match last.and_then(|service| service.backup.as_ref()) {
            Some(last) => last.scheduler.rebuild(self.kind, pool, flags),
            None => Scheduler::build(self.kind, pool, flags),
        };
        let fallback = Arc::new(Maglev::fallback(pool, flags.mh_key));
        Some(Box::new(Backup { pool: pool.clone(), scheduler, fallback }))
    }
}
