//! One lcore's endless turn: mail, receive, take over, retry, send, expire, answer, count.
//!
//! A turn never waits and its work is bounded by counts: a burst per port and per peer, a budget of
//! timers, a slice of a query. Time comes in as an argument, once per turn.

use std::sync::Arc;

use crate::burst::Burst;
use crate::conn::table::ConnTable;
use crate::frame::{BURST, Frame, FramePool};
use crate::lcore::{EVENT_RESERVE, Lcore, LcoreParts, due};
use crate::mailbox::{ArpOrder, ConnRow, Event, Held, LcoreEnd, Order, Query};
use crate::neigh::PortId;
use crate::owner::Handed;
use crate::parking::Leaving;
use crate::pipeline;
use crate::queue::{RxQueue, TxQueue};
use crate::reply;
use crate::ring::Consumer;
use crate::snapshot::Snapshot;
use crate::stats::LcoreBoard;
use crate::ticks::Ticks;
use crate::verdict::DropReason;

/// Orders taken per turn.
const ORDERS_PER_TURN: usize = 16;
/// Timers visited per turn: twice what one burst can create, so expiry keeps up with any flood.
const TIMERS_PER_TURN: usize = 64;
/// Buckets listed per turn.
const BUCKETS_PER_TURN: u32 = 64;
/// Rows that one bucket can have.
const ROWS_PER_BUCKET: usize = 8;

/// One lcore at work. Generic over its queues, so that nothing in it can only run on a device.
pub struct Worker<R: RxQueue, T: TxQueue<F = R::F>, P: FramePool<F = R::F>> {
    /// By port.
    inlets: Vec<R>,
    pool: P,
    lcore: Lcore<T>,
    orders: Consumer<Order>,
    held: Held,
    query: Option<Listing>,
    burst: Burst<R::F>,
}

struct Listing {
    query: Query,
    bucket: u32,
    rows: u32,
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
        Self {
            inlets,
            pool,
            lcore: Lcore::new(parts, mail.events),
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
        let mail = self.read_mail();
        let received = self.receive(now);
        let taken = self.take_over(now);
        let retried = self.retry_parked(now);
        let sent = self.send();
        let snap = &self.held.snapshot;
        let visited = self.lcore.expire(snap, now, TIMERS_PER_TURN);
        let listed = self.list(now);
        let busy = mail || received || taken || retried || sent || visited > 0 || listed;
        self.count(busy);
        busy
    }

    /// Whether nothing waits here: no frame for a device, none for a neighbour.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.lcore.parking.is_empty() && self.lcore.outlets.iter().all(|o| o.queued() == 0)
    }

    fn read_mail(&mut self) -> bool {
        let mut read = 0;
        while self.held.send_home(&mut self.lcore.events) && read < ORDERS_PER_TURN {
            let Ok(order) = self.orders.pop() else { break };
            read += 1;
            match order {
                Order::Snapshot(new) => self.adopt(new),
                Order::Arp(order) => self.originate(order),
                Order::Query(query) => {
                    self.query = Some(Listing { query, bucket: query.bucket, rows: 0 });
                }
            }
        }
        read > 0
    }

    fn adopt(&mut self, new: Arc<Snapshot>) {
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

    /// One slice of the running query.
    fn list(&mut self, now: Ticks) -> bool {
        let Some(listing) = &mut self.query else { return false };
        let mut next = Some(listing.bucket);
        for _ in 0..BUCKETS_PER_TURN {
            if self.lcore.events.slots() < EVENT_RESERVE + ROWS_PER_BUCKET {
                return false;
            }
            let Some(conns) = self.lcore.table.bucket(listing.bucket) else {
                next = None;
                break;
            };
            for conn in conns {
                let Some(row) = row(&listing.query, conn, &self.held.snapshot, now) else {
                    continue;
                };
                listing.rows += 1;
                let pushed = self.lcore.events.push(Event::Conn(row));
                debug_assert!(pushed.is_ok(), "room was asked for");
            }
            listing.bucket += 1;
            next = Some(listing.bucket);
            if listing.rows >= listing.query.limit {
                break;
            }
        }
        if next.is_none() || listing.rows >= listing.query.limit {
            let done = Event::QueryDone { id: listing.query.id, next };
            if self.lcore.events.push(done).is_ok() {
                self.query = None;
            }
        }
        true
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

/// A connection as the query wants it, or `None`.
fn row(
    query: &Query,
    conn: &crate::conn::entry::Conn,
    snap: &Snapshot,
    now: Ticks,
) -> Option<ConnRow> {
    let family = conn.family();
    let client = conn.key.src(family);
    let wanted = query.service.is_none_or(|s| s == conn.service)
        && query.server.is_none_or(|s| s == conn.server)
        && query.client.is_none_or(|c| c == client)
        && snap.server(conn.server, conn.generation).is_some();
    let (client_port, vip_port) = conn.key.ports(family);
    let left = due(conn, snap, now).since(now).0.div_ceil(1000);
    wanted.then(|| ConnRow {
        id: query.id,
        client: (client, client_port),
        vip: (conn.key.dst(family), vip_port),
        proto: conn.key.proto(family),
        state: conn.state(),
        server: conn.server,
        generation: conn.generation,
        expires_secs: u32::try_from(left).unwrap_or(u32::MAX),
    })
}
