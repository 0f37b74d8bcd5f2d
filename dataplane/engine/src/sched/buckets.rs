//! What `dh` and `sh` share: LVS's hash into 256 buckets, and how it folds an address to 32 bits.

use crate::addr::Addr;

/// How many buckets there are.
pub(super) const BUCKETS: usize = 256;

/// The bucket of a number: the top 8 bits of its product with the golden ratio (Knuth, TAOCP 6.4).
#[inline]
pub(super) const fn bucket(number: u32) -> usize {
    (number.wrapping_mul(0x61C8_8647) >> 24) as usize
}

/// An IPv4 address as a number; the four words of an IPv6 address by exclusive or.
#[inline]
pub(super) fn fold(addr: Addr) -> u32 {
    if addr.is_v4() {
        return u32::from_be_bytes(addr.low4());
    }
    let words = addr.0.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
    words.fold(0, |folded, word| folded ^ word)
}
