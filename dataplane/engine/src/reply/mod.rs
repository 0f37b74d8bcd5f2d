//! Packets that the director answers itself: the frame it received is turned into the answer.
//!
//! Each answer is one function that takes the frame and returns `Result<(), DropReason>`: `Ok` and
//! the frame is ready to go out of the port it came in by, or the reason why there is no answer,
//! and the frame is as it came. None of them limits itself: the caller does. Answers may be shorter
//! than Ethernet's least length; padding them is the device's work.

use crate::frame::Frame;
use crate::parse::Parsed;
use crate::verdict::DropReason;
use crate::wire::eth::{self, Eth};
use crate::wire::ipv4;

pub mod arp;
pub mod echo;
pub mod icmp_error;
pub mod reset;
#[cfg(test)]
mod tests;

/// The Ethernet header of an answer: back to where the packet came from.
///
/// # Errors
/// [`DropReason::BadSource`] when no single station can have sent the frame, or when the packet is
/// for a group: an answer would multiply, or come from an address that no host may use.
fn way_back<F: Frame>(frame: &F, at: &Parsed) -> Result<Eth, DropReason> {
    let head = frame.head::<{ eth::LEN }>().ok_or(DropReason::Truncated)?;
    let came: Eth = zerocopy::transmute!(*head);
    if !came.src().is_station() || !ipv4::is_host(ends(at).1) {
        return Err(DropReason::BadSource);
    }
    Ok(Eth::new(came.src(), came.dst(), eth::IPV4))
}

/// The transport header and data of a packet, without padding.
fn body<'a, F: Frame>(frame: &'a F, at: &Parsed) -> Result<&'a [u8], DropReason> {
    let end = usize::from(at.l3) + usize::from(at.ip_len);
    frame.bytes().get(usize::from(at.l4)..end).ok_or(DropReason::Truncated)
}

/// IPv4 source and destination of a packet.
const fn ends(at: &Parsed) -> ([u8; 4], [u8; 4]) {
    let k = &at.key.0;
    ([k[0], k[1], k[2], k[3]], [k[4], k[5], k[6], k[7]])
}

/// Puts `head` over the front of the frame.
fn write_head<F: Frame, const N: usize>(frame: &mut F, head: [u8; N]) -> Result<(), DropReason> {
    *frame.head_mut::<N>().ok_or(DropReason::Truncated)? = head;
    Ok(())
}
