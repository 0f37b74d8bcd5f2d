//! Answers, as etherparse reads them, and answers to arbitrary bytes.

use etherparse::{IpNumber, Ipv4Header, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::arp::{ArpOp, ArpPacket};
use super::icmp_error::IcmpError;
use super::*;
use crate::addr::{Addr, Mac};
use crate::mailbox::ArpOrder;
use crate::parse::parse;
use crate::parse::tests::mutated;
use crate::testkit::HeapFrame;
use crate::testkit::craft::{self, Craft, PEER, STATION};

const CLIENT: &str = "198.51.100.7:40000";
const VIP: &str = "192.0.2.10:80";
const VIP_ADDR: Addr = Addr::v4([192, 0, 2, 10]);

/// A sound packet from the VIP to the client, on its way back: its header and transport part.
fn sound(frame: &HeapFrame) -> (Ipv4Header, TransportSlice<'_>) {
    let sliced = SlicedPacket::from_ethernet(frame.bytes()).expect("a sound answer");
    assert_eq!(frame.bytes()[..12], [PEER.0, STATION.0].concat());
    let header = sliced.net.as_ref().unwrap().ipv4_ref().unwrap().header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    assert_eq!(usize::from(header.total_len) + 14, frame.bytes().len(), "no padding");
    assert_eq!((header.source, header.destination), ([192, 0, 2, 10], [198, 51, 100, 7]));
    assert_eq!(header.time_to_live, 64);
    (header, sliced.transport.expect("a transport header"))
}

fn reset_of(craft: &Craft) -> (u32, u32, u8) {
    let mut frame = craft.build();
    let at = parse(&frame, STATION).unwrap();
    reset::answer(&mut frame, &at).unwrap();
    let (ip, TransportSlice::Tcp(tcp)) = sound(&frame) else { panic!("no TCP") };
    assert_eq!((ip.protocol, ip.identification, ip.dont_fragment), (IpNumber::TCP, 0, true));
    assert_eq!((tcp.source_port(), tcp.destination_port()), (80, 40000));
    assert_eq!(tcp.calc_checksum_ipv4(ip.source, ip.destination).unwrap(), tcp.checksum());
    assert_eq!((tcp.payload().len(), tcp.data_offset(), tcp.window_size()), (0, 5, 0));
    (tcp.sequence_number(), tcp.acknowledgment_number(), frame.bytes()[47])
}

#[test]
fn resets_take_their_numbers_from_the_segment() {
    let (rst, rst_ack) = (0x04, 0x14);
    let segment = || craft::tcp(CLIENT, VIP).numbers(u32::MAX, 77);
    assert_eq!(reset_of(&segment()), (77, 0, rst));
    assert_eq!(reset_of(&segment().flags("SA").payload(b"data")), (77, 0, rst));
    assert_eq!(reset_of(&segment().flags("S")), (0, 0, rst_ack), "wraps");
    assert_eq!(reset_of(&segment().flags("FP").payload(b"data")), (0, 4, rst_ack));
    assert_eq!(reset_of(&segment().flags("").padded()), (0, u32::MAX, rst_ack));
    let optioned = segment().flags("S").options(&[1; 40]).tcp_options(&[1; 20]).payload(b"x");
    assert_eq!(reset_of(&optioned), (0, 1, rst_ack));
}

#[test]
fn a_reset_is_never_answered() {
    for flags in ["R", "RA"] {
        let craft = craft::tcp(CLIENT, VIP).flags(flags);
        let mut frame = craft.build();
        let at = parse(&frame, STATION).unwrap();
        assert_eq!(reset::answer(&mut frame, &at), Err(DropReason::Stray));
        assert_eq!(frame, craft.build());
    }
}

#[test]
fn nothing_is_answered_to_a_group() {
    let group = Mac([0x01, 0, 0x5e, 0, 0, 1]);
    let mut frame = craft::tcp(CLIENT, VIP).macs(STATION, group).build();
    let at = parse(&frame, STATION).unwrap();
    assert_eq!(reset::answer(&mut frame, &at), Err(DropReason::BadSource));
}

fn echo(craft: &Craft) -> Result<HeapFrame, DropReason> {
    let mut frame = craft.build();
    let at = parse(&frame, STATION).unwrap();
    echo::answer(&mut frame, &at).map(|()| frame)
}

#[test]
fn a_ping_comes_back_with_its_data() {
    for payload in [&b""[..], b"odd", &[0; 300]] {
        let ping = craft::icmp(CLIENT, VIP, 8, 0).tos(0x10).may_fragment(9).payload(payload);
        let reply = echo(&ping.padded()).unwrap();
        let (ip, transport) = sound(&reply);
        assert_eq!((ip.identification, ip.dscp.value()), (9, 4));
        let TransportSlice::Icmpv4(icmp) = transport else { panic!("no ICMP") };
        assert_eq!((icmp.type_u8(), icmp.code_u8()), (0, 0));
        assert_eq!(icmp.bytes5to8(), [0, 7, 0, 1]);
        assert_eq!(icmp.payload(), payload);
        assert_eq!(icmp.icmp_type().calc_checksum(payload), icmp.checksum());
    }
}

#[test]
fn a_ping_of_zeros_gets_a_sound_checksum() {
    let mut bytes = craft::icmp(CLIENT, VIP, 8, 0).bytes();
    bytes[36..42].copy_from_slice(&[0xf7, 0xff, 0, 0, 0, 0]);
    let mut frame = HeapFrame::new(&bytes);
    let at = parse(&frame, STATION).unwrap();
    echo::answer(&mut frame, &at).unwrap();
    assert_eq!(frame.bytes()[34..42], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
}

#[test]
fn only_sound_pings_come_back() {
    let ping = || craft::icmp(CLIENT, VIP, 8, 0);
    assert_eq!(echo(&ping().bad_checksum()), Err(DropReason::BadChecksum));
    assert_eq!(echo(&ping().options(&[1; 4])), Err(DropReason::IcmpIgnored));
    assert_eq!(echo(&craft::icmp(CLIENT, VIP, 8, 1)), Err(DropReason::IcmpIgnored));
    assert_eq!(echo(&craft::icmp(CLIENT, VIP, 0, 0)), Err(DropReason::IcmpIgnored));
    assert_eq!(echo(&craft::ip(CLIENT, VIP, 1).payload(&[8, 0])), Err(DropReason::IcmpIgnored));
    assert_eq!(echo(&craft::tcp(CLIENT, VIP)), Err(DropReason::IcmpIgnored));
}

fn told(craft: &Craft, error: IcmpError) -> Result<HeapFrame, DropReason> {
    let mut frame = craft.build();
    let at = parse(&frame, STATION).unwrap();
    icmp_error::answer(&mut frame, &at, error, VIP_ADDR).map(|()| frame)
}

#[test]
fn errors_quote_the_packet_as_it_came() {
    let mtu = IcmpError::FragmentationNeeded { mtu: 1480 };
    let kinds = [
        (IcmpError::TimeExceeded, (11, 0, [0; 4])),
        (IcmpError::PortUnreachable, (3, 3, [0; 4])),
        (mtu, (3, 4, [0, 0, 0x05, 0xc8])),
    ];
    for (error, (kind, code, rest)) in kinds {
        for (len, quoted) in [(0, 28), (519, 547), (520, 548), (521, 548), (1400, 548)] {
            let craft = craft::udp(CLIENT, VIP).ttl(1).payload(&vec![7; len]).padding(5);
            let frame = told(&craft, error).unwrap();
            let (ip, TransportSlice::Icmpv4(icmp)) = sound(&frame) else { panic!("no ICMP") };
            assert_eq!((ip.dscp.value(), ip.ecn.value(), ip.dont_fragment), (48, 0, true));
            assert_eq!((icmp.type_u8(), icmp.code_u8(), icmp.bytes5to8()), (kind, code, rest));
            assert_eq!(icmp.payload(), &craft.bytes()[14..14 + quoted]);
            assert!(crate::wire::checksum::Sum::of(icmp.slice()).holds());
        }
    }
}

#[test]
fn errors_know_what_they_must_not_answer() {
    let error = IcmpError::TimeExceeded;
    for kind in [3, 4, 5, 11, 12, 40, 255] {
        let craft = craft::icmp(CLIENT, VIP, kind, 0);
        assert_eq!(told(&craft, error), Err(DropReason::IcmpIgnored), "type {kind}");
    }
    assert!(told(&craft::icmp(CLIENT, VIP, 8, 0), error).is_ok());
    assert_eq!(told(&craft::ip(CLIENT, VIP, 1), error), Err(DropReason::IcmpIgnored), "empty");
    for dst in ["224.0.0.1:9", "255.255.255.255:9"] {
        assert_eq!(told(&craft::udp(CLIENT, dst), error), Err(DropReason::BadSource));
    }
    let craft = craft::udp(CLIENT, VIP);
    let mut tight = HeapFrame::with_headroom(&craft.bytes(), icmp_error::HEADROOM - 1);
    let at = parse(&tight, STATION).unwrap();
    let refused = icmp_error::answer(&mut tight, &at, error, VIP_ADDR);
    assert_eq!((refused, tight), (Err(DropReason::NoHeadroom), craft.build()));
}

#[test]
fn arp_is_answered_to_who_asked() {
    for asker in ["192.0.2.1", "0.0.0.0"] {
        let mut frame = craft::arp_request(PEER, asker, "192.0.2.10");
        arp::answer(&mut frame, STATION).unwrap();
        let mut want = craft::arp_reply(STATION, "192.0.2.10", asker);
        want.bytes_mut()[..6].copy_from_slice(&PEER.0);
        want.bytes_mut()[32..38].copy_from_slice(&PEER.0);
        assert_eq!(frame, want);
    }
}

#[test]
fn arp_answers_are_padded_with_zeros() {
    let mut bytes = craft::arp_request(PEER, "192.0.2.1", "192.0.2.10").bytes().to_vec();
    bytes[42..].fill(7);
    bytes.extend([7; 20]);
    let mut frame = HeapFrame::new(&bytes);
    arp::answer(&mut frame, STATION).unwrap();
    assert_eq!(frame.bytes()[42..], [0; 18]);
}

#[test]
fn arp_orders_become_requests() {
    let (sender, target) = (Addr::v4([192, 0, 2, 1]), VIP_ADDR);
    for (order, want) in [
        (
            ArpOrder { port: 0, sender, target, to: None },
            craft::arp_request(STATION, "192.0.2.1", "192.0.2.10"),
        ),
        (
            ArpOrder { port: 0, sender: target, target, to: None },
            craft::arp_request(STATION, "192.0.2.10", "192.0.2.10"),
        ),
    ] {
        let mut frame = HeapFrame::new(&[0xff; 90]);
        arp::write(&mut frame, &order, STATION).unwrap();
        assert_eq!(frame, want);
        let probe = ArpOrder { to: Some(PEER), ..order };
        arp::write(&mut frame, &probe, STATION).unwrap();
        assert_eq!(frame.bytes()[..6], PEER.0);
        assert_eq!(frame.bytes()[6..], want.bytes()[6..]);
    }
    let order = ArpOrder { port: 0, sender, target, to: None };
    let mut short = HeapFrame::new(&[0; 41]);
    assert_eq!(arp::write(&mut short, &order, STATION), Err(DropReason::Truncated));
}

#[test]
fn arp_is_heard_only_when_sound() {
    let (sender, target) = (Addr::v4([192, 0, 2, 1]), VIP_ADDR);
    let reply = craft::arp_reply(PEER, "192.0.2.1", "192.0.2.10");
    let heard = ArpPacket { op: ArpOp::Reply, sender_mac: PEER, sender, target };
    assert_eq!(arp::parse_arp(&reply), Some(heard));
    // ethertype, htype, ptype, hlen, plen, oper, sender MAC (group), sender (multicast), target
    for (at, value) in
        [(13, 0), (15, 2), (16, 9), (18, 7), (19, 16), (21, 3), (22, 1), (28, 224), (38, 127)]
    {
        let mut faulty = reply.clone();
        faulty.bytes_mut()[at] = value;
        assert_eq!(arp::parse_arp(&faulty), None, "byte {at}");
    }
    for (op, sender, target) in [
        (craft::arp_reply as fn(Mac, _, _) -> _, "0.0.0.0", "192.0.2.10"),
        (craft::arp_request, "192.0.2.1", "0.0.0.0"),
        (craft::arp_request, "127.0.0.1", "192.0.2.10"),
        (craft::arp_request, "255.255.255.255", "192.0.2.10"),
    ] {
        assert_eq!(arp::parse_arp(&op(PEER, sender, target)), None, "{sender} {target}");
    }
    let mut no_request = reply.clone();
    assert_eq!(arp::answer(&mut no_request, STATION), Err(DropReason::ArpIgnored));
    assert_eq!(no_request, reply);
}

/// Tries every answer; an error must leave the frame alone, an answer must be sound.
fn try_all(bytes: &[u8]) {
    type Answer = fn(&mut HeapFrame, &Parsed) -> Result<(), DropReason>;
    let answers: [Answer; 4] = [
        echo::answer,
        reset::answer,
        |f, at| icmp_error::answer(f, at, IcmpError::TimeExceeded, VIP_ADDR),
        |f, _| arp::answer(f, STATION),
    ];
    let frame = HeapFrame::new(bytes);
    let at = parse(&frame, STATION);
    for answer in answers {
        let mut answered = frame.clone();
        match at.map(|at| answer(&mut answered, &at)) {
            Ok(Ok(())) => {
                let to = Mac(*answered.head().unwrap());
                assert!(to.is_station());
                assert!(parse(&answered, to).is_ok(), "{:x?}", answered.bytes());
            }
            _ => assert_eq!(answered, frame),
        }
    }
    let mut answered = frame.clone();
    if arp::answer(&mut answered, STATION).is_err() {
        assert_eq!(answered, frame);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn answers_to_mutated_packets_are_sound(bytes in mutated()) {
        try_all(&bytes);
    }

    #[test]
    fn answers_to_any_bytes_are_sound(
        eth in prop_oneof![Just([8u8, 0]), Just([8, 6])],
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        try_all(&[&STATION.0[..], &PEER.0, &eth, &rest].concat());
    }

    #[test]
    fn answers_to_mutated_arp_are_sound(
        changes in prop::collection::vec((0usize..60, any::<u8>()), 0..4),
        len in 0usize..61,
    ) {
        let mut bytes = craft::arp_request(PEER, "192.0.2.1", "192.0.2.10").bytes().to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        try_all(&bytes[..len]);
        try_all(&bytes);
    }
}
