//! How a packet is brought to its real server: the contract, and the registry of forwarders.
//!
//! A forwarder is one file with one function that rewrites or encapsulates a frame, one line in
//! the registry and one arm in each `match` below. The packet's way calls them grouped by kind
//! (`pipeline.rs`).
//!
//! The contract: the server gets the client's packet with TTL − 1 and its header checksum updated,
//! nothing else changed. An error leaves the frame as it came, so that it can still be quoted in an
//! ICMP error.

use crate::frame::Frame;
use crate::neigh::Hop;
use crate::parse::Parsed;
use crate::server::ServerLine;
use crate::snapshot::PortFacts;
use crate::verdict::DropReason;

pub mod dr;
pub mod ipip;

crate::registry! {
    /// The name of a forwarding method.
    pub enum ForwarderKind {
        /// Direct routing: only the hardware addresses change; the server answers the client itself.
        Dr = "dr",
        /// IP in IP (RFC 2003): the server may be in another network.
        Ipip = "ipip",
    }
}

/// Free bytes that a frame must have in front for any forwarder.
pub const HEADROOM: usize = ipip::HEADROOM;

impl ForwarderKind {
    /// Bytes that this method puts in front of the client's packet.
    #[inline(always)]
    #[must_use]
    pub const fn overhead(self) -> u16 {
        match self {
            Self::Dr => 0,
            Self::Ipip => ipip::HEADROOM as u16,
        }
    }

    /// The largest IP packet, in bytes, that a client may send to a server whose way takes `mtu`.
    #[must_use]
    pub const fn client_mtu(self, mtu: u16) -> u16 {
        mtu.saturating_sub(self.overhead())
    }

    /// Makes `frame` the frame that goes to the server of `line`, from the port `out` to the next
    /// `hop`. The caller has answered TTL 0 and 1 already.
    ///
    /// # Errors
    /// [`DropReason::TooBig`] or [`DropReason::NoHeadroom`]; the frame is as it was.
    #[inline(always)]
    pub fn apply<F: Frame>(
        self,
        frame: &mut F,
        at: &Parsed,
        line: &ServerLine,
        hop: Hop,
        out: &PortFacts,
    ) -> Result<(), DropReason> {
        match self {
            Self::Dr => dr::apply(frame, at, line, hop, out),
            Self::Ipip => ipip::apply(frame, at, line, hop, out),
        }
    }
}

/// Writes both hardware addresses, to `hop` and from the port `out`, in two stores.
#[inline(always)]
fn address(frame: &mut [u8; 12], hop: Hop, out: &PortFacts) {
    let (to, from) = (hop.word(), out.word());
    frame[..8].copy_from_slice(&(to << 16 >> 16 | from << 48).to_le_bytes());
    frame[8..].copy_from_slice(&((from >> 16) as u32).to_le_bytes());
}
