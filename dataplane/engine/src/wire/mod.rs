//! Headers as they lie in a frame: one per file, read and written in place.
//!
//! Every struct is `Unaligned` and keeps its integers in network order, so a reference to one is
//! nothing but a checked offset. None of them judges what it holds: that is `parse.rs`.

pub mod arp;
pub mod checksum;
pub mod eth;
pub mod icmp;
pub mod ipv4;
pub mod tcp;
pub mod udp;
