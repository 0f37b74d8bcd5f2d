//! A walk through the connection table, a slice per turn, for what an operator changes of old
//! connections: shorter idle times, and servers that give connections up.
//!
//! Packets go first: beside them a turn is for one bucket, so that a million connections take about
//! a second.

use arrayvec::ArrayVec;

use crate::conn::tcp_state::ConnState;
use crate::lcore::{Lcore, visit};
use crate::mailbox::Thin;
use crate::queue::TxQueue;
use crate::snapshot::Snapshot;
use crate::ticks::Ticks;

/// Buckets of a turn without packets, and of one with.
const SLICE: (u32, u32) = (32, 1);
/// Servers that are thinned at a time.
const THINNED: usize = 16;

/// What the walk is for, and how far it came.
#[derive(Default)]
pub(crate) struct Sweep {
    bucket: u32,
    /// Buckets until every connection is armed by the present idle times.
    rearm_left: u32,
    /// Buckets until every connection was seen for `thin`.
    thin_left: u32,
    thin: ArrayVec<Thin, THINNED>,
}

impl Sweep {
    /// Every connection is to be armed again: idle times became shorter.
    pub(crate) const fn rearm(&mut self, buckets: u32) {
        self.rearm_left = buckets;
    }

    /// So many connections of a server are to end. An order that finds no place comes back.
    #[cold]
    pub(crate) fn thin(&mut self, order: Thin, buckets: u32) -> Option<Thin> {
        self.thin.retain(|t| t.count > 0);
        match self.thin.iter_mut().find(|t| t.place() == order.place()) {
            Some(known) => known.count = known.count.saturating_add(order.count),
            None => {
                if let Err(full) = self.thin.try_push(order) {
                    return Some(full.element());
                }
            }
        }
        self.thin_left = buckets;
        None
    }

    /// Whether there is nothing to do.
    #[inline(always)]
    pub(crate) const fn is_done(&self) -> bool {
        self.rearm_left | self.thin_left == 0
    }

    /// One turn's slice.
    #[cold]
    pub(crate) fn turn<T: TxQueue>(
        &mut self,
        lcore: &mut Lcore<T>,
        snap: &Snapshot,
        busy: bool,
        now: Ticks,
    ) {
        let slice = if busy { SLICE.1 } else { SLICE.0 }.min(self.rearm_left.max(self.thin_left));
        for _ in 0..slice {
            self.one(lcore, snap, now);
            self.bucket = (self.bucket + 1) % lcore.table.n_buckets();
            self.rearm_left = self.rearm_left.saturating_sub(1);
            self.thin_left = self.thin_left.saturating_sub(1);
        }
        if self.thin_left == 0 {
            self.thin.clear();
        }
    }

    fn one<T: TxQueue>(&mut self, lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) {
        for id in lcore.table.ids(self.bucket) {
            if self.rearm_left > 0 {
                let visit = visit(lcore.table.get(id), snap, &lcore.templates, now);
                lcore.table.rearm(id, visit);
            }
            let conn = lcore.table.get(id);
            let place = (conn.server, conn.generation);
            let found = self.thin.iter_mut().find(|t| t.count > 0 && t.place() == place);
            if conn.state() == ConnState::Established
                && let Some(thin) = found
            {
                thin.count -= 1;
                lcore.board.stats.given_up.add(1);
                lcore.move_state(snap, id, ConnState::Reset, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_finds_no_place_comes_back() {
        let mut sweep = Sweep::default();
        let order = |server| Thin { server, generation: 0, count: 5 };
        for server in 0..16 {
            assert_eq!(sweep.thin(order(server), 8), None);
        }
        assert_eq!(sweep.thin(order(16), 8), Some(order(16)));
        assert_eq!(sweep.thin(order(3), 8), None, "one more for a server that has a place");
        assert_eq!(sweep.thin[3].count, 10);
        sweep.thin[7].count = 0;
        assert_eq!(sweep.thin(order(16), 8), None, "a place that is done with is free");
    }
}
