//! The control side: one thread owns the truth; everything else asks it.
//!
//! ```text
//!  sluicectl ─► socket ─► Job ─► Control ─► Store ─► compile ─► publish ─► lcores
//!                          ▲        │ tick: events, counts, neighbours, rates
//!                          └ answer ┘
//! ```
//! No DPDK here: ports come as facts, device counters through a closure.

pub mod change;
pub mod control;
pub mod protocol;
pub mod store;
pub mod views;
