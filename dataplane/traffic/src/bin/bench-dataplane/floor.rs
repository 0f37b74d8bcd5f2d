//! What no director can be faster than: the same source and sink, and next to nothing between.

use std::time::Duration;

use anyhow::{Result, ensure};
use dpdk::{Mbuf, Mempool, RxHandle, TxHandle};
use engine::frame::{Frame, FrameVec};
use engine::queue::{RxQueue, TxQueue};
use traffic::cost::Sample;
use traffic::sink::Sink;
use traffic::source::{Others, Source};

use crate::setup::TARGET;

/// What happens between source and sink; as `dpdk-testpmd` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// Nothing.
    Io,
    /// Hardware addresses change places.
    Mac,
    /// Addresses of both layers and ports do.
    FiveTuple,
}

/// One of the floors.
pub(crate) struct Floor {
    swap: Swap,
    source: Source,
    frames: FrameVec<Mbuf>,
}

impl Floor {
    /// On known flows; there is no state that could know them.
    pub(crate) fn new(pool: &Mempool, swap: Swap) -> Self {
        let source = Source::of_known_flows(pool.clone(), TARGET, 10, &Others::default());
        Self { swap, source, frames: FrameVec::new() }
    }

    /// Measures for `limit` CPU time.
    pub(crate) fn run(&mut self, limit: Duration) -> Result<Sample> {
        let sample = match self.swap {
            Swap::Io => Sample::take(limit, || self.turn(|_| ())),
            Swap::Mac => Sample::take(limit, || self.turn(swap_macs)),
            Swap::FiveTuple => Sample::take(limit, || self.turn(swap_tuples)),
        };
        ensure!(sample.packets > 0, "the source ran dry");
        Ok(sample)
    }

    #[inline(always)]
    fn turn(&mut self, swap: impl Fn(&mut [u8; 54])) -> u64 {
        self.source.rx_burst(&mut self.frames);
        let count = self.frames.len() as u64;
        self.frames.iter_mut().filter_map(|f| f.head_mut()).for_each(swap);
        Sink.tx_burst(&mut self.frames);
        count
    }
}

/// `5tswap` on a device's queues, as `dpdk-testpmd` does it on the same device.
pub(crate) struct Replay {
    rx: dpdk::RxQueue,
    tx: dpdk::TxQueue,
    frames: FrameVec<Mbuf>,
}

impl Replay {
    /// On the thread that polls.
    pub(crate) fn new(rx: RxHandle, tx: TxHandle) -> Self {
        Self { rx: rx.into_queue(), tx: tx.into_queue(), frames: FrameVec::new() }
    }

    /// Measures for `limit` CPU time.
    pub(crate) fn run(&mut self, limit: Duration) -> Result<Sample> {
        let sample = Sample::take(limit, || {
            self.rx.rx_burst(&mut self.frames);
            let count = self.frames.len() as u64;
            self.frames.iter_mut().filter_map(|f| f.head_mut()).for_each(swap_tuples);
            self.tx.tx_burst(&mut self.frames);
            count - self.frames.len() as u64
        });
        ensure!(sample.packets > 0 && self.frames.is_empty(), "the device ran dry");
        Ok(sample)
    }
}

#[inline(always)]
fn swap_macs(h: &mut [u8; 54]) {
    let (dst, rest) = h.split_at_mut(6);
    dst.swap_with_slice(&mut rest[..6]);
}

#[inline(always)]
fn swap_tuples(h: &mut [u8; 54]) {
    swap_macs(h);
    if h[12..14] != [8, 0] {
        return;
    }
    let (src, rest) = h[26..].split_at_mut(4);
    src.swap_with_slice(&mut rest[..4]);
    if matches!(h[23], 6 | 17) {
        let (src, rest) = h[34..].split_at_mut(2);
        src.swap_with_slice(&mut rest[..2]);
    }
}
