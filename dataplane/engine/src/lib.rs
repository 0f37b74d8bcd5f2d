//! Pure packet logic: frames in, verdicts out. No DPDK, no I/O, no clock (being built).
#![deny(unsafe_code)]

pub mod addr;
pub mod frame;
pub mod queue;
pub mod ticks;
