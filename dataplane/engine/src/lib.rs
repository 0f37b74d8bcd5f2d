//! Pure packet logic: frames in, verdicts out. No DPDK, no I/O, no clock.
//!
//! ```text
//!  rx ─► parse ─► match_conn ─┬─ hit ────────────────────────────► forward ─► settle ─► tx
//!                             └─ miss ─► match_service ─► schedule ──┘
//! ```
//! The whole way is `pipeline.rs`; each stage walks a burst and calls a leaf module. `worker.rs` is
//! one lcore's turn around it.
#![deny(unsafe_code)]

pub mod addr;
pub mod conn;
pub mod flow;
pub mod forward;
pub mod frame;
pub mod live;
pub mod mailbox;
pub mod neigh;
pub mod parse;
pub mod pool;
pub mod queue;
mod registry;
pub mod reply;
pub mod sched;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod stats;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod ticks;
pub mod verdict;
pub mod wire;
