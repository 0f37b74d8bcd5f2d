//! Answers to "ping" (RFC 792, RFC 1122 3.2.2.6): the request comes back with its data.

use zerocopy::{FromBytes, IntoBytes};

use crate::frame::Frame;
use crate::parse::{Kind, Parsed};
use crate::reply::{body, way_back};
use crate::verdict::DropReason;
use crate::wire::checksum::Sum;
use crate::wire::eth::{self, Eth};
use crate::wire::icmp::{self, Icmp};
use crate::wire::ipv4::{self, Ipv4};

/// Where the ICMP message starts, without IPv4 options.
const MESSAGE: usize = eth::LEN + ipv4::LEN;

/// Turns an echo request into its reply. Type of service and identification stay.
///
/// # Errors
/// [`DropReason::IcmpIgnored`] when it is no echo request, or carries IPv4 options (a source route
/// would have to be reversed); [`DropReason::BadChecksum`] when its ICMP checksum is wrong.
pub fn answer<F: Frame>(frame: &mut F, at: &Parsed) -> Result<(), DropReason> {
    let link = way_back(frame, at)?;
    let message = body(frame, at)?;
    let is_request = matches!(message, [icmp::ECHO_REQUEST, 0, ..]) && message.len() >= icmp::LEN;
    if at.kind != Kind::Icmp || usize::from(at.l4) != MESSAGE || !is_request {
        return Err(DropReason::IcmpIgnored);
    }
    if !Sum::of(message).holds() {
        return Err(DropReason::BadChecksum);
    }
    frame.truncate(MESSAGE + message.len());
    turn(frame.bytes_mut(), link).ok_or(DropReason::Truncated)
}

/// Writes the reply over the request; `None` if it were shorter than its headers.
///
/// The checksum is summed anew: an incremental update is wrong for a message of zeros only, such
/// as the reply to a ping with id 0, number 0 and empty data.
fn turn(bytes: &mut [u8], link: Eth) -> Option<()> {
    let (eth, rest) = Eth::mut_from_prefix(bytes).ok()?;
    let (ip, message) = Ipv4::mut_from_prefix(rest).ok()?;
    *eth = link;
    std::mem::swap(&mut ip.src, &mut ip.dst);
    ip.set_ttl(ipv4::DEFAULT_TTL);
    let (icmp, data) = Icmp::mut_from_prefix(message).ok()?;
    icmp.kind = icmp::ECHO_REPLY;
    icmp.set_checksum(0);
    icmp.set_checksum(Sum::of(icmp.as_bytes()).and(data).checksum());
    Some(())
}
