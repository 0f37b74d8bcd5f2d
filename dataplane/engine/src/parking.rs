//! Packets that wait for a next hop's hardware address.
//!
//! A fixed pool of places. One hop may fill 16 of them, and a hop that has none waiting always finds
//! one as long as a quarter of the pool is free: the last quarter is for first packets. So a flood
//! towards one dead server takes no room from others. A packet waits for [`PATIENCE`] at most.

use crate::frame::Frame;
use crate::neigh::{HopId, HopTable, PortId};
use crate::ticks::{TickSpan, Ticks};

/// Places in all, per lcore.
pub const PLACES: usize = 1024;
/// Places one hop may fill.
pub const PER_HOP: u16 = 16;
/// How long a packet waits.
pub const PATIENCE: TickSpan = TickSpan::from_secs(3);

struct Parked<F> {
    frame: F,
    port: PortId,
    hop: HopId,
    since: Ticks,
}

/// The packets of one lcore that wait for next hops, oldest first.
pub struct Parking<F> {
    waiting: std::collections::VecDeque<Parked<F>>,
    /// By hop.
    count: Box<[u16]>,
}

/// Why a packet leaves.
#[derive(Debug)]
pub enum Leaving<F> {
    /// Its next hop is known: it goes through the pipeline again.
    Ready(F, PortId),
    /// Its time is up.
    GivenUp(F),
}

impl<F: Frame> Parking<F> {
    /// An empty one for `max_hops` next hops.
    #[must_use]
    pub fn new(max_hops: usize) -> Self {
        Self {
            waiting: std::collections::VecDeque::with_capacity(PLACES),
            count: vec![0; max_hops].into(),
        }
    }

    /// How many packets wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets a packet wait. Returns whether it is the first one for its hop.
    ///
    /// # Errors
    /// The frame comes back when the hop's share, or the pool, is full.
    pub fn park(&mut self, frame: F, port: PortId, hop: HopId, now: Ticks) -> Result<bool, F> {
        let count = &mut self.count[hop.0 as usize];
        let places = if *count == 0 { PLACES } else { PLACES * 3 / 4 };
        if *count >= PER_HOP || self.waiting.len() >= places {
            return Err(frame);
        }
        *count += 1;
        self.waiting.push_back(Parked { frame, port, hop, since: now });
        Ok(*count == 1)
    }

    /// Looks at the packet that was not looked at for longest. `None`: it goes on waiting, behind
    /// the others, so that [`Parking::len`] calls in a row see each one once and keep their order.
    pub fn leave(&mut self, hops: &HopTable, now: Ticks) -> Option<Leaving<F>> {
        let parked = self.waiting.pop_front()?;
        let ready = hops.hop(parked.hop).reachable;
        if !ready && now.since(parked.since) < PATIENCE {
            self.waiting.push_back(parked);
            return None;
        }
        self.count[parked.hop.0 as usize] -= 1;
        Some(if ready {
            Leaving::Ready(parked.frame, parked.port)
        } else {
            Leaving::GivenUp(parked.frame)
        })
    }
}
