//! Which lcore owns a flow, and the rings on which packets travel to their owner.
//!
//! Every flow has one owner: the top bits of its hash, scaled to the number of lcores. A packet met
//! elsewhere is handed over through the ring of that pair of lcores; its owner takes it over, parses
//! it again and treats it as received. One ring per direction and pair, bounded, single producer,
//! single consumer: a ring keeps the order of a queue, and a slow owner costs its own flows only.

use crate::frame::Frame;
use crate::neigh::PortId;
use crate::ring::{Consumer, Producer, PushError, RingBuffer};

/// A packet on its way to its owner.
#[derive(Debug)]
pub struct Handed<F> {
    /// The frame, unchanged.
    pub frame: F,
    /// The port it came from.
    pub port: PortId,
}

/// Packets that may wait on one ring: 16 bursts.
pub const DEPTH: usize = 512;

/// One lcore's rings to and from all others.
pub struct Peers<F> {
    /// By lcore; its own place is empty.
    to: Vec<Option<Producer<Handed<F>>>>,
    from: Vec<Consumer<Handed<F>>>,
}

impl<F: Frame> Peers<F> {
    /// The rings of `lcores` lcores, by lcore.
    #[must_use]
    pub fn connect(lcores: u16) -> Vec<Self> {
        let n = usize::from(lcores);
        let mut peers: Vec<Self> = (0..n)
            .map(|_| Self { to: Vec::with_capacity(n), from: Vec::with_capacity(n) })
            .collect();
        for from in 0..n {
            for to in 0..n {
                if from == to {
                    peers[from].to.push(None);
                    continue;
                }
                let (producer, consumer) = RingBuffer::new(DEPTH);
                peers[from].to.push(Some(producer));
                peers[to].from.push(consumer);
            }
        }
        peers
    }

    /// Sends a frame to its owner.
    ///
    /// # Errors
    /// The frame comes back when the owner's ring is full, or the owner is gone.
    pub fn hand_over(&mut self, owner: u16, frame: F, port: PortId) -> Result<(), F> {
        match &mut self.to[usize::from(owner)] {
            Some(ring) => ring.push(Handed { frame, port }).map_err(|e| {
                let PushError::Full(handed) = e;
                handed.frame
            }),
            None => Err(frame),
        }
    }

    /// How many lcores hand over to this one.
    #[must_use]
    pub const fn inbound(&self) -> usize {
        self.from.len()
    }

    /// How many frames wait in the rings towards this lcore.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.from.iter().map(Consumer::slots).sum()
    }

    /// The next frame from the n-th other lcore.
    pub fn take_over(&mut self, n: usize) -> Option<Handed<F>> {
        self.from[n].pop().ok()
    }
}
