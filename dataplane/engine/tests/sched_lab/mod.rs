//! One service with real pools, boards and views, driven as ipvsadm drives LVS.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod history;

use std::net::SocketAddr;

use engine::addr::{Addr, L4Proto};
use engine::flow::FlowKey;
use engine::live::{LiveView, LoadView};
use engine::pool::{Pool, PoolServer};
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::stats::LcoreBoard;
use engine::thresholds::Thresholds;
use engine::ticks::Ticks;

pub(crate) const SLOTS: usize = 64;

/// A real server by its socket address; its index is its slot. LVS keeps the counts of a server
/// that leaves and comes back, and so do slots.
#[derive(Clone, Copy)]
struct Known {
    at: SocketAddr,
    present: bool,
    weight: u32,
    /// As given, and what the lab made of it.
    threshold: u32,
    thresholds: Thresholds,
    down: bool,
    conns: u32,
}

pub(crate) struct Lab {
    kind: SchedulerKind,
    flags: SchedFlags,
    pub(crate) pool: Pool,
    scheduler: Scheduler,
    cursor: Cursor,
    live: LiveView,
    board: LcoreBoard,
    known: Vec<Known>,
    seq: u64,
    pub(crate) now: Ticks,
    held: Vec<Option<u32>>,
}

impl Lab {
    pub(crate) fn new(kind: SchedulerKind, flags: &str) -> Self {
        let flags = parse(flags);
        let pool = Pool::default();
        Self {
            kind,
            flags,
            scheduler: Scheduler::build(kind, &pool, flags),
            pool,
            cursor: Cursor::default(),
            live: LiveView::new(SLOTS),
            board: LcoreBoard::new(SLOTS, 1),
            known: Vec::new(),
            seq: 0,
            now: Ticks(0),
            held: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, at: SocketAddr, weight: u32, threshold: u32) {
        let slot = self.slot(at).unwrap_or_else(|| {
            let new = Known {
                at,
                present: false,
                weight,
                threshold: 0,
                thresholds: Thresholds::default(),
                down: false,
                conns: 0,
            };
            self.known.push(new);
            self.known.len() - 1
        });
        self.seq += 1;
        let addr = Addr::from(at.ip());
        let slot32 = u32::try_from(slot).unwrap();
        self.pool.add(PoolServer::new(slot32, self.seq, weight, addr, at.port()));
        self.settle(slot, weight, threshold, true);
    }

    pub(crate) fn edit(&mut self, at: SocketAddr, weight: u32, threshold: u32) {
        let slot = self.slot(at).expect("known");
        assert!(self.pool.set_weight(u32::try_from(slot).unwrap(), weight));
        self.settle(slot, weight, threshold, true);
    }

    pub(crate) fn delete(&mut self, at: SocketAddr) {
        let slot = self.slot(at).expect("known");
        assert!(self.pool.remove(u32::try_from(slot).unwrap()));
        let Known { weight, threshold, .. } = self.known[slot];
        self.settle(slot, weight, threshold, false);
    }

    /// A server stays configured but must not be picked, or may be picked again.
    pub(crate) fn set_down(&mut self, at: SocketAddr, down: bool) {
        let slot = self.slot(at).expect("known");
        self.known[slot].down = down;
        self.show(slot);
    }

    /// The service gets another scheduler.
    pub(crate) fn reschedule(&mut self, kind: SchedulerKind, flags: &str) {
        // LVS takes new flags at once, but starts over for another scheduler only.
        if kind != self.kind {
            self.pool.start_over();
        }
        (self.kind, self.flags) = (kind, parse(flags));
        self.scheduler = self.scheduler.rebuild(kind, &self.pool, self.flags);
    }

    pub(crate) fn open(&mut self, client: SocketAddr) -> Option<SocketAddr> {
        let vip = if client.is_ipv4() { Addr::v4([192, 168, 1, 100]) } else { Addr([9; 16]) };
        self.open_to(client, vip)
    }

    /// A connection to one of many destinations.
    pub(crate) fn open_to(&mut self, client: SocketAddr, vip: Addr) -> Option<SocketAddr> {
        let (key, family) = FlowKey::new(client.ip().into(), client.port(), vip, 80, L4Proto::Tcp);
        let arrival = Arrival { key: &key, family, who: Who::ALONE, now: self.now };
        let load = LoadView::new(&self.live, &self.board);
        let pick = self.scheduler.pick(&self.pool, arrival, &mut self.cursor, load);
        let slot = pick.map(|at| self.pool.servers[at].slot);
        self.held.push(slot);
        let slot = slot?;
        self.count(slot, 1, 0);
        let known = &mut self.known[slot as usize];
        known.conns += 1;
        if known.thresholds.any() {
            let entered = self.live.occupancies().enter(slot, 0, known.thresholds, false);
            assert!(entered, "a pick without a place");
        }
        Some(known.at)
    }

    /// The connection closes and counts as inactive from then on.
    pub(crate) fn close(&mut self, connection: usize) {
        if let Some(slot) = self.held[connection].take() {
            self.count(slot, -1, 1);
        }
    }

    fn count(&self, slot: u32, active: i32, inactive: i32) {
        self.board.change(slot, 0, 0, active, inactive);
        let place = self.pool.servers.iter().position(|s| s.slot == slot);
        let place = place.map_or(u32::MAX, |at| u32::try_from(at).unwrap());
        self.scheduler.changed(0, place);
    }

    fn slot(&self, at: SocketAddr) -> Option<usize> {
        self.known.iter().position(|k| k.at == at)
    }

    fn settle(&mut self, slot: usize, weight: u32, threshold: u32, present: bool) {
        let known = &mut self.known[slot];
        let (all, slot32) = (self.live.occupancies(), u32::try_from(slot).unwrap());
        // LVS forgets an overload when the threshold is raised, and finds the connections that are
        // there already too many only when one more comes. Sluice is exact, so to agree with LVS on
        // who is picked the lab gives it that place.
        let full = known.thresholds.any() && all.read(slot32).full;
        let stays = full && threshold <= known.threshold;
        let upper = if stays { threshold } else { threshold.max(known.conns + 1) };
        let from = Thresholds { upper: known.threshold, lower: 0 };
        let to = Thresholds { upper: if threshold > 0 { upper } else { 0 }, lower: 0 };
        known.threshold = threshold;
        match (from.any(), to.any()) {
            (true, true) => all.adjust(slot32, 0, from, to),
            (true, false) => all.part(slot32, 0, from, known.conns),
            (false, true) => all.join(slot32, 0, to, known.conns),
            (false, false) => {}
        }
        (known.weight, known.thresholds, known.present) = (weight, to, present);
        self.show(slot);
        self.scheduler = self.scheduler.rebuild(self.kind, &self.pool, self.flags);
    }

    fn show(&self, slot: usize) {
        let known = &self.known[slot];
        let weight = if known.present && !known.down { known.weight } else { 0 };
        let further = if known.thresholds.any() { LiveView::LOOK_FURTHER } else { 0 };
        self.live.set_weight(u32::try_from(slot).unwrap(), weight | further, 0);
    }
}

pub(crate) fn parse(flags: &str) -> SchedFlags {
    SchedFlags {
        sh_port: flags.contains("sh-port"),
        sh_fallback: flags.contains("sh-fallback"),
        mh_port: flags.contains("mh-port"),
        mh_fallback: flags.contains("mh-fallback"),
        ..SchedFlags::default()
    }
}
