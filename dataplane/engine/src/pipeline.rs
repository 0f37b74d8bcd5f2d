//! A packet's whole way, stage by stage. Each stage walks the burst and hands lists of positions to
//! the next, and prefetches what the next will touch:
//!
//! ```text
//!  parse ─► own ─► find ──┬─ hits ─────────────────────┬─► forward ─► settle
//!    │ (bucket)     (entry)└─ misses ─► schedule ───────┘
//!    └─ ARP, ICMP, other IP ─► answer ──────────────────────────────►
//! ```
//! A hit touches its bucket, its entry, its server's line and its next hop's word; it looks up no
//! service. Every packet ends in one verdict, which `settle` carries out and counts.

use crate::burst::{Burst, Lane};
use crate::conn::entry::Conn;
use crate::conn::table::ConnId;
use crate::conn::tcp_state::{ConnState, TcpEvent};
use crate::forward::ForwarderKind;
use crate::frame::{BURST, Frame, FrameVec};
use crate::lcore::{Lcore, due, shares};
use crate::live::LoadView;
use crate::mailbox::{ArpHeard, Event};
use crate::neigh::{Hop, PortId};
use crate::parse::{Kind, Parsed};
use crate::queue::TxQueue;
use crate::reply;
use crate::reply::arp::ArpOp;
use crate::reply::icmp_error::IcmpError;
use crate::sched::Arrival;
use crate::service::{Service, ServiceKey, StrayPolicy};
use crate::snapshot::{LocalKind, Snapshot};
use crate::ticks::{TickSpan, Ticks};
use crate::verdict::{DropReason, Verdict};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Takes a burst from headers to verdicts, and every frame out of it.
pub fn run<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) {
    let (mut flows, others) = parse(burst, lcore, snap);
    if lcore.who.lcores > 1 {
        own(burst, lcore, &mut flows);
    }
    let (mut hits, misses) = find(burst, lcore, snap, &flows, now);
    schedule(burst, lcore, snap, &misses, &mut hits, now);
    forward(burst, lcore, snap, &hits, now);
    answer(burst, lcore, snap, &others, now);
    settle(burst, lcore, snap, now);
}

/// Reads the headers. Flows get a hash, and their bucket is on its way.
#[inline(always)]
fn parse<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &Lcore<T>, snap: &Snapshot) -> (Lane, Lane) {
    let (mut flows, mut others) = (Lane::new(), Lane::new());
    for i in positions(burst) {
        let n = usize::from(i);
        let station = snap.ports[usize::from(burst.port[n])].mac;
        let (frame, at) = burst.unread(n);
        if let Err(verdict) = crate::parse::parse_into(frame, station, at) {
            burst.verdict[n] = verdict;
        } else if matches!(at.kind, Kind::Tcp | Kind::Udp) {
            flows.push(i);
        } else {
            others.push(i);
        }
    }
    // A walk of its own: the hash is one long chain, and short rounds overlap more of them.
    for i in &flows {
        let n = usize::from(*i);
        let at = &burst.at[n];
        burst.hash[n] = lcore.hasher.hash(&at.key, at.family);
        lcore.table.prefetch_bucket(burst.hash[n]);
    }
    (flows, others)
}

/// Sorts out the flows of other lcores.
fn own<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &Lcore<T>, flows: &mut Lane) {
    flows.retain(|i| {
        let n = usize::from(*i);
        let owner = burst.hash[n].owner(lcore.who.lcores);
        let mine = owner == lcore.who.lcore;
        if !mine {
            burst.verdict[n] = Verdict::HandOver(owner);
        }
        mine
    });
}

/// Finds the connections of flows, and moves their state. Two walks: by tag, then by key.
#[inline(always)]
fn find<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    flows: &Lane,
    now: Ticks,
) -> (Lane, Lane) {
    for i in flows {
        let n = usize::from(*i);
        burst.conn[n] = lcore.table.candidate(burst.hash[n], burst.at[n].family);
    }
    let (mut hits, mut misses) = (Lane::new(), Lane::new());
    for i in flows {
        let n = usize::from(*i);
        let at = &burst.at[n];
        let found = lcore.table.find(burst.conn[n], burst.hash[n], &at.key, at.family);
        match found.and_then(|id| track(lcore, snap, id, at, now)) {
            Some(server) => {
                burst.server[n] = server;
                hits.push(*i);
            }
            None => misses.push(*i),
        }
    }
    (hits, misses)
}

/// Notes one more packet of a connection and gives its server. `None` when the connection is no
/// longer one: its server was purged, or the client begins anew with the same port.
#[inline(always)]
fn track<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    id: ConnId,
    at: &Parsed,
    now: Ticks,
) -> Option<u32> {
    let conn = lcore.table.get_mut(id);
    let server = conn.server;
    if snap.server(server, conn.generation).is_none() {
        lcore.board.stats.purged.add(1);
        lcore.end(id, snap);
        return None;
    }
    conn.last_seen = now.low();
    let old = conn.state();
    if old == ConnState::Established && at.tcp_flags & (SYN | FIN | RST) == 0 {
        return Some(server);
    }
    let new = old.after(TcpEvent::from_flags(at.tcp_flags));
    if at.tcp_flags & SYN != 0 && at.kind == Kind::Tcp {
        return track_syn(lcore, snap, id, at.tcp_flags, now);
    }
    if new != old {
        move_state(lcore, snap, id, new, now);
    }
    Some(server)
}

/// A SYN that meets an entry: a retransmission, or a client that uses its port again. The latter is
/// scheduled anew at once when the entry is closing or its server takes no new connections, so that
/// its first SYN is not lost.
#[cold]
fn track_syn<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    id: ConnId,
    flags: u8,
    now: Ticks,
) -> Option<u32> {
    let (server, old) = (lcore.table.get(id).server, lcore.table.get(id).state());
    let begins = flags & (SYN | ACK | RST | FIN) == SYN;
    if begins && (!old.is_active() || lcore.live.weight(server) == 0) && !lcore.replaying {
        lcore.end(id, snap);
        return None;
    }
    if begins && old == ConnState::SynRecv && !lcore.replaying {
        lcore.board.servers[server as usize].syn_retransmits.add(1);
    }
    let new = old.after(TcpEvent::from_flags(flags));
    if new != old {
        move_state(lcore, snap, id, new, now);
    }
    Some(server)
}

/// Moves a connection to another state: counts, and an earlier timer where the new state's is
/// shorter. A longer one is armed when the old one's visit comes.
fn move_state<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    id: ConnId,
    new: ConnState,
    now: Ticks,
) {
    let conn = lcore.table.get_mut(id);
    let old = conn.state();
    conn.set_state(new);
    let (server, generation) = (conn.server, conn.generation);
    let ((a0, i0), (a1, i1)) = (shares(old, -1), shares(new, 1));
    let counters = &lcore.board.servers[server as usize];
    counters.change(generation, generation, a0 + a1, i0 + i1);
    if new.timeout(&snap.timeouts) < old.timeout(&snap.timeouts) {
        let due = due(lcore.table.get(id), snap, now);
        lcore.table.rearm(id, due);
    }
}

/// Decides what packets without a connection are, and gives new ones a server.
#[inline(always)]
fn schedule<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    misses: &Lane,
    hits: &mut Lane,
    now: Ticks,
) {
    for i in misses {
        let n = usize::from(*i);
        let at = burst.at[n];
        let (_, port) = at.key.ports(at.family);
        let proto = at.key.proto(at.family);
        let key = ServiceKey { proto, addr: at.key.dst(at.family), port };
        let outcome = match snap.service(key) {
            None => Err(no_service(burst, lcore, snap, *i, key, now)),
            Some(service) => begin(burst, lcore, snap, service, *i, now),
        };
        match outcome {
            Ok(server) => {
                burst.server[n] = server;
                hits.push(*i);
            }
            Err(verdict) => burst.verdict[n] = verdict,
        }
    }
}

/// The first packet of a connection, or a packet that belongs to none.
fn begin<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    i: u8,
    now: Ticks,
) -> Result<u32, Verdict> {
    let n = usize::from(i);
    let (at, hash) = (burst.at[n], burst.hash[n]);
    // An earlier packet of this burst may have begun the connection.
    let candidate = lcore.table.candidate(hash, at.family);
    if let Some(id) = lcore.table.find(candidate, hash, &at.key, at.family)
        && let Some(server) = track(lcore, snap, id, &at, now)
    {
        return Ok(server);
    }
    if at.kind == Kind::Tcp {
        if at.tcp_flags & (SYN | ACK) == SYN | ACK {
            return Err(Verdict::Drop(DropReason::SynAck));
        }
        if at.tcp_flags & (SYN | RST | FIN) != SYN {
            return stray(burst, lcore, snap, service, i, now);
        }
    }
    if at.ttl <= 1 {
        return Err(time_exceeded(burst, lcore, snap, i, now));
    }
    let arrival = Arrival { key: &at.key, family: at.family, who: lcore.who };
    let stateless_flow = may_be_stateless(lcore, snap, service, &at, now);
    let load = LoadView::new(&lcore.live, &lcore.board);
    let cursor = &mut lcore.cursors[usize::from(service.id)];
    let pick = if stateless_flow {
        service.fallback.pick_stateless(&service.pool, &at.key, at.family, load)
    } else {
        service.scheduler.pick(&service.pool, arrival, cursor, load)
    };
    let Some(pick) = pick else {
        lcore.board.services[usize::from(service.id)].no_server.add(1);
        return Err(unreachable(burst, lcore, i, now));
    };
    let slot = service.pool.servers[pick].slot;
    if insert(lcore, snap, service, &at, hash, slot, now) {
        return Ok(slot);
    }
    lcore.refused[usize::from(service.id)] = Some(now);
    stateless(lcore, service, &at).ok_or(Verdict::Drop(DropReason::NoServer))
}

/// Adds a connection to the table; false when the table is full.
fn insert<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    hash: crate::flow::FlowHash,
    slot: u32,
    now: Ticks,
) -> bool {
    let generation = snap.servers[slot as usize].generation;
    let mut conn = Conn::new(at.key, at.family, slot, generation, service.id);
    let state = if at.kind == Kind::Udp { ConnState::Udp } else { ConnState::SynRecv };
    conn.set_state(state);
    conn.last_seen = now.low();
    let due = due(&conn, snap, now);
    if lcore.table.insert(hash, conn, due).is_none() {
        lcore.board.stats.insert_failures.add(1);
        return false;
    }
    let counters = &lcore.board.servers[slot as usize];
    let (active, inactive) = shares(state, 1);
    counters.change(generation, generation, active, inactive);
    counters.conns.add(1);
    lcore.board.stats.created.add(1);
    true
}

/// For how long a SYN may be the repetition of one that got no entry: TCP repeats it after 1, 3 and
/// 7 s (RFC 6298). Later ones are new, and least connections counts again.
const SYN_REPEATS: TickSpan = TickSpan::from_secs(8);

/// Whether a packet without an entry may belong to a flow that found no room: then it must stay
/// where the hash sent that flow, even if there is room now.
fn may_be_stateless<T: TxQueue>(
    lcore: &Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    now: Ticks,
) -> bool {
    let Some(refused) = lcore.refused[usize::from(service.id)] else { return false };
    let lives = match at.kind {
        Kind::Udp => TickSpan::from_secs(snap.timeouts.udp.into()),
        _ if at.tcp_flags & SYN != 0 => SYN_REPEATS,
        _ => TickSpan::from_secs(snap.timeouts.tcp.into()),
    };
    now < refused + lives
}

/// The server that the service's consistent hash names: for flows that have no entry.
fn stateless<T: TxQueue>(lcore: &mut Lcore<T>, service: &Service, at: &Parsed) -> Option<u32> {
    let load = LoadView::new(&lcore.live, &lcore.board);
    let pick = service.fallback.pick_stateless(&service.pool, &at.key, at.family, load)?;
    lcore.board.stats.untracked.add(1);
    lcore.board.services[usize::from(service.id)].untracked.add(1);
    Some(service.pool.servers[pick].slot)
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
    let at = burst.at[usize::from(i)];
    if may_be_stateless(lcore, snap, service, &at, now)
        && let Some(server) = stateless(lcore, service, &at)
    {
        return Ok(server);
    }
    lcore.board.services[usize::from(service.id)].stray.add(1);
    match service.stray {
        StrayPolicy::Reset => Err(reset(burst, lcore, i, DropReason::Stray, now)),
        StrayPolicy::Drop => Err(Verdict::Drop(DropReason::Stray)),
    }
}

/// A flow to an address and port that is no service: a closed port of a VIP, or the kernel's.
#[cold]
fn no_service<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    key: ServiceKey,
    now: Ticks,
) -> Verdict {
    match snap.local(key.addr) {
        Some(local) if local.kind == LocalKind::Vip => {
            if !snap.closed_port_reset {
                return Verdict::Drop(DropReason::NoService);
            }
            match burst.at[usize::from(i)].kind {
                Kind::Tcp => reset(burst, lcore, i, DropReason::NoService, now),
                _ => unreachable(burst, lcore, i, now),
            }
        }
        _ => Verdict::Punt,
    }
}

/// Turns a segment into the reset that answers it, or says why not.
#[cold]
fn reset<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    i: u8,
    reason: DropReason,
    now: Ticks,
) -> Verdict {
    let at = burst.at[usize::from(i)];
    if at.tcp_flags & RST != 0 {
        return Verdict::Drop(reason);
    }
    if !lcore.limits.reset.allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    replied(reply::reset::answer(burst.frame(i), &at))
}

/// "Nobody here": what LVS's clients see when a service has no server (connection refused).
#[cold]
fn unreachable<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    i: u8,
    now: Ticks,
) -> Verdict {
    let at = burst.at[usize::from(i)];
    if !lcore.limits.unreachable.allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    let source = at.key.dst(at.family);
    replied(reply::icmp_error::answer(burst.frame(i), &at, IcmpError::PortUnreachable, source))
}

#[cold]
fn time_exceeded<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    now: Ticks,
) -> Verdict {
    let n = usize::from(i);
    let at = burst.at[n];
    if !lcore.limits.time_exceeded.allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    // A router names itself (RFC 1812 4.3.2.4); without an address on the port, the VIP must do.
    let own = snap
        .locals
        .iter()
        .find(|l| l.kind == LocalKind::Own && l.addr.is_v4() && l.ports >> burst.port[n] & 1 == 1);
    let source = own.map_or_else(|| at.key.dst(at.family), |l| l.addr);
    replied(reply::icmp_error::answer(burst.frame(i), &at, IcmpError::TimeExceeded, source))
}

fn replied(answer: Result<(), DropReason>) -> Verdict {
    answer.map_or_else(Verdict::Drop, |()| Verdict::Reply)
}

/// Brings packets to their servers, grouped by forwarder.
#[inline(always)]
fn forward<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    hits: &Lane,
    now: Ticks,
) {
    let mut hop = [Hop::default(); BURST];
    let mut direct = Lane::new();
    let mut tunnelled = Lane::new();
    let lines = !lcore.parking.is_empty() && !lcore.replaying;
    for i in hits {
        let n = usize::from(*i);
        let line = &snap.servers[burst.server[n] as usize];
        hop[n] = lcore.hops.hop(line.hop);
        if !hop[n].is_reachable() || (lines && lcore.parking.has_line(line.hop)) {
            burst.verdict[n] = Verdict::Park;
        } else if burst.at[n].ttl <= 1 {
            burst.verdict[n] = time_exceeded(burst, lcore, snap, *i, now);
        } else {
            match line.forwarder {
                ForwarderKind::Dr => direct.push(*i),
                ForwarderKind::Ipip => tunnelled.push(*i),
            }
        }
    }
    apply(burst, lcore, snap, &direct, &hop, ForwarderKind::Dr, now);
    apply(burst, lcore, snap, &tunnelled, &hop, ForwarderKind::Ipip, now);
}

#[inline(always)]
fn apply<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    lane: &Lane,
    hop: &[Hop; BURST],
    forwarder: ForwarderKind,
    now: Ticks,
) {
    for i in lane {
        let n = usize::from(*i);
        let (slot, hop) = (burst.server[n] as usize, hop[n]);
        let (line, out) = (&snap.servers[slot], &snap.ports[usize::from(hop.port())]);
        let (frame, at) = burst.packet(n);
        let applied = forwarder.apply(frame, at, line, hop.mac(), out);
        let bytes = u64::from(at.ip_len);
        burst.verdict[n] = match applied {
            Ok(()) => {
                burst.port[n] = hop.port();
                let counters = &lcore.board.servers[slot];
                counters.in_packets.add(1);
                counters.in_bytes.add(bytes);
                Verdict::Forward
            }
            Err(DropReason::TooBig) => too_big(burst, lcore, *i, line.mtu, forwarder, now),
            Err(reason) => Verdict::Drop(reason),
        };
    }
}

/// A packet that does not fit its tunnel: its sender learns the size that would (RFC 1191).
#[cold]
fn too_big<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    i: u8,
    mtu: u16,
    forwarder: ForwarderKind,
    now: Ticks,
) -> Verdict {
    let at = burst.at[usize::from(i)];
    if !lcore.limits.too_big.allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    let source = at.key.dst(at.family);
    let error = IcmpError::FragmentationNeeded { mtu: forwarder.client_mtu(mtu) };
    replied(reply::icmp_error::answer(burst.frame(i), &at, error, source))
}

/// Answers what is asked of the director itself: ARP and echo.
fn answer<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    others: &Lane,
    now: Ticks,
) {
    for i in others {
        let n = usize::from(*i);
        burst.verdict[n] = match burst.at[n].kind {
            Kind::Arp => arp(burst, lcore, snap, *i, now),
            Kind::Icmp => icmp(burst, lcore, snap, *i, now),
            _ => Verdict::Punt,
        };
    }
}

fn arp<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    now: Ticks,
) -> Verdict {
    let port = burst.port[usize::from(i)];
    let station = snap.ports[usize::from(port)].mac;
    let Some(heard) = reply::arp::parse_arp(burst.frame(i)) else {
        return Verdict::Drop(DropReason::ArpIgnored);
    };
    let ours = snap.answers(heard.target, port);
    // RFC 5227 3: an announcement, as a request or as a reply.
    let announces = heard.sender == heard.target;
    let is_reply = heard.op == ArpOp::Reply;
    if snap.heeds(heard.sender, port) {
        let reply = is_reply && ours;
        let event = ArpHeard { port, addr: heard.sender, mac: heard.sender_mac, reply };
        lcore.tell(Event::Arp(event), now);
    }
    if is_reply && ours {
        return Verdict::Punt;
    }
    if is_reply || announces || !ours {
        return Verdict::Drop(DropReason::ArpIgnored);
    }
    if !lcore.limits.arp[usize::from(heard.sender.0[15])].allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    replied(reply::arp::answer(burst.frame(i), station))
}

fn icmp<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    now: Ticks,
) -> Verdict {
    let at = burst.at[usize::from(i)];
    let Some(local) = snap.local(at.key.dst(at.family)) else { return Verdict::Punt };
    if !lcore.limits.echo.allow(now) {
        return Verdict::Drop(DropReason::ReplyLimited);
    }
    match reply::echo::answer(burst.frame(i), &at) {
        // Not an echo request: about one of the director's own addresses it is the kernel's.
        Err(DropReason::IcmpIgnored) if local.kind == LocalKind::Own => Verdict::Punt,
        answer => replied(answer),
    }
}

/// Carries out the verdicts and counts them. Frames that end here are freed at once.
#[inline(always)]
fn settle<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) {
    let mut ended: FrameVec<T::F> = FrameVec::new();
    let mut forwarded = 0;
    for i in positions(burst) {
        let n = usize::from(i);
        let Some(frame) = burst.frames[n].take() else { continue };
        if burst.verdict[n] == Verdict::Forward {
            lcore.outlets[usize::from(burst.port[n])].push(frame);
            forwarded += 1;
        } else {
            let server = burst.server[n] as usize;
            let packet = (frame, burst.port[n], burst.verdict[n], server);
            finish(packet, lcore, snap, &mut ended, now);
        }
    }
    lcore.board.stats.forwarded.add(forwarded);
    if !ended.is_empty() {
        T::F::free_bulk(&mut ended);
    }
    burst.clear();
}

/// One packet that is not forwarded: frame, port, verdict, server slot.
fn finish<T: TxQueue>(
    (frame, port, verdict, server): (T::F, PortId, Verdict, usize),
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    ended: &mut FrameVec<T::F>,
    now: Ticks,
) {
    let verdict = match verdict {
        Verdict::HandOver(owner) => {
            let handed = lcore.peers.hand_over(owner, frame, port);
            keep(handed, ended, verdict, DropReason::HandOverFull)
        }
        Verdict::Park => {
            let hop = snap.servers[server].hop;
            let parked = lcore.parking.park(frame, port, hop, now);
            if matches!(parked, Ok(true)) {
                lcore.tell(Event::HopWanted(hop), now);
            }
            keep(parked.map(|_| ()), ended, verdict, DropReason::NeighbourQueueFull)
        }
        Verdict::Forward | Verdict::Reply => {
            lcore.outlets[usize::from(port)].push(frame);
            verdict
        }
        Verdict::Punt | Verdict::Drop(_) => {
            ended.push(frame);
            verdict
        }
    };
    let stats = &lcore.board.stats;
    match verdict {
        Verdict::Forward => stats.forwarded.add(1),
        Verdict::Reply => stats.replied.add(1),
        Verdict::Punt => stats.punted.add(1),
        Verdict::HandOver(_) => stats.handed_over.add(1),
        Verdict::Park => stats.parked.add(1),
        Verdict::Drop(reason) => stats.drops[reason as usize].add(1),
    }
}

/// The verdict of a frame that another queue took, or did not.
fn keep<F: Frame>(
    taken: Result<(), F>,
    ended: &mut FrameVec<F>,
    verdict: Verdict,
    otherwise: DropReason,
) -> Verdict {
    match taken {
        Ok(()) => verdict,
        Err(frame) => {
            ended.push(frame);
            Verdict::Drop(otherwise)
        }
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
fn positions<F: Frame>(burst: &Burst<F>) -> std::ops::Range<u8> {
    0..burst.len() as u8
}
