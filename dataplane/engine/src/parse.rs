//! Bytes to [`Parsed`], or a verdict: the only file that walks untrusted headers.
//!
//! Nearly every packet is IPv4 without options that carries TCP or UDP and fills 54 bytes.
//! `fast` knows only those: one length check, constant offsets, and one answer for anything
//! odd, "not mine". `slow` knows the rules in full and names what is wrong. Where `fast` says
//! something, `slow` says the same (a property test holds both to a third, obvious parser).

use zerocopy::FromBytes;

use crate::addr::{L4Proto, Mac};
use crate::flow::{Family, FlowKey};
use crate::frame::Frame;
use crate::snapshot::PortFacts;
use crate::verdict::{DropReason, Verdict};
use crate::wire::checksum::Sum;
use crate::wire::eth::{self, Eth};
use crate::wire::ipv4::{self, Ipv4};
use crate::wire::tcp::{self, Tcp};
use crate::wire::udp::{self, Udp};

#[cfg(test)]
pub(crate) mod tests;

/// What a packet is, as far as its way through the director differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// TCP over IPv4.
    #[default]
    Tcp,
    /// UDP over IPv4.
    Udp,
    /// ICMP over IPv4; only the IPv4 header has been judged.
    Icmp,
    /// Another protocol over IPv4.
    OtherIp,
    /// ARP; only the Ethernet header has been judged, see [`crate::reply::arp::parse_arp`].
    Arp,
}

/// Proof that the headers are sound: who may hold one need not check again.
///
/// The IPv4 header is whole and its checksum right, the packet whole and no fragment; the fixed
/// part of a TCP or UDP header is whole. The frame may be longer than the packet (Ethernet padding):
/// the packet ends at `l3 + ip_len`. Before a connection begins, [`begins`] judges the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Parsed {
    /// Who talks to whom. Without TCP or UDP the ports are zero and the protocol is the IP
    /// header's; for ARP all is zero.
    pub key: FlowKey,
    /// The address family.
    pub family: Family,
    /// What it is.
    pub kind: Kind,
    /// Where the IP header starts, in bytes from the start of the frame. 14 in this release.
    pub l3: u16,
    /// Where the transport header starts, in bytes from the start of the frame.
    pub l4: u16,
    /// Bytes of the IP packet, header included; 0 for ARP.
    pub ip_len: u16,
    /// Hops left.
    pub ttl: u8,
    /// TCP's flags; 0 without TCP.
    pub tcp_flags: u8,
}

impl Default for Parsed {
    fn default() -> Self {
        Self {
            key: FlowKey([0; 40]),
            family: Family::V4,
            kind: Kind::default(),
            l3: 0,
            l4: 0,
            ip_len: 0,
            ttl: 0,
            tcp_flags: 0,
        }
    }
}

/// Judges the headers of a frame that arrived on `port`, and writes what they say into `into`, which
/// without an error is whole and else of no meaning.
///
/// Into a place of the burst instead of by value: a value made of narrow stores is moved by wide
/// loads, and a load that spans several stores waits for them, 15 cycles a packet.
///
/// # Errors
/// What happens to a frame that goes no further: [`Verdict::Punt`] if it carries neither IPv4 nor
/// ARP, else [`Verdict::Drop`] with the reason.
#[inline(always)]
pub fn parse_into<F: Frame>(frame: &F, port: &PortFacts, into: &mut Parsed) -> Result<(), Verdict> {
    if fast(frame, port, into).is_some() {
        return Ok(());
    }
    slow_into(frame.bytes(), port.mac, into)
}

#[cold]
#[inline(never)]
fn slow_into(frame: &[u8], station: Mac, into: &mut Parsed) -> Result<(), Verdict> {
    *into = slow(frame, station)?;
    Ok(())
}

/// The same by value and with [`begins`], for a port whose hardware address is `station`.
///
/// # Errors
/// As [`parse_into`].
pub fn parse<F: Frame>(frame: &F, station: Mac) -> Result<Parsed, Verdict> {
    let mut parsed = Parsed::default();
    parse_into(frame, &PortFacts { mac: station, mtu: 0 }, &mut parsed)?;
    if matches!(parsed.kind, Kind::Tcp | Kind::Udp) {
        begins(frame, &parsed).map_err(Verdict::Drop)?;
    }
    Ok(parsed)
}

/// Header offsets of the common packet.
const L3: u16 = 14;
const L4: u16 = 34;

/// The common packet, or `None` for anything else. What it leaves out is [`begins`]' business.
///
/// ```text
///  byte 0          6        12   14 15 16  18 20  22  23    24  26     30     34    38
///       | to       | from   | 0800 45 tos len id frag ttl proto sum source dest  ports | ...
///  read | link: 8 bytes     | kind: 8 bytes   | rest: 4  |   | pair: 8     | 4      |
/// ```
#[inline(always)]
fn fast<F: Frame>(frame: &F, port: &PortFacts, into: &mut Parsed) -> Option<()> {
    let h = frame.head::<54>()?;
    let four = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;

    let (link, kind, rest) = (eight(0), eight(12), four(20));
    // Another station; ethertype, version and header length; "more fragments" and an offset.
    let odd = (link ^ port.word()) << 16 | (kind ^ 0x0045_0008) << 40 | u64::from(rest & 0xff3f);
    #[allow(clippy::cast_possible_truncation, reason = "bytes are cut out of words")]
    let (ip_len, ttl, proto) =
        (((kind >> 32) as u16).swap_bytes(), (rest >> 16) as u8, (rest >> 24) as u8);
    if odd != 0
        || usize::from(L3) + usize::from(ip_len) > frame.bytes().len()
        || !Sum::of(&h[14..34]).holds()
    {
        return None;
    }
    let (kind, tcp_flags, least) = match L4Proto::from_ip(proto)? {
        L4Proto::Tcp => (Kind::Tcp, h[47], ipv4::LEN + tcp::LEN),
        L4Proto::Udp => (Kind::Udp, 0, ipv4::LEN + udp::LEN),
    };
    if usize::from(ip_len) < least {
        return None;
    }
    // Two stores of eight bytes, as the hash loads them: a load that spans stores waits for them,
    // 13 cycles a packet.
    into.key.put_v4(eight(26), u64::from(four(34)) | u64::from(proto) << 32);
    (into.family, into.kind, into.tcp_flags) = (Family::V4, kind, tcp_flags);
    (into.l3, into.l4, into.ip_len, into.ttl) = (L3, L4, ip_len, ttl);
    Some(())
}

/// What a packet must be besides to begin a connection, or to be answered: from a source that a
/// host may have, with ports, its TCP or UDP header whole. A packet of a known connection has the
/// first two, and what it carries is its server's business.
///
/// # Errors
/// [`DropReason::BadSource`], [`DropReason::ZeroPort`] or [`DropReason::BadHeader`].
#[inline(always)]
pub fn begins<F: Frame>(frame: &F, at: &Parsed) -> Result<(), DropReason> {
    if plain_tcp(frame, at) == Some(true) { Ok(()) } else { judge_newcomer(frame.bytes(), at) }
}

/// Whether it is TCP over IPv4 without options that may begin; if not, the rules say why.
#[inline(always)]
fn plain_tcp<F: Frame>(frame: &F, at: &Parsed) -> Option<bool> {
    let h = frame.head::<54>()?;
    let quad = |at: usize| [h[at], h[at + 1], h[at + 2], h[at + 3]];
    let len = usize::from(h[46] >> 4) * 4;
    let whole = len >= tcp::LEN && ipv4::LEN + len <= usize::from(at.ip_len);
    let ported = h[34..36] != [0, 0] && h[36..38] != [0, 0];
    let plain = at.kind == Kind::Tcp && (at.l3, at.l4) == (L3, L4);
    Some(plain && whole && ported && usable_source(quad(26), quad(30)))
}

#[cold]
#[inline(never)]
fn judge_newcomer(frame: &[u8], at: &Parsed) -> Result<(), DropReason> {
    let (src, dst) = (at.key.src(at.family), at.key.dst(at.family));
    if !usable_source(src.low4(), dst.low4()) {
        return Err(DropReason::BadSource);
    }
    let packet = frame.get(..usize::from(at.l3) + usize::from(at.ip_len));
    let body = packet.and_then(|packet| packet.get(usize::from(at.l4)..));
    match transport(at.key.proto(at.family) as u8, body.unwrap_or_default()) {
        Err(Verdict::Drop(reason)) => Err(reason),
        _ => Ok(()),
    }
}

/// Whether a host may send from `src` to `dst`. Not from the destination itself: the "land" attack.
#[inline(always)]
fn usable_source(src: [u8; 4], dst: [u8; 4]) -> bool {
    ipv4::is_host(src) && src != dst
}

/// Every rule, in order, with the name of what is wrong.
fn slow(frame: &[u8], station: Mac) -> Result<Parsed, Verdict> {
    let (eth, rest) = header::<Eth>(frame)?;
    let group_arp = eth.ethertype() == eth::ARP && eth.dst().is_group();
    if eth.dst() != station && !group_arp {
        return Err(Verdict::Drop(DropReason::OtherStation));
    }
    match eth.ethertype() {
        eth::ARP => Ok(Parsed { kind: Kind::Arp, l3: L3, l4: L3, ..Parsed::default() }),
        eth::IPV4 => ipv4_packet(rest),
        _ => Err(Verdict::Punt),
    }
}

/// Judges an IPv4 packet, perhaps with padding behind it.
fn ipv4_packet(bytes: &[u8]) -> Result<Parsed, Verdict> {
    let (ip, _) = header::<Ipv4>(bytes)?;
    let (header_len, total) = (ip.header_len(), usize::from(ip.total_len()));
    if ip.version() != 4 || header_len < ipv4::LEN || total < header_len {
        return Err(Verdict::Drop(DropReason::BadHeader));
    }
    let Some(packet) = bytes.get(..total) else {
        return Err(Verdict::Drop(DropReason::Truncated));
    };
    let (head, body) = packet.split_at(header_len);
    if !Sum::of(head).holds() {
        return Err(Verdict::Drop(DropReason::BadChecksum));
    }
    if !usable_source(ip.src, ip.dst) {
        return Err(Verdict::Drop(DropReason::BadSource));
    }
    if ip.is_fragment() {
        return Err(Verdict::Drop(DropReason::Fragment));
    }
    let (kind, ports, tcp_flags) = transport(ip.proto, body)?;
    let mut key = FlowKey::v4(ip.src, ip.dst, ports, L4Proto::Tcp);
    key.0[12] = ip.proto;
    #[allow(clippy::cast_possible_truncation, reason = "at most 14 + 60")]
    let l4 = L3 + header_len as u16;
    let (ip_len, ttl) = (ip.total_len(), ip.ttl);
    Ok(Parsed { key, family: Family::V4, kind, l3: L3, l4, ip_len, ttl, tcp_flags })
}

/// Kind, ports and TCP flags of what an IPv4 packet carries.
fn transport(proto: u8, body: &[u8]) -> Result<(Kind, [u8; 4], u8), Verdict> {
    let (kind, ports, flags, least, len) = match L4Proto::from_ip(proto) {
        Some(L4Proto::Tcp) => {
            let (tcp, _) = header::<Tcp>(body)?;
            (Kind::Tcp, tcp.ports, tcp.flags, tcp::LEN, tcp.header_len())
        }
        Some(L4Proto::Udp) => {
            let (udp, _) = header::<Udp>(body)?;
            (Kind::Udp, udp.ports, 0, udp::LEN, usize::from(udp.datagram_len()))
        }
        None if proto == ipv4::ICMP => return Ok((Kind::Icmp, [0; 4], 0)),
        None => return Ok((Kind::OtherIp, [0; 4], 0)),
    };
    if len < least || len > body.len() {
        return Err(Verdict::Drop(DropReason::BadHeader));
    }
    if ports[..2] == [0, 0] || ports[2..] == [0, 0] {
        return Err(Verdict::Drop(DropReason::ZeroPort));
    }
    Ok((kind, ports, flags))
}

/// A header at the front of `bytes`, and what follows it.
fn header<H>(bytes: &[u8]) -> Result<(&H, &[u8]), Verdict>
where
    H: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    H::ref_from_prefix(bytes).map_err(|_| Verdict::Drop(DropReason::Truncated))
}
