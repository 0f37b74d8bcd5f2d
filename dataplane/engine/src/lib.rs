//! Pure packet logic: frames in, verdicts out. No DPDK, no I/O, no clock.
//!
//! ```text
//!  rx ─► parse ─► own ─► find ─┬─ hit ───────────────► forward ─► settle ─► tx
//!                              └─ miss ─► schedule ──────┘
//! ```
//! The whole way is `pipeline.rs`; each stage walks a burst and calls a leaf module. `worker.rs` is
//! one lcore's turn around it.
#![deny(unsafe_code)]

pub mod addr;
pub mod backup;
pub mod burst;
pub mod changes;
pub mod conn;
pub mod counter;
mod cpu;
pub mod flow;
pub mod forward;
pub mod frame;
pub mod lcore;
pub mod limit;
mod listing;
pub mod live;
pub mod mailbox;
pub mod neigh;
pub mod out;
pub mod owner;
pub mod pace;
pub mod parking;
pub mod parse;
pub mod pipeline;
pub mod pool;
pub mod queue;
mod registry;
pub mod reply;
pub mod ring;
pub mod sched;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod stats;
mod sweep;
mod sync;
pub mod templates;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod thresholds;
pub mod ticks;
pub mod turns;
pub mod verdict;
pub mod wire;
pub mod worker;
