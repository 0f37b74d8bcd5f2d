//! What one packet of a known connection costs: whole turns of a worker, on queues that do nothing
//! but give and take frames. `cargo bench -p engine --bench turn`, optimised in full: without it the
//! queues alone cost three times as much.
//!
//! Prints, for each forwarder and number of flows, the best of many runs, with the cost of the
//! queues alone beside it. Frames are on the heap: a device's frames move 8 bytes, these 40.

#[path = "../rig/mod.rs"]
#[allow(dead_code, reason = "another benchmark uses the rest")]
mod rig;

use std::hint::black_box;
use std::time::Instant;

use engine::forward::ForwarderKind;
use engine::frame::{BURST, FrameVec};
use engine::queue::{RxQueue, TxQueue};

use crate::rig::{NOW, Rig};

/// Packets of one timed run, and runs of which the best counts.
const RUN: usize = 1 << 16;
const RUNS: usize = 100;

/// Nanoseconds per packet of the best run.
fn best(mut burst: impl FnMut()) -> f64 {
    let run = |()| {
        let start = Instant::now();
        (0..RUN / BURST).for_each(|_| burst());
        start.elapsed().as_secs_f64() * 1e9 / RUN as f64
    };
    std::iter::repeat_n((), RUNS).map(run).fold(f64::MAX, f64::min)
}

fn measure(flows: usize, forwarder: ForwarderKind) {
    let mut rig = Rig::new(forwarder, 2 * flows);
    rig.open(flows);
    let turn = best(|| _ = rig.worker.turn(NOW));
    let stats = &rig.board.stats;
    assert_eq!(stats.forwarded.get(), stats.received.get(), "all were hits");
    let (mut rx, mut tx, mut burst) = (rig.cable.clone(), rig.cable.clone(), FrameVec::new());
    let queues = best(|| {
        rx.rx_burst(&mut burst);
        tx.tx_burst(black_box(&mut burst));
    });
    println!("{forwarder:>5} {flows:>8} flows: {turn:6.1} ns a packet, queues alone {queues:4.1}");
}

fn main() {
    for forwarder in ForwarderKind::ALL {
        for flows in [1 << 10, 1 << 16, 1 << 20] {
            measure(flows, *forwarder);
        }
    }
}
