//! A verifier beside directors that are right, and wrong in every way it knows.

use super::*;
use crate::packet::Sizes;
use crate::packet::tests::{V4, V6};
use crate::packet::tests::{frame, wire};
use crate::packet::{Transport, Wire};
use crate::servers::Server;
use crate::tally::Counts;
use engine::addr::Addr;
use engine::wire::checksum::Sum;
use engine::wire::ipv4::Ipv4;

const SLOTS: u32 = 4;

fn verifier(named: &[Server]) -> Verifier {
    of_wire(wire(Transport::Tcp, V4, Sizes::imix(Transport::Tcp, true)), named)
}

fn of_wire(wire: Wire, named: &[Server]) -> Verifier {
    Verifier::new(Writer::new(wire), Servers::new(named), SLOTS)
}

/// The frame as a director forwards it by direct routing, one hop older.
fn direct(verifier: &Verifier, flow: u32, seq: u32, server: u8) -> Vec<u8> {
    let mut bytes = frame(&verifier.writer, Segment { flow, seq }, 1000);
    bytes[..6].copy_from_slice(&[2, 0, 10, 0, 0, server]);
    if verifier.writer.wire().vip.is_v4() {
        let (ip, _) = Ipv4::mut_from_prefix(&mut bytes[L3..]).expect("a header");
        ip.set_ttl(63);
    } else {
        bytes[L3 + 7] = 63;
    }
    bytes
}

/// And through a tunnel.
fn tunnelled(verifier: &Verifier, flow: u32, seq: u32, server: u8) -> Vec<u8> {
    let inner = direct(verifier, flow, seq, server);
    let len = u16::try_from(inner.len() - L3 + 20).expect("short");
    let mut outer = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 63, 4, 0, 0, 192, 0, 2, 2, 10, 0, 0, server];
    outer[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = Sum::of(&outer).checksum();
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    [&inner[..L3], &outer, &inner[L3..]].concat()
}

fn counts_of(verifier: &Verifier) -> Counts {
    Counts { received_bytes: 0, ..verifier.tally.counts.clone() }
}

#[test]
fn what_is_right_counts_as_received_alone() {
    for way in [direct, tunnelled] {
        let mut v =
            verifier(&[Server::at(Addr::v4([10, 0, 0, 1])), Server::at(Addr::v4([10, 0, 0, 2]))]);
        for seq in 0..4 {
            for flow in 0..8 {
                let bytes = way(&v, flow % 4 + 4 * (seq / 2), seq, 1 + (flow % 2) as u8);
                if flow < 4 {
                    v.take(&bytes, 1000 + 250);
                }
            }
        }
        let want = Counts { received: 16, flows: 8, ..Counts::default() };
        assert_eq!(counts_of(&v), want);
        assert_eq!(v.tally.shares, [Share { packets: 8, flows: 4 }; 2]);
        assert_eq!(v.living(), [2, 2]);
        assert_eq!((v.tally.latency.at(0.5), v.hops), (250, Some((1, 1))));
    }
}

#[test]
fn every_fault_has_its_name() {
    let named = [Server::at(Addr::v4([10, 0, 0, 1])), Server::at(Addr::v4([10, 0, 0, 2]))];
    let story = |frames: &[(u32, u32, u8)]| {
        let mut v = verifier(&named);
        for (flow, seq, server) in frames {
            let bytes = direct(&v, *flow, *seq, *server);
            v.take(&bytes, 2000);
        }
        counts_of(&v)
    };
    let received = |received, flows| Counts { received, flows, ..Counts::default() };
    assert_eq!(story(&[(0, 0, 1), (0, 1, 2)]), Counts { moved: 1, ..received(2, 1) });
    assert_eq!(story(&[(0, 0, 9)]), Counts { wrong_server: 1, ..received(1, 1) });
    assert_eq!(story(&[(0, 1, 1), (0, 0, 1)]), Counts { reordered: 1, ..received(2, 1) });
    assert_eq!(story(&[(4, 0, 1), (0, 0, 1)]), Counts { reordered: 1, ..received(2, 1) });
    assert_eq!(story(&[(0, 0, 1), (0, 0, 1)]), Counts { duplicates: 1, ..received(1, 1) });
    // Losses are no fault of order, and a new flow may have another server.
    assert_eq!(story(&[(0, 0, 1), (0, 3, 1), (4, 0, 2)]), received(3, 2));
}

#[test]
fn one_wrong_bit_anywhere_is_seen() {
    let v = verifier(&[]);
    let (sound, at) = (direct(&v, 3, 2, 1), 54..72);
    for n in L3..sound.len() {
        let mut v = verifier(&[]);
        let mut bytes = sound.clone();
        bytes[n] ^= 0x10;
        v.take(&bytes, 2000);
        let c = &v.tally.counts;
        let named = if at.contains(&n) {
            c.unreadable
        } else {
            c.altered + c.unreadable + c.foreign + c.errors
        };
        assert_eq!(named, 1, "byte {n}: {c:?}");
    }
}

#[test]
fn strangers_are_told_apart() {
    let mut v = verifier(&[]);
    let mut reset = direct(&v, 0, 0, 1);
    reset[26..30].copy_from_slice(&[192, 0, 2, 10]);
    reset[30..34].copy_from_slice(&[198, 18, 0, 0]);
    reset[47] = tcp::RST;
    reset.truncate(60);
    v.take(&reset, 0);
    // The header's checksum is not looked at: what matters is who sends what to whom.
    let mut error = reset.clone();
    error[23] = ICMP;
    v.take(&error, 0);
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    v.take(&arp, 0);
    v.take(&[0; 60], 0);
    v.take(&[], 0);
    let want = Counts { resets: 1, errors: 1, arp: 1, foreign: 2, ..Counts::default() };
    assert_eq!(counts_of(&v), want);
}

#[test]
fn clocks_that_differ_a_little_give_no_time() {
    let mut v = verifier(&[]);
    let bytes = direct(&v, 0, 0, 1);
    v.take(&bytes, 990);
    assert_eq!(v.tally.latency.max(), 0);
}

#[test]
fn ipv6_is_verified_bare_and_in_every_tunnel() {
    let (servers, at) = (["2001:db8::b", "10.0.0.1"], |n: u8| Addr::v4([10, 0, 0, n]));
    let named: Vec<Server> = servers.map(|s| s.parse().expect("a server")).to_vec();
    let tunnel = |inner: &[u8], to: Addr| {
        let v6 = to != at(1);
        let mut outer = if v6 { vec![0; 40] } else { vec![0; 20] };
        if v6 {
            (outer[0], outer[6], outer[7]) = (0x60, 41, 63);
            outer[24..].copy_from_slice(&to.0);
        } else {
            (outer[0], outer[8], outer[9]) = (0x45, 63, 41);
            outer[16..].copy_from_slice(&to.low4());
        }
        let kind = if v6 { [0x86, 0xdd] } else { [8, 0] };
        [&inner[..12], &kind, &outer, &inner[L3..]].concat()
    };
    for transport in [Transport::Tcp, Transport::Udp, Transport::Quic] {
        let mut v = of_wire(wire(transport, V6, Sizes::imix(transport, false)), &named);
        for flow in 0..SLOTS {
            let mut bare = direct(&v, flow, 0, 1);
            v.take(&tunnel(&bare, named[0].addr.expect("one")), 1250);
            bare = direct(&v, flow, 1, 1);
            bare[..6].copy_from_slice(&named[0].mac.0);
            v.take(&bare, 1250);
            bare[40] ^= 1;
            v.take(&bare, 1250);
        }
        let c = &v.tally.counts;
        // An altered copy of what came before is a duplicate, too: it is told by its stamp.
        assert_eq!((c.received, c.duplicates, c.flows, c.faults()), (8, 4, 4, 4), "{c:?}");
        assert_eq!((v.tally.shares[0].packets, v.hops), (8, Some((1, 1))));
        let inner = direct(&v, 0, 2, 1);
        v.take(&tunnel(&inner, at(1)), 1250);
        assert_eq!((v.tally.shares[1].packets, v.tally.counts.moved), (1, 1));
    }
}

#[test]
fn one_wrong_bit_of_ipv6_is_seen() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Quic] {
        let wire = wire(transport, V6, Sizes::fixed(130));
        let sound = direct(&of_wire(wire.clone(), &[]), 3, 2, 1);
        // The hop limit may be any.
        for n in (L3..sound.len()).filter(|n| *n != L3 + 7) {
            let (mut v, mut bytes) = (of_wire(wire.clone(), &[]), sound.clone());
            bytes[n] ^= 0x10;
            v.take(&bytes, 2000);
            let c = &v.tally.counts;
            let named = c.altered + c.unreadable + c.foreign + c.errors;
            assert_eq!(named, 1, "{transport:?}, byte {n}: {c:?}");
        }
    }
}

#[test]
fn a_migration_may_lead_elsewhere_and_is_counted() {
    let plain = wire(Transport::Quic, V4, Sizes::fixed(128));
    let mut v = of_wire(Wire { migrating: 1.0, ..plain }, &[]);
    // Half way through its four packets a flow changes its port, and this director looks at that.
    for (seq, server) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        let bytes = direct(&v, 0, seq, server);
        v.take(&bytes, 2000);
    }
    let bytes = direct(&v, 1, 0, 1);
    v.take(&bytes, 2000);
    let bytes = direct(&v, 1, 3, 1);
    v.take(&bytes, 2000);
    let received = Counts { received: 6, flows: 2, ..Counts::default() };
    assert_eq!(counts_of(&v), Counts { migrations: 2, moved_migrating: 1, ..received });
    assert_eq!(v.tally.counts.faults(), 0);
}
