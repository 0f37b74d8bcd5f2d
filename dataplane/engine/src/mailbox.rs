//! The two rings between the control thread and one lcore, and what travels in them.
//!
//! ```text
//!  control thread ── Order: snapshot, ARP to send, query, … ───────────► lcore
//!                 ◄─ Event: retired snapshot, ARP heard, rows, … ──────
//! ```
//! Both are bounded single-producer single-consumer rings. The lcore looks at its ring once per
//! turn and never waits. A snapshot that an lcore leaves comes back in an event and is dropped by
//! the control thread, so no lcore ever frees one. The law, which the model check holds: each
//! snapshot handed to an lcore is in a ring, current, or come home – exactly one of them.

use std::sync::Arc;

use crate::addr::{Addr, L4Proto, Mac};
use crate::conn::tcp_state::ConnState;
use crate::neigh::{HopId, PortId};
use crate::ring::{Consumer, Producer, PushError, RingBuffer};
use crate::snapshot::Snapshot;

/// What an lcore is told.
#[derive(Debug)]
pub enum Order {
    /// Use this configuration from now on.
    Snapshot(Arc<Snapshot>),
    /// Send this ARP packet.
    Arp(ArpOrder),
    /// List connections, a slice per turn.
    Query(Query),
    /// Let a server give connections up.
    Thin(Thin),
}

/// Established connections of one server that are to end with the client's next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thin {
    /// The server's slot.
    pub server: u32,
    /// The life of the slot.
    pub generation: u16,
    /// How many.
    pub count: u32,
}

impl Thin {
    pub(crate) const fn place(&self) -> (u32, u16) {
        (self.server, self.generation)
    }
}

/// An ARP packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpOrder {
    /// From which port.
    pub port: PortId,
    /// The address whose owner asks or announces.
    pub sender: Addr,
    /// The address asked for; equal to `sender` in an announcement (RFC 5227 3).
    pub target: Addr,
    /// To this station; broadcast if `None`.
    pub to: Option<Mac>,
}

/// Which connections to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Comes back in every answer.
    pub id: u32,
    /// The bucket to start from.
    pub bucket: u32,
    /// Stop after the bucket in which this many rows are reached.
    pub limit: u32,
    /// Only of this service.
    pub service: Option<u16>,
    /// Only of this server slot.
    pub server: Option<u32>,
    /// Only from this client address.
    pub client: Option<Addr>,
}

/// What an lcore tells.
#[derive(Debug)]
pub enum Event {
    /// It uses another snapshot now; this one comes home.
    Retired(Arc<Snapshot>),
    /// It heard from a neighbour.
    Arp(ArpHeard),
    /// A packet waits for this next hop.
    HopWanted(HopId),
    /// It thins as many servers as it can; this order comes back.
    Declined(Thin),
    /// One connection of a query.
    Conn(ConnRow),
    /// The query has ended; `next` is the bucket to go on from, `None` at the end of the table.
    QueryDone {
        /// The query.
        id: u32,
        /// Where to go on.
        next: Option<u32>,
    },
}

/// An address that a station claimed in an ARP packet: a next hop's address, or one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpHeard {
    /// On which port.
    pub port: PortId,
    /// The address claimed.
    pub addr: Addr,
    /// By which station.
    pub mac: Mac,
    /// A reply to us, as against a request or an announcement that we overheard.
    pub reply: bool,
}

/// One connection as a list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnRow {
    /// The query it answers.
    pub id: u32,
    /// Client address and port.
    pub client: (Addr, u16),
    /// Virtual address and port.
    pub vip: (Addr, u16),
    /// The protocol.
    pub proto: L4Proto,
    /// The client half's state.
    pub state: ConnState,
    /// The server's slot; with its generation it resolves to address and port.
    pub server: u32,
    /// The generation the connection belongs to.
    pub generation: u16,
    /// Seconds until it ends if nothing comes.
    pub expires_secs: u32,
}

/// The control thread's ends of one lcore's mailbox.
pub struct ControlEnd {
    /// Towards the lcore.
    pub orders: Producer<Order>,
    /// From the lcore.
    pub events: Consumer<Event>,
}

/// An lcore's ends of its mailbox.
pub struct LcoreEnd {
    /// From the control thread.
    pub orders: Consumer<Order>,
    /// Towards the control thread.
    pub events: Producer<Event>,
}

/// Orders that may wait for an lcore.
pub const ORDERS: usize = 256;
/// Events that may wait for the control thread.
pub const EVENTS: usize = 8192;

/// A mailbox for one lcore.
#[must_use]
pub fn mailbox() -> (ControlEnd, LcoreEnd) {
    mailbox_of(ORDERS, EVENTS)
}

/// A mailbox with room for so many orders and events.
#[must_use]
pub fn mailbox_of(orders: usize, events: usize) -> (ControlEnd, LcoreEnd) {
    let (to_lcore, from_control) = RingBuffer::new(orders);
    let (to_control, from_lcore) = RingBuffer::new(events);
    (
        ControlEnd { orders: to_lcore, events: from_lcore },
        LcoreEnd { orders: from_control, events: to_control },
    )
}

/// The snapshot that an lcore uses, and the one it left and could not send home yet.
#[derive(Debug)]
pub struct Held {
    /// In use.
    pub snapshot: Arc<Snapshot>,
    /// While it is here no order is taken, so there is never a second one.
    homeless: Option<Arc<Snapshot>>,
}

impl Held {
    /// Holds the first one.
    #[must_use]
    pub const fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, homeless: None }
    }

    /// Sends home what could not be sent before. Returns whether orders may be taken: nothing waits
    /// for its way home.
    pub fn send_home(&mut self, events: &mut Producer<Event>) -> bool {
        if let Some(old) = self.homeless.take()
            && let Err(PushError::Full(Event::Retired(old))) = events.push(Event::Retired(old))
        {
            self.homeless = Some(old);
        }
        self.homeless.is_none()
    }

    /// Uses `new` from now on. The old one goes home; an lcore frees no snapshot.
    pub fn adopt(&mut self, new: Arc<Snapshot>, events: &mut Producer<Event>) {
        debug_assert!(self.homeless.is_none(), "no order is taken while a snapshot is homeless");
        self.homeless = Some(std::mem::replace(&mut self.snapshot, new));
        self.send_home(events);
    }

    /// Every snapshot that is here; for the end of an lcore.
    pub fn into_all(self) -> impl Iterator<Item = Arc<Snapshot>> {
        std::iter::once(self.snapshot).chain(self.homeless)
    }
}
