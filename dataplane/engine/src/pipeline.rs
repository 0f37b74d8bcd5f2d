//! A packet's whole way, stage by stage. Each stage walks the burst and hands lists of positions to
//! the next, and prefetches what the next will touch:
//!
//! ```text
//!  parse ─► own ─► find ──┬─ hits ───────────────┬─► route ─► forward ─► settle
//!    │ (bucket)     (entry)└─ misses ─► schedule ─┘
//!    └─ ARP, ICMP, other IP ─► answer ────────────────────────────────►
//! ```
//! A hit touches its bucket, its entry, its server's line and its next hop's word; it looks up no
//! service. Every packet is forwarded or ends in a verdict, which `settle` carries out and counts.

mod answer;
mod begin;
mod limited;
mod persist;

use self::answer::{answer, time_exceeded, too_big};
use self::begin::schedule;
use crate::burst::{Burst, Lane};
use crate::conn::table::ConnId;
use crate::conn::tcp_state::{ConnState, TcpEvent};
use crate::forward::ForwarderKind;
use crate::frame::{BURST, Frame, FrameVec};
use crate::lcore::Lcore;
use crate::mailbox::Event;
use crate::neigh::{Hop, PortId};
use crate::parse::{Kind, Parsed};
use crate::queue::TxQueue;
use crate::server::Orphans;
use crate::snapshot::Snapshot;
use crate::ticks::Ticks;
use crate::verdict::{DropReason, Verdict};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Takes a burst from headers to verdicts, and every frame out of it.
pub fn run<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) {
    lcore.has_lines = !lcore.parking.is_empty() && !lcore.replaying;
    let (mut flows, others) = parse(burst, lcore, snap);
    if lcore.who.lcores > 1 {
        flows = own(burst, lcore, flows);
    }
    let mut ways =
        Ways { hop: [Hop::default(); BURST], direct: Lane::default(), tunnelled: Lane::default() };
    let misses = find(burst, lcore, snap, flows, &mut ways, now);
    if !misses.is_empty() {
        schedule(burst, lcore, snap, misses, &mut ways, now);
    }
    forward(burst, lcore, snap, &ways, now);
    if !others.is_empty() {
        answer(burst, lcore, snap, others, now);
    }
    settle(burst, lcore, snap, now);
}

/// Packets with a server and a next hop, grouped by forwarder.
struct Ways {
    hop: [Hop; BURST],
    direct: Lane,
    tunnelled: Lane,
}

/// Reads the headers. Flows get a hash, and their bucket is on its way.
#[inline(always)]
fn parse<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &Lcore<T>, snap: &Snapshot) -> (Lane, Lane) {
    let (mut ended, mut others) = (Lane::default(), Lane::default());
    for i in burst.positions() {
        let n = usize::from(i);
        let port = &snap.ports[usize::from(burst.port[n])];
        let (frame, at) = burst.unread(n);
        if let Err(verdict) = crate::parse::parse_into(frame, port, at) {
            burst.verdict[n] = verdict;
            ended.push(i);
        } else if matches!(at.kind, Kind::Tcp | Kind::Udp) {
            let hash = lcore.hasher.hash(&at.key, at.family);
            burst.hash[n] = hash;
            burst.bucket[n] = lcore.table.home(hash);
            lcore.table.prefetch_bucket(burst.bucket[n]);
        } else {
            others.push(i);
        }
    }
    (Lane::first(burst.len()).without(ended).without(others), others)
}

/// Sorts out the flows of other lcores.
fn own<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &Lcore<T>, flows: Lane) -> Lane {
    let mut mine = Lane::default();
    for i in flows {
        let n = usize::from(i);
        let owner = burst.hash[n].owner(lcore.who.lcores);
        if owner == lcore.who.lcore {
            mine.push(i);
        } else {
            burst.verdict[n] = Verdict::HandOver(owner);
        }
    }
    mine
}

/// Finds the connections of flows, and moves their state. Two walks: by tag, then by key.
#[inline(always)]
fn find<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    flows: Lane,
    ways: &mut Ways,
    now: Ticks,
) -> Lane {
    for i in flows {
        let n = usize::from(i);
        burst.conn[n] = lcore.table.candidate(burst.bucket[n], burst.hash[n]);
    }
    let mut misses = Lane::default();
    for i in flows {
        let n = usize::from(i);
        let at = &burst.at[n];
        let found = lcore.table.find(burst.conn[n], burst.hash[n], &at.key, at.family);
        match found.and_then(|id| track(lcore, snap, id, at, i, now)) {
            Some(server) => route(burst, lcore, snap, i, server, ways, now),
            None => misses.push(i),
        }
    }
    misses
}

/// Finds a packet's next hop and puts it in the line of its forwarder.
#[inline(always)]
fn route<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    i: u8,
    server: u32,
    ways: &mut Ways,
    now: Ticks,
) {
    let n = usize::from(i);
    let line = &snap.servers[server as usize];
    let hop = lcore.hops.hop(line.hop);
    burst.server[n] = server;
    ways.hop[n] = hop;
    if !hop.is_reachable() || (lcore.has_lines && lcore.parking.has_line(line.hop)) {
        burst.verdict[n] = Verdict::Park;
    } else if burst.at[n].ttl <= 1 {
        burst.verdict[n] = time_exceeded(burst, lcore, snap, i, now);
    } else {
        match line.forwarder {
            ForwarderKind::Dr => ways.direct.push(i),
            ForwarderKind::Ipip => ways.tunnelled.push(i),
        }
    }
}

/// Notes one more packet of a connection and gives its server. `None` when the connection is no
/// longer one: its server was purged, or the client begins anew with the same port.
#[inline(always)]
fn track<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    id: ConnId,
    at: &Parsed,
    i: u8,
    now: Ticks,
) -> Option<u32> {
    let conn = lcore.table.get_mut(id);
    let server = conn.server;
    if snap.server(server, conn.generation).is_none() {
        orphan(lcore, snap, id, i);
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
    if old == ConnState::Reset {
        lcore.orphans.reset.push(i);
        lcore.end(id, snap);
        return None;
    }
    if new != old {
        lcore.move_state(snap, id, new, now);
    }
    Some(server)
}

/// The connection's server was purged: it ends, and its packet at position `i` is remembered for
/// what is to become of it.
#[cold]
fn orphan<T: TxQueue>(lcore: &mut Lcore<T>, snap: &Snapshot, id: ConnId, i: u8) {
    let line = snap.servers.get(lcore.table.get(id).server as usize);
    match line.map_or(Orphans::Reset, |line| line.orphans) {
        Orphans::Reset => lcore.orphans.reset.push(i),
        Orphans::Reschedule => lcore.orphans.rescheduled.push(i),
        Orphans::Forget => {}
    }
    lcore.board.stats.purged.add(1);
    lcore.end(id, snap);
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
        lcore.move_state(snap, id, new, now);
    }
    Some(server)
}

/// Brings packets to their servers.
#[inline(always)]
fn forward<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    ways: &Ways,
    now: Ticks,
) {
    apply(burst, lcore, snap, ways.direct, &ways.hop, ForwarderKind::Dr, now);
    apply(burst, lcore, snap, ways.tunnelled, &ways.hop, ForwarderKind::Ipip, now);
}

#[inline(always)]
fn apply<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    lane: Lane,
    hop: &[Hop; BURST],
    forwarder: ForwarderKind,
    now: Ticks,
) {
    for i in lane {
        let n = usize::from(i);
        let (slot, hop) = (burst.server[n] as usize, hop[n]);
        let (line, out) = (&snap.servers[slot], &snap.ports[usize::from(hop.port())]);
        let (frame, at) = burst.packet(n);
        match forwarder.apply(frame, at, line, hop, out) {
            Ok(()) => {
                let counters = &lcore.board.servers[slot];
                counters.in_packets.add(1);
                counters.in_bytes.add(u64::from(at.ip_len));
                burst.port[n] = hop.port();
                burst.forwarded.push(i);
            }
            Err(reason) => {
                burst.verdict[n] = match reason {
                    DropReason::TooBig => too_big(burst, lcore, i, line.mtu, forwarder, now),
                    reason => Verdict::Drop(reason),
                };
            }
        }
    }
}

/// Carries out the verdicts and counts them. Nearly always all packets of a burst go out of one
/// port, as they are. Frames that end here are freed at once.
#[inline(always)]
fn settle<T: TxQueue>(burst: &mut Burst<T::F>, lcore: &mut Lcore<T>, snap: &Snapshot, now: Ticks) {
    let (all, forwarded) = (Lane::first(burst.len()), std::mem::take(&mut burst.forwarded));
    lcore.board.stats.forwarded.add(forwarded.len() as u64);
    let out = burst.port[0];
    if forwarded == all && burst.port[..burst.len()].iter().all(|port| *port == out) {
        lcore.outlets[usize::from(out)].push_all(&mut burst.frames);
        return;
    }
    settle_each(burst, lcore, snap, forwarded, now);
}

/// One by one.
#[inline(never)]
fn settle_each<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    forwarded: Lane,
    now: Ticks,
) {
    let mut ended: FrameVec<T::F> = FrameVec::new();
    for (i, frame) in (0..).zip(burst.frames.drain(..)) {
        let n = usize::from(i);
        if forwarded.has(i) {
            lcore.outlets[usize::from(burst.port[n])].push(frame);
        } else {
            let server = burst.server[n] as usize;
            let packet = (frame, burst.port[n], burst.verdict[n], server);
            finish(packet, lcore, snap, &mut ended, now);
        }
    }
    if !ended.is_empty() {
        T::F::free_bulk(&mut ended);
    }
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
        Verdict::Reply => {
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
