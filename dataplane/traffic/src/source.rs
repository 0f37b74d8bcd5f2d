//! A receive queue that makes its frames itself.

use std::cell::Cell;
use std::rc::Rc;

use dpdk::{Mbuf, Mempool};
use engine::frame::FrameVec;
use engine::queue::RxQueue;
use engine::wire::tcp::{ACK, SYN};

use crate::order::Order;
use crate::template::{FLOWS, LEN, Target, Template};

/// What a source sends.
#[derive(Clone, Debug)]
enum Walk {
    /// SYNs of flows that were never seen.
    New,
    /// A SYN of each flow, an ACK of each, then ACKs in random order for good.
    Known { flows: u64, order: Order, others: Others },
}

/// SYNs of flows that were never seen, which a source of known flows sends first when asked to.
#[derive(Clone, Debug, Default)]
pub struct Others {
    wanted: Rc<Cell<u64>>,
    begun: u64,
}

/// Others have numbers from here on.
const OTHERS: u64 = FLOWS / 2;

impl Others {
    /// Asks for so many from now on.
    pub fn ask(&self, count: u64) {
        self.wanted.set(count);
    }

    /// How many were asked for and not sent yet.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.wanted.get()
    }

    /// The number of the next one.
    fn next(&mut self) -> u64 {
        self.begun += 1;
        OTHERS + self.begun - 1
    }
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

    /// Opens 2^`bits` flows, then sends their segments in random order, and others when asked to.
    #[must_use]
    pub fn of_known_flows(pool: Mempool, to: Target, bits: u32, others: &Others) -> Self {
        let (order, others) = (Order::new(bits), others.clone());
        Self::walking(pool, to, Walk::Known { flows: 1 << bits, order, others })
    }

    fn walking(pool: Mempool, to: Target, walk: Walk) -> Self {
        let (syn, ack) = (Template::new(to, SYN), Template::new(to, ACK));
        Self { pool, syn, ack, walk, sent: 0 }
    }
}

impl Walk {
    fn others(&self) -> u64 {
        if let Self::Known { others, .. } = self { others.wanted() } else { 0 }
    }
}

impl RxQueue for Source {
    type F = Mbuf;

    #[inline]
    fn rx_burst(&mut self, into: &mut FrameVec<Mbuf>) {
        let (first, mut count) = (self.sent, into.remaining_capacity());
        let others = self.walk.others();
        if others > 0 {
            count = count.min(usize::try_from(others).unwrap_or(count));
        }
        if !self.pool.alloc_bulk(into, count, LEN) {
            return;
        }
        let at = into.len() - count;
        if let (1.., Walk::Known { others, .. }) = (others, &mut self.walk) {
            others.ask(others.wanted() - count as u64);
            return into[at..].iter_mut().for_each(|f| self.syn.write(f, others.next()));
        }
        self.sent += count as u64;
        let frames = (first..).zip(&mut into[at..]);
        match &mut self.walk {
            Walk::New => frames.for_each(|(n, f)| self.syn.write(f, n)),
            Walk::Known { flows, order, .. } if first >= 2 * *flows => {
                frames.for_each(|(_, f)| self.ack.write(f, order.draw()));
            }
            Walk::Known { flows, .. } => frames.for_each(|(n, f)| {
                let template = if n < *flows { &self.syn } else { &self.ack };
                template.write(f, n % *flows);
            }),
        }
    }
}
