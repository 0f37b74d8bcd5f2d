//! Server slots: the small numbers by which connections, counters and loads know a server.
//!
//! ```text
//!            take                    leave
//!   Free ───────────► Member ◄──────────────► Leaving ──┐ nobody counts it any more
//!    ▲                  │        take (revived)         │
//!    │                  │ purge, end of the service     │
//!    │                  ▼                               │
//!    └───────────── Emptied ◄───────────────────────────┤
//!     all lcores left the snapshots that knew it        ▼
//!    ▲                                                Free
//! ```
//! A slot is keyed by (service, address, port). One that *leaves* keeps generation and connections,
//! and takes them back when the server is added again. It is free when all lcores use a snapshot
//! without the server in its pool *and* no lcore counts a connection: then nothing can add one.
//! One that is *emptied* got a new generation at once; it waits until no lcore counts for the old
//! life any more, so that counters never run into the next.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use config::ServerSpec;
use config::spec::OnRemove;
use engine::server::Orphans;
use engine::service::ServiceId;

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nothing.
    Free,
    /// A server of a service.
    Member,
    /// A removed server whose connections live on.
    Leaving {
        /// The first version without it in its pool.
        since: u64,
    },
    /// Purged.
    Emptied {
        /// The first version that does not know it.
        since: u64,
    },
}

/// One slot.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its life; rises with every new one.
    pub generation: u16,
    /// The service it belongs to, or belonged to.
    pub service: ServiceId,
    /// The server; none if free or emptied.
    pub spec: Option<Arc<ServerSpec>>,
    /// What it is used for.
    pub usage: Use,
    /// What becomes of connections of its earlier lives.
    pub orphans: Orphans,
}

impl Slot {
    /// Whether it is used for nothing.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        matches!(self.usage, Use::Free)
    }

    /// Whether connections of its generation resolve.
    #[must_use]
    pub const fn resolves(&self) -> bool {
        matches!(self.usage, Use::Member | Use::Leaving { .. })
    }
}

type Key = (ServiceId, IpAddr, u16);

/// All slots of the director.
#[derive(Clone, Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    max: u32,
}

impl Slots {
    /// No slot in use, `max` at most.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_key: HashMap::new(), max }
    }

    /// The slots up to the highest ever used.
    #[must_use]
    pub fn all(&self) -> &[Slot] {
        &self.slots
    }

    /// How many are not free.
    #[must_use]
    pub fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A slot for a resolved server: the one it has left, if its connections still live, else a
    /// free one. `None` when there is none.
    pub fn take(&mut self, service: ServiceId, spec: Arc<ServerSpec>) -> Option<u32> {
        let key = key(service, &spec);
        let slot = match self.by_key.get(&key) {
            Some(slot) => *slot,
            None => self.free.pop().or_else(|| self.fresh())?,
        };
        self.by_key.insert(key, slot);
        let s = &mut self.slots[slot as usize];
        (s.service, s.spec, s.usage) = (service, Some(spec), Use::Member);
        Some(slot)
    }

    fn fresh(&mut self) -> Option<u32> {
        let next = u32::try_from(self.slots.len()).ok().filter(|n| *n < self.max)?;
        let (spec, usage, orphans) = (None, Use::Free, Orphans::default());
        self.slots.push(Slot { generation: 0, service: 0, spec, usage, orphans });
        Some(next)
    }

    /// Another weight, way or state for a server.
    pub fn update(&mut self, slot: u32, spec: Arc<ServerSpec>) {
        self.slots[slot as usize].spec = Some(spec);
    }

    /// A server was removed.
    pub fn remove(&mut self, slot: u32, then: OnRemove, since: u64) {
        match then.orphans() {
            None => self.leave(slot, since),
            Some(orphans) => self.purge(slot, orphans, since),
        }
    }

    /// A server was removed; its connections stay.
    pub fn leave(&mut self, slot: u32, since: u64) {
        self.slots[slot as usize].usage = Use::Leaving { since };
    }

    /// A server was removed with its connections.
    pub fn purge(&mut self, slot: u32, orphans: Orphans, since: u64) {
        self.renew(slot, orphans);
        let s = &mut self.slots[slot as usize];
        if let Some(spec) = s.spec.take() {
            self.by_key.remove(&key(s.service, &spec));
        }
        s.usage = Use::Emptied { since };
    }

    /// All connections of a slot end: it begins another life as what it is.
    pub fn renew(&mut self, slot: u32, orphans: Orphans) {
        let s = &mut self.slots[slot as usize];
        (s.generation, s.orphans) = (s.generation.wrapping_add(1), orphans);
    }

    /// A service ended: all its slots are purged.
    pub fn end_service(&mut self, service: ServiceId, since: u64) {
        let of_service = |s: &Slot| s.service == service && s.resolves();
        let ended: Vec<usize> =
            (0..self.slots.len()).filter(|i| of_service(&self.slots[*i])).collect();
        for slot in ended {
            self.purge(u32::try_from(slot).unwrap_or(u32::MAX), Orphans::Reset, since);
        }
    }

    /// The slot of a server that is there or leaving.
    #[must_use]
    pub fn find(&self, service: ServiceId, address: IpAddr, port: u16) -> Option<u32> {
        self.by_key.get(&(service, address, port)).copied()
    }

    /// Frees what is no longer needed: `applied` is the oldest version that an lcore uses, `idle`
    /// says that no lcore counts a connection for a slot in a generation. Gives the freed slots
    /// with the service they belonged to.
    pub fn reclaim(
        &mut self,
        applied: u64,
        idle: impl Fn(u32, u16) -> bool,
    ) -> Vec<(u32, ServiceId)> {
        let mut freed = Vec::new();
        for (slot, s) in (0_u32..).zip(&mut self.slots) {
            match s.usage {
                Use::Emptied { since } if since <= applied => {}
                Use::Leaving { since } if since <= applied && idle(slot, s.generation) => {
                    if let Some(spec) = s.spec.take() {
                        self.by_key.remove(&key(s.service, &spec));
                    }
                    s.generation = s.generation.wrapping_add(1);
                }
                _ => continue,
            }
            s.usage = Use::Free;
            self.free.push(slot);
            freed.push((slot, s.service));
        }
        freed
    }
}

fn key(service: ServiceId, spec: &ServerSpec) -> Key {
    (service, spec.address, spec.port.unwrap_or_default())
}
