//! Packets to order, sound unless a test asks for a fault.
//!
//! ```
//! use engine::testkit::craft;
//! let syn = craft::tcp("198.51.100.7:40000", "192.0.2.10:80").flags("S").ttl(63).build();
//! let ping = craft::icmp("198.51.100.7", "192.0.2.10", 8, 0).payload(b"ping").padded().build();
//! let who = craft::arp_request(craft::PEER, "192.0.2.1", "192.0.2.10");
//! # let _ = (syn, ping, who);
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::addr::{Addr, Mac};
use crate::testkit::HeapFrame;

mod bytes;

/// The hardware address that crafted frames are sent to: the director's.
pub const STATION: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The hardware address that crafted frames come from: the client's router.
pub const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// One end of a flow: an IPv4 address and a port.
#[derive(Clone, Copy, Debug)]
pub struct End(SocketAddrV4);

impl From<&str> for End {
    /// From `"192.0.2.1:80"`, or an address alone. Panics at anything else: a fault of the test.
    fn from(s: &str) -> Self {
        let alone = || Ok(SocketAddrV4::new(s.parse::<Ipv4Addr>()?, 0));
        let end: Result<_, std::net::AddrParseError> = s.parse().or_else(|_| alone());
        Self(end.unwrap_or_else(|_| panic!("{s:?} is not an IPv4 address with a port")))
    }
}

impl From<SocketAddrV4> for End {
    fn from(end: SocketAddrV4) -> Self {
        Self(end)
    }
}

impl From<(Addr, u16)> for End {
    fn from((addr, port): (Addr, u16)) -> Self {
        Self(SocketAddrV4::new(addr.low4().into(), port))
    }
}

/// What the packet carries.
#[derive(Clone, Debug)]
enum Body {
    Tcp { flags: u8, seq: u32, ack: u32, window: u16, options: Vec<u8>, offset: Option<u8> },
    Udp { len: Option<u16> },
    Icmp { kind: u8, code: u8, rest: [u8; 4] },
    Other(u8),
}

/// A packet in the making. See the module's example.
#[derive(Clone, Debug)]
pub struct Craft {
    macs: (Mac, Mac),
    ethertype: u16,
    ends: (SocketAddrV4, SocketAddrV4),
    version: u8,
    tos: u8,
    id: u16,
    fragment: u16,
    ttl: u8,
    options: Vec<u8>,
    total_len: Option<u16>,
    body: Body,
    payload: Vec<u8>,
    padding: usize,
    spoilt: (bool, bool),
    cut: Option<usize>,
}

/// A TCP segment: an ACK with sequence number 1000 and acknowledgement number 2000, unless changed.
#[must_use]
pub fn tcp(from: impl Into<End>, to: impl Into<End>) -> Craft {
    let (window, options, offset) = (0x2000, Vec::new(), None);
    packet(from, to, Body::Tcp { flags: 0x10, seq: 1000, ack: 2000, window, options, offset })
}

/// A UDP datagram.
#[must_use]
pub fn udp(from: impl Into<End>, to: impl Into<End>) -> Craft {
    packet(from, to, Body::Udp { len: None })
}

/// An ICMP message of this type and code; its last four header bytes are 0x0007 0x0001.
#[must_use]
pub fn icmp(from: impl Into<End>, to: impl Into<End>, kind: u8, code: u8) -> Craft {
    packet(from, to, Body::Icmp { kind, code, rest: [0, 7, 0, 1] })
}

/// An IPv4 packet of another protocol.
#[must_use]
pub fn ip(from: impl Into<End>, to: impl Into<End>, proto: u8) -> Craft {
    packet(from, to, Body::Other(proto))
}

/// A broadcast ARP request of a station, 60 bytes.
#[must_use]
pub fn arp_request(mac: Mac, sender: impl Into<End>, target: impl Into<End>) -> HeapFrame {
    arp(1, (mac, sender.into()), (Mac([0; 6]), target.into()), Mac::BROADCAST)
}

/// An ARP reply to the director's station, 60 bytes.
#[must_use]
pub fn arp_reply(mac: Mac, sender: impl Into<End>, target: impl Into<End>) -> HeapFrame {
    arp(2, (mac, sender.into()), (STATION, target.into()), STATION)
}

/// An ARP packet of operation `oper`, sent to the station `to`, 60 bytes.
#[must_use]
pub fn arp(oper: u8, sender: (Mac, End), target: (Mac, End), to: Mac) -> HeapFrame {
    let mut b = Vec::with_capacity(60);
    b.extend(to.0);
    b.extend(sender.0.0);
    b.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, oper]);
    b.extend(sender.0.0);
    b.extend(sender.1.0.ip().octets());
    b.extend(target.0.0);
    b.extend(target.1.0.ip().octets());
    b.resize(60, 0);
    HeapFrame::new(&b)
}

fn packet(from: impl Into<End>, to: impl Into<End>, body: Body) -> Craft {
    Craft {
        macs: (STATION, PEER),
        ethertype: 0x0800,
        ends: (from.into().0, to.into().0),
        version: 4,
        tos: 0,
        id: 0,
        fragment: 0x4000,
        ttl: 64,
        options: Vec::new(),
        total_len: None,
        body,
        payload: Vec::new(),
        padding: 0,
        spoilt: (false, false),
        cut: None,
    }
}

/// Sound choices.
impl Craft {
    /// Hardware addresses: where it goes and where it comes from.
    #[must_use]
    pub fn macs(mut self, dst: Mac, src: Mac) -> Self {
        self.macs = (dst, src);
        self
    }

    /// TCP's flags, as letters of `FSRPAUEC`, or none.
    #[must_use]
    pub fn flags(mut self, letters: &str) -> Self {
        if let Body::Tcp { flags, .. } = &mut self.body {
            let bit = |l| "FSRPAUEC".find(l).unwrap_or_else(|| panic!("no TCP flag {l}"));
            *flags = letters.chars().fold(0, |all, l| all | 1 << bit(l));
        }
        self
    }

    /// TCP's sequence and acknowledgement number.
    #[must_use]
    pub fn numbers(mut self, seq_no: u32, ack_no: u32) -> Self {
        if let Body::Tcp { seq, ack, .. } = &mut self.body {
            (*seq, *ack) = (seq_no, ack_no);
        }
        self
    }

    /// TCP's window.
    #[must_use]
    pub fn window(mut self, bytes: u16) -> Self {
        if let Body::Tcp { window, .. } = &mut self.body {
            *window = bytes;
        }
        self
    }

    /// The last four bytes of an ICMP header.
    #[must_use]
    pub fn rest(mut self, bytes: [u8; 4]) -> Self {
        if let Body::Icmp { rest, .. } = &mut self.body {
            *rest = bytes;
        }
        self
    }

    /// TCP options; a multiple of four bytes.
    #[must_use]
    pub fn tcp_options(mut self, bytes: &[u8]) -> Self {
        if let Body::Tcp { options, .. } = &mut self.body {
            *options = bytes.to_vec();
        }
        self
    }

    /// IPv4 options; a multiple of four bytes, at most 40.
    #[must_use]
    pub fn options(mut self, bytes: &[u8]) -> Self {
        assert!(bytes.len().is_multiple_of(4) && bytes.len() <= 40, "no such IPv4 options");
        self.options = bytes.to_vec();
        self
    }

    /// What follows the last header.
    #[must_use]
    pub fn payload(mut self, bytes: &[u8]) -> Self {
        self.payload = bytes.to_vec();
        self
    }

    /// Hops left.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// DSCP and ECN.
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Allows fragmenting, under this identification.
    #[must_use]
    pub fn may_fragment(mut self, id: u16) -> Self {
        (self.id, self.fragment) = (id, 0);
        self
    }

    /// Makes it a fragment: the raw field of flags and offset, 0x2000 for the first.
    #[must_use]
    pub fn fragment(mut self, flags_offset: u16) -> Self {
        self.fragment = flags_offset;
        self
    }

    /// Bytes of 0xee behind the packet.
    #[must_use]
    pub fn padding(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    /// Pads to Ethernet's least length, 60 bytes.
    #[must_use]
    pub fn padded(mut self) -> Self {
        self.padding = 60usize.saturating_sub(self.bytes().len());
        self
    }
}

/// Faults.
impl Craft {
    /// Another ethertype.
    #[must_use]
    pub fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = ethertype;
        self
    }

    /// Another IP version.
    #[must_use]
    pub fn version(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// A total length that need not be true.
    #[must_use]
    pub fn total_len(mut self, bytes: u16) -> Self {
        self.total_len = Some(bytes);
        self
    }

    /// A TCP data offset, in words of four bytes, that need not be true.
    #[must_use]
    pub fn data_offset(mut self, words: u8) -> Self {
        if let Body::Tcp { offset, .. } = &mut self.body {
            *offset = Some(words);
        }
        self
    }

    /// A UDP length that need not be true.
    #[must_use]
    pub fn udp_len(mut self, bytes: u16) -> Self {
        if let Body::Udp { len } = &mut self.body {
            *len = Some(bytes);
        }
        self
    }

    /// A wrong IPv4 header checksum.
    #[must_use]
    pub fn bad_ip_checksum(mut self) -> Self {
        self.spoilt.0 = true;
        self
    }

    /// A wrong TCP, UDP or ICMP checksum.
    #[must_use]
    pub fn bad_checksum(mut self) -> Self {
        self.spoilt.1 = true;
        self
    }

    /// Only the first bytes of the frame.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }
}
