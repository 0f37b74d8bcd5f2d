//! ICMP (RFC 792).
//!
//! ```text
//!  0      1      2          4                                          8
//!  | type | code | checksum | by type: echo id and number, next-hop MTU | …
//! ```

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub const LEN: usize = size_of::<Icmp>();
/// Answer to an echo request.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable; the code says why.
pub const UNREACHABLE: u8 = 3;
/// Echo request: "ping".
pub const ECHO_REQUEST: u8 = 8;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;

/// An ICMP header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Icmp {
    /// The type.
    pub kind: u8,
    /// Refines the type.
    pub code: u8,
    checksum: U16,
    rest: [U16; 2],
}

impl Icmp {
    /// A header whose last two bytes are `low` (a next-hop MTU, RFC 1191 4); the checksum waits
    /// for [`Self::set_checksum`].
    #[must_use]
    pub const fn new(kind: u8, code: u8, low: u16) -> Self {
        Self { kind, code, checksum: U16::ZERO, rest: [U16::ZERO, U16::new(low)] }
    }

    /// Whether the message asks something, so that an error about it is allowed (RFC 1122 3.2.2:
    /// never about an error). An unknown type counts as an error.
    #[must_use]
    pub const fn is_query(kind: u8) -> bool {
        matches!(kind, 0 | 8 | 13..=18)
    }

    /// Writes the checksum.
    pub const fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}
