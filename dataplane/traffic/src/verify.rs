//! Holds what comes back against what was sent.
//!
//! A frame is one of ours when the packet in it (in a tunnel: in the tunnel) carries our stamp.
//! Then the packet is made again from the stamp and compared byte by byte; only TTL and the header
//! checksum that belongs to it may differ. A flow has one server for its life, and its packets come
//! in order.

use engine::addr::L4Proto;
use engine::wire::ipv4::ICMP;
use engine::wire::{eth, tcp};
use zerocopy::FromBytes;

use crate::ip::{self, ICMP_V6, Ip};
use crate::packet::{L3, TIME_MASK, Writer, is_client};
use crate::plan::Segment;
use crate::servers::{Place, Servers};
use crate::tally::{Share, Tally};

const NOBODY: u16 = u16::MAX;

/// What is known of a slot's flow.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its round plus one; 0: none yet.
    rounds: u32,
    /// The number after the highest.
    next: u32,
    server: u16,
}

/// The receiving side.
#[derive(Debug)]
pub struct Verifier {
    writer: Writer,
    servers: Servers,
    seen: Vec<Seen>,
    expected: Vec<u8>,
    /// What has come since it was taken last.
    pub tally: Tally,
    /// TTL that packets lost on the way, least and most.
    pub hops: Option<(u8, u8)>,
}

impl Verifier {
    /// For flows in `slots` slots.
    #[must_use]
    pub fn new(writer: Writer, servers: Servers, slots: u32) -> Self {
        let none = Seen { rounds: 0, next: 0, server: NOBODY };
        let (seen, expected) = (vec![none; slots as usize], Vec::new());
        Self { writer, servers, seen, expected, tally: Tally::default(), hops: None }
    }

    /// The servers, with those learned.
    #[must_use]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Takes a frame that came at `now`, in nanoseconds by the sender's clock.
    #[inline]
    pub fn take(&mut self, frame: &[u8], now: u64) {
        let Some((place, kind, packet)) = open(frame) else {
            return self.count_stranger(frame);
        };
        let Some((segment, time)) = self.writer.read(packet) else {
            return self.count_unstamped(kind, packet);
        };
        if !self.count_in_flow(segment, place) {
            return;
        }
        let counts = &mut self.tally.counts;
        counts.received += 1;
        counts.received_bytes += frame.len() as u64;
        if !self.is_intact(packet, segment, time) {
            self.tally.counts.altered += 1;
        }
        let late = now.wrapping_sub(time) & TIME_MASK;
        // Two cores' counters may differ a little: that is no time, not 78 hours.
        self.tally.latency.record(if late > TIME_MASK / 2 { 0 } else { late });
    }

    /// How many flows each server has now, by number.
    #[must_use]
    pub fn living(&self) -> Vec<u64> {
        let mut living = vec![0; self.servers.names().len()];
        for seen in self.seen.iter().filter(|s| s.rounds > 0) {
            if let Some(count) = living.get_mut(usize::from(seen.server)) {
                *count += 1;
            }
        }
        living
    }

    /// Server and order; whether the packet is the first of its number.
    fn count_in_flow(&mut self, segment: Segment, place: Place) -> bool {
        let slots = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        let rounds = segment.flow / slots + 1;
        let seen = &mut self.seen[(segment.flow % slots) as usize];
        let counts = &mut self.tally.counts;
        if rounds == seen.rounds && segment.seq + 1 == seen.next {
            counts.duplicates += 1;
            return false;
        }
        let server = self.servers.find(place);
        if server.is_none() {
            counts.wrong_server += 1;
        }
        let at = server.unwrap_or(NOBODY);
        if rounds < seen.rounds || rounds == seen.rounds && segment.seq < seen.next {
            counts.reordered += 1;
        } else {
            let is_new = rounds > seen.rounds;
            let has_moved = !is_new && at != seen.server;
            if !is_new && self.writer.migrates(segment.flow, seen.next - 1, segment.seq) {
                counts.migrations += 1;
                counts.moved_migrating += u64::from(has_moved);
            } else {
                counts.moved += u64::from(has_moved);
            }
            counts.flows += u64::from(is_new);
            *seen = Seen { rounds, next: segment.seq.wrapping_add(1), server: at };
            if let Some(share) = share(&mut self.tally.shares, server) {
                share.flows += u64::from(is_new);
            }
        }
        if let Some(share) = share(&mut self.tally.shares, server) {
            share.packets += 1;
        }
        true
    }

    fn is_intact(&mut self, packet: &[u8], segment: Segment, time: u64) -> bool {
        self.expected.resize(self.writer.len(segment), 0);
        self.writer.write(segment, time, &mut self.expected);
        let got = Ip::parse(self.writer.ethertype(), packet).map(|got| got.hops);
        let Some(got) = got else { return false };
        let hops = ip::set_hops(&mut self.expected[L3..], got).wrapping_sub(got);
        let (least, most) = self.hops.unwrap_or((hops, hops));
        self.hops = Some((least.min(hops), most.max(hops)));
        // Behind a short packet there may be padding.
        packet.get(..self.expected.len() - L3) == Some(&self.expected[L3..])
    }

    fn count_stranger(&mut self, frame: &[u8]) {
        let is_arp = frame.get(12..14) == Some(&eth::ARP.to_be_bytes());
        let counts = &mut self.tally.counts;
        *(if is_arp { &mut counts.arp } else { &mut counts.foreign }) += 1;
    }

    fn count_unstamped(&mut self, kind: u16, packet: &[u8]) {
        let (wire, counts) = (self.writer.wire(), &mut self.tally.counts);
        let Some(ip) = Ip::parse(kind, packet) else {
            counts.foreign += 1;
            return;
        };
        let is_reset = ip.proto == L4Proto::Tcp as u8
            && ip.rest.get(13).is_some_and(|flags| flags & tcp::RST != 0)
            && ip.src == wire.vip
            && is_client(ip.dst);
        let is_error = matches!(ip.proto, ICMP | ICMP_V6) && is_client(ip.dst);
        let is_hurt = is_client(ip.src) || ip.dst == wire.vip;
        *(if is_reset {
            &mut counts.resets
        } else if is_error {
            &mut counts.errors
        } else if is_hurt {
            &mut counts.unreadable
        } else {
            &mut counts.foreign
        }) += 1;
    }
}

fn share(shares: &mut Vec<Share>, server: Option<u16>) -> Option<&mut Share> {
    let n = usize::from(server?);
    if shares.len() <= n {
        shares.resize(n + 1, Share::default());
    }
    shares.get_mut(n)
}

/// Where a frame was sent, and the client's packet in it with its ethertype: bare, or in a tunnel
/// (RFC 2003, RFC 2473, RFC 4213).
#[inline]
fn open(frame: &[u8]) -> Option<(Place, u16, &[u8])> {
    let (link, packet) = eth::Eth::ref_from_prefix(frame).ok()?;
    let ip = Ip::parse(link.ethertype(), packet)?;
    if ip.is_tunnel() {
        return Some((Place::Tunnel(ip.dst), ip.inner(), ip.rest));
    }
    Some((Place::Station(link.dst()), link.ethertype(), packet))
}

#[cfg(test)]
mod tests;
