//! Packets are parsed back by other people's code and by obvious code.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use super::*;

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Quic];
pub(crate) const V4: Addr = Addr::v4([192, 0, 2, 10]);
pub(crate) const V6: Addr = Addr([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]);

pub(crate) fn wire(transport: Transport, vip: Addr, sizes: Sizes) -> Wire {
    let (from, to) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let (life, migrating) = (Life::Cycle(4), 0.0);
    Wire { from, to, transport, vip, port: 80, sizes, life, migrating, seed: 9 }
}

pub(crate) fn frame(writer: &Writer, segment: Segment, time: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; writer.len(segment)];
    writer.write(segment, time, &mut bytes);
    bytes
}

/// Source, source port, and the payload of TCP or UDP, after etherparse has found all lengths right
/// and all checksums that a fresh sum gives.
fn parse(bytes: &[u8]) -> (Addr, u16, Vec<u8>) {
    let sliced = SlicedPacket::from_ethernet(bytes).expect("a sound frame");
    let (src, dst) = match sliced.net.expect("IP") {
        NetSlice::Ipv4(ip) => {
            let head = ip.header().to_header();
            assert_eq!(head.header_checksum, head.calc_header_checksum(), "IPv4");
            assert_eq!((head.time_to_live, usize::from(head.total_len)), (64, bytes.len() - L3));
            (Addr::v4(head.source), Addr::v4(head.destination))
        }
        NetSlice::Ipv6(ip) => {
            let head = ip.header().to_header();
            assert_eq!((head.hop_limit, usize::from(head.payload_length)), (64, bytes.len() - 54));
            (Addr(head.source), Addr(head.destination))
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    assert!(is_client(src) && !is_client(dst), "{src} to {dst}");
    let (of, to) = (src.0, dst.0);
    match sliced.transport.expect("TCP or UDP") {
        TransportSlice::Tcp(tcp) => {
            let sum = if src.is_v4() {
                tcp.calc_checksum_ipv4(src.low4(), dst.low4())
            } else {
                tcp.calc_checksum_ipv6(of, to)
            };
            assert_eq!((tcp.checksum(), tcp.destination_port()), (sum.expect("short"), 80));
            (src, tcp.source_port(), tcp.payload().to_vec())
        }
        TransportSlice::Udp(udp) => {
            let (head, payload) = (udp.to_header(), udp.payload());
            let sum = if src.is_v4() {
                head.calc_checksum_ipv4_raw(src.low4(), dst.low4(), payload)
            } else {
                head.calc_checksum_ipv6_raw(of, to, payload)
            };
            assert_eq!((head.checksum, head.destination_port), (sum.expect("short"), 80));
            assert_eq!(usize::from(head.length), 8 + payload.len());
            (src, head.source_port, payload.to_vec())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_are_sound_in_every_size_and_role() {
    for (transport, vip) in TRANSPORTS.into_iter().flat_map(|t| [(t, V4), (t, V6)]) {
        let least = transport.smallest(vip.is_v4());
        for sizes in [
            Sizes::fixed(least),
            Sizes::fixed(333),
            Sizes::fixed(1518),
            Sizes::imix(transport, vip.is_v4()),
        ] {
            let writer = Writer::new(wire(transport, vip, sizes));
            for n in 0..200 {
                let segment = Segment { flow: 77_777_777_u32.wrapping_mul(n), seq: n % 4 };
                let time = 123_456_789_012 + u64::from(n);
                let bytes = frame(&writer, segment, time);
                parse(&bytes);
                assert!(bytes.len() <= writer.longest());
                assert_eq!(writer.read(&bytes[L3..]), Some((segment, time)), "{transport:?}");
            }
        }
    }
}

#[test]
fn a_smallest_frame_is_full_of_headers_and_stamp() {
    let smallest = |t: Transport| [t.smallest(true), t.smallest(false)];
    assert_eq!(TRANSPORTS.map(smallest), [[76, 96], [64, 84], [77, 97]]);
}

#[test]
fn flags_tell_a_connections_story() {
    for (vip, at) in [(V4, 47), (V6, 67)] {
        let writer = Writer::new(wire(Transport::Tcp, vip, Sizes::fixed(100)));
        let flags: Vec<_> =
            (0..4).map(|seq| frame(&writer, Segment { flow: 5, seq }, 1)[at]).collect();
        assert_eq!(flags, [SYN, ACK, PSH | ACK, FIN | ACK]);
    }
}

#[test]
fn a_stamp_tells_what_was_written_and_by_whom() {
    let ours = Writer::new(wire(Transport::Udp, V4, Sizes::fixed(64)));
    let theirs = Writer::new(Wire { seed: 10, ..ours.wire().clone() });
    let segment = Segment { flow: u32::MAX, seq: 0x0102_0304 };
    let mut bytes = frame(&ours, segment, TIME_MASK - 5);
    assert_eq!(ours.read(&bytes[L3..]), Some((segment, TIME_MASK - 5)));
    assert_eq!(theirs.read(&bytes[L3..]), None);
    bytes[45] ^= 1;
    assert_eq!(ours.read(&bytes[L3..]), None);
}

#[test]
fn clients_differ_while_flows_do() {
    let of = |vip, flow| {
        let writer = Writer::new(wire(Transport::Udp, vip, Sizes::fixed(100)));
        let (addr, port, _) = parse(&frame(&writer, Segment { flow, seq: 1 }, 0));
        (addr.to_string(), port)
    };
    assert_eq!(of(V4, 3), ("198.18.0.3".to_owned(), 0x8000));
    assert_eq!(of(V4, (1 << 17) + 3), ("198.18.0.3".to_owned(), 0x8001));
    assert_eq!(of(V4, u32::MAX), ("198.19.255.255".to_owned(), 0xffff));
    assert_eq!(of(V6, 3), ("2001:2::3".to_owned(), 0x8000));
    assert_eq!(of(V6, u32::MAX), ("2001:2::1:ffff".to_owned(), 0xffff));
}

/// By RFC 9000 17.2 and 17.3, with the length of short headers' ids known.
#[test]
fn a_flow_by_quic_opens_with_an_initial_and_keeps_its_id() {
    let writer = Writer::new(wire(Transport::Quic, V4, Sizes::fixed(128)));
    let mut ids = std::collections::HashSet::new();
    for flow in 0..500 {
        let (_, _, first) = parse(&frame(&writer, Segment { flow, seq: 0 }, 1));
        assert!(first.len() >= 1200, "{}", first.len());
        assert_eq!(first[0] & 0xf0, 0xc0, "long, fixed bit, Initial");
        assert_eq!((&first[1..6], first[14], first[23]), (&[0, 0, 0, 1, 8][..], 8, 0));
        let rest = usize::from(u16::from_be_bytes([first[24] & 0x3f, first[25]]));
        assert_eq!(
            (first[24] >> 6, 26 + rest),
            (1, first.len()),
            "the length's length, the length"
        );
        assert_eq!(first[26..30], [0; 4]);
        for seq in 1..4 {
            let (_, _, next) = parse(&frame(&writer, Segment { flow, seq }, 1));
            assert_eq!(next[0] & 0xc0, 0x40, "short, fixed bit");
            assert_eq!(next[1..9], first[6..14]);
            assert_eq!(next[9..13], seq.to_be_bytes());
        }
        assert!(ids.insert(first[6..14].to_vec()), "an id twice");
    }
}

#[test]
fn a_share_of_flows_changes_its_port_once() {
    for (life, at) in [(Life::Cycle(6), 3), (Life::Hits, MIGRATES_AT)] {
        let plain = wire(Transport::Quic, V4, Sizes::fixed(128));
        let writer = Writer::new(Wire { life, migrating: 0.25, ..plain });
        let mut moved = 0;
        for flow in 0..4000 {
            let client = |seq| {
                let (addr, port, payload) = parse(&frame(&writer, Segment { flow, seq }, 1));
                (addr, port, payload[1..9].to_vec())
            };
            let (before, after) = (client(at - 1), client(at));
            assert_eq!((&before, &after), (&client(at - 2), &client(at + 1)));
            assert_eq!((before.0, before.2), (after.0, after.2), "the id stays");
            assert_eq!(writer.migrates(flow, at - 1, at), before.1 != after.1);
            assert!(!writer.migrates(flow, at, at + 1));
            moved += u32::from(before.1 != after.1);
        }
        // Five times the deviation of 4,000 draws.
        assert!((860..1140).contains(&moved), "{moved} of 4000");
    }
}
