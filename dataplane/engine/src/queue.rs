//! Where frames come from and go to: a device queue, or a queue in memory.

use crate::frame::{Frame, FrameVec};

/// One receive queue, polled by one lcore.
pub trait RxQueue {
    /// The frames it gives.
    type F: Frame;

    /// Fills the free places of `into`. Never waits. Frames that cannot be used (several segments
    /// that do not fit one buffer) are freed here and counted by [`RxQueue::take_unusable`].
    fn rx_burst(&mut self, into: &mut FrameVec<Self::F>);

    /// How many frames [`RxQueue::rx_burst`] has received and freed since the last call.
    fn take_unusable(&mut self) -> u64 {
        0
    }
}

/// One transmit queue, filled by one lcore.
pub trait TxQueue {
    /// The frames it takes.
    type F: Frame;

    /// Hands frames to the device from the front of `frames`; what the device does not take stays,
    /// in order. Never waits.
    fn tx_burst(&mut self, frames: &mut FrameVec<Self::F>);

    /// Called once per turn, whether or not there are frames: a queue that others feed as well
    /// moves theirs on.
    fn poll(&mut self) {}
}
