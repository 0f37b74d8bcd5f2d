//! The Internet checksum (RFC 1071), and its incremental update (RFC 1624).
//!
//! The checksum is the complement of the one's complement sum of all 16-bit words. Because
//! 2¹⁶ ≡ 1 in that arithmetic, words may be added in any width and the carries folded in at the
//! end; and in either byte order, as long as the result is stored in the same. So [`Sum`] reads 32
//! bits at a time, as the machine reads them, into 64.

/// A sum on the way to a checksum. Every part but the last must have an even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of `bytes`; an odd last byte counts as padded with zero.
    #[inline(always)]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(0).and(bytes)
    }

    /// The sum of bytes that are given as little-endian words.
    #[inline(always)]
    #[must_use]
    pub fn of_words<const N: usize>(words: [u32; N]) -> Self {
        Self(words.iter().map(|word| u64::from(word.to_le())).sum())
    }

    /// The sum of the IPv4 pseudo-header of TCP and UDP; `len` counts header and data, in bytes.
    #[must_use]
    pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> Self {
        let [high, low] = len.to_be_bytes();
        Self(0).and(&src).and(&dst).and(&[0, proto, high, low])
    }

    /// Adds more bytes.
    #[inline(always)]
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = words.iter().fold(self.0, |sum, w| sum + u64::from(u32::from_ne_bytes(*w)));
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// The checksum to write into a field that was zero while summed.
    #[inline(always)]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        u16::from_be(!fold(self.0))
    }

    /// Whether bytes that include their own checksum are sound: their sum folds to 0xffff. Folded
    /// to 32 bits, added to itself turned by 16: the upper half is then both halves' sum with its
    /// carry.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "halves are cut out")]
    pub const fn holds(self) -> bool {
        let (half, carry) = (self.0 as u32).overflowing_add((self.0 >> 32) as u32);
        let half = half.wrapping_add(carry as u32);
        half.wrapping_add(half.rotate_left(16)) >= 0xffff_0000
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the carries have been folded in")]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff); // < 2³³
    let sum = (sum >> 16) + (sum & 0xffff); // < 2¹⁸
    let sum = (sum >> 16) + (sum & 0xffff); // ≤ 2¹⁶ + 2
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The checksum after one 16-bit word changed from `old` to `new`: HC' = ~(~HC + ~m + m'),
/// RFC 1624 equation 3. (Equation 4 of RFC 1141 yields 0xffff where 0 is due.)
#[inline(always)]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// TTL, protocol and checksum of an IPv4 header, read as one little-endian word, after the TTL went
/// down by one: the TTL is the lowest byte, and the checksum above, [`update`] of a word that lost
/// 0x0100, grows by one in this byte order. The TTL is not 0.
#[inline(always)]
#[must_use]
pub const fn hop(word: u32) -> u32 {
    let carry = word >= 0xfffe_0000;
    word.wrapping_add(0xffff).wrapping_add((carry as u32) << 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hop_is_an_update_of_the_ttl() {
        for checksum in 0..=u16::MAX {
            let [high, low] = checksum.to_be_bytes();
            let [ttl, proto, high, low] =
                hop(u32::from_le_bytes([0x40, 6, high, low])).to_le_bytes();
            assert_eq!((ttl, proto), (0x3f, 6), "{checksum:04x}");
            let after = u16::from_be_bytes([high, low]);
            assert_eq!(after, update(checksum, 0x4006, 0x3f06), "{checksum:04x}");
        }
    }

    /// RFC 1071 4.1, word for word in another language.
    fn rfc_1071(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        let mut count = bytes.len();
        let mut at = 0;
        while count > 1 {
            sum += u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            at += 2;
            count -= 2;
        }
        if count > 0 {
            sum += u32::from(bytes[at]) << 8;
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).checksum(), !0xddf2);
    }

    #[test]
    fn rfc_1624_example() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn equals_the_rfc(bytes in prop::collection::vec(any::<u8>(), 0..1600)) {
            prop_assert_eq!(Sum::of(&bytes).checksum(), rfc_1071(&bytes));
        }

        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let cut = (cut * 2).min(bytes.len() & !1);
            let parts = Sum::of(&bytes[..cut]).and(&bytes[cut..]);
            prop_assert_eq!(parts.checksum(), rfc_1071(&bytes));
        }

        /// The update equals a fresh sum, for all data that is not all zero.
        #[test]
        fn update_equals_a_fresh_sum(
            mut bytes in prop::collection::vec(any::<u8>(), 20),
            at in 0usize..10,
            new: u16,
        ) {
            bytes[19] |= 1;
            let at = at.min(8) * 2;
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let before = rfc_1071(&bytes);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), rfc_1071(&bytes));
        }

        #[test]
        fn tcp_equals_etherparse(
            src: [u8; 4],
            dst: [u8; 4],
            payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let tcp = etherparse::TcpHeader::new(1000, 80, 7, 512);
            let theirs = tcp.calc_checksum_ipv4_raw(src, dst, &payload).unwrap();
            let len = u16::try_from(20 + payload.len()).unwrap();
            let ours = Sum::pseudo_v4(src, dst, 6, len).and(&tcp.to_bytes()).and(&payload);
            prop_assert_eq!(ours.checksum(), theirs);
        }
    }
}
