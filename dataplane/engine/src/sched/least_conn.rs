//! Least connections: the smallest 256 × active + inactive, the first of equals.

use super::least::Measure;

/// All servers count the same, whatever their weights (but 0).
#[derive(Clone, Copy, Debug)]
pub struct LeastConn;

impl Measure for LeastConn {
    const ACTIVE: u64 = 256;
    const INACTIVE: u64 = 1;

    #[inline(always)]
    fn cost(load: u64) -> u64 {
        load
    }

    #[inline(always)]
    fn divisor(weight: u32) -> u32 {
        weight.min(1)
    }
}
