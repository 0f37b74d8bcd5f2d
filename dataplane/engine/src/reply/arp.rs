//! ARP (RFC 826): hear it, answer it, ask, announce.
//!
//! Whom to answer for is the snapshot's knowledge ([`crate::snapshot::Snapshot::answers`]); what to
//! ask and announce, and when, is the control thread's. RFC 5227 gives the forms: a *probe* has the
//! sender 0.0.0.0, an *announcement* is a request whose sender and target are the same.

use zerocopy::{FromBytes, IntoBytes};

use crate::addr::{Addr, Mac};
use crate::frame::Frame;
use crate::mailbox::ArpOrder;
use crate::reply::write_head;
use crate::verdict::DropReason;
use crate::wire::arp::{self, Arp};
use crate::wire::eth::{self, Eth};
use crate::wire::ipv4;

/// The length of an ARP frame that the director makes, in bytes: padded as Ethernet demands.
pub const FRAME_LEN: usize = eth::MIN_FRAME;

/// What an ARP packet wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOp {
    /// Who has the target address?
    Request,
    /// I have the sender address.
    Reply,
}

/// A sound ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpPacket {
    /// What it wants.
    pub op: ArpOp,
    /// The sender's hardware address: a single station's.
    pub sender_mac: Mac,
    /// The sender's address: a host's, or 0.0.0.0 in a probe.
    pub sender: Addr,
    /// The address asked for or told: a host's, or 0.0.0.0 in the answer to a probe.
    pub target: Addr,
}

/// Ethernet and ARP in one piece.
#[derive(IntoBytes)]
#[repr(C)]
struct Head {
    eth: Eth,
    arp: Arp,
}

const HEAD_LEN: usize = size_of::<Head>();

/// The ARP packet in a frame, or `None` when it is none, or not sound.
///
/// Addresses that no host can have are refused (loopback, multicast, broadcast): who learned from
/// them would send there.
#[must_use]
pub fn parse_arp<F: Frame>(frame: &F) -> Option<ArpPacket> {
    let (eth, rest) = Eth::ref_from_prefix(frame.bytes()).ok()?;
    let (arp, _) = Arp::ref_from_prefix(rest).ok()?;
    if eth.ethertype() != eth::ARP || !arp.is_ipv4_ethernet() || !arp.sender_mac().is_station() {
        return None;
    }
    let host_or_none = |addr| ipv4::is_host(addr) || addr == [0; 4];
    let (op, sound) = match arp.oper() {
        arp::REQUEST => (ArpOp::Request, host_or_none(arp.sender) && ipv4::is_host(arp.target)),
        arp::REPLY => (ArpOp::Reply, ipv4::is_host(arp.sender) && host_or_none(arp.target)),
        _ => return None,
    };
    let (sender, target) = (Addr::v4(arp.sender), Addr::v4(arp.target));
    sound.then_some(ArpPacket { op, sender_mac: arp.sender_mac(), sender, target })
}

/// Answers a request: the address asked for is at `our` station.
///
/// # Errors
/// [`DropReason::ArpIgnored`] when the frame is no sound request.
pub fn answer<F: Frame>(frame: &mut F, our: Mac) -> Result<(), DropReason> {
    let asked = parse_arp(frame).filter(|packet| packet.op == ArpOp::Request);
    let asked = asked.ok_or(DropReason::ArpIgnored)?;
    let eth = Eth::new(asked.sender_mac, our, eth::ARP);
    let sender = (our, asked.target.low4());
    let arp = Arp::new(arp::REPLY, sender, (asked.sender_mac, asked.sender.low4()));
    finish(frame, Head { eth, arp })
}

/// Writes a request or an announcement, as ordered, into a frame of at least [`FRAME_LEN`] bytes.
///
/// # Errors
/// [`DropReason::Truncated`] when the frame cannot hold an ARP packet.
pub fn write<F: Frame>(frame: &mut F, order: &ArpOrder, our: Mac) -> Result<(), DropReason> {
    let eth = Eth::new(order.to.unwrap_or(Mac::BROADCAST), our, eth::ARP);
    let target = (Mac::default(), order.target.low4());
    let arp = Arp::new(arp::REQUEST, (our, order.sender.low4()), target);
    finish(frame, Head { eth, arp })
}

/// Writes the headers and leaves nothing else in the frame.
fn finish<F: Frame>(frame: &mut F, head: Head) -> Result<(), DropReason> {
    let head: [u8; HEAD_LEN] = zerocopy::transmute!(head);
    write_head(frame, head)?;
    frame.bytes_mut()[HEAD_LEN..].fill(0);
    frame.truncate(FRAME_LEN);
    Ok(())
}
