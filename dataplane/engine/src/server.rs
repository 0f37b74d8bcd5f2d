//! Real servers as lcores use them.

use crate::addr::Addr;
use crate::forward::ForwarderKind;
use crate::neigh::HopId;
use crate::thresholds::Thresholds;

/// What becomes of connections whose server was purged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// The client's next segment is answered by a reset, built from its own numbers.
    #[default]
    Reset,
    /// They never were: the client's next packet is judged as any packet without an entry.
    Forget,
    /// The client's next packet brings the connection to another server.
    Reschedule,
}

/// One server slot of a snapshot: everything a hit needs, in one cache line.
///
/// A slot is keyed by (service, address, port) and kept while any lcore has connections of it. A
/// connection names slot and generation; `purge` moves the generation, and every connection of the
/// old one is gone in that moment.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct ServerLine {
    /// The server's address; the outer destination of tunnels.
    pub addr: Addr,
    /// The outer source of tunnels: the director's own address on the way out.
    pub tunnel_source: Addr,
    /// Where packets to this server go next.
    pub hop: HopId,
    /// The life of the slot.
    pub generation: u16,
    /// The service that this slot belongs to.
    pub service: u16,
    /// The server's port.
    pub port: u16,
    /// Largest IP packet towards the server, in bytes: the port's or the server's `mtu`.
    pub mtu: u16,
    /// How many connections it may have.
    pub thresholds: Thresholds,
    /// How packets reach it.
    pub forwarder: ForwarderKind,
    /// What becomes of connections of the slot's earlier lives.
    pub orphans: Orphans,
    /// False: the slot is vacant, its generation never resolves.
    pub in_use: bool,
}

const _: () = assert!(size_of::<ServerLine>() == 64);

impl ServerLine {
    /// A slot that resolves to nothing.
    #[must_use]
    pub const fn vacant(generation: u16) -> Self {
        Self {
            addr: Addr::UNSPECIFIED,
            tunnel_source: Addr::UNSPECIFIED,
            hop: HopId(0),
            generation,
            service: 0,
            port: 0,
            mtu: 0,
            thresholds: Thresholds { upper: 0, lower: 0 },
            forwarder: ForwarderKind::Dr,
            orphans: Orphans::Reset,
            in_use: false,
        }
    }
}
