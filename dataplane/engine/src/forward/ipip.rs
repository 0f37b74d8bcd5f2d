//! IP in IP (RFC 2003): an outer IPv4 header brings the packet to a server in any network.
//!
//! ```text
//!  before            | Ethernet 14 | client's packet | padding |
//!  after   | Ethernet 14 | IPv4 20 | client's packet, TTL − 1 |
//! ```
//! The outer header takes TTL, DF and TOS from the inner one, after its decrement. Copying all of
//! TOS copies ECN too, which is the normal mode of RFC 6040 4.1. The outer identification is 0
//! when DF is set (RFC 6864 4.1), as Linux does; else it is the inner one, which the client already
//! keeps distinct among its own packets. Two clients may use the same, so that fragments of their
//! tunnel packets could mix on the way: the inner checksums catch that.

use zerocopy::FromBytes;

use crate::frame::Frame;
use crate::neigh::Hop;
use crate::parse::Parsed;
use crate::server::ServerLine;
use crate::snapshot::PortFacts;
use crate::verdict::DropReason;
use crate::wire::eth::{self, Eth};
use crate::wire::ipv4::{self, Ipv4};

/// Bytes that the outer header needs in front.
pub const HEADROOM: usize = ipv4::LEN;

/// Ethernet, outer and inner header.
const WINDOW: usize = eth::LEN + 2 * ipv4::LEN;

/// See [`super::ForwarderKind::apply`].
///
/// # Errors
/// [`DropReason::TooBig`] when the tunnel packet exceeds the server's MTU, whether the client's
/// packet may be fragmented or not: this release does not fragment. [`DropReason::NoHeadroom`].
#[inline(always)]
pub fn apply<F: Frame>(
    frame: &mut F,
    at: &Parsed,
    line: &ServerLine,
    hop: Hop,
    out: &PortFacts,
) -> Result<(), DropReason> {
    debug_assert!(at.ttl > 1 && usize::from(at.l3) == eth::LEN);
    let total = match at.ip_len.checked_add(HEADROOM as u16) {
        Some(total) if total <= line.mtu => total,
        _ => return Err(DropReason::TooBig),
    };
    let bytes = frame.grow_front(HEADROOM).map_err(|_| DropReason::NoHeadroom)?;
    let window = bytes.first_chunk_mut::<WINDOW>().ok_or(DropReason::Truncated)?;
    encapsulate(
        window,
        at.ttl.wrapping_sub(1),
        total,
        line,
        Eth::new(hop.mac(), out.mac, eth::IPV4),
    )
    .ok_or(DropReason::Truncated)?;
    frame.truncate(eth::LEN + usize::from(total));
    Ok(())
}

/// Writes Ethernet and outer header and ages the inner one. Never `None`: the window is as long as
/// the three headers.
#[inline(always)]
fn encapsulate(
    window: &mut [u8; WINDOW],
    ttl: u8,
    total: u16,
    line: &ServerLine,
    link: Eth,
) -> Option<()> {
    let (eth, rest) = Eth::mut_from_prefix(window).ok()?;
    let (outer, rest) = Ipv4::mut_from_prefix(rest).ok()?;
    let (inner, _) = Ipv4::mut_from_prefix(rest).ok()?;
    inner.decrement_ttl();
    *eth = link;
    let mut header = Ipv4::new(line.tunnel_source.low4(), line.addr.low4(), ipv4::IPIP, total);
    header.tos = inner.tos;
    header.ttl = ttl;
    if !inner.dont_fragment() {
        header.allow_fragments(inner.id());
    }
    *outer = header.seal();
    Some(())
}
