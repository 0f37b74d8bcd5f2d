//! TCP (RFC 9293).
//!
//! ```text
//!  0        2             4          8                 12       13      14       16         18       20
//!  | source | destination | sequence | acknowledgement | offset | flags | window | checksum | urgent | …
//! ```

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header without options.
pub const LEN: usize = size_of::<Tcp>();
/// Protocol number of TCP.
pub const PROTO: u8 = 6;
/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push.
pub const PSH: u8 = 0x08;
/// The acknowledgement field is significant.
pub const ACK: u8 = 0x10;
/// Urgent.
pub const URG: u8 = 0x20;

/// A TCP header without its options.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Tcp {
    /// Source and destination port, in network order.
    pub ports: [u8; 4],
    seq: U32,
    ack: U32,
    offset: u8,
    /// [`FIN`] … [`URG`], and the two of ECN.
    pub flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

impl Tcp {
    /// A header without options or window; the checksum waits for [`Self::set_checksum`].
    #[must_use]
    pub const fn new(ports: [u8; 4], seq: u32, ack: u32, flags: u8) -> Self {
        Self {
            ports,
            seq: U32::new(seq),
            ack: U32::new(ack),
            offset: 5 << 4,
            flags,
            window: U16::ZERO,
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }

    /// The sequence number of the first byte.
    #[must_use]
    pub const fn seq(&self) -> u32 {
        self.seq.get()
    }

    /// The next sequence number that the sender expects.
    #[must_use]
    pub const fn ack(&self) -> u32 {
        self.ack.get()
    }

    /// Bytes of the header with options, as it says itself: 0 to 60.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        (self.offset >> 4) as usize * 4
    }

    /// Writes the checksum.
    pub const fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}
