//! One lcore's endless turn: mail, receive, take over, retry, send, expire, answer, count.
//!
//! A turn never waits and its work is bounded by counts: a burst per port and per peer, a budget of
//! timers, a slice of a query. Time comes in as an argument, once per turn.

use std::sync::Arc;

use crate::burst::Burst;
use crate::conn::table::ConnTable;
use crate::frame::{BURST, Frame, FramePool};
use crate::lcore::{Lcore, LcoreParts};
use crate::limit::Limit;
use crate::listing::{Listing, Sight};
use crate::mailbox::{ArpOrder, Event, Held, LcoreEnd, Order};
use crate::neigh::PortId;
use crate::owner::Handed;
use crate::parking::Leaving;
use crate::pipeline;
use crate::queue::{RxQueue, TxQueue};
use crate::reply;
use crate::ring::Consumer;
use crate::snapshot::Snapshot;
use crate::stats::{LcoreBoard, LcoreStats};
use crate::sweep::Sweep;
use crate::ticks::Ticks;
use crate::verdict::DropReason;

/// Orders taken per turn.
const ORDERS_PER_TURN: usize = 16;
/// Timers visited per turn: twice what one burst can create, so expiry keeps up with any flood.
const TIMERS_PER_TURN: usize = 64;

/// One lcore at work. Generic over its queues, so that nothing in it can only run on a device.
pub struct Worker<R: RxQueue, T: TxQueue<F = R::F>, P: FramePool<F = R::F>> {
    /// By port.
    inlets: Vec<R>,
    pool: P,
    lcore: Lcore<T>,
    orders: Consumer<Order>,
    held: Held,
    query: Option<Listing>,
    sweep: Sweep,
    burst: Burst<R::F>,
}

impl<R: RxQueue, T: TxQueue<F = R::F>, P: FramePool<F = R::F>> Worker<R, T, P> {
    /// A worker that has not turned yet. `inlets` and the parts' outlets are in order of ports.
    #[must_use]
    pub fn new(
        parts: LcoreParts<T>,
        inlets: Vec<R>,
        pool: P,
        mail: LcoreEnd,
        snapshot: Arc<Snapshot>,
    ) -> Self {
        parts.board.stats.snapshot.set(snapshot.version);
        let mut lcore = Lcore::new(parts, mail.events);
        lcore.limits.entries = Limit::per_sec(snapshot.flood_guard.into());
        Self {
            inlets,
            pool,
            lcore,
            sweep: Sweep::default(),
            orders: mail.orders,
            held: Held::new(snapshot),
            query: None,
            burst: Burst::default(),
        }
    }

    /// What this lcore publishes.
    #[must_use]
    pub fn board(&self) -> &LcoreBoard {
        &self.lcore.board
    }

    /// What this lcore tracks.
    #[must_use]
    pub const fn table(&self) -> &ConnTable {
        &self.lcore.table
    }

    /// How many frames other lcores have handed over that were not taken over yet.
    #[must_use]
    pub fn inbound(&self) -> usize {
        self.lcore.peers.waiting()
    }

    /// One turn. Returns whether there was work.
    pub fn turn(&mut self, now: Ticks) -> bool {
        let mail = self.read_mail(now);
        let received = self.receive(now);
        let taken = self.take_over(now);
        let retried = self.retry_parked(now);
        let sent = self.send();
        let snap = &self.held.snapshot;
        let visited = self.lcore.expire(snap, now, TIMERS_PER_TURN);
        let swept = !self.sweep.is_done();
        if swept {
            self.sweep.turn(&mut self.lcore, snap, received || taken, now);
        }
        let listed = self.list(now);
        let busy = mail || received || taken || retried || sent || visited > 0 || listed || swept;
        self.count(busy);
        busy
    }

    /// Whether nothing waits here: no frame for a device, none for a neighbour.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.lcore.parking.is_empty() && self.lcore.outlets.iter().all(|o| o.queued() == 0)
    }

    fn read_mail(&mut self, now: Ticks) -> bool {
        let mut read = 0;
        while self.held.send_home(&mut self.lcore.events) && read < ORDERS_PER_TURN {
            let Ok(order) = self.orders.pop() else { break };
            read += 1;
            match order {
                Order::Snapshot(new) => self.adopt(new),
                Order::Arp(order) => self.originate(order),
                Order::Thin(thin) => {
                    if let Some(back) = self.sweep.thin(thin, self.lcore.table.n_buckets()) {
                        self.lcore.tell(Event::Declined(back), now);
                    }
                }
                Order::Query(query) => {
                    let packets = packets(&self.lcore.board.stats);
                    self.query = Some(Listing::new(query, now, packets));
                }
            }
        }
        read > 0
    }

    fn adopt(&mut self, new: Arc<Snapshot>) {
        if new.shortens(&self.held.snapshot) {
            self.sweep.rearm(self.lcore.table.n_buckets());
        }
        if new.flood_guard != self.held.snapshot.flood_guard {
            self.lcore.limits.entries = Limit::per_sec(new.flood_guard.into());
        }
        self.lcore.adopt_limits(&self.held.snapshot, &new);
        self.lcore.board.stats.snapshot.set(new.version);
        self.held.adopt(new, &mut self.lcore.events);
    }

    fn originate(&mut self, order: ArpOrder) {
        let port = usize::from(order.port);
        let (Some(facts), Some(outlet)) =
            (self.held.snapshot.ports.get(port), self.lcore.outlets.get_mut(port))
        else {
            return;
        };
        let frame = self.pool.alloc(reply::arp::FRAME_LEN);
        if let Some(mut frame) = frame
            && reply::arp::write(&mut frame, &order, facts.mac).is_ok()
        {
            outlet.push(frame);
            self.lcore.board.stats.originated.add(1);
        }
    }

    fn receive(&mut self, now: Ticks) -> bool {
        let mut any = false;
        for port in 0..self.inlets.len() {
            self.inlets[port].rx_burst(&mut self.burst.frames);
            let stats = &self.lcore.board.stats;
            let unusable = self.inlets[port].take_unusable();
            if unusable > 0 {
                stats.received.add(unusable);
                stats.drops[DropReason::Unusable as usize].add(unusable);
            }
            if self.burst.is_empty() {
                continue;
            }
            any = true;
            stats.received.add(self.burst.len() as u64);
            let bytes: usize = self.burst.frames.iter().map(|f| f.bytes().len()).sum();
            stats.received_bytes.add(bytes as u64);
            #[allow(clippy::cast_possible_truncation, reason = "ports are numbered by u8")]
            self.burst.arrived(port as PortId);
            self.run(now);
        }
        any
    }

    fn take_over(&mut self, now: Ticks) -> bool {
        let mut any = false;
        for peer in 0..self.lcore.peers.inbound() {
            while !self.burst.is_full() {
                let Some(Handed { frame, port }) = self.lcore.peers.take_over(peer) else { break };
                self.burst.push(frame, port);
            }
            if !self.burst.is_empty() {
                any = true;
                self.lcore.board.stats.taken_over.add(self.burst.len() as u64);
                self.run(now);
            }
        }
        any
    }

    /// Packets whose next hop is known by now go through the pipeline again.
    fn retry_parked(&mut self, now: Ticks) -> bool {
        let mut any = false;
        let mut hops = self.lcore.parking.hops();
        for _ in 0..BURST {
            if hops == 0 {
                break;
            }
            let Lcore { parking, hops: known, .. } = &mut self.lcore;
            let Some(leaving) = parking.leave(known, now) else {
                hops -= 1;
                continue;
            };
            hops = hops.min(parking.hops());
            any = true;
            self.lcore.board.stats.unparked.add(1);
            match leaving {
                Leaving::Ready(frame, port) => self.burst.push(frame, port),
                Leaving::GivenUp(frame) => {
                    drop(frame);
                    self.lcore.board.stats.drops[DropReason::NoNeighbour as usize].add(1);
                }
            }
        }
        if !self.burst.is_empty() {
            self.lcore.replaying = true;
            self.run(now);
            self.lcore.replaying = false;
        }
        any
    }

    fn run(&mut self, now: Ticks) {
        pipeline::run(&mut self.burst, &mut self.lcore, &self.held.snapshot, now);
    }

    fn send(&mut self) -> bool {
        let (mut sent, mut full, mut queued) = (0, 0, 0);
        for outlet in &mut self.lcore.outlets {
            outlet.turn();
            let (s, f) = outlet.take_counts();
            sent += s;
            full += f;
            queued += outlet.queued();
        }
        let stats = &self.lcore.board.stats;
        stats.queued.set(queued as u64);
        if sent + full > 0 {
            stats.sent.add(sent);
            stats.tx_full.add(full);
        }
        sent > 0
    }

    /// One slice of the running query. Returns whether it came further.
    fn list(&mut self, now: Ticks) -> bool {
        let Some(listing) = &mut self.query else { return false };
        let Lcore { table, board, events, .. } = &mut self.lcore;
        let packets = packets(&board.stats);
        let sight = Sight { table, snap: &self.held.snapshot, now, packets };
        let before = listing.bucket();
        let answered = listing.turn(&sight, events);
        let further = answered || listing.bucket() != before;
        if answered {
            self.query = None;
        }
        further
    }

    fn count(&mut self, busy: bool) {
        let stats = &self.lcore.board.stats;
        stats.turns.add(1);
        stats.busy_turns.add(u64::from(busy));
        let entries = u64::from(self.lcore.table.len());
        stats.entries.set(entries);
        if entries > stats.entries_peak.get() {
            stats.entries_peak.set(entries);
        }
        stats.waiting.set(self.lcore.parking.len() as u64);
        #[cfg(debug_assertions)]
        crate::stats::assert_laws(&stats.read());
    }
}

/// Packets that came in.
fn packets(stats: &LcoreStats) -> u64 {
    stats.received.get().wrapping_add(stats.taken_over.get())
}
