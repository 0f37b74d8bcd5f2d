//! Up to 32 packets that walk through the stages together, and what the stages found out.

use std::num::NonZeroU32;

use crate::conn::table::ConnId;
use crate::flow::FlowHash;
use crate::frame::{BURST, Frame, FrameVec};
use crate::neigh::PortId;
use crate::parse::Parsed;
use crate::verdict::{DropReason, Verdict};

/// Positions in a burst, in order: what a stage hands to the next. A bit each, so that nothing is
/// checked where one is added, and a position is known to be below 32 where it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane(u32);

const _: () = assert!(BURST == 32);

impl Lane {
    /// The first `len` positions.
    #[inline(always)]
    #[must_use]
    pub const fn first(len: usize) -> Self {
        Self(if len < BURST { (1 << len) - 1 } else { u32::MAX })
    }

    /// Adds a position.
    #[inline(always)]
    pub const fn push(&mut self, position: u8) {
        self.0 |= 1 << (position % 32);
    }

    /// Those that `other` has not.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has a position.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, position: u8) -> bool {
        self.0 >> (position % 32) & 1 == 1
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[inline(always)]
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Lane {
    type Item = u8;

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "below 32")]
    fn next(&mut self) -> Option<u8> {
        let bits = NonZeroU32::new(self.0)?;
        self.0 &= self.0 - 1;
        Some(bits.trailing_zeros() as u8)
    }
}

/// A burst. Arrays by position; the frames leave when their verdicts are carried out.
pub struct Burst<F> {
    /// The frames. A queue fills them, then [`Burst::arrived`] says where they came from.
    pub frames: FrameVec<F>,
    /// The port each came from.
    pub port: [PortId; BURST],
    /// What its headers say.
    pub at: [Parsed; BURST],
    /// The hash of its flow.
    pub hash: [FlowHash; BURST],
    /// The bucket of that hash.
    pub bucket: [u32; BURST],
    /// Its connection, or the candidate; 0 is none.
    pub conn: [ConnId; BURST],
    /// The server slot that it goes to.
    pub server: [u32; BURST],
    /// Its fate, unless it is forwarded.
    pub verdict: [Verdict; BURST],
    /// Those that are forwarded.
    pub forwarded: Lane,
}

impl<F: Frame> Default for Burst<F> {
    fn default() -> Self {
        Self {
            frames: FrameVec::new(),
            port: [0; BURST],
            at: [Parsed::default(); BURST],
            hash: [FlowHash::default(); BURST],
            bucket: [0; BURST],
            conn: [0; BURST],
            server: [0; BURST],
            verdict: [Verdict::Drop(DropReason::Truncated); BURST],
            forwarded: Lane::default(),
        }
    }
}

impl<F: Frame> Burst<F> {
    /// How many packets it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether no further packet fits.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.frames.is_full()
    }

    /// Adds a packet.
    ///
    /// # Panics
    /// When the burst is full: a fault of the caller.
    #[inline(always)]
    pub fn push(&mut self, frame: F, port: PortId) {
        self.port[self.len()] = port;
        self.frames.push(frame);
    }

    /// All its frames came from `port`.
    #[inline(always)]
    pub fn arrived(&mut self, port: PortId) {
        self.port = [port; BURST];
    }

    /// All positions.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
    pub(crate) fn positions(&self) -> std::ops::Range<u8> {
        0..self.len().min(BURST) as u8
    }

    /// A frame, and the place for what its headers say.
    #[inline(always)]
    pub(crate) fn unread(&mut self, n: usize) -> (&F, &mut Parsed) {
        (&self.frames[n], &mut self.at[n])
    }

    /// A frame, and what its headers say.
    #[inline(always)]
    pub(crate) fn packet(&mut self, n: usize) -> (&mut F, &Parsed) {
        (&mut self.frames[n], &self.at[n])
    }

    /// The frame at a position.
    #[inline(always)]
    pub fn frame(&mut self, at: u8) -> &mut F {
        &mut self.frames[usize::from(at)]
    }
}
