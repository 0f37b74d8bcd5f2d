//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!  0       2       4    5    6      8            14          18           24          28
//!  | htype | ptype |hlen|plen| oper | sender MAC | sender IP | target MAC | target IP |
//! ```

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::Mac;
use crate::wire::eth;

/// Bytes of an ARP packet.
pub const LEN: usize = size_of::<Arp>();
/// Operation: who has this address?
pub const REQUEST: u16 = 1;
/// Operation: I have.
pub const REPLY: u16 = 2;

const ETHERNET: u16 = 1;

/// An ARP packet.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Arp {
    htype: U16,
    ptype: U16,
    hlen: u8,
    plen: u8,
    oper: U16,
    sender_mac: [u8; 6],
    /// Whose packet this is; zero in a probe (RFC 5227).
    pub sender: [u8; 4],
    target_mac: [u8; 6],
    /// Who is asked for, or told.
    pub target: [u8; 4],
}

impl Arp {
    /// A packet for IPv4 over Ethernet. Each party is hardware address and IPv4 address.
    #[must_use]
    pub const fn new(oper: u16, sender: (Mac, [u8; 4]), target: (Mac, [u8; 4])) -> Self {
        Self {
            htype: U16::new(ETHERNET),
            ptype: U16::new(eth::IPV4),
            hlen: 6,
            plen: 4,
            oper: U16::new(oper),
            sender_mac: sender.0.0,
            sender: sender.1,
            target_mac: target.0.0,
            target: target.1,
        }
    }

    /// Whether it speaks of IPv4 over Ethernet at all.
    #[must_use]
    pub const fn is_ipv4_ethernet(&self) -> bool {
        self.htype.get() == ETHERNET
            && self.ptype.get() == eth::IPV4
            && self.hlen == 6
            && self.plen == 4
    }

    /// [`REQUEST`], [`REPLY`] or something else.
    #[must_use]
    pub const fn oper(&self) -> u16 {
        self.oper.get()
    }

    /// The sender's hardware address.
    #[must_use]
    pub const fn sender_mac(&self) -> Mac {
        Mac(self.sender_mac)
    }

    /// The target's hardware address; without meaning in a request.
    #[must_use]
    pub const fn target_mac(&self) -> Mac {
        Mac(self.target_mac)
    }
}
