//! Up to 32 packets that walk through the stages together, and what the stages found out.

use arrayvec::ArrayVec;

use crate::conn::table::ConnId;
use crate::flow::FlowHash;
use crate::frame::{BURST, Frame, FrameVec};
use crate::neigh::PortId;
use crate::parse::Parsed;
use crate::verdict::{DropReason, Verdict};

/// Positions in a burst: what a stage hands to the next.
pub type Lane = ArrayVec<u8, BURST>;

/// A burst. Arrays by position; a position's frame is taken out when its verdict is carried out.
pub struct Burst<F> {
    /// The frames.
    pub frames: [Option<F>; BURST],
    /// The port each came from.
    pub port: [PortId; BURST],
    /// What its headers say.
    pub at: [Parsed; BURST],
    /// The hash of its flow.
    pub hash: [FlowHash; BURST],
    /// Its connection, or the candidate; 0 is none.
    pub conn: [ConnId; BURST],
    /// The server slot that it goes to.
    pub server: [u32; BURST],
    /// Its fate.
    pub verdict: [Verdict; BURST],
    len: usize,
}

impl<F: Frame> Default for Burst<F> {
    fn default() -> Self {
        Self {
            frames: [const { None }; BURST],
            port: [0; BURST],
            at: [Parsed::default(); BURST],
            hash: [FlowHash::default(); BURST],
            conn: [0; BURST],
            server: [0; BURST],
            verdict: [Verdict::Drop(DropReason::Truncated); BURST],
            len: 0,
        }
    }
}

impl<F: Frame> Burst<F> {
    /// How many packets it began with.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no further packet fits.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// Begins anew; all frames must have been taken.
    pub fn clear(&mut self) {
        debug_assert!(self.frames.iter().all(Option::is_none), "a packet without an end");
        self.len = 0;
    }

    /// Adds a packet.
    ///
    /// # Panics
    /// When the burst is full: a fault of the caller.
    #[inline(always)]
    pub fn push(&mut self, frame: F, port: PortId) {
        self.frames[self.len] = Some(frame);
        self.port[self.len] = port;
        self.len += 1;
    }

    /// Adds all of `frames`, which came from `port`.
    #[inline(always)]
    pub fn fill(&mut self, frames: &mut FrameVec<F>, port: PortId) {
        let end = self.len + frames.len();
        self.port[self.len..end].fill(port);
        for (place, frame) in self.frames[self.len..end].iter_mut().zip(frames.drain(..)) {
            *place = Some(frame);
        }
        self.len = end;
    }

    /// A frame that has not been taken, and the place for what its headers say.
    #[inline(always)]
    pub(crate) fn unread(&mut self, n: usize) -> (&F, &mut Parsed) {
        (self.frames[n].as_ref().expect("nothing was taken yet"), &mut self.at[n])
    }

    /// A frame that has not been taken, and what its headers say.
    #[inline(always)]
    pub(crate) fn packet(&mut self, n: usize) -> (&mut F, &Parsed) {
        (self.frames[n].as_mut().expect("a packet has one end"), &self.at[n])
    }

    /// The frame at a position, which has not been taken.
    #[inline(always)]
    pub fn frame(&mut self, at: u8) -> &mut F {
        self.frames[usize::from(at) % BURST]
            .as_mut()
            .expect("a packet has one end, and this is before it")
    }
}
