//! How long turns take: one lcore's histogram of those that had work.
//!
//! Four buckets an octave, so a bucket's upper edge is at most a quarter above what is in it. Idle
//! turns are not in it: there are millions of them, and they would hide the long ones.

use crate::counter::Counter;

/// Buckets of an octave.
const SUB: u64 = 4;
/// What lasts no longer is in the first bucket: 2^8 cycles are 0.1 µs.
const FIRST_BITS: u32 = 8;
/// What lasts longer is in the last bucket: 2^31 cycles are a second.
const LAST_BITS: u32 = 31;
/// Buckets.
pub const BUCKETS: usize = 1 + (LAST_BITS - FIRST_BITS) as usize * SUB as usize;

/// Turns with work by their length in cycles of the time-stamp counter. Written by its lcore only.
#[derive(Debug)]
pub struct TurnHistogram([Counter; BUCKETS]);

impl Default for TurnHistogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl TurnHistogram {
    /// Counts a turn that had work. Only the one writer may call this, once per turn.
    #[inline]
    pub fn record(&self, cycles: u64) {
        self.0[bucket(cycles)].add(1);
    }

    /// A copy. Not one moment's cut: each bucket is read by itself.
    #[must_use]
    pub fn read(&self) -> Turns {
        Turns(std::array::from_fn(|i| self.0[i].get()))
    }
}

/// A copy of a [`TurnHistogram`] at one moment, or the difference of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns([u64; BUCKETS]);

impl Default for Turns {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Turns {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].wrapping_sub(earlier.0[i])))
    }

    /// How many turns.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The upper edges of the buckets in cycles, and how many turns are in each.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..).map(edge).zip(self.0)
    }

    /// The length in cycles that `per_mille` of the turns did not exceed: the upper edge of the
    /// bucket with the last of them. 1,000 asks for the longest. 0 when there was none.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let wanted = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let mut buckets = self.buckets();
        buckets
            .find(|(_, count)| {
                seen += u128::from(*count);
                seen >= wanted
            })
            .map_or(0, |(edge, _)| edge)
    }
}

/// ```text
///  cycles   ..256  ..320  ..384  ..448  ..512  ..640  ...  ..2^31 and all above
///  bucket       0      1      2      3      4      5  ...  92
/// ```
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "fewer than 93")]
const fn bucket(cycles: u64) -> usize {
    // A value on an edge belongs below it.
    let below = cycles.saturating_sub(1);
    if below < 1 << FIRST_BITS {
        return 0;
    }
    let bits = 63 - below.leading_zeros();
    let sub = below >> (bits - SUB.trailing_zeros()) & (SUB - 1);
    let at = 1 + (bits - FIRST_BITS) as usize * SUB as usize + sub as usize;
    if at < BUCKETS { at } else { BUCKETS - 1 }
}

/// The upper edge of a bucket, in cycles.
const fn edge(bucket: u64) -> u64 {
    let (octave, sub) = (bucket / SUB, bucket % SUB);
    (SUB + sub) << (octave + FIRST_BITS as u64) >> SUB.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_belong_to_the_bucket_below() {
        for at in 0..BUCKETS {
            let edge = edge(at as u64);
            assert_eq!(bucket(edge), at, "{edge}");
            assert_eq!(bucket(edge + 1), (at + 1).min(BUCKETS - 1), "{edge}");
        }
        assert_eq!((edge(0), edge(1), edge(4), edge(5)), (256, 320, 512, 640));
        assert_eq!(edge(BUCKETS as u64 - 1), 1 << LAST_BITS);
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn nothing_has_no_length() {
        let turns = TurnHistogram::default().read();
        assert_eq!((turns.count(), turns.quantile(500), turns.quantile(1000)), (0, 0, 0));
    }

    #[test]
    fn the_slowest_in_a_thousand_is_seen_from_the_thousandth_on() {
        let histogram = TurnHistogram::default();
        (0..999).for_each(|_| histogram.record(1000));
        let before = histogram.read();
        histogram.record(1_000_000);
        let turns = histogram.read();
        assert_eq!(turns.quantile(999), 1024);
        assert_eq!(turns.quantile(1000), 1 << 20);
        assert_eq!(turns.since(&before).quantile(1), 1 << 20);
        histogram.record(1_000_000);
        assert_eq!(histogram.read().quantile(999), 1 << 20);
    }

    proptest! {
        #[test]
        fn a_quantile_is_that_of_the_sorted_list_or_a_quarter_more(
            mut cycles in prop::collection::vec(257_u64..1 << LAST_BITS, 1..200),
            per_mille in 1_u64..=1000,
        ) {
            let histogram = TurnHistogram::default();
            cycles.iter().for_each(|c| histogram.record(*c));
            cycles.sort_unstable();
            let rank = (cycles.len() as u64 * per_mille).div_ceil(1000);
            let exact = cycles[rank as usize - 1];
            let shown = histogram.read().quantile(per_mille);
            prop_assert!(shown >= exact && shown <= exact + exact / 4 + 1, "{exact} as {shown}");
        }
    }
}
