//! The control side: one thread owns the truth; everything else asks it.
//!
//! ```text
//!  sluicectl ─► socket ─► Job ─► Control ─► Store ─► compile ─► publish ─► lcores
//!                          ▲        │ tick: events, counts, neighbours, rates
//!                          └ answer ┘
//! ```
//! No DPDK here: ports come as facts, device counters through a closure.

pub mod change;
pub mod client;
pub mod collect;
pub mod command;
pub mod compile;
pub mod control;
pub mod ctl;
pub mod document;
pub mod feed;
pub mod hops;
pub mod lines;
pub mod neighbours;
pub mod protocol;
pub mod publish;
pub mod session;
pub mod slots;
pub mod socket;
pub mod states;
pub mod store;
pub mod table;
pub mod views;
