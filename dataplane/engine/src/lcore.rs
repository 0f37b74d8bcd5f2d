//! All that belongs to one lcore: its tables, its ways out, its limits. No other thread touches it.

use std::sync::Arc;

use crate::burst::Lane;
use crate::conn::entry::Conn;
use crate::conn::table::{ConnId, ConnTable, Fate};
use crate::conn::tcp_state::ConnState;
use crate::flow::FlowHasher;
use crate::limit::Limits;
use crate::live::LiveView;
use crate::mailbox::Event;
use crate::neigh::HopTable;
use crate::out::Outlet;
use crate::owner::Peers;
use crate::parking::Parking;
use crate::queue::TxQueue;
use crate::ring::Producer;
use crate::sched::{Cursor, Who};
use crate::server::{Orphans, ServerLine};
use crate::snapshot::Snapshot;
use crate::stats::LcoreBoard;
use crate::templates::{Place, Templates};
use crate::thresholds::Thresholds;
use crate::ticks::{TickSpan, Ticks};

/// Events that only retired snapshots and ends of queries may use: everything else leaves them free.
pub const EVENT_RESERVE: usize = 64;

/// What is made before the lcore starts, and handed to it whole.
pub struct LcoreParts<T: TxQueue> {
    /// Which lcore of how many.
    pub who: Who,
    /// The hash of flows: the same on all lcores.
    pub hasher: FlowHasher,
    /// Its connections.
    pub table: ConnTable,
    /// What it publishes.
    pub board: Arc<LcoreBoard>,
    /// What the control thread tells of the others.
    pub live: Arc<LiveView>,
    /// Next hops.
    pub hops: Arc<HopTable>,
    /// The servers of persistent services' clients: the same on all lcores.
    pub templates: Arc<Templates>,
    /// Its rings to the other lcores.
    pub peers: Peers<T::F>,
    /// By port: its way out.
    pub outlets: Vec<Outlet<T>>,
}

/// One lcore's own state.
pub struct Lcore<T: TxQueue> {
    pub(crate) who: Who,
    pub(crate) hasher: FlowHasher,
    pub(crate) table: ConnTable,
    pub(crate) board: Arc<LcoreBoard>,
    pub(crate) live: Arc<LiveView>,
    pub(crate) hops: Arc<HopTable>,
    pub(crate) templates: Arc<Templates>,
    pub(crate) peers: Peers<T::F>,
    pub(crate) outlets: Vec<Outlet<T>>,
    pub(crate) parking: Parking<T::F>,
    pub(crate) limits: Limits,
    pub(crate) events: Producer<Event>,
    /// By service: the state of its scheduler; then, by service, that of its backups'.
    pub(crate) cursors: Box<[Cursor]>,
    /// The burst consists of packets that waited for a next hop, and were looked up before.
    pub(crate) replaying: bool,
    /// Positions of the present burst whose packets met a connection of a purged server.
    pub(crate) orphans: Orphaned,
    /// Packets wait for a next hop that the present burst must not overtake.
    pub(crate) has_lines: bool,
}

/// Packets of connections that have lost their server, by what is to become of them. The others are
/// as packets that never had one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Orphaned {
    pub(crate) reset: Lane,
    pub(crate) rescheduled: Lane,
}

impl<T: TxQueue> Lcore<T> {
    pub(crate) fn new(parts: LcoreParts<T>, events: Producer<Event>) -> Self {
        let services = parts.board.services.len();
        Self {
            parking: Parking::new(parts.hops.len()),
            who: parts.who,
            hasher: parts.hasher,
            table: parts.table,
            board: parts.board,
            live: parts.live,
            hops: parts.hops,
            templates: parts.templates,
            peers: parts.peers,
            outlets: parts.outlets,
            limits: Limits::default(),
            events,
            cursors: vec![Cursor::default(); 2 * services].into(),
            replaying: false,
            orphans: Orphaned::default(),
            has_lines: false,
        }
    }

    /// Tells the control thread, unless its ring is nearly full or the limit is used up.
    pub(crate) fn tell(&mut self, event: Event, now: Ticks) {
        let limit = match &event {
            Event::Arp(heard) => &mut self.limits.heard[usize::from(heard.addr.0[15])],
            _ => &mut self.limits.event,
        };
        let told = self.events.slots() > EVENT_RESERVE
            && limit.allow(now)
            && self.events.push(event).is_ok();
        if !told {
            self.board.stats.events_lost.add(1);
        }
    }

    /// Moves a connection to another state: counts, and an earlier timer where the new state's is
    /// shorter. A longer one is armed when the old one's visit comes.
    pub(crate) fn move_state(&mut self, snap: &Snapshot, id: ConnId, new: ConnState, now: Ticks) {
        let conn = self.table.get_mut(id);
        let old = conn.state();
        conn.set_state(new);
        if conn.is_half_open() {
            self.establish(snap, id);
        }
        let ((a0, i0), (a1, i1)) = (shares(old, -1), shares(new, 1));
        if (a0 + a1, i0 + i1) != (0, 0) {
            count(&self.board, snap, self.who, self.table.get(id), (a0 + a1, i0 + i1));
        }
        let timeouts = snap.timeouts_of(self.table.get(id).service);
        if new.timeout(timeouts) < old.timeout(timeouts) {
            let visit = visit(self.table.get(id), snap, &self.templates, now);
            self.table.rearm(id, visit);
        }
    }

    /// A connection to a server with thresholds leaves its first state.
    #[cold]
    fn establish(&mut self, snap: &Snapshot, id: ConnId) {
        let conn = self.table.get_mut(id);
        conn.set_half_open(false);
        let to = snap.servers[conn.server as usize].thresholds;
        if to.any() {
            self.live.occupancies().establish(conn.server, conn.generation, to);
        }
    }

    /// Counts for thresholds as `new` says, no longer as `old` does.
    pub(crate) fn adopt_limits(&self, old: &Snapshot, new: &Snapshot) {
        let gone = old.limited.iter().filter(|slot| new.limited.binary_search(slot).is_err());
        let known = new.limited.iter().chain(gone);
        for slot in known {
            let line = |snap: &Snapshot| {
                let line = snap.servers.get(*slot as usize);
                line.map_or((0, Thresholds::default()), |l| (l.generation, l.thresholds))
            };
            let ((before, from), (after, to)) = (line(old), line(new));
            let mine = |generation| {
                let counts = self.board.servers[*slot as usize].counts(generation);
                counts.active.saturating_add(counts.inactive)
            };
            let all = self.live.occupancies();
            match (from.any(), to.any()) {
                (true, true) if before == after => all.adjust(*slot, after, from, to),
                (true, false) => all.part(*slot, before, from, mine(before)),
                // What an older life counted, no one looks at again.
                _ => all.join(*slot, after, to, mine(after)),
            }
        }
    }

    /// Ends a connection that is in the wheel.
    pub(crate) fn end(&mut self, id: ConnId, snap: &Snapshot) {
        let conn = *self.table.get(id);
        let hash = self.hasher.hash(&conn.key, conn.family());
        uncount(&self.board, &self.live, snap, self.who, &conn);
        self.table.remove(id, hash);
    }

    /// Visits up to `budget` connections whose time may have come. Returns how many.
    pub(crate) fn expire(&mut self, snap: &Snapshot, now: Ticks, budget: usize) -> usize {
        let (board, live, hasher, who) = (&self.board, &self.live, &self.hasher, self.who);
        let templates = &self.templates;
        let mut ended = 0;
        let visited = self.table.expire(now, budget, |conn| {
            let due = due(conn, snap, now);
            if due > now && !forgotten(conn, snap) {
                return Fate::Until(kept(conn, snap, templates, now, due));
            }
            ended += 1;
            uncount(board, live, snap, who, conn);
            Fate::End(hasher.hash(&conn.key, conn.family()))
        });
        if visited > 0 {
            board.stats.rearmed.add((visited - ended) as u64);
        }
        visited
    }
}

/// Whether a connection was removed so that nothing needs to be known of it any more. What becomes
/// of others that have lost their server, their clients' next packets decide.
fn forgotten(conn: &Conn, snap: &Snapshot) -> bool {
    snap.server(conn.server, conn.generation).is_none()
        && snap.servers.get(conn.server as usize).is_none_or(|s| s.orphans == Orphans::Forget)
}

/// The time at which a connection ends if nothing more comes.
pub(crate) fn due(conn: &Conn, snap: &Snapshot, now: Ticks) -> Ticks {
    let idle = now.low().wrapping_sub(conn.last_seen);
    let last_seen = now.0.saturating_sub(u64::from(idle));
    Ticks(last_seen)
        + TickSpan::from_secs(conn.state().timeout(snap.timeouts_of(conn.service)).into())
}

/// When a connection is to be visited: when it ends if nothing more comes, or before its client's
/// template ends, so that this lives on with it.
pub(crate) fn visit(conn: &Conn, snap: &Snapshot, templates: &Templates, now: Ticks) -> Ticks {
    kept(conn, snap, templates, now, due(conn, snap, now))
}

/// The same for a connection that ends at `due`.
#[inline(always)]
fn kept(conn: &Conn, snap: &Snapshot, templates: &Templates, now: Ticks, due: Ticks) -> Ticks {
    let Some(persistence) = snap.services.persistence(conn.service) else { return due };
    let holder = persistence.holder(conn.service, conn.key.src(conn.family()));
    templates.keep(&holder, Place { slot: conn.server, generation: conn.generation }, now, due)
}

/// By how much ActiveConn and InActConn change when a connection enters (+1) or leaves (−1) a state.
pub(crate) const fn shares(state: ConnState, by: i32) -> (i32, i32) {
    if state.is_active() { (by, 0) } else { (0, by) }
}

/// Changes what an lcore counts for a connection's server, and tells the service's scheduler. Gives
/// the server, if there is one in this slot.
#[inline(always)]
pub(crate) fn count<'a>(
    board: &LcoreBoard,
    snap: &'a Snapshot,
    who: Who,
    conn: &Conn,
    (active, inactive): (i32, i32),
) -> Option<&'a ServerLine> {
    let slot = conn.server;
    let line = snap.servers.get(slot as usize)?;
    board.change(slot, conn.generation, line.generation, active, inactive);
    snap.services.changed(conn.service, slot, who.lcore);
    Some(line)
}

fn uncount(board: &LcoreBoard, live: &LiveView, snap: &Snapshot, who: Who, conn: &Conn) {
    board.stats.ended.add(1);
    let line = count(board, snap, who, conn, shares(conn.state(), -1));
    if let Some(line) = line
        && line.thresholds.any()
        && line.generation == conn.generation
    {
        let (to, half_open) = (line.thresholds, conn.is_half_open());
        live.occupancies().leave(conn.server, conn.generation, to, half_open);
    }
}
