//! Virtual services as lcores use them, and the match of a destination to its service.

use std::sync::Arc;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

use crate::addr::{Addr, L4Proto};
use crate::backup::Backup;
pub use crate::pool::{Pool, PoolChange, PoolServer, gcd};
use crate::sched::Scheduler;
use crate::sched::maglev::Maglev;
use crate::snapshot::Timeouts;
use crate::templates::Holder;
use crate::ticks::TickSpan;

/// Index of a service: stable for its life, the place of its cursors and counters.
pub type ServiceId = u16;

/// What clients address: protocol, address, port. Port 0 means any port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// TCP or UDP.
    pub proto: L4Proto,
    /// The virtual address.
    pub addr: Addr,
    /// The virtual port; 0 for any.
    pub port: u16,
}

/// What to do with a packet that belongs to nothing (no entry, not a SYN, nothing stateless).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StrayPolicy {
    /// Answer with a reset built from the packet's own numbers (RFC 9293 3.10.7.1).
    #[default]
    Reset,
    /// Say nothing.
    Drop,
}

/// What a new flow gets when no server is eligible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoServerPolicy {
    /// ICMP port unreachable, as in LVS: clients see "connection refused".
    #[default]
    Unreachable,
    /// TCP a reset, everything else as above.
    Reset,
    /// Nothing.
    Drop,
}

/// How a service treats its flows, apart from scheduling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Packets that belong to nothing.
    pub stray: StrayPolicy,
    /// New flows for which there is no server.
    pub no_server: NoServerPolicy,
    /// A segment of an unknown connection begins one (LVS's `sloppy_tcp`).
    pub sloppy: bool,
    /// UDP: every datagram is scheduled by itself and leaves no entry (LVS's `--ops`).
    pub one_packet: bool,
    /// Its own idle times; the director's if `None`.
    pub timeouts: Option<Timeouts>,
    /// New connections of one client go to one server.
    pub persistence: Option<Persistence>,
}

/// Client persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// How long a client's server is remembered after its last new connection.
    pub life: TickSpan,
    /// First bits of a client's address that count, of 128 (see [`Addr::masked`]).
    pub bits: u8,
}

impl Persistence {
    /// Whose template a client's is.
    #[must_use]
    pub const fn holder(&self, service: ServiceId, client: Addr) -> Holder {
        Holder { service, client: client.masked(self.bits) }
    }
}

impl Rules {
    /// Its own idle times, or the director's.
    #[inline(always)]
    #[must_use]
    pub fn timeouts_or<'a>(&'a self, director: &'a Timeouts) -> &'a Timeouts {
        self.timeouts.as_ref().unwrap_or(director)
    }
}

/// One virtual service.
#[derive(Debug)]
pub struct Service {
    /// Its index.
    pub id: ServiceId,
    /// What clients address.
    pub key: ServiceKey,
    /// Who may be picked.
    pub pool: Pool,
    /// How.
    pub scheduler: Scheduler,
    /// The stateless consistent hash, for flows that get no entry. Shared by services whose pools
    /// have [`Pool::same_members`].
    pub fallback: Arc<Maglev>,
    /// Who stands in when nobody of the pool may be picked.
    pub backup: Option<Box<Backup>>,
    /// How its flows are treated.
    pub rules: Rules,
}

impl Service {
    /// Tells the scheduler that an lcore's counts of the server at a place have changed. Backups
    /// have the places behind the pool's.
    #[inline(always)]
    pub fn changed(&self, lcore: u16, place: u32) {
        self.scheduler.changed(lcore, place);
        if let Some(backup) = &self.backup {
            backup.changed(lcore, place, self.pool.servers.len());
        }
    }
}

/// Protocol, address and port to service: exact port first, then any port.
///
/// A fixed open-addressed table, built off the packet path; cost does not grow with the number of
/// services. Only misses of the connection table come here.
#[derive(Debug)]
pub struct ServiceTable {
    secrets: RapidSecretsDebug,
    slots: Box<[Option<Arc<Service>>]>,
    any_port: bool,
    /// Whether a service has idle times of its own.
    own_timeouts: bool,
    /// Whether a service is persistent.
    persistent: bool,
    /// By index of the service.
    by_id: Box<[Option<Arc<Service>>]>,
    /// By server slot: its position in the pool of its service, backups behind, or [`NOWHERE`].
    places: Box<[u32]>,
}

/// The place of a slot that is in no pool: outside of all.
const NOWHERE: u32 = u32::MAX;

impl ServiceTable {
    /// A table of these services; their keys must differ. `seed` keeps strangers from aiming at one
    /// chain.
    #[must_use]
    pub fn new(services: impl ExactSizeIterator<Item = Arc<Service>>, seed: u64) -> Self {
        let services: Vec<_> = services.collect();
        let size = (services.len() * 2).next_power_of_two().max(8);
        let ids = services.iter().map(|s| usize::from(s.id) + 1).max().unwrap_or(0);
        let slots = services.iter().flat_map(|s| members(s)).map(|s| s.slot as usize + 1);
        let mut table = Self {
            secrets: RapidSecretsDebug(RapidSecrets::seed(seed)),
            slots: vec![None; size].into(),
            any_port: false,
            own_timeouts: false,
            persistent: false,
            by_id: vec![None; ids].into(),
            places: vec![NOWHERE; slots.max().unwrap_or(0)].into(),
        };
        for service in services {
            for (place, server) in (0..).zip(members(&service)) {
                table.places[server.slot as usize] = place;
            }
            table.by_id[usize::from(service.id)] = Some(Arc::clone(&service));
            table.any_port |= service.key.port == 0;
            table.own_timeouts |= service.rules.timeouts.is_some();
            table.persistent |= service.rules.persistence.is_some();
            let mut at = table.start(&service.key);
            while table.slots[at].is_some() {
                at = (at + 1) & (size - 1);
            }
            table.slots[at] = Some(service);
        }
        table
    }

    /// The idle times of a service, if it has its own.
    #[inline(always)]
    #[must_use]
    pub fn timeouts(&self, service: ServiceId) -> Option<&Timeouts> {
        if !self.own_timeouts {
            return None;
        }
        self.by_id.get(usize::from(service))?.as_ref()?.rules.timeouts.as_ref()
    }

    /// The persistence of a service, if it is persistent.
    #[inline(always)]
    #[must_use]
    pub fn persistence(&self, service: ServiceId) -> Option<&Persistence> {
        if !self.persistent {
            return None;
        }
        self.by_id.get(usize::from(service))?.as_ref()?.rules.persistence.as_ref()
    }

    /// The service of a destination: its exact port, else any port.
    #[inline]
    #[must_use]
    pub fn find(&self, key: ServiceKey) -> Option<&Arc<Service>> {
        self.exact(&key).or_else(|| {
            if self.any_port { self.exact(&ServiceKey { port: 0, ..key }) } else { None }
        })
    }

    /// The position of a server slot in the pool of its service; outside of all pools when it is in
    /// none.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, slot: u32) -> u32 {
        self.places.get(slot as usize).copied().unwrap_or(NOWHERE)
    }

    /// Tells a service's scheduler that an lcore's counts of a server slot have changed.
    #[inline(always)]
    pub fn changed(&self, service: ServiceId, slot: u32, lcore: u16) {
        if let Some(Some(service)) = self.by_id.get(usize::from(service)) {
            service.changed(lcore, self.place(slot));
        }
    }

    /// All services.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.slots.iter().flatten()
    }

    fn exact(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        let mut at = self.start(key);
        while let Some(service) = &self.slots[at] {
            if service.key == *key {
                return Some(service);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    #[allow(clippy::cast_possible_truncation, reason = "masked to the table's size")]
    fn start(&self, key: &ServiceKey) -> usize {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&key.addr.0);
        bytes[16..18].copy_from_slice(&key.port.to_be_bytes());
        bytes[18] = key.proto as u8;
        let hash = rapidhash_v3_nano_inline::<true, true>(&bytes, &self.secrets.0);
        hash as usize & (self.slots.len() - 1)
    }
}

/// The servers of a service, then its backups.
fn members(service: &Service) -> impl Iterator<Item = &PoolServer> {
    let backups = service.backup.iter().flat_map(|b| &b.pool.servers);
    service.pool.servers.iter().chain(backups)
}

/// Secrets that do not print.
struct RapidSecretsDebug(RapidSecrets);

impl std::fmt::Debug for RapidSecretsDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("secret")
    }
}
