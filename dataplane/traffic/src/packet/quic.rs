//! Headers of packets that look like QUIC version 1 (RFC 9000 17) to who has no keys.
//!
//! ```text
//!  long:   1100 0011 | version 4 | 8 | destination id 8 | 8 | source id 8 | token length 1 | length 2 | number 4
//!  short:  0100 0011 | destination id 8 | number 4
//! ```
//! Nothing is encrypted or protected: what a balancer may look at is the first byte, the version and
//! the ids. A flow keeps one destination id, which follows from its number.

use crate::dice::mix;
use crate::plan::Segment;

/// Bytes of a long header.
pub(super) const LONG: usize = 30;
/// Bytes of a short one.
pub(super) const SHORT: usize = 13;
/// Bytes that the datagram of an Initial has at least (RFC 9000 14.1).
pub(super) const LEAST: usize = 1200;
/// Set in the first byte of a long header.
pub(super) const FORM: u8 = 0x80;

/// The header of an Initial in a datagram of `len` bytes.
#[allow(clippy::cast_possible_truncation, reason = "a datagram fits a frame")]
pub(super) fn long(of: Segment, seed: u64, len: usize) -> [u8; LONG] {
    let mut to = [0; LONG];
    to[..6].copy_from_slice(&[FORM | 0x43, 0, 0, 0, 1, 8]);
    to[6..14].copy_from_slice(&id(of.flow, seed));
    to[14] = 8;
    to[15..23].copy_from_slice(&id(of.flow, !seed));
    // The length is that of number and payload, a variable-length integer of two bytes.
    let rest = 0x4000 | (len - (LONG - 4)) as u16;
    to[24..26].copy_from_slice(&rest.to_be_bytes());
    to[26..].copy_from_slice(&of.seq.to_be_bytes());
    to
}

/// The header of all that follows.
pub(super) fn short(of: Segment, seed: u64) -> [u8; SHORT] {
    let mut to = [0; SHORT];
    to[0] = 0x43;
    to[1..9].copy_from_slice(&id(of.flow, seed));
    to[9..].copy_from_slice(&of.seq.to_be_bytes());
    to
}

/// The connection id of a flow; no two flows of a seed share one.
pub(super) const fn id(flow: u32, seed: u64) -> [u8; 8] {
    mix(flow as u64 ^ mix(seed)).to_be_bytes()
}
