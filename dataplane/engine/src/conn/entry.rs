//! One tracked connection in one cache line.
//!
//! ```text
//!  byte 0                                   40     44        48         52         56
//!       | key (IPv4: 16, rest kept for NAT) | slot | last    | wheel    | wheel    |
//!       |                                   |      | seen    | next     | previous |
//!  byte 56          58        60      61      62           64
//!       | generation | service | state | flags | local port |
//! ```
//! The family is not in the key (see `flow.rs`) but in the flags. Bytes 16–39 of an IPv4 key are
//! zero today and have the room for the local address of a translated flow; an IPv6 one has its
//! local port here and finds its address in the server slot. A persistence template needs no link:
//! it is found again by the client's prefix.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::tcp_state::ConnState;
use crate::flow::{Family, FlowKey};

/// One connection. All zero is no connection.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Conn {
    /// Who talks to whom, as the client sends it.
    pub key: FlowKey,
    /// The server's slot.
    pub server: u32,
    /// When the last packet came: [`crate::ticks::Ticks::low`].
    pub last_seen: u32,
    /// The wheel's next entry; 0 is none. While the entry is free: the next free one.
    pub(super) wheel_next: u32,
    /// The wheel's previous entry, or the slot that it heads, with the top bit set.
    pub(super) wheel_prev: u32,
    /// The life of the server's slot that this connection belongs to.
    pub generation: u16,
    /// The service.
    pub service: u16,
    state: u8,
    flags: u8,
    /// Kept for translated flows.
    pub local_port: u16,
}

const _: () = assert!(size_of::<Conn>() == 64 && align_of::<Conn>() == 64);

const FLAG_V6: u8 = 1;
/// The entry is in use; set last, so that a torn write is found by a process that takes over.
const FLAG_LIVE: u8 = 2;
/// Counted as half open by its server's thresholds.
const FLAG_HALF_OPEN: u8 = 4;

impl Conn {
    /// A connection that has just been scheduled.
    #[must_use]
    pub const fn new(
        key: FlowKey,
        family: Family,
        server: u32,
        generation: u16,
        service: u16,
    ) -> Self {
        Self {
            key: key.of(family),
            server,
            last_seen: 0,
            wheel_next: 0,
            wheel_prev: 0,
            generation,
            service,
            state: ConnState::None as u8,
            flags: FLAG_LIVE | if matches!(family, Family::V6) { FLAG_V6 } else { 0 },
            local_port: 0,
        }
    }

    /// An entry that is no connection.
    pub(super) const FREE: Self = {
        let mut free = Self::new(FlowKey([0; 40]), Family::V4, 0, 0, 0);
        free.flags = 0;
        free
    };

    /// Whether the entry is a connection.
    #[inline(always)]
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.flags & FLAG_LIVE != 0
    }

    /// Whether the entry is a connection of this family: one compare on the hit path.
    #[inline(always)]
    pub(super) const fn is_live_of(&self, family: Family) -> bool {
        let v6 = if matches!(family, Family::V6) { FLAG_V6 } else { 0 };
        self.flags & (FLAG_LIVE | FLAG_V6) == FLAG_LIVE | v6
    }

    /// The family of the key.
    #[inline(always)]
    #[must_use]
    pub const fn family(&self) -> Family {
        if self.flags & FLAG_V6 != 0 { Family::V6 } else { Family::V4 }
    }

    /// The client half's state.
    #[inline(always)]
    #[must_use]
    pub const fn state(&self) -> ConnState {
        ConnState::from_byte(self.state)
    }

    /// Whether its server's thresholds count it as half open.
    #[inline(always)]
    #[must_use]
    pub const fn is_half_open(&self) -> bool {
        self.flags & FLAG_HALF_OPEN != 0
    }

    /// Says whether its server's thresholds count it as half open.
    #[inline(always)]
    pub const fn set_half_open(&mut self, half_open: bool) {
        self.flags = self.flags & !FLAG_HALF_OPEN | if half_open { FLAG_HALF_OPEN } else { 0 };
    }

    /// Moves the state.
    #[inline(always)]
    pub const fn set_state(&mut self, state: ConnState) {
        self.state = state as u8;
    }
}
