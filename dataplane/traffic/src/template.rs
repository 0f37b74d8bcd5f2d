//! TCP segments of numbered flows: a header written once, and what differs between flows.

use dpdk::Mbuf;
use engine::addr::{L4Proto, Mac};
use engine::frame::Frame;
use engine::wire::checksum::Sum;

/// Bytes of every frame: Ethernet 14, IPv4 20, TCP 20, padding.
pub const LEN: usize = 64;
/// Flow numbers from here on repeat.
pub const FLOWS: u64 = 1 << 39;

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The station that receives.
    pub station: Mac,
    /// The virtual address.
    pub vip: [u8; 4],
    /// The virtual port.
    pub port: u16,
    /// How many ports from there on flows go to; 1 is the usual.
    pub ports: u16,
}

/// A segment of no particular flow, and the sums of what does not change.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; LEN],
    ip: Sum,
    tcp: Sum,
    first: u16,
    ports: u16,
}

impl Template {
    /// Segments with these TCP flags.
    #[must_use]
    pub fn new(to: Target, flags: u8) -> Self {
        let mut bytes = [0; LEN];
        bytes[..6].copy_from_slice(&to.station.0);
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0x0c, 1]);
        bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6]);
        bytes[30..34].copy_from_slice(&to.vip);
        bytes[36..38].copy_from_slice(&to.port.to_be_bytes());
        bytes[38..50].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff]);
        let ip = Sum::of(&bytes[14..34]);
        if to.ports > 1 {
            bytes[36..38].fill(0);
        }
        let tcp = Sum::pseudo_v4([0; 4], to.vip, L4Proto::Tcp as u8, 20).and(&bytes[34..54]);
        Self { bytes, ip, tcp, first: to.port, ports: to.ports }
    }

    /// Makes `frame`, which is [`LEN`] long, the segment of a flow.
    #[inline(always)]
    pub fn write(&self, frame: &mut Mbuf, flow: u64) {
        debug_assert_eq!(frame.bytes().len(), LEN);
        if let Some(to) = frame.head_mut() {
            self.segment(flow, to);
        }
    }

    /// The segment of a flow. Its checksums are the template's sums and what was added.
    #[inline(always)]
    pub fn segment(&self, flow: u64, to: &mut [u8; LEN]) {
        let (addr, port) = client(flow);
        *to = self.bytes;
        to[26..30].copy_from_slice(&addr);
        to[34..36].copy_from_slice(&port);
        let ip = self.ip.and(&addr);
        let mut tcp = self.tcp.and(&addr).and(&[port[0], port[1], 0, 0]);
        if self.ports > 1 {
            let [high, low] = self.spread(flow);
            to[36..38].copy_from_slice(&[high, low]);
            // The template's sum has the port 0.
            tcp = tcp.and(&[high, low]);
        }
        to[24..26].copy_from_slice(&ip.checksum().to_be_bytes());
        to[50..52].copy_from_slice(&tcp.checksum().to_be_bytes());
    }
}

impl Template {
    /// The virtual port of a flow: neighbours in number are far apart in port.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "below `ports`")]
    fn spread(&self, flow: u64) -> [u8; 2] {
        let mixed = u64::from((flow as u32).wrapping_mul(0x9e37_79b1));
        let nth = (mixed * u64::from(self.ports)) >> 32;
        (self.first + nth as u16).to_be_bytes()
    }
}

/// The client of a flow: an address in 10/8 from the low 24 bits, a port from 32,768 on from the
/// 15 above them. One address has few of many flows, as with real clients.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "parts of the number are cut out")]
fn client(flow: u64) -> ([u8; 4], [u8; 2]) {
    let addr = 0x0a00_0000 | flow as u32 & 0x00ff_ffff;
    let port = 0x8000 | (flow >> 24) as u16 & 0x7fff;
    (addr.to_be_bytes(), port.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_right_for_every_flow() {
        let to = Target { station: Mac([2; 6]), vip: [192, 0, 2, 10], port: 80, ports: 1 };
        let flows = [0, 1, 0xffff, 0x00ff_ffff, 1 << 24, FLOWS - 1];
        for (flow, ports) in flows.into_iter().flat_map(|flow| [(flow, 1), (flow, 10_000)]) {
            let (mut bytes, to) = ([0; LEN], Target { ports, ..to });
            Template::new(to, 0x10).segment(flow, &mut bytes);
            let (src, dst) =
                ([26, 27, 28, 29].map(|n| bytes[n]), [30, 31, 32, 33].map(|n| bytes[n]));
            let port = u16::from_be_bytes([bytes[36], bytes[37]]);
            assert!((80..80 + ports).contains(&port), "port {port}");
            assert!(Sum::of(&bytes[14..34]).holds(), "IPv4 of flow {flow}");
            assert!(Sum::pseudo_v4(src, dst, 6, 20).and(&bytes[34..54]).holds(), "TCP of {flow}");
        }
    }

    #[test]
    fn flows_are_distinct_until_the_numbers_repeat() {
        let ((a, p), (b, q)) = (client(7), client(7 + (1 << 24)));
        assert_eq!((a, a), (b, [10, 0, 0, 7]));
        assert_ne!(p, q);
        assert_eq!(client(7 + FLOWS), (a, p));
        assert_ne!(client(FLOWS - 1), client(FLOWS - 2));
    }
}
