//! A transmit queue that takes everything and frees it at once, a burst at a time.

use dpdk::Mbuf;
use engine::frame::{Frame, FrameVec};
use engine::queue::TxQueue;

/// Where frames end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl TxQueue for Sink {
    type F = Mbuf;

    #[inline]
    fn tx_burst(&mut self, frames: &mut FrameVec<Mbuf>) {
        Mbuf::free_bulk(frames);
    }
}
