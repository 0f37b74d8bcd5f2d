//! The stage of the misses: what packets without a connection are, and a server for new ones.

use std::sync::Arc;

use super::answer::{no_server, no_service, reset, time_exceeded};
use super::{ACK, FIN, RST, SYN, Ways, limited, persist, route, track};
use crate::burst::{Burst, Lane};
use crate::conn::entry::Conn;
use crate::conn::tcp_state::{ConnState, TcpEvent};
use crate::flow::{Family, FlowHash, FlowKey};
use crate::lcore::{Lcore, Orphaned, shares};
use crate::live::LoadView;
use crate::parse::{Kind, Parsed, begins};
use crate::queue::TxQueue;
use crate::sched::Arrival;
use crate::service::{Service, ServiceKey, StrayPolicy};
use crate::snapshot::Snapshot;
use crate::templates::Span;
use crate::ticks::{TickSpan, Ticks};
use crate::verdict::{DropReason, Verdict};

/// Decides what packets without a connection are, and gives new ones a server.
#[inline(always)]
pub(super) fn schedule<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    misses: Lane,
    ways: &mut Ways,
    now: Ticks,
) {
    let mut last: Option<&Service> = None;
    let mut seen = Seen::default();
    for i in misses {
        let n = usize::from(i);
        let at = &burst.at[n];
        let (_, port) = at.key.ports(at.family);
        let proto = at.key.proto(at.family);
        let key = ServiceKey { proto, addr: at.key.dst(at.family), port };
        // Bursts come from few services.
        let service = match last {
            Some(service) if service.key == key => last,
            _ => snap.service(key).map(Arc::as_ref),
        };
        let again = seen.put(burst.hash[n]);
        let outcome = if let Err(reason) = begins(&burst.frames[n], at) {
            Err(Verdict::Drop(reason))
        } else if let Some(service) = service {
            begin(burst, lcore, snap, service, i, again, now)
        } else {
            Err(no_service(burst, lcore, snap, i, key, now))
        };
        last = service;
        match outcome {
            Ok(server) => route(burst, lcore, snap, i, server, ways, now),
            Err(verdict) => burst.verdict[n] = verdict,
        }
    }
    lcore.orphans = Orphaned::default();
}

/// Hashes of a burst's misses, one bit each: tells most flows that no packet before was of theirs.
#[derive(Default)]
struct Seen(u64);

impl Seen {
    /// Adds a hash. False: it was not there yet.
    #[inline(always)]
    const fn put(&mut self, hash: FlowHash) -> bool {
        let bit = 1 << (hash.0 >> 26 & 63);
        let seen = self.0 & bit != 0;
        self.0 |= bit;
        seen
    }
}

/// The first packet of a connection, or a packet that belongs to none. Unless `again`, no packet of
/// this burst before was of the same flow.
#[inline(always)]
fn begin<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    i: u8,
    again: bool,
    now: Ticks,
) -> Result<u32, Verdict> {
    let n = usize::from(i);
    if again && let Some(server) = begun(burst, lcore, snap, i, now) {
        return Ok(server);
    }
    let (at, hash) = (&burst.at[n], burst.hash[n]);
    if at.kind == Kind::Tcp {
        if at.tcp_flags & (SYN | ACK) == SYN | ACK {
            return Err(Verdict::Drop(DropReason::SynAck));
        }
        if at.tcp_flags & (SYN | RST | FIN) != SYN && !joins(lcore, service, at, i) {
            return stray(burst, lcore, snap, service, i, now);
        }
    }
    if at.ttl <= 1 {
        return Err(time_exceeded(burst, lcore, snap, i, now));
    }
    let stateless = may_be_stateless(lcore, snap, service, at, burst.bucket[n], now);
    let slot = match &service.rules.persistence {
        Some(to) => persist::server(lcore, snap, (service, to), at, stateless, now),
        None if stateless => hashed(lcore, service, &at.key, at.family),
        None => picked(lcore, service, at, now),
    };
    let Some(slot) = slot else { return Err(no_server(burst, lcore, service, i, now)) };
    if at.kind == Kind::Udp && service.rules.one_packet {
        lcore.board.servers[slot as usize].conns.add(1);
        return Ok(slot);
    }
    if snap.servers[slot as usize].thresholds.any() {
        return limited::begin(burst, lcore, snap, service, i, (slot, stateless), now);
    }
    if guarded(lcore, snap, now) {
        lcore.board.stats.flood_guarded.add(1);
    } else if insert::<T, false>(lcore, snap, service, at, hash, slot, now) {
        return Ok(slot);
    }
    untracked(lcore, service, at, hash, (slot, stateless), now)
}

/// Forwards a new flow that gets no entry to the server that the consistent hash names. One that may
/// be `stateless` has it already; and where a persistent client's server comes from, its packets
/// without an entry go too.
#[inline(always)]
pub(super) fn untracked<T: TxQueue>(
    lcore: &mut Lcore<T>,
    service: &Service,
    at: &Parsed,
    hash: FlowHash,
    (slot, stateless): (u32, bool),
    now: Ticks,
) -> Result<u32, Verdict> {
    lcore.table.refuse(hash, now);
    let stays = stateless || service.rules.persistence.is_some();
    let slot = if stays { Some(slot) } else { hashed(lcore, service, &at.key, at.family) };
    let slot = slot.ok_or(Verdict::Drop(DropReason::NoServer))?;
    count_untracked(lcore, service);
    Ok(slot)
}

/// The server of a connection that an earlier packet of this burst has begun, if one has.
#[inline(never)]
fn begun<T: TxQueue>(
    burst: &Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    now: Ticks,
) -> Option<u32> {
    let n = usize::from(i);
    let (at, hash) = (&burst.at[n], burst.hash[n]);
    let candidate = lcore.table.candidate(burst.bucket[n], hash);
    let id = lcore.table.find(candidate, hash, &at.key, at.family)?;
    track(lcore, snap, id, at, i, now)
}

/// The server slot that the service's scheduler picks for a new connection.
#[inline(always)]
pub(super) fn picked<T: TxQueue>(
    lcore: &mut Lcore<T>,
    service: &Service,
    at: &Parsed,
    now: Ticks,
) -> Option<u32> {
    let arrival = Arrival { key: &at.key, family: at.family, who: lcore.who, now };
    let load = LoadView::new(&lcore.live, &lcore.board);
    let cursor = &mut lcore.cursors[usize::from(service.id)];
    match service.scheduler.pick(&service.pool, arrival, cursor, load) {
        Some(pick) => Some(service.pool.servers[pick].slot),
        None => picked_backup(lcore, service, at, now),
    }
}

/// The backup that takes a new connection when the service's scheduler has nobody.
#[cold]
#[inline(never)]
fn picked_backup<T: TxQueue>(
    lcore: &mut Lcore<T>,
    service: &Service,
    at: &Parsed,
    now: Ticks,
) -> Option<u32> {
    let backup = service.backup.as_ref()?;
    let arrival = Arrival { key: &at.key, family: at.family, who: lcore.who, now };
    let load = LoadView::new(&lcore.live, &lcore.board);
    let behind = lcore.cursors.len() / 2;
    backup.pick(arrival, &mut lcore.cursors[behind + usize::from(service.id)], load)
}

/// The server slot that the service's consistent hash names: for flows that have no entry.
pub(super) fn hashed<T: TxQueue>(
    lcore: &Lcore<T>,
    service: &Service,
    key: &FlowKey,
    family: Family,
) -> Option<u32> {
    let load = LoadView::new(&lcore.live, &lcore.board);
    match service.fallback.pick_stateless(&service.pool, key, family, load) {
        Some(pick) => Some(service.pool.servers[pick].slot),
        None => service.backup.as_ref()?.pick_stateless(key, family, load),
    }
}

/// The server slot of a segment that begins nothing and has no entry.
fn without_entry<T: TxQueue>(
    lcore: &Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    now: Ticks,
) -> Option<u32> {
    match &service.rules.persistence {
        Some(to) => persist::known(lcore, snap, (service, to), at, now),
        None => hashed(lcore, service, &at.key, at.family),
    }
}

/// One more packet is forwarded without an entry.
fn count_untracked<T: TxQueue>(lcore: &Lcore<T>, service: &Service) {
    lcore.board.stats.untracked.add(1);
    lcore.board.services[usize::from(service.id)].untracked.add(1);
}

/// Adds a connection to the table; false when the table is full. `LIMITED`: it has its place, if its
/// server has thresholds.
#[inline(always)]
pub(super) fn insert<T: TxQueue, const LIMITED: bool>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    hash: FlowHash,
    slot: u32,
    now: Ticks,
) -> bool {
    let generation = snap.servers[slot as usize].generation;
    let mut conn = Conn::new(at.key, at.family, slot, generation, service.id);
    let state = first_state(at);
    conn.set_state(state);
    conn.last_seen = now.low();
    let counted = LIMITED && snap.servers[slot as usize].thresholds.any();
    conn.set_half_open(counted && state == ConnState::SynRecv);
    let timeouts = service.rules.timeouts_or(&snap.timeouts);
    let mut due = now + TickSpan::from_secs(state.timeout(timeouts).into());
    if let Some(to) = &service.rules.persistence {
        due = Span { now, life: to.life }.first_visit(due);
    }
    if lcore.table.insert(hash, conn, due).is_none()
        && !(make_room(lcore, snap, hash, now) && lcore.table.insert(hash, conn, due).is_some())
    {
        lcore.board.stats.insert_failures.add(1);
        return false;
    }
    let (active, inactive) = shares(state, 1);
    lcore.board.change(slot, generation, generation, active, inactive);
    lcore.board.servers[slot as usize].conns.add(1);
    service.changed(lcore.who.lcore, snap.services.place(slot));
    lcore.board.stats.created.add(1);
    true
}

/// The state in which this packet begins a connection.
#[inline(always)]
pub(super) const fn first_state(at: &Parsed) -> ConnState {
    match at.kind {
        Kind::Udp => ConnState::Udp,
        _ if at.tcp_flags & SYN != 0 => ConnState::SynRecv,
        _ => ConnState::None.after(TcpEvent::from_flags(at.tcp_flags)),
    }
}

/// A half-open entry that has been silent for so long belongs to no honest client in a hurry: it
/// would have answered the server's SYN+ACK, or repeated its SYN (RFC 6298) after 1 s.
const HALF_OPEN_GRACE: TickSpan = TickSpan::from_secs(3);

/// Ends a half-open entry whose place a new flow with this hash can have: where a table is full,
/// those go first.
#[cold]
fn make_room<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    hash: FlowHash,
    now: Ticks,
) -> bool {
    let stale = |conn: &Conn| {
        let idle = now.low().wrapping_sub(conn.last_seen);
        conn.state() == ConnState::SynRecv && TickSpan(idle.into()) >= HALF_OPEN_GRACE
    };
    let Some(id) = lcore.table.near(hash, stale) else { return false };
    lcore.end(id, snap);
    lcore.board.stats.half_open_evicted.add(1);
    true
}

/// Whether the flood guard refuses one more entry.
pub(super) fn guarded<T: TxQueue>(lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) -> bool {
    snap.flood_guard != 0 && !lcore.limits.entries.allow(now)
}

/// Whether a segment that is no SYN may begin an entry all the same: the service accepts flows in
/// their middle, or the flow's server was removed so that its connections move on. A reset never.
fn joins<T: TxQueue>(lcore: &Lcore<T>, service: &Service, at: &Parsed, i: u8) -> bool {
    let moves_on = lcore.orphans.rescheduled.has(i);
    let ended = lcore.orphans.reset.has(i);
    let moves = at.tcp_flags & (FIN | ACK) != 0 && at.tcp_flags & (SYN | RST) == 0;
    moves && !ended && (moves_on || service.rules.sloppy)
}

/// For how long a SYN may be the repetition of one that got no entry: TCP repeats it after 1, 3 and
/// 7 s (RFC 6298). Later ones are new, and least connections counts again.
const SYN_REPEATS: TickSpan = TickSpan::from_secs(8);

/// Whether a packet without an entry may belong to a flow that found no room: then it must stay
/// where the hash sent that flow, even if there is room now. The table knows it by bucket.
#[inline(always)]
fn may_be_stateless<T: TxQueue>(
    lcore: &Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    bucket: u32,
    now: Ticks,
) -> bool {
    let Some(ago) = lcore.table.refused(bucket, now) else { return false };
    let timeouts = service.rules.timeouts_or(&snap.timeouts);
    let lives = match at.kind {
        Kind::Udp => TickSpan::from_secs(timeouts.udp.into()),
        _ if at.tcp_flags & SYN != 0 => SYN_REPEATS,
        _ => TickSpan::from_secs(timeouts.tcp.into()),
    };
    u64::from(ago) < lives.0
}

/// A segment that begins nothing and belongs to no entry. While flows without entries may be alive
/// it goes where they go.
fn stray<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    i: u8,
    now: Ticks,
) -> Result<u32, Verdict> {
    let n = usize::from(i);
    let (at, ended) = (&burst.at[n], lcore.orphans.reset.has(i));
    if !ended
        && may_be_stateless(lcore, snap, service, at, burst.bucket[n], now)
        && let Some(server) = without_entry(lcore, snap, service, at, now)
    {
        count_untracked(lcore, service);
        return Ok(server);
    }
    lcore.board.services[usize::from(service.id)].stray.add(1);
    Err(if ended || service.rules.stray == StrayPolicy::Reset {
        reset(burst, lcore, i, DropReason::Stray, now)
    } else {
        Verdict::Drop(DropReason::Stray)
    })
}
