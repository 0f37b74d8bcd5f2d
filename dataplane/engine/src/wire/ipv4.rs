//! IPv4 (RFC 791).
//!
//! ```text
//!  0        1     2              4    6                8     9       10         12    16    20
//!  |ver|ihl | TOS | total length | id | flags | offset | TTL | proto | checksum | src | dst | …
//! ```

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::checksum::{self, Sum};

/// Bytes of a header without options.
pub const LEN: usize = size_of::<Ipv4>();
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of IP in IP (RFC 2003).
pub const IPIP: u8 = 4;
/// TTL of packets that start here (RFC 1700's recommendation, and what Linux sends).
pub const DEFAULT_TTL: u8 = 64;
/// TOS of ICMP errors: precedence "internetwork control" (RFC 1812 4.3.2.5).
pub const TOS_CONTROL: u8 = 0xc0;

/// Whether a single host may have `addr`. Not: "this network" (RFC 1122 3.2.1.3), loopback,
/// multicast (RFC 1112 7.2), the limited broadcast.
#[inline(always)]
#[must_use]
pub fn is_host(addr: [u8; 4]) -> bool {
    match addr[0] {
        0 | 127 | 224..=239 => false,
        1..=223 => true,
        240.. => addr != [255; 4],
    }
}

pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
/// The flag "more fragments" and the offset: all zero in a whole datagram.
const FRAGMENT: u16 = 0x3fff;

/// An IPv4 header without its options.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv4 {
    version_ihl: u8,
    /// Type of service: six bits of DSCP, two of ECN.
    pub tos: u8,
    total_len: U16,
    id: U16,
    flags_offset: U16,
    /// Hops left.
    pub ttl: u8,
    /// What follows.
    pub proto: u8,
    checksum: U16,
    /// Source.
    pub src: [u8; 4],
    /// Destination.
    pub dst: [u8; 4],
}

impl Ipv4 {
    /// A header without options that must not be fragmented and so needs no identification
    /// (RFC 6864 4.1): TTL 64, TOS 0, id 0. The checksum waits for [`Self::seal`].
    #[inline(always)]
    #[must_use]
    pub const fn new(src: [u8; 4], dst: [u8; 4], proto: u8, total_len: u16) -> Self {
        Self {
            version_ihl: 0x45,
            tos: 0,
            total_len: U16::new(total_len),
            id: U16::ZERO,
            flags_offset: U16::new(DONT_FRAGMENT),
            ttl: DEFAULT_TTL,
            proto,
            checksum: U16::ZERO,
            src,
            dst,
        }
    }

    /// The version: 4 in a sound packet.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Bytes of the header with options, as it says itself: 0 to 60.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 0xf) as usize * 4
    }

    /// Bytes of the packet, header included.
    #[inline(always)]
    #[must_use]
    pub const fn total_len(&self) -> u16 {
        self.total_len.get()
    }

    /// The identification.
    #[inline(always)]
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id.get()
    }

    /// Whether routers must not fragment it.
    #[inline(always)]
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        self.flags_offset.get() & DONT_FRAGMENT != 0
    }

    /// Whether it is a part of a datagram: the first, a middle one or the last.
    #[inline(always)]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.flags_offset.get() & FRAGMENT != 0
    }

    /// Lets routers fragment it; then it needs an identification.
    #[inline(always)]
    pub const fn allow_fragments(&mut self, id: u16) {
        self.id = U16::new(id);
        self.flags_offset = U16::ZERO;
    }

    /// Writes the checksum of a header without options. The field must be zero.
    #[inline(always)]
    #[must_use]
    pub fn seal(mut self) -> Self {
        self.checksum = U16::new(Sum::of(self.as_bytes()).checksum());
        self
    }

    /// Takes one from the TTL, which is not 0, and keeps the checksum right (RFC 1624).
    #[inline(always)]
    pub fn decrement_ttl(&mut self) {
        // TTL, protocol and checksum are one word.
        if let Some(word) = self.as_mut_bytes()[8..].first_chunk_mut() {
            *word = checksum::hop(u32::from_le_bytes(*word)).to_le_bytes();
        }
    }

    /// Sets the TTL and keeps the checksum right (RFC 1624).
    #[inline(always)]
    pub fn set_ttl(&mut self, ttl: u8) {
        let word = |ttl| u16::from_be_bytes([ttl, self.proto]);
        let sum = checksum::update(self.checksum.get(), word(self.ttl), word(ttl));
        self.checksum = U16::new(sum);
        self.ttl = ttl;
    }
}
