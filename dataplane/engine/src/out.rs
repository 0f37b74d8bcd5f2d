//! The way out of one port: a short queue in front of the device's own.

use crate::frame::FrameVec;
use crate::queue::TxQueue;

/// Frames on their way to one transmit queue, in order. What the device does not take stays for the
/// next turn; when that queue is full too, frames end here and are counted.
pub struct Outlet<T: TxQueue> {
    queue: T,
    waiting: FrameVec<T::F>,
    /// Frames that the device took since the last [`Outlet::take_counts`].
    sent: u64,
    /// Frames dropped since then.
    full: u64,
}

impl<T: TxQueue> Outlet<T> {
    /// In front of `queue`.
    #[must_use]
    pub fn new(queue: T) -> Self {
        Self { queue, waiting: FrameVec::new(), sent: 0, full: 0 }
    }

    /// Puts a frame in line.
    #[inline(always)]
    pub fn push(&mut self, frame: T::F) {
        if self.waiting.is_full() {
            self.flush();
        }
        if let Err(refused) = self.waiting.try_push(frame) {
            drop(refused.element());
            self.full += 1;
        }
    }

    /// Puts a whole burst in line.
    #[inline(always)]
    pub fn push_all(&mut self, frames: &mut FrameVec<T::F>) {
        if self.waiting.is_empty() {
            let before = frames.len();
            self.queue.tx_burst(frames);
            self.sent += (before - frames.len()) as u64;
        }
        frames.drain(..).for_each(|frame| self.push(frame));
    }

    /// Offers all waiting frames to the device once.
    #[inline]
    pub fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let before = self.waiting.len();
        self.queue.tx_burst(&mut self.waiting);
        self.sent += (before - self.waiting.len()) as u64;
    }

    /// Once per turn: [`TxQueue::poll`], then [`Outlet::flush`].
    #[inline]
    pub fn turn(&mut self) {
        self.queue.poll();
        self.flush();
    }

    /// How many frames wait for the device.
    #[must_use]
    pub const fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// Frames sent and dropped since the last call.
    pub const fn take_counts(&mut self) -> (u64, u64) {
        let counts = (self.sent, self.full);
        (self.sent, self.full) = (0, 0);
        counts
    }
}
