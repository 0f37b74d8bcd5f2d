//! Transmit queues shared by lcores, for devices that have fewer queues than there are lcores.
//!
//! The lcore that owns the queue takes, once per turn, what the others put on its rings: bounded,
//! single producer, single consumer. What the device does not take waits on the ring, and when that
//! is full the sender counts it as tx-full, so no frame is lost unseen.

use dpdk::{Mbuf, TxQueue};
use engine::frame::{Frame, FrameVec};

/// Frames that may wait on one ring.
pub(crate) const DEPTH: usize = engine::owner::DEPTH;

/// One lcore's way to a port.
pub(crate) enum Way {
    /// Its own transmit queue, and what other lcores bring to it.
    Queue {
        /// The queue.
        queue: TxQueue,
        /// Rings from lcores without a queue.
        relays: Vec<rtrb::Consumer<Mbuf>>,
        /// Taken from a ring, not yet by the device.
        taken: Box<FrameVec<Mbuf>>,
    },
    /// A ring to the lcore that has a queue.
    Relay(rtrb::Producer<Mbuf>),
}

impl engine::queue::TxQueue for Way {
    type F = Mbuf;

    #[inline(always)]
    fn tx_burst(&mut self, frames: &mut FrameVec<Mbuf>) {
        match self {
            Self::Queue { queue, .. } => queue.tx_burst(frames),
            Self::Relay(ring) => {
                let room = ring.slots().min(frames.len());
                for frame in frames.drain(..room) {
                    if let Err(rtrb::PushError::Full(frame)) = ring.push(frame) {
                        // Not reached: only this thread fills the ring.
                        drop(frame);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn poll(&mut self) {
        let Self::Queue { queue, relays, taken } = self else { return };
        for ring in relays {
            while !taken.is_full()
                && let Ok(frame) = ring.pop()
            {
                taken.push(frame);
            }
            if !taken.is_empty() {
                queue.tx_burst(taken);
            }
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if let Self::Queue { relays, taken, .. } = self {
            Mbuf::free_bulk(taken);
            for ring in relays {
                while ring.pop().is_ok() {}
            }
        }
    }
}
