//! A wire in memory: what one end sends, the test reads, and the other way round.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::frame::FrameVec;
use crate::queue::{RxQueue, TxQueue};
use crate::testkit::HeapFrame;

/// Frames in order, shared by all clones of the handle. It is a receive queue and a transmit queue
/// at once: give one clone to a worker and keep another to fill or read it.
#[derive(Clone, Debug, Default)]
pub struct MemQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    frames: VecDeque<HeapFrame>,
    take: usize,
    unusable: u64,
}

impl Default for State {
    fn default() -> Self {
        Self { frames: VecDeque::new(), take: usize::MAX, unusable: 0 }
    }
}

impl MemQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a frame at the end.
    pub fn push(&self, frame: HeapFrame) {
        self.state().frames.push_back(frame);
    }

    /// Takes the first frame.
    #[must_use]
    pub fn pop(&self) -> Option<HeapFrame> {
        self.state().frames.pop_front()
    }

    /// Takes all frames.
    #[must_use]
    pub fn drain(&self) -> Vec<HeapFrame> {
        self.state().frames.drain(..).collect()
    }

    /// How many frames are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().frames.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on a transmit call takes at most `frames`, as a busy device would.
    pub fn take_at_most(&self, frames: usize) {
        self.state().take = frames;
    }

    /// Pretends that `frames` were received and could not be used.
    pub fn add_unusable(&self, frames: u64) {
        self.state().unusable += frames;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RxQueue for MemQueue {
    type F = HeapFrame;

    fn rx_burst(&mut self, into: &mut FrameVec<HeapFrame>) {
        let mut state = self.state();
        let free = into.remaining_capacity().min(state.frames.len());
        into.extend(state.frames.drain(..free));
    }

    fn take_unusable(&mut self) -> u64 {
        std::mem::take(&mut self.state().unusable)
    }
}

impl TxQueue for MemQueue {
    type F = HeapFrame;

    fn tx_burst(&mut self, frames: &mut FrameVec<HeapFrame>) {
        let mut state = self.state();
        let taken = frames.len().min(state.take);
        state.frames.extend(frames.drain(..taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BURST, Frame};

    fn numbered(n: u8) -> HeapFrame {
        HeapFrame::new(&[n])
    }

    #[test]
    fn keeps_order_and_bounds() {
        let mut queue = MemQueue::new();
        (0..40).for_each(|n| queue.push(numbered(n)));
        let mut burst = FrameVec::new();
        queue.rx_burst(&mut burst);
        assert_eq!((burst.len(), queue.len()), (BURST, 8));
        queue.take_at_most(3);
        queue.tx_burst(&mut burst);
        assert_eq!(burst.first().map(Frame::bytes), Some(&[3][..]), "the rest stays, in order");
        let sent: Vec<u8> = queue.drain().iter().map(|f| f.bytes()[0]).collect();
        assert_eq!(sent, [32, 33, 34, 35, 36, 37, 38, 39, 0, 1, 2]);
    }
}
