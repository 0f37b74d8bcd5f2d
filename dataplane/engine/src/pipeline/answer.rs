//! Packets that the director answers itself, each kind within its limit: what is asked of it, and
//! what a packet's sender must learn.

use super::RST;
use crate::burst::{Burst, Lane};
use crate::forward::ForwarderKind;
use crate::lcore::Lcore;
use crate::mailbox::{ArpHeard, Event};
use crate::parse::Kind;
use crate::queue::TxQueue;
use crate::reply;
use crate::reply::arp::ArpOp;
use crate::reply::icmp_error::IcmpError;
use crate::service::{NoServerPolicy, Service, ServiceKey};
use crate::snapshot::{LocalKind, Snapshot};
use crate::ticks::Ticks;
use crate::verdict::{DropReason, Verdict};

/// Answers what is asked of the director itself: ARP and echo.
pub(super) fn answer<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    others: Lane,
    now: Ticks,
) {
    for i in others {
        let n = usize::from(i);
        burst.verdict[n] = match burst.at[n].kind {
            Kind::Arp => arp(burst, lcore, snap, i, now),
            Kind::Icmp => icmp(burst, lcore, snap, i, now),
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

/// A flow to an address and port that is no service: a closed port of a VIP, or the kernel's.
#[cold]
pub(super) fn no_service<T: TxQueue>(
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
pub(super) fn reset<T: TxQueue>(
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

/// "Nobody here": clients see "connection refused".
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

/// A new flow of a service that has no server for it.
#[cold]
pub(super) fn no_server<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    service: &Service,
    i: u8,
    now: Ticks,
) -> Verdict {
    lcore.board.services[usize::from(service.id)].no_server.add(1);
    match (service.rules.no_server, burst.at[usize::from(i)].kind) {
        (NoServerPolicy::Drop, _) => Verdict::Drop(DropReason::NoServer),
        (NoServerPolicy::Reset, Kind::Tcp) => reset(burst, lcore, i, DropReason::NoServer, now),
        _ => unreachable(burst, lcore, i, now),
    }
}

#[cold]
pub(super) fn time_exceeded<T: TxQueue>(
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

/// A packet that does not fit its tunnel: its sender learns the size that would (RFC 1191).
#[cold]
pub(super) fn too_big<T: TxQueue>(
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

fn replied(answer: Result<(), DropReason>) -> Verdict {
    answer.map_or_else(Verdict::Drop, |()| Verdict::Reply)
}
