//! Packets that say what they are: flow, number and time stamp in the payload.
//!
//! ```text
//!  Ethernet 14 | IPv4 20 or IPv6 40 | TCP 20 or UDP 8 | flow 4 | seq 4 | time 6 | check 4 | filling
//!                                               UDP 8 | QUIC 30 or 13 | the same
//! ```
//! Everything in a packet follows from its [`Segment`], its time and the run's seed, so a receiver
//! can make it again and compare every byte. Clients live in 198.18.0.0/15 and 2001:2::/48, the
//! addresses that RFC 2544 C.2.2 and RFC 5180 8 set aside for benchmarks.

mod quic;
mod sizes;
mod template;

use engine::addr::{Addr, L4Proto, Mac};
use engine::wire::eth;
use engine::wire::tcp::{ACK, FIN, PSH, SYN};

use crate::dice::mix;
use crate::ip::{V6_ETHERTYPE, V6_LEN};
use crate::plan::{Life, Role, Segment};

pub use sizes::Sizes;
use template::Template;

/// Bytes of flow, seq, time and check.
pub const STAMP: usize = 18;
/// Bytes of a check sequence, which a frame size counts (RFC 2544 9) and a buffer does not hold.
pub const FCS: usize = 4;
/// Where the IP header starts.
pub const L3: usize = 14;
const CLIENTS_V4: u32 = 0xc612_0000;
const CLIENTS_V6: [u8; 6] = [0x20, 1, 0, 2, 0, 0];
/// Times are cut to so many bits: 78 hours in nanoseconds.
pub const TIME_MASK: u64 = (1 << 48) - 1;
/// The packet of a long flow from which on one that migrates has another tuple.
const MIGRATES_AT: u32 = 8;

/// What travels in IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// Plain UDP.
    Udp,
    /// What looks like QUIC, by UDP.
    Quic,
}

impl Transport {
    /// What the IP header says.
    #[must_use]
    pub const fn proto(self) -> L4Proto {
        match self {
            Self::Tcp => L4Proto::Tcp,
            Self::Udp | Self::Quic => L4Proto::Udp,
        }
    }

    /// The smallest frame that carries a stamp, check sequence included: 76 bytes by TCP, 64 by
    /// UDP, 77 by QUIC, 20 more by IPv6.
    #[must_use]
    pub const fn smallest(self, is_v4: bool) -> usize {
        l4(is_v4) + self.header_len() + STAMP + FCS
    }

    /// Bytes before the stamp in any packet but an Initial.
    const fn header_len(self) -> usize {
        match self {
            Self::Tcp => 20,
            Self::Udp => 8,
            Self::Quic => 8 + quic::SHORT,
        }
    }
}

/// Where TCP or UDP starts.
const fn l4(is_v4: bool) -> usize {
    L3 + if is_v4 { 20 } else { V6_LEN }
}

/// Who sends what to whom.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The sender's station.
    pub from: Mac,
    /// The receiver's: the director's port.
    pub to: Mac,
    /// TCP, UDP or QUIC.
    pub transport: Transport,
    /// The virtual address; clients are of its version.
    pub vip: Addr,
    /// The virtual port.
    pub port: u16,
    /// Frame sizes. A QUIC Initial is as long as it must be.
    pub sizes: Sizes,
    /// What flags follow from.
    pub life: Life,
    /// The part of flows, 0 to 1, whose client's port changes on the way.
    pub migrating: f64,
    /// Tells this run's packets from another's.
    pub seed: u64,
}

/// Writes packets.
#[derive(Clone, Debug)]
pub struct Writer {
    wire: Wire,
    /// By size; behind them that of an Initial.
    templates: Vec<Template>,
    is_v4: bool,
    /// Where TCP or UDP starts.
    l4: usize,
    /// Of 2^32 flows, so many migrate.
    migrating: u64,
}

impl Writer {
    /// For a wire.
    ///
    /// # Panics
    /// When a size is too small for a stamp or longer than 9,022 bytes: the caller has checked.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1 of 2^32")]
    pub fn new(wire: Wire) -> Self {
        let is_v4 = wire.vip.is_v4();
        let header = wire.transport.header_len();
        let of_size = |size: &usize| Template::new(&wire, size - FCS, header);
        let mut templates: Vec<_> = wire.sizes.0.iter().map(of_size).collect();
        if wire.transport == Transport::Quic {
            let len = (l4(is_v4) + 8 + quic::LEAST).max(wire.sizes.longest() - FCS);
            templates.push(Template::new(&wire, len, 8 + quic::LONG));
        }
        let migrating = (wire.migrating * (1_u64 << 32) as f64) as u64;
        Self { wire, templates, is_v4, l4: l4(is_v4), migrating }
    }

    /// What it writes.
    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The ethertype of its packets.
    #[must_use]
    pub const fn ethertype(&self) -> u16 {
        if self.is_v4 { eth::IPV4 } else { V6_ETHERTYPE }
    }

    /// Bytes of the longest frame, without its check sequence.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.templates.iter().map(|t| t.bytes.len()).max().unwrap_or(0)
    }

    /// Bytes of a segment's frame, without its check sequence.
    #[must_use]
    #[inline]
    pub fn len(&self, segment: Segment) -> usize {
        self.template(segment).bytes.len()
    }

    #[inline]
    fn template(&self, segment: Segment) -> &Template {
        let is_initial = self.wire.transport == Transport::Quic && segment.seq == 0;
        let sizes = &self.wire.sizes;
        &self.templates[if is_initial { sizes.0.len() } else { sizes.place(segment) }]
    }

    /// Writes the frame of a segment, sent at `time` in nanoseconds, to a buffer of [`Self::len`]
    /// bytes. TTL or hop limit is 64.
    #[inline]
    pub fn write(&self, segment: Segment, time: u64, to: &mut [u8]) {
        let template = self.template(segment);
        to.copy_from_slice(&template.bytes);
        let (addr, port) = self.client(segment);
        let mut sum = template.l4.and(&addr).and(&[port[0], port[1], 0, 0]);
        let src = if self.is_v4 { 26 } else { 34 };
        to[src..src + 4].copy_from_slice(&addr);
        if self.is_v4 {
            to[24..26].copy_from_slice(&template.ip.and(&addr).checksum().to_be_bytes());
        }
        let stamp = self.stamp(segment, time);
        let (to, seed) = (&mut to[self.l4..], self.wire.seed);
        to[..2].copy_from_slice(&port);
        let mut put = |at: usize, bytes: &[u8]| {
            to[at..at + bytes.len()].copy_from_slice(bytes);
            sum = sum.and(bytes);
        };
        match self.wire.transport {
            Transport::Tcp => {
                put(4, &segment.seq.to_be_bytes());
                put(12, &[0x50, flags(self.wire.life.role(segment.seq))]);
                put(20, &stamp);
                to[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
                return;
            }
            Transport::Udp => put(8, &stamp),
            // Both headers begin at an even place, where sums may; the stamp behind them need not.
            Transport::Quic if segment.seq == 0 => {
                let header = quic::long(segment, seed, template.bytes.len() - self.l4 - 8);
                put(8, &header);
                put(8 + quic::LONG, &stamp);
            }
            Transport::Quic => {
                let mut block = [0; quic::SHORT + STAMP];
                block[..quic::SHORT].copy_from_slice(&quic::short(segment, seed));
                block[quic::SHORT..].copy_from_slice(&stamp);
                put(8, &block);
            }
        }
        // 0 would mean "none" (RFC 768).
        let sum = Some(sum.checksum()).filter(|sum| *sum != 0).unwrap_or(0xffff);
        to[6..8].copy_from_slice(&sum.to_be_bytes());
    }

    /// Segment and time of an IP packet that this writer has written, by its stamp alone.
    #[must_use]
    #[inline]
    pub fn read(&self, packet: &[u8]) -> Option<(Segment, u64)> {
        let l4 = self.l4 - L3;
        let header = match self.wire.transport {
            Transport::Quic if packet.get(l4 + 8)? & quic::FORM != 0 => 8 + quic::LONG,
            other => other.header_len(),
        };
        let stamp: &[u8; STAMP] = packet.get(l4 + header..)?.first_chunk()?;
        let quad = |n: usize| u32::from_be_bytes([n, n + 1, n + 2, n + 3].map(|n| stamp[n]));
        let segment = Segment { flow: quad(0), seq: quad(4) };
        let time = u64::from(quad(8)) << 16 | u64::from(quad(12) & 0xffff_0000) >> 16;
        (self.stamp(segment, time) == *stamp).then_some((segment, time))
    }

    /// Whether a flow's packets `from` and `to` come from different ports.
    #[must_use]
    pub fn migrates(&self, flow: u32, from: u32, to: u32) -> bool {
        let has_moved = |seq| self.has_migrated(Segment { flow, seq });
        self.migrating > 0 && has_moved(from) != has_moved(to)
    }

    #[inline]
    fn has_migrated(&self, of: Segment) -> bool {
        let at = match self.wire.life {
            Life::Cycle(packets) => packets / 2,
            _ => MIGRATES_AT,
        };
        self.migrating > 0
            && of.seq >= at
            && mix(u64::from(of.flow) ^ self.wire.seed) & 0xffff_ffff < self.migrating
    }

    /// The client's tuple: the low bytes of an address from the flow's low 17 bits, a port from
    /// 32,768 on from the rest. After its migration a flow has the port of the flow 2^31 away, which
    /// is not alive at the same time.
    #[inline]
    fn client(&self, of: Segment) -> ([u8; 4], [u8; 2]) {
        let flow = of.flow ^ u32::from(self.has_migrated(of)) << 31;
        let addr = flow & 0x1_ffff | if self.is_v4 { CLIENTS_V4 } else { 0 };
        let [_, _, high, low] = (0x8000 | flow >> 17).to_be_bytes();
        (addr.to_be_bytes(), [high, low])
    }

    #[inline]
    fn stamp(&self, segment: Segment, time: u64) -> [u8; STAMP] {
        let time = time & TIME_MASK;
        let numbers = u64::from(segment.flow) << 32 | u64::from(segment.seq);
        let check = mix(mix(numbers ^ self.wire.seed) ^ time).to_be_bytes();
        let mut stamp = [0; STAMP];
        stamp[..8].copy_from_slice(&numbers.to_be_bytes());
        stamp[8..14].copy_from_slice(&time.to_be_bytes()[2..]);
        stamp[14..].copy_from_slice(&check[..4]);
        stamp
    }
}

const fn flags(role: Role) -> u8 {
    match role {
        Role::Syn => SYN,
        Role::Ack => ACK,
        Role::Data => PSH | ACK,
        Role::Fin => FIN | ACK,
    }
}

/// Whether an address is a client's.
#[must_use]
pub fn is_client(addr: Addr) -> bool {
    if addr.is_v4() {
        u32::from_be_bytes(addr.low4()) & !0x1_ffff == CLIENTS_V4
    } else {
        addr.0[..6] == CLIENTS_V6
    }
}

#[cfg(test)]
pub(crate) mod tests;
