//! Who talks to whom: the key of a connection, and the keyed hash of it.
//!
//! ```text
//!  byte  0        4        8    10   12     13      16                              40
//!  IPv4  | source | dest   | sp | dp | proto | zero  | zero ...                      |
//!  byte  0                16                32   34   36     37                     40
//!  IPv6  | source          | destination     | sp | dp | proto | zero                |
//! ```
//! Addresses and ports are in network order, as they stand in the packet. The family is not in the
//! key: whoever stores a key knows it (a bucket's tag carries it), and a key is hashed and compared
//! over the length of its own family.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::addr::{Addr, L4Proto};

/// Addresses, ports and protocol of one flow, as the client sends it (towards the server).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub struct FlowKey(pub [u8; 40]);

/// The address family of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4: 16 bytes of key.
    V4,
    /// IPv6: 40 bytes of key.
    V6,
}

impl FlowKey {
    /// An IPv4 key; addresses and ports in network order.
    #[inline(always)]
    #[must_use]
    pub fn v4(src: [u8; 4], dst: [u8; 4], ports: [u8; 4], proto: L4Proto) -> Self {
        let mut k = [0; 40];
        k[0..4].copy_from_slice(&src);
        k[4..8].copy_from_slice(&dst);
        k[8..12].copy_from_slice(&ports);
        k[12] = proto as u8;
        Self(k)
    }

    /// Makes it an IPv4 key, given as two little-endian words. What lies behind is not touched.
    #[inline(always)]
    pub(crate) fn put_v4(&mut self, addresses: u64, ports_and_proto: u64) {
        self.0[..8].copy_from_slice(&addresses.to_le_bytes());
        self.0[8..16].copy_from_slice(&ports_and_proto.to_le_bytes());
    }

    /// An IPv6 key; addresses and ports in network order.
    #[must_use]
    pub fn v6(src: [u8; 16], dst: [u8; 16], ports: [u8; 4], proto: L4Proto) -> Self {
        let mut k = [0; 40];
        k[0..16].copy_from_slice(&src);
        k[16..32].copy_from_slice(&dst);
        k[32..36].copy_from_slice(&ports);
        k[36] = proto as u8;
        Self(k)
    }

    /// From parts in any family; both addresses must be of one.
    #[must_use]
    pub fn new(
        src: Addr,
        src_port: u16,
        dst: Addr,
        dst_port: u16,
        proto: L4Proto,
    ) -> (Self, Family) {
        let (s, d) = (src_port.to_be_bytes(), dst_port.to_be_bytes());
        let ports = [s[0], s[1], d[0], d[1]];
        if dst.is_v4() {
            (Self::v4(src.low4(), dst.low4(), ports, proto), Family::V4)
        } else {
            (Self::v6(src.0, dst.0, ports, proto), Family::V6)
        }
    }

    /// The same, all bytes zero that do not count for `family`.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn of(mut self, family: Family) -> Self {
        if let (Family::V4, (_, rest)) = (family, self.0.split_at_mut(16)) {
            rest.copy_from_slice(&[0; 24]);
        }
        self
    }

    /// The bytes that count for `family`.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self, family: Family) -> &[u8] {
        match family {
            Family::V4 => &self.0[..16],
            Family::V6 => &self.0,
        }
    }

    /// The same flow as from another client, and from no port.
    #[must_use]
    pub fn from_client(&self, client: Addr, family: Family) -> Self {
        Self::new(client, 0, self.dst(family), self.ports(family).1, self.proto(family)).0
    }

    /// The client's address.
    #[must_use]
    pub fn src(&self, family: Family) -> Addr {
        self.addr(family, 0)
    }

    /// The virtual service's address.
    #[must_use]
    pub fn dst(&self, family: Family) -> Addr {
        match family {
            Family::V4 => self.addr(family, 4),
            Family::V6 => self.addr(family, 16),
        }
    }

    fn addr(&self, family: Family, at: usize) -> Addr {
        match family {
            Family::V4 => Addr::v4(*self.0[at..].first_chunk().expect("inside the key")),
            Family::V6 => Addr(*self.0[at..].first_chunk().expect("inside the key")),
        }
    }

    /// Source and destination port.
    #[must_use]
    pub fn ports(&self, family: Family) -> (u16, u16) {
        let at = if family == Family::V4 { 8 } else { 32 };
        let p = &self.0[at..at + 4];
        (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))
    }

    /// The protocol.
    #[must_use]
    pub fn proto(&self, family: Family) -> L4Proto {
        let number = self.0[if family == Family::V4 { 12 } else { 36 }];
        if number == L4Proto::Udp as u8 { L4Proto::Udp } else { L4Proto::Tcp }
    }
}

/// The keyed hash of a flow key. The bits in use: 0–31 bucket, 32–47 tag, 48–63 owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowHash(pub u64);

impl FlowHash {
    /// Which of `lcores` owns the flow: the top 16 bits, scaled.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "smaller than lcores, a u16")]
    pub const fn owner(self, lcores: u16) -> u16 {
        (((self.0 >> 48) * lcores as u64) >> 16) as u16
    }
}

/// The secret of the flow hash: random per director, the same on all its lcores.
///
/// rapidhash with secret seeds is not cryptographic: it keeps strangers from aiming at one bucket
/// without a way to observe the table, and every probe is bounded besides.
#[derive(Clone)]
pub struct FlowHasher(RapidSecrets);

impl FlowHasher {
    /// A hasher whose secrets follow from `seed`, which must come from the system's random source.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(RapidSecrets::seed(seed))
    }

    /// The hash of a key, over the bytes of its family.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, key: &FlowKey, family: Family) -> FlowHash {
        FlowHash(rapidhash_v3_nano_inline::<true, true>(key.bytes(family), &self.0))
    }
}
