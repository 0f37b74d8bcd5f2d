//! Next hops: which hardware address, on which port. One atomic word each, so that a change is seen
//! at once and needs no snapshot.
//!
//! ```text
//!  bit 63        56 55         48 47                                             0
//!     |  state     |  port       |  MAC, its first byte lowest: as a frame has it |
//! ```
//! The control thread is the only writer ([`crate::mailbox`] brings it what lcores hear); lcores
//! load one word per packet, relaxed.

use crate::addr::Mac;
use crate::sync::{AtomicU64, Ordering};

/// Index of a next hop in the [`HopTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub u32);

/// Index of a port, in the order of the config.
pub type PortId = u8;

/// A next hop as an lcore sees it: the word itself, so that a burst of them is eight bytes each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop(u64);

impl Hop {
    /// A hop on `port`. `None`: unknown.
    #[must_use]
    pub fn new(port: PortId, mac: Option<Mac>) -> Self {
        let [a, b, c, d, e, f] = mac.unwrap_or_default().0;
        Self(u64::from_le_bytes([a, b, c, d, e, f, port, u8::from(mac.is_some())]))
    }

    /// The hardware address to send to; without meaning when it is not reachable.
    #[inline(always)]
    #[must_use]
    pub const fn mac(self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.0.to_le_bytes();
        Mac([a, b, c, d, e, f])
    }

    /// The same in the low 48 bits of a little-endian word; above it is anything.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// The port to send from.
    #[inline(always)]
    #[must_use]
    pub const fn port(self) -> PortId {
        self.0.to_le_bytes()[6]
    }

    /// Whether the hardware address is known.
    #[inline(always)]
    #[must_use]
    pub const fn is_reachable(self) -> bool {
        self.0 & REACHABLE != 0
    }
}

/// All next hops. Written by the control thread only.
#[derive(Debug)]
pub struct HopTable(Box<[AtomicU64]>);

const REACHABLE: u64 = 1 << 56;

impl HopTable {
    /// Room for `max_hops` next hops, all unknown.
    #[must_use]
    pub fn new(max_hops: usize) -> Self {
        Self((0..max_hops).map(|_| AtomicU64::new(0)).collect())
    }

    /// How many hops there is room for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is room for none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is known of a hop.
    #[inline(always)]
    #[must_use]
    pub fn hop(&self, id: HopId) -> Hop {
        Hop(self.0[id.0 as usize].load(Ordering::Relaxed))
    }

    /// Says where a hop is. `None`: unknown (again). Control thread only.
    pub fn set(&self, id: HopId, port: PortId, mac: Option<Mac>) {
        self.0[id.0 as usize].store(Hop::new(port, mac).0, Ordering::Relaxed);
    }
}
