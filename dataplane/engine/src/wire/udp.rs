//! UDP (RFC 768).
//!
//! ```text
//!  0        2             4        6          8
//!  | source | destination | length | checksum |
//! ```

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub const LEN: usize = size_of::<Udp>();

/// A UDP header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Udp {
    /// Source and destination port, in network order.
    pub ports: [u8; 4],
    len: U16,
    checksum: U16,
}

impl Udp {
    /// Bytes of header and data, as the header says.
    #[must_use]
    pub const fn datagram_len(&self) -> u16 {
        self.len.get()
    }
}
