//! Queues of a port: handles that travel to the lcore, and queues that stay on it.
//!
//! A device queue has no lock: two threads that poll it corrupt it. So a handle exists once, is
//! consumed when it becomes a queue, and the queue cannot leave the thread that made it:
//!
//! ```compile_fail,E0277
//! fn moves(mut queue: dpdk::RxQueue) {
//!     std::thread::spawn(move || drop(queue));
//! }
//! ```
//! ```compile_fail,E0277
//! fn moves(mut queue: dpdk::TxQueue) {
//!     std::thread::spawn(move || drop(queue));
//! }
//! ```
//! while the handle can:
//! ```
//! fn moves(handle: dpdk::RxHandle) {
//!     std::thread::spawn(move || drop(handle.into_queue()));
//! }
//! ```

use crate::{
    mbuf::{Mbuf, one_segment},
    port::Port,
};
use dpdk_sys::{fast, rte_mbuf};
use engine::frame::FrameVec;
use std::{marker::PhantomData, mem, ptr::NonNull};

/// Makes a type stay on its thread.
type Stays = PhantomData<*mut ()>;

/// A receive queue on its way to the thread that will poll it.
pub struct RxHandle {
    port: Port,
    queue: u16,
}

/// A transmit queue on its way to the thread that will fill it.
pub struct TxHandle {
    port: Port,
    queue: u16,
}

impl RxHandle {
    /// The caller makes one per queue of a started port.
    pub(crate) fn new(port: Port, queue: u16) -> Self {
        Self { port, queue }
    }

    /// The port it belongs to.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Its number on the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.queue
    }

    /// The queue, for this thread alone.
    #[must_use]
    pub fn into_queue(self) -> RxQueue {
        RxQueue { port: self.port, queue: self.queue, unusable: 0, _stays: PhantomData }
    }
}

impl TxHandle {
    /// The caller makes one per queue of a started port.
    pub(crate) fn new(port: Port, queue: u16) -> Self {
        Self { port, queue }
    }

    /// The port it belongs to.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Its number on the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.queue
    }

    /// The queue, for this thread alone.
    #[must_use]
    pub fn into_queue(self) -> TxQueue {
        TxQueue { port: self.port, queue: self.queue, _stays: PhantomData }
    }
}

/// A receive queue, polled by the thread that made it.
pub struct RxQueue {
    port: Port,
    queue: u16,
    unusable: u64,
    _stays: Stays,
}

/// A transmit queue, filled by the thread that made it.
pub struct TxQueue {
    port: Port,
    queue: u16,
    _stays: Stays,
}

impl engine::queue::RxQueue for RxQueue {
    type F = Mbuf;

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
    fn rx_burst(&mut self, into: &mut FrameVec<Mbuf>) {
        let (held, room) = (into.len(), into.remaining_capacity() as u16);
        // SAFETY: the port is started and open as long as `self.port`; this value is the queue's
        // only one and stays on its thread. `Mbuf` is a transparent pointer and the free places of
        // the vector have room for `room` of them; the device wrote `got` packets there, which are
        // ours, and those that are frames move up to close the gaps before the vector owns them.
        unsafe {
            let free = into.as_mut_ptr().add(held);
            let got = fast::rx_burst(self.port.id(), self.queue, free.cast(), room);
            let mut kept = 0;
            for place in 0..usize::from(got) {
                let packet = free.cast::<NonNull<rte_mbuf>>().add(place).read();
                if let Some(frame) = one_segment(packet) {
                    free.add(kept).write(frame);
                    kept += 1;
                }
            }
            into.set_len(held + kept);
            self.unusable += (usize::from(got) - kept) as u64;
        }
    }

    fn take_unusable(&mut self) -> u64 {
        mem::take(&mut self.unusable)
    }
}

impl engine::queue::TxQueue for TxQueue {
    type F = Mbuf;

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
    fn tx_burst(&mut self, frames: &mut FrameVec<Mbuf>) {
        let count = frames.len();
        let first = frames.as_mut_ptr();
        // SAFETY: the port is started and open as long as `self.port`; this value is the queue's
        // only one and stays on its thread. `Mbuf` is a transparent pointer, so the vector is an
        // array of mbuf pointers. The device owns the `sent` first afterwards, so exactly the rest
        // is moved to the front and kept.
        unsafe {
            let sent = fast::tx_burst(self.port.id(), self.queue, first.cast(), count as u16);
            let rest = count - usize::from(sent);
            frames.set_len(0);
            first.add(usize::from(sent)).copy_to(first, rest);
            frames.set_len(rest);
        }
    }
}
