//! Weighted least connections: the smallest (256 × active + inactive) / weight, the first of equals.

use super::least::Measure;

/// A server of twice the weight gets twice the connections.
#[derive(Clone, Copy, Debug)]
pub struct WeightedLeastConn;

impl Measure for WeightedLeastConn {
    const ACTIVE: u64 = 256;
    const INACTIVE: u64 = 1;

    #[inline(always)]
    fn cost(load: u64) -> u64 {
        load
    }

    #[inline(always)]
    fn divisor(weight: u32) -> u32 {
        weight
    }
}
