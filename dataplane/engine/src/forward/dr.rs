//! Direct routing: the frame goes to the server's hardware address, the packet stays addressed to
//! the virtual service. The server has the address too (on a loopback, silent in ARP) and answers
//! the client itself.
//!
//! Ethernet padding stays: behind the packet it means nothing.

use zerocopy::FromBytes;

use crate::frame::Frame;
use crate::neigh::Hop;
use crate::parse::Parsed;
use crate::server::ServerLine;
use crate::snapshot::PortFacts;
use crate::verdict::DropReason;
use crate::wire::eth;
use crate::wire::ipv4::{self, Ipv4};

/// See [`super::ForwarderKind::apply`].
///
/// # Errors
/// [`DropReason::TooBig`] when the packet exceeds the server's MTU, whether it may be fragmented
/// or not: this release does not fragment.
#[inline(always)]
pub fn apply<F: Frame>(
    frame: &mut F,
    at: &Parsed,
    line: &ServerLine,
    hop: Hop,
    out: &PortFacts,
) -> Result<(), DropReason> {
    debug_assert!(at.ttl > 1 && usize::from(at.l3) == eth::LEN);
    if at.ip_len > line.mtu {
        return Err(DropReason::TooBig);
    }
    let window = frame.head_mut::<{ eth::LEN + ipv4::LEN }>().ok_or(DropReason::Truncated)?;
    let (link, rest) = window.split_first_chunk_mut().ok_or(DropReason::Truncated)?;
    let (ip, _) = Ipv4::mut_from_prefix(&mut rest[2..]).map_err(|_| DropReason::Truncated)?;
    super::address(link, hop, out);
    ip.decrement_ttl();
    Ok(())
}
