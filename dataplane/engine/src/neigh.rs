//! Next hops: which hardware address, on which port. One atomic word each, so that a change is seen
//! at once and needs no snapshot.
//!
//! ```text
//!  bit 63        56 55         48 47                                             0
//!     |  state     |  port       |  MAC                                           |
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
    /// The hardware address to send to; without meaning when it is not reachable.
    #[inline(always)]
    #[must_use]
    pub const fn mac(self) -> Mac {
        let b = self.0.to_be_bytes();
        Mac([b[2], b[3], b[4], b[5], b[6], b[7]])
    }

    /// The port to send from.
    #[inline(always)]
    #[must_use]
    pub const fn port(self) -> PortId {
        self.0.to_be_bytes()[1]
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
        let m = mac.unwrap_or_default().0;
        let state = u8::from(mac.is_some());
        let word = u64::from_be_bytes([state, port, m[0], m[1], m[2], m[3], m[4], m[5]]);
        self.0[id.0 as usize].store(word, Ordering::Relaxed);
    }
}
