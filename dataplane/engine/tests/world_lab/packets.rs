//! Packets with a number in their data, and the reading of what comes out.

use engine::addr::{Addr, L4Proto};
use engine::flow::{Family, FlowKey};
use engine::frame::Frame;
use engine::testkit::craft::{self, Craft};
use engine::testkit::world::server_mac;
use engine::testkit::{HeapFrame, World};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub addr: [u8; 4],
    pub port: u16,
    pub vip: Addr,
    pub vip_port: u16,
    pub proto: L4Proto,
}

impl Client {
    /// The n-th client of a service: other addresses and ports for each.
    pub(crate) fn nth(n: usize, vip_port: u16, proto: L4Proto) -> Self {
        let [_, _, hi, lo] = u32::try_from(n).unwrap().to_be_bytes();
        let port = 10_000 + u16::try_from(n % 50_000).unwrap();
        Self { addr: [198, 51, hi, lo], port, vip: super::VIP, vip_port, proto }
    }

    pub(crate) fn key(&self) -> FlowKey {
        let (from, to) = (Addr::v4(self.addr), self.vip);
        FlowKey::new(from, self.port, to, self.vip_port, self.proto).0
    }

    /// A packet with `number` in its data. `flags` are TCP's.
    pub(crate) fn packet(&self, flags: &str, number: u64) -> Craft {
        let ends = ((Addr::v4(self.addr), self.port), (self.vip, self.vip_port));
        let craft = match self.proto {
            L4Proto::Tcp => craft::tcp(ends.0, ends.1).flags(flags),
            L4Proto::Udp => craft::udp(ends.0, ends.1),
        };
        craft.payload(&number.to_be_bytes())
    }

    /// The lcore that owns the flow.
    pub(crate) fn owner(&self, w: &World) -> usize {
        let hash = w.hasher.hash(&self.key(), Family::V4);
        usize::from(hash.owner(u16::try_from(w.sites.len()).unwrap()))
    }
}

/// Puts a packet before an lcore.
pub(crate) fn send(w: &mut World, lcore: usize, packet: &Craft) {
    send_bytes(w, lcore, packet.clone().build().bytes());
}

pub(crate) fn send_bytes(w: &mut World, lcore: usize, bytes: &[u8]) {
    let frame = w.pool.frame(bytes).expect("the pool is large");
    w.sites[lcore].wire_in.push(frame);
}

/// What came out of the director.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Out {
    /// A client's packet, on its way to a server's slot.
    Forwarded { key: FlowKey, slot: u32, flags: u8, number: u64 },
    /// A TCP reset to a client.
    Reset { to: [u8; 4], port: u16 },
    /// ARP, ICMP, and packets without a number.
    Other,
}

/// Reads a frame; `servers` is how many slots there are.
///
/// # Panics
/// When it is neither to a server nor to the clients' router.
pub(crate) fn read(frame: &HeapFrame, servers: usize) -> Out {
    let b = frame.bytes();
    let (to, ip) = (&b[..6], &b[14..]);
    let slot = (0..u32::try_from(servers).unwrap()).find(|s| server_mac(*s).0 == to);
    let Some(slot) = slot else {
        let is_ip = b[12..14] == [8, 0];
        assert!(!is_ip || to == craft::PEER.0, "to nobody we know");
        let is_reset = is_ip && ip[9] == 6 && ip[33] & 4 != 0;
        let port = || u16::from_be_bytes([ip[22], ip[23]]);
        let answer = |()| Out::Reset { to: ip[16..20].try_into().unwrap(), port: port() };
        return is_reset.then_some(()).map_or(Out::Other, answer);
    };
    let ip = if ip[9] == 4 { &ip[20..] } else { ip };
    let is_tcp = ip[9] == 6;
    let data = if is_tcp { 40 } else { 28 };
    let Some(number) = ip[data..].first_chunk() else { return Out::Other };
    let four = |at: usize| ip[at..at + 4].try_into().unwrap();
    let proto = if is_tcp { L4Proto::Tcp } else { L4Proto::Udp };
    Out::Forwarded {
        key: FlowKey::v4(four(12), four(16), four(20), proto),
        slot,
        flags: if is_tcp { ip[33] } else { 0 },
        number: u64::from_be_bytes(*number),
    }
}

/// Takes all that came out, by lcore.
pub(crate) fn drain(w: &mut World) -> Vec<(usize, Out)> {
    let servers = w.servers.len();
    let sites = w.sites.iter().enumerate();
    let frames = sites.flat_map(|(n, s)| s.wire_out.drain().into_iter().map(move |f| (n, f)));
    frames.map(|(n, f)| (n, read(&f, servers))).collect()
}

/// Takes all that came out and gives the slots that packets went to, in order.
pub(crate) fn slots(w: &mut World) -> Vec<u32> {
    let slot = |(_, out)| if let Out::Forwarded { slot, .. } = out { Some(slot) } else { None };
    drain(w).into_iter().filter_map(slot).collect()
}
