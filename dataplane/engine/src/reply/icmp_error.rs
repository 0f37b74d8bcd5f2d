//! ICMP errors (RFC 792, RFC 1812 4.3.2): why a packet went no further.
//!
//! ```text
//!  before                           | Ethernet 14 | packet …                |
//!  after   | Ethernet | IPv4 | ICMP               | packet, at most 548 … |
//!          |    14    |  20  |  8                 |  so that all is at most 576 bytes of IP
//! ```

use zerocopy::IntoBytes;

use crate::addr::Addr;
use crate::frame::Frame;
use crate::parse::{Kind, Parsed};
use crate::reply::{body, ends, way_back, write_head};
use crate::verdict::DropReason;
use crate::wire::checksum::Sum;
use crate::wire::eth::{self, Eth};
use crate::wire::icmp::{self, Icmp};
use crate::wire::ipv4::{self, Ipv4};

/// Free bytes that a frame must have in front.
pub const HEADROOM: usize = ipv4::LEN + icmp::LEN;

/// Most bytes of an error, IPv4 header included (RFC 1812 4.3.2.3).
const MOST: usize = 576;

/// What to tell the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The TTL ran out here.
    TimeExceeded,
    /// Nothing serves this port.
    PortUnreachable,
    /// The packet must not be fragmented and is longer than `mtu` (RFC 1191 4).
    FragmentationNeeded {
        /// The largest IP packet that passes, in bytes.
        mtu: u16,
    },
}

impl IcmpError {
    /// The header; its checksum is to come.
    const fn header(self) -> Icmp {
        match self {
            Self::TimeExceeded => Icmp::new(icmp::TIME_EXCEEDED, 0, 0),
            Self::PortUnreachable => Icmp::new(icmp::UNREACHABLE, 3, 0),
            Self::FragmentationNeeded { mtu } => Icmp::new(icmp::UNREACHABLE, 4, mtu),
        }
    }
}

/// The headers in front of the quoted packet.
#[derive(IntoBytes)]
#[repr(C)]
struct Head {
    eth: Eth,
    ip: Ipv4,
    icmp: Icmp,
}

const LEN: usize = size_of::<Head>();

/// Turns a packet into the error about it, sent by our address `from`. It quotes the packet as it
/// came, so nothing may have changed it.
///
/// # Errors
/// [`DropReason::IcmpIgnored`] when it is itself an ICMP error; [`DropReason::BadSource`] when it is
/// for a group (RFC 1812 4.3.2.7; fragments and packets from a group do not get past `parse`);
/// [`DropReason::NoHeadroom`] when the frame has less than [`HEADROOM`].
pub fn answer<F: Frame>(
    frame: &mut F,
    at: &Parsed,
    error: IcmpError,
    from: Addr,
) -> Result<(), DropReason> {
    let eth = way_back(frame, at)?;
    if !may_be_told(body(frame, at)?, at) {
        return Err(DropReason::IcmpIgnored);
    }
    let total = usize::from(at.ip_len).min(MOST - HEADROOM) + HEADROOM;
    frame.grow_front(HEADROOM).map_err(|_| DropReason::NoHeadroom)?;
    frame.truncate(eth::LEN + total);
    let (client, _) = ends(at);
    #[allow(clippy::cast_possible_truncation, reason = "at most 576")]
    let mut ip = Ipv4::new(from.low4(), client, ipv4::ICMP, total as u16);
    ip.tos = ipv4::TOS_CONTROL;
    let mut icmp = error.header();
    let quoted = frame.bytes().get(LEN..).ok_or(DropReason::Truncated)?;
    icmp.set_checksum(Sum::of(icmp.as_bytes()).and(quoted).checksum());
    let head: [u8; LEN] = zerocopy::transmute!(Head { eth, ip: ip.seal(), icmp });
    write_head(frame, head)
}

/// Whether an error may be sent about a packet with this body.
fn may_be_told(body: &[u8], at: &Parsed) -> bool {
    at.kind != Kind::Icmp || body.first().is_some_and(|kind| Icmp::is_query(*kind))
}
