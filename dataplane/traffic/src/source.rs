//! A receive queue that makes its frames itself.

use dpdk::{Mbuf, Mempool};
use engine::frame::{BURST, FrameVec};
use engine::queue::RxQueue;
use engine::wire::tcp::{ACK, SYN};

use crate::order::Order;
use crate::template::{LEN, Target, Template};

/// What a source sends.
#[derive(Clone, Debug)]
enum Walk {
    /// SYNs of flows that were never seen.
    New,
    /// A SYN of each flow, an ACK of each, then ACKs in random order for good.
    Known { flows: u64, order: Order },
}

/// Fills every burst; gives nothing while the pool is empty.
pub struct Source {
    pool: Mempool,
    syn: Template,
    ack: Template,
    walk: Walk,
    sent: u64,
}

impl Source {
    /// Only SYNs, each of a new flow.
    #[must_use]
    pub fn of_new_flows(pool: Mempool, to: Target) -> Self {
        Self::walking(pool, to, Walk::New)
    }

    /// Opens 2^`bits` flows, then sends their segments in random order. 2^`bits` is whole bursts.
    #[must_use]
    pub fn of_known_flows(pool: Mempool, to: Target, bits: u32) -> Self {
        assert!(1 << bits >= BURST, "fewer flows than a burst");
        Self::walking(pool, to, Walk::Known { flows: 1 << bits, order: Order::new(bits) })
    }

    fn walking(pool: Mempool, to: Target, walk: Walk) -> Self {
        let (syn, ack) = (Template::new(to, SYN), Template::new(to, ACK));
        Self { pool, syn, ack, walk, sent: 0 }
    }
}

impl RxQueue for Source {
    type F = Mbuf;

    #[inline]
    fn rx_burst(&mut self, into: &mut FrameVec<Mbuf>) {
        let (first, count) = (self.sent, into.remaining_capacity());
        if !self.pool.alloc_bulk(into, count, LEN) {
            return;
        }
        self.sent += count as u64;
        let at = into.len() - count;
        let frames = (first..).zip(&mut into[at..]);
        match &mut self.walk {
            Walk::New => frames.for_each(|(n, f)| self.syn.write(f, n)),
            Walk::Known { flows, order } if first >= 2 * *flows => {
                frames.for_each(|(_, f)| self.ack.write(f, order.draw()));
            }
            Walk::Known { flows, .. } => frames.for_each(|(n, f)| {
                let template = if n < *flows { &self.syn } else { &self.ack };
                template.write(f, n % *flows);
            }),
        }
    }
}
