//! What an lcore needs of the configuration: one immutable value with a version.

use std::sync::Arc;

use crate::addr::{Addr, Mac};
use crate::neigh::PortId;
use crate::server::ServerLine;
use crate::service::{Service, ServiceId, ServiceKey, ServiceTable};

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    /// A virtual address of at least one service.
    Vip,
    /// The director's own address on a port.
    Own,
}

/// An address that the director answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The address.
    pub addr: Addr,
    /// VIP or own.
    pub kind: LocalKind,
    /// The ports on which ARP for it is answered: bit n is port n.
    pub ports: u64,
}

/// A port as lcores know it: one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct PortFacts {
    /// Its hardware address.
    pub mac: Mac,
    /// The largest IP packet it sends, in bytes.
    pub mtu: u16,
}

impl PortFacts {
    /// The hardware address as it stands in a frame, in the low 48 bits of a little-endian word.
    /// Above it is anything.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        let [a, b, c, d, e, f] = self.mac.0;
        let [g, h] = self.mtu.to_ne_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Idle times after which a connection ends, in seconds, by client-half state; LVS's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Established TCP (`--set tcp`).
    pub tcp: u32,
    /// TCP after a FIN (`--set tcpfin`).
    pub tcp_fin: u32,
    /// UDP (`--set udp`).
    pub udp: u32,
}

impl Timeouts {
    /// Whether one of them is shorter than `other`'s.
    #[must_use]
    pub const fn shortens(&self, other: &Self) -> bool {
        self.tcp < other.tcp || self.tcp_fin < other.tcp_fin || self.udp < other.udp
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { tcp: 900, tcp_fin: 120, udp: 300 }
    }
}

/// Configuration for the lcores. Replaced as a whole, never changed.
#[derive(Debug)]
pub struct Snapshot {
    /// Greater is newer.
    pub version: u64,
    /// What clients address.
    pub services: ServiceTable,
    /// By server slot; as long as the highest slot in use.
    pub servers: Box<[ServerLine]>,
    /// Slots that have thresholds, sorted.
    pub limited: Box<[u32]>,
    /// By port.
    pub ports: Box<[PortFacts]>,
    /// Addresses that the director answers for, sorted by address.
    pub locals: Box<[Local]>,
    /// Stations that packets are sent to, sorted: those whose ARP is worth hearing.
    pub neighbours: Box<[(PortId, Addr)]>,
    /// Idle times.
    pub timeouts: Timeouts,
    /// The LVS default for stray packets is in each service; this one is for VIPs without service.
    pub closed_port_reset: bool,
    /// New entries per second and lcore, above which flows are forwarded without one; 0: no limit.
    pub flood_guard: u32,
}

impl Snapshot {
    /// The slots of these lines that have thresholds.
    #[must_use]
    pub fn limited(servers: &[ServerLine]) -> Box<[u32]> {
        let limited = (0..).zip(servers).filter(|(_, line)| line.thresholds.any());
        limited.map(|(slot, _)| slot).collect()
    }

    /// Whether `addr` is ours.
    #[must_use]
    pub fn local(&self, addr: Addr) -> Option<&Local> {
        let at = self.locals.binary_search_by(|l| l.addr.cmp(&addr)).ok()?;
        Some(&self.locals[at])
    }

    /// The idle times of a service: its own, or the director's.
    #[inline(always)]
    #[must_use]
    pub fn timeouts_of(&self, service: ServiceId) -> &Timeouts {
        self.services.timeouts(service).unwrap_or(&self.timeouts)
    }

    /// Whether connections may end earlier by it than by `old`.
    #[must_use]
    pub fn shortens(&self, old: &Self) -> bool {
        let own = |s: &Arc<Service>| self.timeouts_of(s.id).shortens(old.timeouts_of(s.id));
        self.timeouts.shortens(&old.timeouts) || self.services.iter().any(own)
    }

    /// Whether ARP for `addr` is answered on `port`.
    #[must_use]
    pub fn answers(&self, addr: Addr, port: PortId) -> bool {
        self.local(addr).is_some_and(|l| l.ports >> port & 1 == 1)
    }

    /// Whether it matters who claims `addr` on `port`: a next hop's address, or one of ours.
    #[must_use]
    pub fn heeds(&self, addr: Addr, port: PortId) -> bool {
        self.neighbours.binary_search(&(port, addr)).is_ok() || self.local(addr).is_some()
    }

    /// The service that a destination belongs to.
    #[inline]
    #[must_use]
    pub fn service(&self, key: ServiceKey) -> Option<&Arc<Service>> {
        self.services.find(key)
    }

    /// The line of a slot, if the slot is in use in this generation.
    #[inline(always)]
    #[must_use]
    pub fn server(&self, slot: u32, generation: u16) -> Option<&ServerLine> {
        self.servers.get(slot as usize).filter(|s| s.in_use && s.generation == generation)
    }
}
