//! IP headers as a receiver sees them, of either version.
//!
//! ```text
//!  IPv6 (RFC 8200):  0         4                6             7           8     24    40
//!                    | … flow | payload length | next header | hop limit | src | dst |
//! ```

use engine::addr::Addr;
use engine::wire::ipv4::Ipv4;
use engine::wire::{eth, ipv4};
use zerocopy::FromBytes;

/// Bytes of an IPv6 header.
pub const V6_LEN: usize = 40;
/// Ethertype of IPv6.
pub const V6_ETHERTYPE: u16 = 0x86dd;
/// Protocol number of IPv6 in IP (RFC 4213, RFC 2473).
pub const IN_IP: u8 = 41;
/// Protocol number of ICMP for IPv6 (RFC 4443).
pub const ICMP_V6: u8 = 58;

/// What a packet's outermost header says.
#[derive(Clone, Copy, Debug)]
pub struct Ip<'a> {
    /// Source.
    pub src: Addr,
    /// Destination.
    pub dst: Addr,
    /// What follows.
    pub proto: u8,
    /// TTL or hop limit.
    pub hops: u8,
    /// What follows the header, padding included.
    pub rest: &'a [u8],
}

impl<'a> Ip<'a> {
    /// Of a packet that is what its ethertype says. Checksum, options and extension headers are
    /// not looked at.
    #[must_use]
    #[inline]
    pub fn parse(ethertype: u16, packet: &'a [u8]) -> Option<Self> {
        match (ethertype, packet.first()? >> 4) {
            (eth::IPV4, 4) => {
                let (ip, _) = Ipv4::ref_from_prefix(packet).ok()?;
                let rest = packet.get(ip.header_len().max(ipv4::LEN)..)?;
                let (src, dst) = (Addr::v4(ip.src), Addr::v4(ip.dst));
                Some(Self { src, dst, proto: ip.proto, hops: ip.ttl, rest })
            }
            (V6_ETHERTYPE, 6) => {
                let (head, rest) = packet.split_first_chunk::<V6_LEN>()?;
                let addr = |at: usize| head[at..].first_chunk().map(|bytes| Addr(*bytes));
                let (src, dst) = (addr(8)?, addr(24)?);
                Some(Self { src, dst, proto: head[6], hops: head[7], rest })
            }
            _ => None,
        }
    }

    /// Whether a packet follows.
    #[must_use]
    pub const fn is_tunnel(&self) -> bool {
        matches!(self.proto, ipv4::IPIP | IN_IP)
    }

    /// The ethertype of the packet that follows in a tunnel.
    #[must_use]
    pub const fn inner(&self) -> u16 {
        if self.proto == IN_IP { V6_ETHERTYPE } else { eth::IPV4 }
    }
}

/// Gives a sound packet another TTL or hop limit, as routers do; how many it had before.
pub fn set_hops(packet: &mut [u8], hops: u8) -> u8 {
    match Ipv4::mut_from_prefix(packet) {
        Ok((ip, _)) if ip.version() == 4 => {
            let before = ip.ttl;
            ip.set_ttl(hops);
            before
        }
        _ => packet.get_mut(7).map_or(hops, |limit| std::mem::replace(limit, hops)),
    }
}
