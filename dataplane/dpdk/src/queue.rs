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
use dpdk_sys::fast;
use engine::frame::{BURST, FrameVec};
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
        let mut raw = [None::<NonNull<_>>; BURST];
        let room = into.remaining_capacity() as u16;
        // SAFETY: the port is started and open as long as `self.port`; this value is the queue's
        // only one and stays on its thread; `raw` has room for a burst, and a pointer written to
        // it is not null.
        let got =
            unsafe { fast::rx_burst(self.port.id(), self.queue, raw.as_mut_ptr().cast(), room) };
        for packet in raw.iter().take(usize::from(got)).flatten() {
            // SAFETY: the device gave the packet to us.
            match unsafe { one_segment(*packet) } {
                // SAFETY: no more packets arrive than there was room for.
                Some(frame) => unsafe { into.push_unchecked(frame) },
                None => self.unusable += 1,
            }
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
