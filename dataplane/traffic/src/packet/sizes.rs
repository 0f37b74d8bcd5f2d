//! Frame sizes.

use crate::dice::mix;
use crate::packet::Transport;
use crate::plan::Segment;

/// Frame sizes in bytes, check sequence included, that follow each other by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub(super) Vec<usize>);

impl Sizes {
    /// All alike.
    #[must_use]
    pub fn fixed(size: usize) -> Self {
        Self(vec![size])
    }

    /// Seven of 64 bytes (or the smallest that carries a stamp), four of 594, one of 1,518.
    #[must_use]
    pub fn imix(transport: Transport, is_v4: bool) -> Self {
        let small = transport.smallest(is_v4).max(64);
        Self([vec![small; 7], vec![594; 4], vec![1518]].concat())
    }

    /// The longest.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0)
    }

    #[inline]
    pub(super) fn place(&self, s: Segment) -> usize {
        match self.0.len() {
            1 => 0,
            // Spread, so that a flow's packets differ and flows do not march in step.
            n => (mix(u64::from(s.flow) << 32 | u64::from(s.seq)) % n as u64) as usize,
        }
    }
}
