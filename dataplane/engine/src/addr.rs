//! Addresses: one 16-byte type for both IP families, hardware addresses, transport protocols.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address in 16 bytes; IPv4 lies in the mapped range `::ffff:0:0/96`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// The unspecified IPv6 address, "none" where an address is optional.
    pub const UNSPECIFIED: Self = Self([0; 16]);

    /// From the four bytes of an IPv4 address.
    #[must_use]
    pub const fn v4(b: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, b[0], b[1], b[2], b[3]])
    }

    /// Whether this is an IPv4 address.
    #[must_use]
    pub fn is_v4(self) -> bool {
        self.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    }

    /// The address with all but its first `bits` of 128 set to 0. An IPv4 address begins at bit 96.
    #[must_use]
    pub const fn masked(self, bits: u8) -> Self {
        let Some(zeros) = 128_u32.checked_sub(bits as u32) else { return self };
        let kept = match u128::MAX.checked_shl(zeros) {
            Some(mask) => mask,
            None => 0,
        };
        Self((u128::from_be_bytes(self.0) & kept).to_be_bytes())
    }

    /// The last four bytes: the whole of an IPv4 address.
    #[must_use]
    pub const fn low4(self) -> [u8; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(a) => Self::v4(a.octets()),
            IpAddr::V6(a) => Self(a.octets()),
        }
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(ip: Ipv4Addr) -> Self {
        Self::v4(ip.octets())
    }
}

impl From<Addr> for IpAddr {
    fn from(a: Addr) -> Self {
        if a.is_v4() { Self::V4(a.low4().into()) } else { Self::V6(Ipv6Addr::from(a.0)) }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An Ethernet hardware address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether the group bit is set (multicast or broadcast).
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether a station can own this address: neither group nor all zero.
    #[must_use]
    pub fn is_station(self) -> bool {
        !self.is_group() && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Mac {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let mut mac = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|p| (1..=2).contains(&p.len()));
            *byte = part
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(|| format!("{s:?} is not a MAC address such as 02:00:5e:10:00:01"))?;
        }
        if parts.next().is_some() {
            return Err(format!("{s:?} has more than six bytes"));
        }
        Ok(Self(mac))
    }
}

/// The transport protocols that services speak, with their IP protocol numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum L4Proto {
    /// TCP, 6.
    Tcp = 6,
    /// UDP, 17.
    Udp = 17,
}

impl L4Proto {
    /// From the protocol field of an IP header.
    #[must_use]
    pub const fn from_ip(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for L4Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl std::str::FromStr for L4Proto {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err(format!("{s:?} is not a protocol; allowed: tcp, udp")),
        }
    }
}
