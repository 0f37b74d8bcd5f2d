//! Shortest expected delay: the smallest (active + 1) / weight, the first of equals.

use super::least::Measure;

/// How long a server would take with one connection more.
#[derive(Clone, Copy, Debug)]
pub struct ShortestDelay;

impl Measure for ShortestDelay {
    const ACTIVE: u64 = 1;
    const INACTIVE: u64 = 0;

    #[inline(always)]
    fn cost(load: u64) -> u64 {
        load + 1
    }

    #[inline(always)]
    fn divisor(weight: u32) -> u32 {
        weight
    }
}
