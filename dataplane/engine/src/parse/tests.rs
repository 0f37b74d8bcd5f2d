//! `parse` against a third parser that knows no offsets, no structs and no fast path.

use proptest::prelude::*;

use super::*;
use crate::testkit::HeapFrame;
use crate::testkit::craft::{self, Craft, PEER, STATION};

const CLIENT: &str = "198.51.100.7:40000";
const VIP: &str = "192.0.2.10:80";

/// Reads numbers off the front of a frame, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Verdict> {
        let (head, rest) =
            self.0.split_at_checked(n).ok_or(Verdict::Drop(DropReason::Truncated))?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Verdict> {
        Ok(self.take(bytes)?.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn four(&mut self) -> Result<[u8; 4], Verdict> {
        Ok(self.take(4)?.try_into().unwrap())
    }
}

fn unless(sound: bool, reason: DropReason) -> Result<(), Verdict> {
    if sound { Ok(()) } else { Err(Verdict::Drop(reason)) }
}

/// The obvious parser.
fn obvious(frame: &[u8], station: Mac) -> Result<Parsed, Verdict> {
    let mut r = Reader(frame);
    let (dst, _src) = (r.take(6)?, r.take(6)?);
    let kind = r.number(2)?;
    let for_us = dst == station.0 || kind == 0x0806 && dst[0] % 2 == 1;
    unless(for_us, DropReason::OtherStation)?;
    match kind {
        0x0806 => Ok(Parsed { kind: Kind::Arp, l3: 14, l4: 14, ..Parsed::default() }),
        0x0800 => obvious_ip(r.0, frame.len() - r.0.len()),
        _ => Err(Verdict::Punt),
    }
}

fn obvious_ip(packet: &[u8], l3: usize) -> Result<Parsed, Verdict> {
    let mut r = Reader(packet);
    let (first, _tos, total) = (r.number(1)?, r.number(1)?, r.number(2)?);
    let (_id, fragment) = (r.number(2)?, r.number(2)?);
    let (ttl, proto, _sum) = (r.number(1)?, r.number(1)?, r.number(2)?);
    let (src, dst) = (r.four()?, r.four()?);
    let (header, total) = ((first & 15) as usize * 4, total as usize);
    unless(first >> 4 == 4 && header >= 20 && header <= total, DropReason::BadHeader)?;
    unless(total <= packet.len(), DropReason::Truncated)?;
    let words = packet[..header].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    // One's complement: the sum is a multiple of 0xffff, and not 0.
    let sum: u32 = words.sum();
    unless(sum != 0 && sum.is_multiple_of(0xffff), DropReason::BadChecksum)?;
    let ip = std::net::Ipv4Addr::from(src);
    let unusable = src[0] == 0 || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast();
    unless(!unusable && src != dst, DropReason::BadSource)?;
    unless(fragment % 0x4000 == 0, DropReason::Fragment)?;
    let (kind, ports, tcp_flags) = obvious_transport(proto, &packet[header..total])?;
    let mut key = [0; 40];
    let parts = [&src[..], &dst, &ports, &[proto as u8]].concat();
    key[..13].copy_from_slice(&parts);
    Ok(Parsed {
        key: FlowKey(key),
        family: Family::V4,
        kind,
        l3: l3 as u16,
        l4: (l3 + header) as u16,
        ip_len: total as u16,
        ttl: ttl as u8,
        tcp_flags,
    })
}

fn obvious_transport(proto: u64, body: &[u8]) -> Result<(Kind, [u8; 4], u8), Verdict> {
    let mut r = Reader(body);
    let (kind, flags, sound, ports) = match proto {
        1 => return Ok((Kind::Icmp, [0; 4], 0)),
        6 => {
            let ports = r.four()?;
            let (_seq, _ack) = (r.number(4)?, r.number(4)?);
            let (offset, flags) = (r.number(1)? >> 4, r.number(1)?);
            r.take(6)?;
            let sound = offset >= 5 && offset as usize * 4 <= body.len();
            (Kind::Tcp, flags as u8, sound, ports)
        }
        17 => {
            let ports = r.four()?;
            let (len, _sum) = (r.number(2)?, r.number(2)?);
            (Kind::Udp, 0, (8..=body.len() as u64).contains(&len), ports)
        }
        _ => return Ok((Kind::OtherIp, [0; 4], 0)),
    };
    unless(sound, DropReason::BadHeader)?;
    unless(ports[..2] != [0, 0] && ports[2..] != [0, 0], DropReason::ZeroPort)?;
    Ok((kind, ports, flags))
}

fn verdict_of(craft: &Craft) -> Result<Parsed, Verdict> {
    let result = parse(&craft.build(), STATION);
    assert_eq!(result, obvious(&craft.bytes(), STATION), "{craft:?}");
    result
}

fn dropped(craft: &Craft) -> DropReason {
    match verdict_of(craft) {
        Err(Verdict::Drop(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_syn_is_taken_apart() {
    let at = verdict_of(&craft::tcp(CLIENT, VIP).flags("S").ttl(63)).unwrap();
    let key = FlowKey::v4([198, 51, 100, 7], [192, 0, 2, 10], [0x9c, 0x40, 0, 80], L4Proto::Tcp);
    let (kind, family) = (Kind::Tcp, Family::V4);
    let want = Parsed { key, family, kind, l3: 14, l4: 34, ip_len: 40, ttl: 63, tcp_flags: 2 };
    assert_eq!(at, want);
}

#[test]
fn options_move_the_transport_header() {
    let at = verdict_of(&craft::udp(CLIENT, VIP).options(&[1; 12]).payload(b"x")).unwrap();
    assert_eq!((at.kind, at.l4, at.ip_len), (Kind::Udp, 46, 41));
}

#[test]
fn padding_is_no_part_of_the_packet() {
    for craft in [craft::udp(CLIENT, VIP).padded(), craft::tcp(CLIENT, VIP).padding(500)] {
        let bare = craft.clone().padding(0);
        assert_eq!(verdict_of(&craft), verdict_of(&bare));
    }
}

#[test]
fn each_fault_has_its_name() {
    use DropReason::*;
    let (tcp, udp) = (craft::tcp(CLIENT, VIP), craft::udp(CLIENT, VIP).payload(b"12345678"));
    let from = |src| craft::tcp(src, VIP);
    for (craft, reason) in [
        (tcp.clone().cut(13), Truncated),
        (tcp.clone().cut(33), Truncated),
        (tcp.clone().cut(53), Truncated),
        (tcp.clone().macs(PEER, PEER), OtherStation),
        (tcp.clone().macs(Mac::BROADCAST, PEER), OtherStation),
        (tcp.clone().version(6), BadHeader),
        (tcp.clone().total_len(19), BadHeader),
        (tcp.clone().total_len(39), Truncated),
        (tcp.clone().total_len(41), Truncated),
        (tcp.clone().bad_ip_checksum(), BadChecksum),
        (from("0.0.0.0:9"), BadSource),
        (from("127.0.0.1:9"), BadSource),
        (from("224.0.0.1:9"), BadSource),
        (from("239.255.255.255:9"), BadSource),
        (from("255.255.255.255:9"), BadSource),
        (from(VIP), BadSource),
        (tcp.clone().fragment(0x2000), Fragment),
        (tcp.clone().fragment(1), Fragment),
        (tcp.clone().data_offset(4), BadHeader),
        (tcp.clone().data_offset(6), BadHeader),
        (udp.clone().udp_len(7), BadHeader),
        (udp.clone().udp_len(17), BadHeader),
        (from("198.51.100.7:0"), ZeroPort),
        (craft::udp(CLIENT, "192.0.2.10:0"), ZeroPort),
    ] {
        assert_eq!(dropped(&craft), reason, "{craft:?}");
    }
    assert_eq!(verdict_of(&tcp.ethertype(0x86dd)), Err(Verdict::Punt));
}

#[test]
fn odd_but_legal_is_let_through() {
    let tcp = craft::tcp(CLIENT, VIP);
    for craft in [
        tcp.clone().flags(""),
        tcp.clone().flags("SF"),
        tcp.clone().bad_checksum(),
        tcp.clone().ttl(0),
        tcp.fragment(0x8000),
        craft::udp(CLIENT, VIP).payload(b"12345678").udp_len(8),
        craft::icmp(CLIENT, VIP, 3, 4),
        craft::ip(CLIENT, VIP, 47),
        craft::udp("240.0.0.1:1", VIP),
    ] {
        assert!(verdict_of(&craft).is_ok(), "{craft:?}");
    }
}

#[test]
fn arp_may_be_broadcast() {
    let arp = craft::arp_request(PEER, "192.0.2.1", "192.0.2.10");
    assert_eq!(parse(&arp, STATION).unwrap().kind, Kind::Arp);
}

/// Packets of all kinds, most of them sound, and some bytes of each changed.
pub(crate) fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        Just(craft::tcp(CLIENT, VIP)),
        Just(craft::tcp(CLIENT, VIP).flags("S").tcp_options(&[1; 20])),
        Just(craft::udp(CLIENT, VIP)),
        Just(craft::icmp(CLIENT, VIP, 8, 0)),
        Just(craft::ip(CLIENT, VIP, 47)),
    ];
    let sizes = (0usize..11, 0usize..40, 0usize..30);
    let changes = prop::collection::vec((0usize..80, any::<u8>(), any::<bool>()), 0..4);
    (kinds, sizes, changes).prop_map(|(kind, (options, payload, padding), changes)| {
        let craft = kind.options(&vec![1; options / 2 * 4]).payload(&vec![7; payload]);
        let mut bytes = craft.padding(padding).bytes();
        for (at, value, reseal) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
            if reseal {
                seal_ip(&mut bytes);
            }
        }
        bytes
    })
}

/// Makes the header checksum right again, so that a mutation reaches the rules behind it.
fn seal_ip(bytes: &mut [u8]) {
    let header = usize::from(bytes[14] & 15) * 4;
    if let Some(ip) = bytes.get_mut(14..14 + header).filter(|ip| ip.len() >= 20) {
        ip[10..12].fill(0);
        let sum = Sum::of(ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn equals_the_obvious_parser(bytes in mutated()) {
        prop_assert_eq!(parse(&HeapFrame::new(&bytes), STATION), obvious(&bytes, STATION));
    }

    #[test]
    fn any_bytes_are_judged_alike(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert_eq!(parse(&HeapFrame::new(&bytes), STATION), obvious(&bytes, STATION));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_truncation_is_judged_alike(bytes in mutated()) {
        for len in 0..=bytes.len() {
            let cut = &bytes[..len];
            prop_assert_eq!(parse(&HeapFrame::new(cut), STATION), obvious(cut, STATION));
        }
    }
}
