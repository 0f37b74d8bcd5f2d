//! Ethernet II.
//!
//! ```text
//!  0            6            12        14
//!  | destination | source     | ethertype |
//! ```

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::Mac;

/// Bytes of an Ethernet header.
pub const LEN: usize = size_of::<Eth>();
/// Shortest frame without its check sequence (IEEE 802.3); shorter packets travel padded.
pub const MIN_FRAME: usize = 60;
/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;

/// An Ethernet header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Eth {
    dst: [u8; 6],
    src: [u8; 6],
    kind: U16,
}

impl Eth {
    /// A header.
    #[inline(always)]
    #[must_use]
    pub const fn new(dst: Mac, src: Mac, ethertype: u16) -> Self {
        Self { dst: dst.0, src: src.0, kind: U16::new(ethertype) }
    }

    /// Where the frame goes.
    #[inline(always)]
    #[must_use]
    pub const fn dst(&self) -> Mac {
        Mac(self.dst)
    }

    /// Where the frame comes from.
    #[inline(always)]
    #[must_use]
    pub const fn src(&self) -> Mac {
        Mac(self.src)
    }

    /// What the frame carries.
    #[inline(always)]
    #[must_use]
    pub const fn ethertype(&self) -> u16 {
        self.kind.get()
    }
}
