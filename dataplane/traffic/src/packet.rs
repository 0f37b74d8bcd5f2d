//! Packets that say what they are: flow, number and time stamp in the payload.
//!
//! ```text
//!  Ethernet 14 | IPv4 20 | TCP 20 or UDP 8 | flow 4 | seq 4 | time 6 | check 4 | filling
//! ```
//! Everything in a packet follows from its [`Segment`], its time and the run's seed, so a receiver
//! can make it again and compare every byte. Clients live in 198.18.0.0/15, the addresses that
//! RFC 2544 C.2.2 sets aside for benchmarks.

use engine::addr::{L4Proto, Mac};
use engine::wire::checksum::Sum;
use engine::wire::tcp::{ACK, FIN, PSH, SYN};

use crate::dice::mix;
use crate::plan::{Life, Role, Segment};

/// Bytes of flow, seq, time and check.
pub const STAMP: usize = 18;
/// Bytes of a check sequence, which a frame size counts (RFC 2544 9) and a buffer does not hold.
pub const FCS: usize = 4;
/// Where the IPv4 header starts.
pub const L3: usize = 14;
const L4: usize = 34;
const CLIENTS: u32 = 0xc612_0000;
/// Times are cut to so many bits: 78 hours in nanoseconds.
pub const TIME_MASK: u64 = (1 << 48) - 1;

/// Frame sizes in bytes, check sequence included, that follow each other by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<usize>);

impl Sizes {
    /// All alike.
    #[must_use]
    pub fn fixed(size: usize) -> Self {
        Self(vec![size])
    }

    /// Seven of 64 bytes (or the smallest that carries a stamp), four of 594, one of 1,518.
    #[must_use]
    pub fn imix(proto: L4Proto) -> Self {
        let small = smallest(proto).max(64);
        Self([vec![small; 7], vec![594; 4], vec![1518]].concat())
    }

    /// The longest.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0)
    }

    fn place(&self, s: Segment) -> usize {
        match self.0.len() {
            1 => 0,
            // Spread, so that a flow's packets differ and flows do not march in step.
            n => (mix(u64::from(s.flow) << 32 | u64::from(s.seq)) % n as u64) as usize,
        }
    }
}

/// The smallest frame that carries a stamp, check sequence included: 76 bytes by TCP, 64 by UDP.
#[must_use]
pub const fn smallest(proto: L4Proto) -> usize {
    L4 + header_len(proto) + STAMP + FCS
}

const fn header_len(proto: L4Proto) -> usize {
    match proto {
        L4Proto::Tcp => 20,
        L4Proto::Udp => 8,
    }
}

/// Who sends what to whom.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The sender's station.
    pub from: Mac,
    /// The receiver's: the director's port.
    pub to: Mac,
    /// TCP or UDP.
    pub proto: L4Proto,
    /// The virtual address.
    pub vip: [u8; 4],
    /// The virtual port.
    pub port: u16,
    /// Frame sizes.
    pub sizes: Sizes,
    /// What flags follow from.
    pub life: Life,
    /// Tells this run's packets from another's.
    pub seed: u64,
}

/// A packet of one size, and the sums of what does not change.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    ip: Sum,
    l4: Sum,
}

/// Writes packets.
#[derive(Clone, Debug)]
pub struct Writer {
    wire: Wire,
    templates: Vec<Template>,
    /// Where the stamp starts.
    stamp: usize,
}

impl Writer {
    /// For a wire.
    ///
    /// # Panics
    /// When a size is too small for a stamp or too large for IPv4: the caller has checked.
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        let templates = wire.sizes.0.iter().map(|size| Template::new(&wire, size - FCS)).collect();
        let stamp = L4 + header_len(wire.proto);
        Self { wire, templates, stamp }
    }

    /// What it writes.
    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Bytes of a segment's frame, without its check sequence.
    #[must_use]
    #[inline]
    pub fn len(&self, segment: Segment) -> usize {
        self.templates[self.wire.sizes.place(segment)].bytes.len()
    }

    /// Writes the frame of a segment, sent at `time` in nanoseconds, to a buffer of [`Self::len`]
    /// bytes. TTL is 64.
    #[inline]
    pub fn write(&self, segment: Segment, time: u64, to: &mut [u8]) {
        let template = &self.templates[self.wire.sizes.place(segment)];
        to.copy_from_slice(&template.bytes);
        let stamp = stamp(segment, time, self.wire.seed);
        let (addr, port) = client(segment.flow);
        to[26..30].copy_from_slice(&addr);
        to[34..36].copy_from_slice(&port);
        to[self.stamp..self.stamp + STAMP].copy_from_slice(&stamp);
        let ip = template.ip.and(&addr);
        let l4 = template.l4.and(&addr).and(&[port[0], port[1], 0, 0]).and(&stamp);
        to[24..26].copy_from_slice(&ip.checksum().to_be_bytes());
        match self.wire.proto {
            L4Proto::Tcp => {
                let flags = flags(self.wire.life.role(segment.seq));
                to[38..42].copy_from_slice(&segment.seq.to_be_bytes());
                to[47] = flags;
                let l4 = l4.and(&segment.seq.to_be_bytes()).and(&[0, flags]);
                to[50..52].copy_from_slice(&l4.checksum().to_be_bytes());
            }
            L4Proto::Udp => {
                // 0 would mean "none" (RFC 768).
                let sum = Some(l4.checksum()).filter(|sum| *sum != 0).unwrap_or(0xffff);
                to[40..42].copy_from_slice(&sum.to_be_bytes());
            }
        }
    }

    /// Segment and time of an IPv4 packet that this writer has written, by its stamp alone.
    #[must_use]
    #[inline]
    pub fn read(&self, packet: &[u8]) -> Option<(Segment, u64)> {
        let at = self.stamp - L3;
        let stamp: &[u8; STAMP] = packet.get(at..at + STAMP)?.try_into().ok()?;
        let quad = |n: usize| u32::from_be_bytes([n, n + 1, n + 2, n + 3].map(|n| stamp[n]));
        let segment = Segment { flow: quad(0), seq: quad(4) };
        let time = u64::from(quad(8)) << 16 | u64::from(quad(12) & 0xffff_0000) >> 16;
        (self.stamp_of(segment, time) == *stamp).then_some((segment, time))
    }

    fn stamp_of(&self, segment: Segment, time: u64) -> [u8; STAMP] {
        stamp(segment, time, self.wire.seed)
    }
}

impl Template {
    #[allow(clippy::cast_possible_truncation, reason = "the longest frame is that of an MTU")]
    fn new(wire: &Wire, len: usize) -> Self {
        assert!((smallest(wire.proto) - FCS..=9018).contains(&len), "a frame of {len}");
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&wire.to.0);
        bytes[6..12].copy_from_slice(&wire.from.0);
        bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, wire.proto as u8]);
        bytes[16..18].copy_from_slice(&((len - L3) as u16).to_be_bytes());
        bytes[30..34].copy_from_slice(&wire.vip);
        bytes[36..38].copy_from_slice(&wire.port.to_be_bytes());
        match wire.proto {
            L4Proto::Tcp => bytes[42..50].copy_from_slice(&[0, 0, 0, 1, 0x50, 0, 0xff, 0xff]),
            L4Proto::Udp => bytes[38..40].copy_from_slice(&((len - L4) as u16).to_be_bytes()),
        }
        let filling = L4 + header_len(wire.proto) + STAMP;
        bytes[filling..].iter_mut().zip(0_u8..=250).for_each(|(to, n)| *to = n);
        let ip = Sum::of(&bytes[L3..L4]);
        let l4 = Sum::pseudo_v4([0; 4], wire.vip, wire.proto as u8, (len - L4) as u16);
        let l4 = l4.and(&bytes[L4..]);
        Self { bytes, ip, l4 }
    }
}

fn flags(role: Role) -> u8 {
    match role {
        Role::Syn => SYN,
        Role::Ack => ACK,
        Role::Data => PSH | ACK,
        Role::Fin => FIN | ACK,
    }
}

fn stamp(segment: Segment, time: u64, seed: u64) -> [u8; STAMP] {
    let time = time & TIME_MASK;
    let numbers = u64::from(segment.flow) << 32 | u64::from(segment.seq);
    let check = mix(mix(numbers ^ seed) ^ time).to_be_bytes();
    let mut stamp = [0; STAMP];
    stamp[..8].copy_from_slice(&numbers.to_be_bytes());
    stamp[8..14].copy_from_slice(&time.to_be_bytes()[2..]);
    stamp[14..].copy_from_slice(&check[..4]);
    stamp
}

/// The client of a flow: an address from its low 17 bits, a port from 32,768 on from the rest.
#[inline]
fn client(flow: u32) -> ([u8; 4], [u8; 2]) {
    let addr = CLIENTS | flow & 0x1_ffff;
    let port = 0x8000 | flow >> 17;
    let [_, _, high, low] = port.to_be_bytes();
    (addr.to_be_bytes(), [high, low])
}

/// Whether an address is a client's.
#[must_use]
pub fn is_client(addr: [u8; 4]) -> bool {
    u32::from_be_bytes(addr) & !0x1_ffff == CLIENTS
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn wire(proto: L4Proto, sizes: Sizes) -> Wire {
        let (from, to) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let life = Life::Cycle(4);
        Wire { from, to, proto, vip: [192, 0, 2, 10], port: 80, sizes, life, seed: 9 }
    }

    pub(crate) fn frame(writer: &Writer, segment: Segment, time: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; writer.len(segment)];
        writer.write(segment, time, &mut bytes);
        bytes
    }

    #[test]
    fn packets_are_sound_in_every_size_and_role() {
        for proto in [L4Proto::Tcp, L4Proto::Udp] {
            for sizes in [Sizes::fixed(smallest(proto)), Sizes::fixed(333), Sizes::imix(proto)] {
                let writer = Writer::new(wire(proto, sizes));
                for n in 0..200 {
                    let segment = Segment { flow: 77_777_777_u32.wrapping_mul(n), seq: n % 4 };
                    let bytes = frame(&writer, segment, 123_456_789_012 + u64::from(n));
                    let quad = |n: usize| [n, n + 1, n + 2, n + 3].map(|n| bytes[n]);
                    let len = u16::try_from(bytes.len() - L4).expect("short");
                    let sum = Sum::pseudo_v4(quad(26), quad(30), proto as u8, len);
                    assert!(Sum::of(&bytes[L3..L4]).holds(), "IPv4 of {segment:?}");
                    assert!(sum.and(&bytes[L4..]).holds(), "{proto} of {segment:?}");
                    assert!(is_client(quad(26)) && !is_client(quad(30)));
                }
            }
        }
    }

    #[test]
    fn flags_tell_a_connections_story() {
        let writer = Writer::new(wire(L4Proto::Tcp, Sizes::fixed(100)));
        let flags: Vec<_> =
            (0..4).map(|seq| frame(&writer, Segment { flow: 5, seq }, 1)[47]).collect();
        assert_eq!(flags, [SYN, ACK, PSH | ACK, FIN | ACK]);
    }

    #[test]
    fn a_stamp_tells_what_was_written_and_by_whom() {
        let ours = Writer::new(wire(L4Proto::Udp, Sizes::fixed(64)));
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
        let of = |flow| client(flow);
        assert_eq!(of(3), ([198, 18, 0, 3], [0x80, 0]));
        assert_eq!(of((1 << 17) + 3), ([198, 18, 0, 3], [0x80, 1]));
        assert_eq!(of(u32::MAX), ([198, 19, 255, 255], [0xff, 0xff]));
    }
}
