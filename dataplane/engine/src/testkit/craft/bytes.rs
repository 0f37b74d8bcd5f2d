//! From a [`Craft`] to the bytes of its frame.

use super::{Body, Craft};
use crate::testkit::HeapFrame;

impl Craft {
    /// A frame with the usual headroom.
    #[must_use]
    pub fn build(&self) -> HeapFrame {
        HeapFrame::new(&self.bytes())
    }

    /// The bytes of the frame.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let transport = self.transport();
        let mut b = [self.macs.0.0, self.macs.1.0].concat();
        b.extend(self.ethertype.to_be_bytes());
        b.extend(self.ip_header(transport.len()));
        b.extend(transport);
        b.resize(b.len() + self.padding, 0xee);
        b.truncate(self.cut.unwrap_or(usize::MAX));
        b
    }

    fn ip_header(&self, body: usize) -> Vec<u8> {
        let header = 20 + self.options.len();
        let total = self.total_len.unwrap_or_else(|| fit(header + body));
        let ihl = u8::try_from(header / 4).expect("at most 15");
        let mut b = vec![self.version << 4 | ihl, self.tos];
        b.extend([total, self.id, self.fragment].iter().flat_map(|n| n.to_be_bytes()));
        b.extend([self.ttl, self.proto(), 0, 0]);
        b.extend(self.ends.0.ip().octets());
        b.extend(self.ends.1.ip().octets());
        b.extend(&self.options);
        let sum = sum(&b) ^ u16::from(self.spoilt.0);
        b[10..12].copy_from_slice(&sum.to_be_bytes());
        b
    }

    fn proto(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp { .. } => 17,
            Body::Icmp { .. } => 1,
            Body::Other(proto) => proto,
        }
    }

    /// Header and payload, with the checksum in place.
    fn transport(&self) -> Vec<u8> {
        let (src, dst) = self.ends;
        let mut b = [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat();
        let at = match &self.body {
            Body::Tcp { flags, seq, ack, window, options, offset } => {
                let words = u8::try_from(5 + options.len() / 4).expect("at most 15");
                b.extend([seq, ack].iter().flat_map(|n| n.to_be_bytes()));
                b.extend([offset.unwrap_or(words) << 4, *flags]);
                b.extend(window.to_be_bytes());
                b.extend([0; 4]);
                b.extend(options);
                16
            }
            Body::Udp { len } => {
                b.extend(len.unwrap_or_else(|| fit(8 + self.payload.len())).to_be_bytes());
                b.extend([0, 0]);
                6
            }
            Body::Icmp { kind, code, rest } => {
                b = vec![*kind, *code, 0, 0];
                b.extend(rest);
                2
            }
            Body::Other(_) => return self.payload.clone(),
        };
        b.extend(&self.payload);
        let sum = self.transport_sum(&b) ^ u16::from(self.spoilt.1);
        b[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        b
    }

    fn transport_sum(&self, body: &[u8]) -> u16 {
        let mut summed = Vec::new();
        if !matches!(self.body, Body::Icmp { .. }) {
            summed.extend(self.ends.0.ip().octets());
            summed.extend(self.ends.1.ip().octets());
            summed.extend([0, self.proto()]);
            summed.extend(fit(body.len()).to_be_bytes());
        }
        summed.extend(body);
        sum(&summed)
    }
}

/// The Internet checksum, word by word (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

fn fit(len: usize) -> u16 {
    u16::try_from(len).expect("fits an IPv4 packet")
}

#[cfg(test)]
mod tests {
    use etherparse::{LaxPacketHeaders, SlicedPacket, TransportSlice};

    use super::super::{tcp, udp};

    #[test]
    fn etherparse_agrees() {
        for packet in [
            tcp("198.51.100.7:40000", "192.0.2.10:80").flags("S").tcp_options(&[1; 8]),
            tcp("198.51.100.7:40000", "192.0.2.10:80").options(&[1; 8]).payload(b"odd"),
            udp("198.51.100.7:40000", "192.0.2.10:53").payload(b"query"),
            udp("198.51.100.7:40000", "192.0.2.10:53").padded(),
        ] {
            let bytes = packet.bytes();
            let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
            let ip = sliced.net.as_ref().and_then(|n| n.ipv4_ref()).unwrap();
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            match sliced.transport.unwrap() {
                TransportSlice::Tcp(tcp) => {
                    let sum = tcp.calc_checksum_ipv4(ip.header().source(), header.destination);
                    assert_eq!(sum.unwrap(), tcp.checksum());
                }
                TransportSlice::Udp(udp) => {
                    let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload());
                    assert_eq!(sum.unwrap(), udp.checksum());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn faults_are_faults() {
        let sound = tcp("198.51.100.7:1", "192.0.2.10:80");
        for faulty in [sound.clone().bad_ip_checksum(), sound.clone().bad_checksum()] {
            let differs =
                sound.bytes().iter().zip(faulty.bytes()).filter(|(a, b)| **a != *b).count();
            assert_eq!(differs, 1);
        }
        assert!(LaxPacketHeaders::from_ethernet(&sound.cut(20).bytes()).is_ok());
    }
}
