//! Maglev: consistent hashing of the client, the same server on every director.
//!
//! Each server has a random order of all places of a table; in turn, and as often as its weight
//! says, the servers take the next free place of their order until the table is full. A client's
//! hash names a place. When a server leaves, hardly a client of the others moves.
//! (Eisenbud et al., "Maglev: a fast and reliable software network load balancer", NSDI 2016, 3.4.)
//!
//! Two ways of hashing:
//! * **kernel**: as Linux does, so that a director next to LVS agrees with it. Addresses are folded
//!   to 32 bits and hashed under two fixed keys: strangers can aim at one server.
//! * **keyed**: SipHash-1-3 of whole addresses under a key, shares exact to a place. Directors with
//!   one key agree, whatever their history.

use std::sync::Arc;

pub use super::maglev_table::{DEFAULT_SIZE, Disruption, KERNEL_SIZES, SIZES, is_size};
use super::maglev_table::{Hashing, KERNEL_KEYS, Table, kernel_hash, keyed_hash};
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::addr::Addr;
use crate::flow::{Family, FlowKey};
use crate::live::LoadView;
use crate::pool::Pool;

/// A table, and how clients find their places in it.
#[derive(Clone, Debug)]
pub struct Maglev {
    hashing: Hashing,
    with_port: bool,
    fallback: bool,
    table: Arc<Table>,
}

impl Schedule for Maglev {
    /// # Panics
    /// When the size is not one that [`is_size`] allows.
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        Self::make(pool, flags, None)
    }

    fn rebuild(&self, pool: &Pool, flags: SchedFlags) -> Self {
        Self::make(pool, flags, Some(self))
    }

    #[inline(always)]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        self.find(pool, arrival.key, arrival.family, |slot| load.is_eligible(slot))
    }
}

impl Maglev {
    /// The table of `old` serves again if it is that of this pool.
    fn make(pool: &Pool, flags: SchedFlags, old: Option<&Self>) -> Self {
        let size = flags.mh_size.unwrap_or(DEFAULT_SIZE);
        assert!(is_size(size), "{size} is not a size of a Maglev table");
        let hashing = flags.mh_key.map_or(Hashing::Kernel, Hashing::Keyed);
        let old = old.filter(|old| old.hashing == hashing && old.size() == size);
        let table = match old {
            Some(old) if old.table.is_of(pool) => Arc::clone(&old.table),
            _ => Arc::new(Table::new(pool, hashing, size, old.map(|old| &*old.table))),
        };
        Self { hashing, with_port: flags.mh_port, fallback: flags.mh_fallback, table }
    }

    /// Whether both go by one and the same table: nothing was built between them.
    #[must_use]
    pub fn shares_table(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// Whether both send every client to the same place of the pool.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        self.hashing == other.hashing && self.table.places == other.table.places
    }

    /// Places in the table.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.table.size()
    }

    /// Bytes that the table takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// How many places each server has, by its position in the pool.
    #[must_use]
    pub fn shares(&self) -> Vec<u32> {
        self.table.shares()
    }

    /// What building the table moved; `None` for the first one of a size and key.
    #[must_use]
    pub fn disruption(&self) -> Option<Disruption> {
        self.table.last_disruption()
    }

    /// The hash for flows that get no entry: over address and port, a place whose server is not
    /// eligible gives way. The same on all directors with the same pool and key; without a key all
    /// directors agree, and strangers can compute it too.
    #[must_use]
    pub fn fallback(pool: &Pool, key: Option<[u8; 16]>) -> Self {
        let flags = SchedFlags {
            mh_port: true,
            mh_fallback: true,
            mh_key: Some(key.unwrap_or(PUBLIC_KEY)),
            mh_size: Some(DEFAULT_SIZE),
            ..SchedFlags::default()
        };
        Self::build(pool, flags)
    }

    /// The pick of a flow, by nothing but its client, the pool and who is eligible.
    ///
    /// `pool` must be the one this was built for, or have [`Pool::same_members`].
    #[inline]
    #[must_use]
    pub fn pick_stateless(
        &self,
        pool: &Pool,
        key: &FlowKey,
        family: Family,
        load: LoadView<'_>,
    ) -> Option<usize> {
        self.find(pool, key, family, |slot| load.nominal_weight(slot) > 0)
    }

    #[inline(always)]
    fn find(
        &self,
        pool: &Pool,
        key: &FlowKey,
        family: Family,
        may_have: impl Fn(u32) -> bool,
    ) -> Option<usize> {
        let client = (key.src(family), if self.with_port { key.ports(family).0 } else { 0 });
        let place = self.place(client, 0);
        match self.eligible(pool, place, &may_have) {
            None if self.fallback => self.find_other(pool, client, place, may_have),
            pick => pick,
        }
    }

    /// Another server for a client whose own is not eligible: the first eligible one among the
    /// places of further hashes, which LVS numbers from the first place on.
    ///
    /// LVS refuses the client when all probes fail, as they may when few places are left; here an
    /// eligible server is found whenever there is one.
    #[cold]
    fn find_other(
        &self,
        pool: &Pool,
        client: (Addr, u16),
        first: u32,
        may_have: impl Fn(u32) -> bool,
    ) -> Option<usize> {
        let is_eligible = |at: &usize| may_have(pool.servers[*at].slot);
        let eligible = (0..pool.servers.len()).filter(is_eligible);
        let count = eligible.clone().count();
        if count == 0 {
            return None;
        }
        let size = self.size();
        let probes = if self.hashing == Hashing::Kernel { size } else { KEYED_PROBES };
        (0..probes)
            .map(|probe| self.place(client, (first + probe) % size))
            .find_map(|place| self.eligible(pool, place, &may_have))
            .or_else(|| eligible.clone().nth(first as usize % count))
    }

    #[inline(always)]
    fn eligible(&self, pool: &Pool, place: u32, may_have: impl Fn(u32) -> bool) -> Option<usize> {
        let at = usize::from(self.table.places[place as usize]);
        may_have(pool.servers.get(at)?.slot).then_some(at)
    }

    /// The place of a client; `probe` 0 is its own.
    #[allow(clippy::cast_possible_truncation, reason = "the low 32 bits are the hash")]
    fn place(&self, client: (Addr, u16), probe: u32) -> u32 {
        let hash = match self.hashing {
            Hashing::Kernel => kernel_hash(client, probe, KERNEL_KEYS[0]),
            Hashing::Keyed(key) => keyed_hash(client, probe, &key) as u32,
        };
        hash % self.size()
    }
}

/// After so many failures only small servers are left, and one is taken by its rank.
const KEYED_PROBES: u32 = 64;

/// For directors that were told no secret: they must agree all the same.
pub const PUBLIC_KEY: [u8; 16] = *b"sluice fallback\0";
