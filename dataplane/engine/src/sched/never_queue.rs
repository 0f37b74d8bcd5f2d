//! Never queue: an idle server if there is one, else the smallest (active + 1) / weight; the first of
//! equals.

use super::least::Measure;

/// As [`super::shortest_delay::ShortestDelay`], but an idle server beats all others.
#[derive(Clone, Copy, Debug)]
pub struct NeverQueue;

impl Measure for NeverQueue {
    const ACTIVE: u64 = 1;
    const INACTIVE: u64 = 0;

    #[inline(always)]
    fn cost(load: u64) -> u64 {
        if load == 0 { 0 } else { load + 1 }
    }

    #[inline(always)]
    fn divisor(weight: u32) -> u32 {
        weight
    }
}
