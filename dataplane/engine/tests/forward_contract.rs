//! What every forwarder promises: the server gets the client's packet with TTL − 1, and nothing
//! else has changed.

use engine::addr::{Addr, Mac};
use engine::forward::{ForwarderKind, HEADROOM};
use engine::frame::Frame;
use engine::neigh::Hop;
use engine::parse::{Parsed, parse};
use engine::server::ServerLine;
use engine::snapshot::PortFacts;
use engine::testkit::craft::{self, Craft, STATION};
use engine::testkit::{HeapFrame, heap_frame};
use engine::verdict::DropReason;
use etherparse::{Ipv4Header, Ipv4HeaderSlice};
use proptest::prelude::*;

const CLIENT: &str = "198.51.100.7:40000";
const VIP: &str = "192.0.2.10:80";
const SERVER: Mac = Mac([2, 0, 0, 0, 0, 9]);
const OUT: PortFacts = PortFacts { mac: STATION, mtu: 1500 };

fn line(forwarder: ForwarderKind, mtu: u16) -> ServerLine {
    ServerLine {
        addr: Addr::v4([203, 0, 113, 5]),
        tunnel_source: Addr::v4([192, 0, 2, 1]),
        mtu,
        forwarder,
        in_use: true,
        ..ServerLine::vacant(0)
    }
}

fn forward(kind: ForwarderKind, frame: &mut HeapFrame, mtu: u16) -> Result<(), DropReason> {
    let at: Parsed = parse(frame, STATION).expect("a sound packet");
    kind.apply(frame, &at, &line(kind, mtu), Hop::new(0, Some(SERVER)), &OUT)
}

/// The client's packet, without padding, with TTL − 1 and a fresh checksum.
fn ttl_minus_one(frame: &[u8]) -> Vec<u8> {
    let header = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap().to_header();
    let mut aged = Ipv4Header { time_to_live: header.time_to_live - 1, ..header.clone() };
    aged.header_checksum = aged.calc_header_checksum();
    let mut packet = aged.to_bytes().to_vec();
    packet.extend(&frame[14 + header.header_len()..14 + usize::from(header.total_len)]);
    packet
}

/// What the server's kernel makes of the frame: the packet that its service sees.
fn received(kind: ForwarderKind, frame: &[u8]) -> Vec<u8> {
    let outer = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap();
    let total = usize::from(outer.total_len());
    match kind {
        ForwarderKind::Dr => frame[14..14 + total].to_vec(),
        ForwarderKind::Ipip => {
            assert_eq!(frame.len(), 14 + total, "a tunnel carries no padding");
            assert_eq!(outer.protocol().0, 4);
            assert_eq!(outer.destination(), [203, 0, 113, 5]);
            frame[34..].to_vec()
        }
    }
}

fn packets() -> impl Strategy<Value = Craft> {
    let kinds = prop_oneof![
        Just(craft::tcp(CLIENT, VIP)),
        Just(craft::tcp(CLIENT, VIP).flags("S").tcp_options(&[1; 20])),
        Just(craft::udp(CLIENT, VIP)),
        Just(craft::ip(CLIENT, VIP, 47)),
    ];
    let header = (2u8.., any::<u8>(), any::<Option<u16>>(), 0usize..11);
    let sizes = (prop::collection::vec(any::<u8>(), 0..60), 0usize..30);
    (kinds, header, sizes).prop_map(|(kind, (ttl, tos, id, options), (payload, padding))| {
        let craft = match id {
            Some(id) => kind.may_fragment(id),
            None => kind,
        };
        let craft = craft.ttl(ttl).tos(tos).options(&vec![1; options * 4]);
        craft.payload(&payload).padding(padding)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_server_gets_the_clients_packet(craft in packets()) {
        for kind in ForwarderKind::ALL {
            let mut frame = craft.build();
            forward(*kind, &mut frame, 1500).unwrap();
            prop_assert_eq!(&frame.bytes()[..6], &SERVER.0);
            prop_assert_eq!(&frame.bytes()[6..12], &OUT.mac.0);
            prop_assert_eq!(&frame.bytes()[12..14], &[8, 0]);
            prop_assert_eq!(received(*kind, frame.bytes()), ttl_minus_one(&craft.bytes()));
        }
    }

    #[test]
    fn the_outer_header_follows_the_inner(craft in packets()) {
        let mut frame = craft.build();
        forward(ForwarderKind::Ipip, &mut frame, 1500).unwrap();
        let outer = Ipv4HeaderSlice::from_slice(&frame.bytes()[14..]).unwrap().to_header();
        let inner = Ipv4HeaderSlice::from_slice(&frame.bytes()[34..]).unwrap().to_header();
        prop_assert_eq!(outer.header_checksum, outer.calc_header_checksum());
        prop_assert_eq!(outer.header_len(), 20);
        prop_assert_eq!(outer.time_to_live, inner.time_to_live);
        prop_assert_eq!((outer.dscp, outer.ecn), (inner.dscp, inner.ecn));
        prop_assert_eq!(outer.dont_fragment, inner.dont_fragment);
        prop_assert_eq!(outer.identification, if inner.dont_fragment { 0 } else {
            inner.identification
        });
        prop_assert_eq!(outer.source, [192, 0, 2, 1]);
    }

    /// No headers make a forwarder panic or lose its contract, as long as `parse` let them through.
    #[test]
    fn whatever_parse_admits_can_be_forwarded(
        craft in packets(),
        changes in prop::collection::vec((34usize..120, any::<u8>()), 0..6),
    ) {
        let mut bytes = craft.bytes();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        for kind in ForwarderKind::ALL {
            let mut frame = HeapFrame::new(&bytes);
            let Ok(at) = parse(&frame, STATION) else { continue };
            kind.apply(&mut frame, &at, &line(*kind, 1500), Hop::new(0, Some(SERVER)), &OUT).unwrap();
            prop_assert_eq!(received(*kind, frame.bytes()), ttl_minus_one(&bytes));
        }
    }
}

#[test]
fn a_refusal_leaves_the_frame_alone() {
    let craft = craft::tcp(CLIENT, VIP).payload(&[7; 100]).padding(9);
    for kind in ForwarderKind::ALL {
        for craft in [craft.clone(), craft.clone().may_fragment(5)] {
            let whole = 140 + kind.overhead();
            let mut frame = craft.build();
            assert_eq!(forward(*kind, &mut frame, whole - 1), Err(DropReason::TooBig));
            assert_eq!(frame, craft.build());
            assert_eq!(forward(*kind, &mut frame, whole), Ok(()));
            assert_eq!(kind.client_mtu(whole), 140);
        }
        let mut tight = HeapFrame::with_headroom(&craft.bytes(), kind.overhead().into());
        assert_eq!(forward(*kind, &mut tight, 1500), Ok(()));
        if kind.overhead() > 0 {
            let mut tight = HeapFrame::with_headroom(&craft.bytes(), HEADROOM - 1);
            assert_eq!(forward(*kind, &mut tight, 1500), Err(DropReason::NoHeadroom));
            assert_eq!(tight, craft.build());
        }
    }
    const { assert!(HEADROOM <= heap_frame::HEADROOM) };
}
