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
use crate::wire::checksum::Sum;
use crate::wire::eth;
use crate::wire::ipv4::{self, DONT_FRAGMENT, Ipv4};

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
    encapsulate(window, at.ttl.wrapping_sub(1), total, line).ok_or(DropReason::Truncated)?;
    let link = window.first_chunk_mut().ok_or(DropReason::Truncated)?;
    super::address(link, hop, out);
    frame.truncate(eth::LEN + usize::from(total));
    Ok(())
}

/// Writes ethertype and outer header and ages the inner one. Never `None`: the window is as long as
/// the three headers.
///
/// The outer header is five words, summed before they are stored: summed from its narrow stores it
/// would wait for them.
#[inline(always)]
fn encapsulate(window: &mut [u8; WINDOW], ttl: u8, total: u16, line: &ServerLine) -> Option<()> {
    let (before, inner) = window.split_at_mut(eth::LEN + ipv4::LEN);
    let (inner, _) = Ipv4::mut_from_prefix(inner).ok()?;
    inner.decrement_ttl();
    let [id, flags] = if inner.dont_fragment() { [0, DONT_FRAGMENT] } else { [inner.id(), 0] };
    let two = |a: u16, b: u16| {
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        u32::from_le_bytes([a, b, c, d])
    };
    let mut outer = [
        two(u16::from_be_bytes([0x45, inner.tos]), total),
        two(id, flags),
        two(u16::from_be_bytes([ttl, ipv4::IPIP]), 0),
        u32::from_le_bytes(line.tunnel_source.low4()),
        u32::from_le_bytes(line.addr.low4()),
    ];
    outer[2] |= two(0, Sum::of_words(outer).checksum());
    let (_, rest) = before.split_at_mut_checked(eth::LEN - 2)?;
    let (ethertype, header) = rest.split_at_mut_checked(2)?;
    ethertype.copy_from_slice(&eth::IPV4.to_be_bytes());
    for (to, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(outer) {
        *to = word.to_le_bytes();
    }
    Some(())
}
