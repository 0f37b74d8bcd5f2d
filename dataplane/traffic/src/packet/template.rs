//! A packet of one size, and the sums of what does not change.

use engine::wire::checksum::Sum;
use engine::wire::eth;

use super::{CLIENTS_V6, L3, STAMP, Transport, Wire, l4};
use crate::ip::V6_ETHERTYPE;

/// Zero is what [`super::Writer::write`] fills in: the client's part of the address, its port, the
/// checksums, the TCP number, offset and flags, the QUIC header, the stamp.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    /// Of the IPv4 header.
    pub(super) ip: Sum,
    /// Of the pseudo-header and all behind it.
    pub(super) l4: Sum,
}

impl Template {
    /// Of `len` bytes, `header` of them between the IP header and the stamp.
    pub(super) fn new(wire: &Wire, len: usize, header: usize) -> Self {
        let (is_v4, transport) = (wire.vip.is_v4(), wire.transport);
        let least = transport.smallest(is_v4) - super::FCS;
        assert!((least..=9018).contains(&len), "a frame of {len}");
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&wire.to.0);
        bytes[6..12].copy_from_slice(&wire.from.0);
        let l4 = l4(is_v4);
        let (ip, pseudo) = if is_v4 { v4(wire, &mut bytes) } else { v6(wire, &mut bytes) };
        bytes[l4 + header + STAMP..].iter_mut().zip(0_u8..=250).for_each(|(to, n)| *to = n);
        let segment = &mut bytes[l4..];
        segment[2..4].copy_from_slice(&wire.port.to_be_bytes());
        match transport {
            Transport::Tcp => segment[8..16].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0xff, 0xff]),
            Transport::Udp | Transport::Quic => {
                let len = length(segment.len());
                segment[4..6].copy_from_slice(&len);
            }
        }
        let l4 = pseudo.and(segment);
        Self { bytes, ip, l4 }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the longest frame is that of an MTU")]
const fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

/// Writes the header; its sum and the pseudo-header's.
fn v4(wire: &Wire, bytes: &mut [u8]) -> (Sum, Sum) {
    let (proto, vip, len) = (wire.transport.proto() as u8, wire.vip.low4(), bytes.len() - L3);
    bytes[12..14].copy_from_slice(&eth::IPV4.to_be_bytes());
    let to = &mut bytes[L3..l4(true)];
    to[..10].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, proto]);
    to[2..4].copy_from_slice(&length(len));
    to[16..].copy_from_slice(&vip);
    let [high, low] = length(len - 20);
    (Sum::of(to), Sum::of(&vip).and(&[0, proto, high, low]))
}

/// The same; there is no header checksum (RFC 8200 8.1).
fn v6(wire: &Wire, bytes: &mut [u8]) -> (Sum, Sum) {
    let (proto, len) = (wire.transport.proto() as u8, length(bytes.len() - l4(false)));
    bytes[12..14].copy_from_slice(&V6_ETHERTYPE.to_be_bytes());
    let to = &mut bytes[L3..l4(false)];
    to[0] = 0x60;
    to[4..6].copy_from_slice(&len);
    to[6..8].copy_from_slice(&[proto, 64]);
    to[8..14].copy_from_slice(&CLIENTS_V6);
    to[24..].copy_from_slice(&wire.vip.0);
    (Sum::default(), Sum::of(&to[8..]).and(&[0, 0, len[0], len[1]]).and(&[0, 0, 0, proto]))
}
