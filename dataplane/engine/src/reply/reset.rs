//! TCP resets for segments that belong to nothing (RFC 9293 3.10.7.1).
//!
//! The numbers come from the segment itself, so that its sender takes the reset for genuine:
//!
//! ```text
//!  segment with ACK     →  seq = its acknowledgement number, RST
//!  segment without ACK  →  seq = 0, ack = its sequence number + its length, RST and ACK
//! ```
//! The segment's own checksum is not verified: a damaged number can only make a reset that its
//! receiver ignores (RFC 5961 3).

use zerocopy::{FromBytes, IntoBytes};

use crate::frame::Frame;
use crate::parse::{Kind, Parsed};
use crate::reply::{body, ends, way_back, write_head};
use crate::verdict::DropReason;
use crate::wire::checksum::Sum;
use crate::wire::eth::Eth;
use crate::wire::ipv4::{self, Ipv4};
use crate::wire::tcp::{self, Tcp};

/// The answer: three headers, no data.
#[derive(IntoBytes)]
#[repr(C)]
struct Reset {
    eth: Eth,
    ip: Ipv4,
    tcp: Tcp,
}

const LEN: usize = size_of::<Reset>();
const IP_LEN: u16 = (ipv4::LEN + tcp::LEN) as u16;

/// Turns a segment into the reset that answers it.
///
/// # Errors
/// [`DropReason::Stray`] when it is itself a reset, which is never answered, or no TCP.
pub fn answer<F: Frame>(frame: &mut F, at: &Parsed) -> Result<(), DropReason> {
    let eth = way_back(frame, at)?;
    if at.kind != Kind::Tcp || at.tcp_flags & tcp::RST != 0 {
        return Err(DropReason::Stray);
    }
    let segment = body(frame, at)?;
    let (came, _) = Tcp::ref_from_prefix(segment).map_err(|_| DropReason::Truncated)?;
    let data = segment.len() - came.header_len().min(segment.len());
    let mut tcp = refusal(came, data);
    let (client, vip) = ends(at);
    let ip = Ipv4::new(vip, client, tcp::PROTO, IP_LEN).seal();
    let pseudo = Sum::pseudo_v4(vip, client, tcp::PROTO, tcp::LEN as u16);
    tcp.set_checksum(pseudo.and(tcp.as_bytes()).checksum());
    let head: [u8; LEN] = zerocopy::transmute!(Reset { eth, ip, tcp });
    write_head(frame, head)?;
    frame.truncate(LEN);
    Ok(())
}

/// The reset's header for a segment with `data` bytes; checksum to come.
#[allow(clippy::cast_possible_truncation, reason = "a segment has less than 2¹⁶ bytes")]
fn refusal(came: &Tcp, data: usize) -> Tcp {
    let [a, b, c, d] = came.ports;
    let ports = [c, d, a, b];
    if came.flags & tcp::ACK != 0 {
        return Tcp::new(ports, came.ack(), 0, tcp::RST);
    }
    let flag = |bit| u32::from(came.flags & bit != 0);
    let len = data as u32 + flag(tcp::SYN) + flag(tcp::FIN);
    Tcp::new(ports, 0, came.seq().wrapping_add(len), tcp::RST | tcp::ACK)
}
