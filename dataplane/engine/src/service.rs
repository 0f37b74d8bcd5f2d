//! Virtual services as lcores use them, and the match of a destination to its service.

use std::sync::Arc;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

use crate::addr::{Addr, L4Proto};
use crate::sched::Scheduler;
use crate::sched::maglev::Maglev;

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

/// One member of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// Its slot.
    pub slot: u32,
    /// When it was added: greater is newer, unique in the director. A cursor remembers this number,
    /// so it keeps its place whatever joins or leaves the pool.
    pub seq: u64,
    /// The configured weight, 0 … 2³¹ − 1.
    pub weight: u32,
    /// Its address, for consistent hashing.
    pub addr: Addr,
    /// Its port, for consistent hashing.
    pub port: u16,
}

/// The greatest weights that a change of a pool left behind; `wrr` replays them (see there).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolChange {
    /// Greatest common divisor of the weights above 0; 1 when there are none.
    pub gcd: u32,
    /// The greatest weight.
    pub max: u32,
}

/// The servers that may be picked, newest first, as LVS walks them.
///
/// Servers whose admin state is not `enabled` stay in the pool: the [`crate::live::LiveView`] gives
/// them weight 0. Removed servers are gone.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Newest first: `seq` falls strictly.
    pub servers: Vec<PoolServer>,
    /// How many changes (add, edit, delete of a server) the pool has seen.
    pub version: u64,
    /// The last changes, oldest first; the last one is change number `version`. Bounded.
    pub changes: Vec<PoolChange>,
}

impl Pool {
    /// How many changes a pool remembers. An lcore that picked nothing for longer replays only
    /// these, as if it had started then.
    pub const CHANGES: usize = 64;

    /// Notes the present weights as one more change. Called after each single change, so that a
    /// batch leaves the same trail as its changes one by one.
    pub fn note_change(&mut self) {
        let weights = self.servers.iter().map(|s| s.weight);
        let gcd = weights.clone().filter(|w| *w > 0).fold(0, gcd).max(1);
        let max = weights.max().unwrap_or(0);
        self.version += 1;
        if self.changes.len() == Self::CHANGES {
            self.changes.remove(0);
        }
        self.changes.push(PoolChange { gcd, max });
    }
}

/// Greatest common divisor (Euclid).
#[must_use]
pub const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
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
    /// The stateless consistent hash, for flows that get no entry. Shared by equal pools.
    pub fallback: Arc<Maglev>,
    /// Packets that belong to nothing.
    pub stray: StrayPolicy,
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
}

impl ServiceTable {
    /// A table of these services; their keys must differ. `seed` keeps strangers from aiming at one
    /// chain.
    #[must_use]
    pub fn new(services: impl ExactSizeIterator<Item = Arc<Service>>, seed: u64) -> Self {
        let size = (services.len() * 2).next_power_of_two().max(8);
        let secrets = RapidSecretsDebug(RapidSecrets::seed(seed));
        let mut table = Self { secrets, slots: vec![None; size].into(), any_port: false };
        for service in services {
            table.any_port |= service.key.port == 0;
            let mut at = table.start(&service.key);
            while table.slots[at].is_some() {
                at = (at + 1) & (size - 1);
            }
            table.slots[at] = Some(service);
        }
        table
    }

    /// The service of a destination: its exact port, else any port.
    #[inline]
    #[must_use]
    pub fn find(&self, key: ServiceKey) -> Option<&Arc<Service>> {
        self.exact(&key).or_else(|| {
            if self.any_port { self.exact(&ServiceKey { port: 0, ..key }) } else { None }
        })
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

/// Secrets that do not print.
struct RapidSecretsDebug(RapidSecrets);

impl std::fmt::Debug for RapidSecretsDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("secret")
    }
}
