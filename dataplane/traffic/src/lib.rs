//! Traffic as it should be, made in process: where frames come from, where they go, what they cost.
//!
//! ```text
//!  Mempool ─► Source ─► whatever is measured ─► Sink ─► Mempool
//! ```
//! [`source::Source`] and [`sink::Sink`] are the engine's queues, so the very worker of the daemon
//! runs between them. Frames are real mbufs and real TCP headers; flows are numbers, from which
//! address and port follow without a table. The pool's cache hands out last what came back last, so
//! some 32 buffers circulate and stay in the nearest cache: what is measured is the work on packets,
//! not the memory of a device's ring. A real device adds its own cost to every figure alike.

//!
//! The tester `sluice-traffic` plays against devices instead, and believes nothing:
//!
//! ```text
//!  plan::Plan ─► packet::Writer ─► device ─► director ─► device ─► verify::Verifier ─► tally::Tally
//! ```
//! What to send follows from numbers ([`plan`]), a packet says what it is and can be made again to
//! be compared ([`packet`]), and all of that is pure: bytes and times are arguments.

pub mod cost;
pub mod dice;
pub mod ip;
pub mod order;
pub mod packet;
pub mod plan;
pub mod search;
pub mod servers;
pub mod signals;
pub mod sink;
pub mod source;
pub mod tally;
pub mod template;
pub mod verify;
