//! This lcore's connections: a fixed table that one thread owns.
//!
//! ```text
//!  memory   | header | wheel heads | buckets ...      | entries ...                   |
//!  bucket   | 8 tags (u16) | 8 indices (u32, top bit = direction) | overflow | spare | refused |
//!             64 bytes
//! ```
//! A hash names a first and a second bucket. An entry goes into its first bucket, or, when that has
//! no place, into the second, and the first one's `overflow` counts it, so that a lookup visits the
//! second bucket only where something overflowed. With three entries per bucket of eight on average
//! a full table refuses fewer than one insert in ten thousand early.
//!
//! The table gives up: growth, iteration order, and places beyond two buckets. *Full* is a normal
//! answer. Memory comes from outside, all zero is an empty table, links are indices, and the header
//! carries a layout version, so that a later process can take the memory over. Entries come from a
//! bump counter first, so a fresh table touches no memory that it does not use.

use arrayvec::ArrayVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::entry::Conn;
use super::wheel::{CHAINS, SLOTS, Wheel};
use crate::cpu::{self, Lanes, prefetch};
use crate::flow::{Family, FlowHash, FlowKey};
use crate::ticks::Ticks;

/// Index of a connection in its table; never 0.
pub type ConnId = u32;

const MAGIC: u64 = u64::from_be_bytes(*b"sluiceCT");
/// Version of the layout of header, heads, buckets and entries.
pub const LAYOUT: u32 = 3;
/// Top bit of an index in a bucket: the entry's other direction (NAT).
const DIRECTION: u32 = 1 << 31;
const WAYS: usize = 8;
/// Entries per bucket when the table is full.
const LOAD: usize = 3;
/// Ended entries that are released together, each with its bucket on the way: a turn's worth.
const ENDED: usize = 64;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Header {
    magic: u64,
    layout: u32,
    capacity: u32,
    buckets: u32,
    /// Entries ever taken from the end; the next one is `bump + 1`.
    bump: u32,
    /// The first free entry; 0 is none.
    free: u32,
    live: u32,
    /// See [`Wheel`].
    turned: u64,
    spare: [u64; 3],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u16; WAYS],
    index: [u32; WAYS],
    /// Entries that belong here first and sit in their second bucket.
    overflow: u16,
    spare: [u16; 5],
    /// When a flow that belongs here first found no room last: [`Ticks::low`]; 0 is never.
    refused: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<Header>() == 64);
/// The promise of 96 bytes a connection, all told.
const _: () = assert!(ConnTable::bytes(1 << 24) <= 96 << 24);

/// The memory of a table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Not aligned to 64 bytes, or not [`ConnTable::bytes`] long.
    Memory,
    /// Written by another layout or for another capacity.
    Foreign,
}

/// Connections of one lcore.
pub struct ConnTable {
    header: &'static mut Header,
    heads: &'static mut [u32],
    buckets: &'static mut [Bucket],
    entries: &'static mut [Conn],
}

impl ConnTable {
    /// The greatest capacity.
    pub const MAX: u32 = 1 << 30;

    /// Bytes of memory for `capacity` connections.
    #[must_use]
    pub const fn bytes(capacity: u32) -> usize {
        size_of::<Header>()
            + SLOTS * CHAINS * size_of::<u32>()
            + Self::buckets(capacity) * size_of::<Bucket>()
            + (capacity as usize + 1) * size_of::<Conn>()
    }

    const fn buckets(capacity: u32) -> usize {
        let n = (capacity as usize).div_ceil(LOAD);
        if n < 2 { 2 } else { n }
    }

    /// A table in `memory`, which is all zero or was left by a table of this layout and capacity.
    ///
    /// # Errors
    /// [`LayoutError`] when the memory has another size or alignment or other contents.
    pub fn new(memory: &'static mut [u8], capacity: u32) -> Result<Self, LayoutError> {
        if memory.len() != Self::bytes(capacity) || capacity > Self::MAX {
            return Err(LayoutError::Memory);
        }
        let n_buckets = Self::buckets(capacity);
        let (header, rest) = memory.split_at_mut(size_of::<Header>());
        let (heads, rest) = rest.split_at_mut(SLOTS * CHAINS * size_of::<u32>());
        let (buckets, entries) = rest.split_at_mut(n_buckets * size_of::<Bucket>());
        let header = Header::mut_from_bytes(header).map_err(|_| LayoutError::Memory)?;
        let heads = <[u32]>::mut_from_bytes(heads).map_err(|_| LayoutError::Memory)?;
        let buckets = <[Bucket]>::mut_from_bytes(buckets).map_err(|_| LayoutError::Memory)?;
        let entries = <[Conn]>::mut_from_bytes(entries).map_err(|_| LayoutError::Memory)?;
        let n_buckets = u32::try_from(n_buckets).map_err(|_| LayoutError::Memory)?;
        if header.magic == 0 {
            (header.layout, header.capacity, header.buckets) = (LAYOUT, capacity, n_buckets);
            header.magic = MAGIC;
        }
        let same = (MAGIC, LAYOUT, capacity, n_buckets)
            == (header.magic, header.layout, header.capacity, header.buckets);
        if same { Ok(Self { header, heads, buckets, entries }) } else { Err(LayoutError::Foreign) }
    }

    /// How many connections fit.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.header.capacity
    }

    /// How many connections there are.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.header.live
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.live == 0
    }

    /// The first bucket of a hash.
    #[inline(always)]
    #[must_use]
    pub const fn home(&self, hash: FlowHash) -> u32 {
        (((hash.0 & 0xffff_ffff) * self.buckets.len() as u64) >> 32) as u32
    }

    /// Starts to load a bucket.
    #[inline(always)]
    pub fn prefetch_bucket(&self, home: u32) {
        prefetch(&self.buckets[home as usize]);
    }

    /// The entry that probably belongs to a hash, its line on the way; 0 if there is none. Verified
    /// by [`ConnTable::find`]. `home` is the hash's first bucket.
    #[inline(always)]
    #[must_use]
    pub fn candidate(&self, home: u32, hash: FlowHash) -> ConnId {
        let bucket = &self.buckets[home as usize];
        let matches = bucket.matches(tag(hash));
        let id = if matches == 0 { 0 } else { bucket.index[way(matches)] & !DIRECTION };
        prefetch(&self.entries[id as usize]);
        id
    }

    /// The connection of a key. `candidate` is what [`ConnTable::candidate`] said.
    #[inline(always)]
    #[must_use]
    pub fn find(
        &self,
        candidate: ConnId,
        hash: FlowHash,
        key: &FlowKey,
        family: Family,
    ) -> Option<ConnId> {
        if self.entries[candidate as usize].is(key, family) {
            return Some(candidate);
        }
        if candidate == 0 && self.buckets[self.first(hash)].overflow == 0 {
            return None;
        }
        self.search(hash, key, family)
    }

    /// All matching tags of both buckets: for the rare hash whose first match is another flow, or
    /// whose bucket overflowed.
    #[cold]
    fn search(&self, hash: FlowHash, key: &FlowKey, family: Family) -> Option<ConnId> {
        [self.first(hash), self.second(hash)].into_iter().find_map(|b| {
            let bucket = &self.buckets[b];
            bucket
                .ways(bucket.matches(tag(hash)))
                .map(|way| bucket.index[way] & !DIRECTION)
                .find(|id| self.entries[*id as usize].is(key, family))
        })
    }

    /// A connection.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, id: ConnId) -> &Conn {
        &self.entries[id as usize]
    }

    /// A connection, to be changed; its key and links are the table's.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, id: ConnId) -> &mut Conn {
        &mut self.entries[id as usize]
    }

    /// Adds a connection that is not in the table, to be visited not before `due`. `None`: full.
    #[inline(always)]
    pub fn insert(&mut self, hash: FlowHash, conn: Conn, due: Ticks) -> Option<ConnId> {
        let mut place = self.first(hash);
        let way = match self.buckets[place].vacancy() {
            Some(way) => way,
            None => {
                place = self.second(hash);
                self.buckets[place].vacancy()?
            }
        };
        let id = self.take_entry()?;
        self.entries[id as usize] = conn;
        self.wheel().arm(id, due);
        let bucket = &mut self.buckets[place];
        (bucket.tags[way], bucket.index[way]) = (tag(hash), id);
        let first = self.first(hash);
        if place != first {
            self.buckets[first].overflow += 1;
        }
        self.header.live += 1;
        Some(id)
    }

    /// Notes that a flow found no room.
    #[cold]
    pub fn refuse(&mut self, hash: FlowHash, now: Ticks) {
        self.buckets[self.first(hash)].refused = now.low().max(1);
    }

    /// How long ago a flow found no room that has the same first bucket, in milliseconds; `None`
    /// when none ever did.
    #[inline(always)]
    #[must_use]
    pub fn refused(&self, home: u32, now: Ticks) -> Option<u32> {
        let at = self.buckets[home as usize].refused;
        if at == 0 { None } else { Some(now.low().wrapping_sub(at)) }
    }

    /// A connection in one of a hash's two buckets that `wanted` says yes to; the next insert of
    /// that hash can have its place.
    pub fn near(&self, hash: FlowHash, wanted: impl Fn(&Conn) -> bool) -> Option<ConnId> {
        let places = [self.first(hash), self.second(hash)];
        let indices = places.into_iter().flat_map(|bucket| self.buckets[bucket].index);
        indices.filter(|id| *id != 0 && id & DIRECTION == 0).find(|id| wanted(self.get(*id)))
    }

    /// Removes a connection; `hash` is its key's.
    pub fn remove(&mut self, id: ConnId, hash: FlowHash) {
        self.wheel().disarm(id);
        self.release(id, hash);
    }

    /// Visits a connection not before `due`, whatever was said before.
    pub fn rearm(&mut self, id: ConnId, due: Ticks) {
        let mut wheel = self.wheel();
        wheel.disarm(id);
        wheel.arm(id, due);
    }

    /// Visits up to `budget` connections whose time may have come. `judge` gives the time of the
    /// next visit, or `None` to end the connection, which is then removed by the hash that `judge`
    /// gives with it. Returns how many were visited.
    pub fn expire(
        &mut self,
        now: Ticks,
        budget: usize,
        mut judge: impl FnMut(&Conn) -> Fate,
    ) -> usize {
        // Not an array: to fill it would cost every turn a hundred instructions.
        let mut ended = ArrayVec::<_, ENDED>::new();
        let live = self.header.live;
        let (reach, mut visited) = (self.wheel().reach(now, live), 0);
        while visited < budget {
            let Some(id) = self.wheel().next_due(reach, visited) else { break };
            visited += 1;
            match judge(&self.entries[id as usize]) {
                Fate::Until(due) => self.wheel().arm(id, due),
                Fate::End(hash) => {
                    self.prefetch_bucket(self.home(hash));
                    ended.push((id, hash));
                }
            }
            if ended.is_full() {
                ended.drain(..).for_each(|(id, hash)| self.release(id, hash));
            }
        }
        ended.drain(..).for_each(|(id, hash)| self.release(id, hash));
        visited
    }

    /// Starts to load a bucket by its number, if there is one.
    pub fn prefetch_numbered(&self, at: u32) {
        self.buckets.get(at as usize).into_iter().for_each(prefetch);
    }

    /// Starts to load the connections of a bucket by its number, if there is one.
    pub fn prefetch_entries(&self, at: u32) {
        let used = self.buckets.get(at as usize).into_iter().flat_map(|b| &b.index);
        used.filter(|id| **id != 0)
            .for_each(|id| prefetch(&self.entries[(*id & !DIRECTION) as usize]));
    }

    /// The live connections of one bucket, each in exactly one bucket; `None` past the last one.
    #[must_use]
    pub fn bucket(&self, at: u32) -> Option<impl Iterator<Item = &Conn>> {
        let bucket = self.buckets.get(at as usize)?;
        let ids = bucket.index.iter().filter(|id| **id != 0 && **id & DIRECTION == 0);
        Some(ids.map(|id| &self.entries[*id as usize]))
    }

    /// The connections of a bucket by its number, to be changed; none past the last one.
    #[must_use]
    pub fn ids(&self, at: u32) -> ArrayVec<ConnId, WAYS> {
        let index = self.buckets.get(at as usize).map_or([0; WAYS], |bucket| bucket.index);
        index.into_iter().filter(|id| *id != 0 && id & DIRECTION == 0).collect()
    }

    /// How many buckets there are.
    #[must_use]
    pub const fn n_buckets(&self) -> u32 {
        self.header.buckets
    }

    fn wheel(&mut self) -> Wheel<'_> {
        Wheel { heads: self.heads, entries: self.entries, turned: &mut self.header.turned }
    }

    fn take_entry(&mut self) -> Option<ConnId> {
        if self.header.bump < self.header.capacity {
            self.header.bump += 1;
            return Some(self.header.bump);
        }
        let id = self.header.free;
        if id == 0 {
            return None;
        }
        self.header.free = self.entries[id as usize].wheel_next;
        Some(id)
    }

    /// Frees an entry that is in no wheel slot.
    #[inline(always)]
    fn release(&mut self, id: ConnId, hash: FlowHash) {
        let first = self.first(hash);
        if !self.buckets[first].clear(id) {
            self.clear_second(id, hash);
        }
        self.entries[id as usize] = Conn::FREE;
        self.entries[id as usize].wheel_next = self.header.free;
        self.header.free = id;
        self.header.live -= 1;
    }

    /// Takes an entry that overflowed out of its second bucket: one in hundreds.
    #[cold]
    fn clear_second(&mut self, id: ConnId, hash: FlowHash) {
        let (first, second) = (self.first(hash), self.second(hash));
        let found = self.buckets[second].clear(id);
        debug_assert!(found, "the hash of a removed connection is not its own");
        self.buckets[first].overflow -= 1;
    }

    #[inline(always)]
    const fn first(&self, hash: FlowHash) -> usize {
        self.home(hash) as usize
    }

    /// Another bucket from the same hash; never the first one.
    const fn second(&self, hash: FlowHash) -> usize {
        let mixed = (hash.0 ^ (hash.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let step = 1 + ((mixed * (self.header.buckets as u64 - 1)) >> 32) as usize;
        (self.first(hash) + step) % self.header.buckets as usize
    }
}

/// What becomes of a visited connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lives; visit it again then.
    Until(Ticks),
    /// It has ended; this is its key's hash.
    End(FlowHash),
}

/// 15 bits of the hash; odd, as 0 is the tag of an empty place. So one lookup in 4,000 meets another
/// flow's tag, and compares keys.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "bits are cut out")]
const fn tag(hash: FlowHash) -> u16 {
    (hash.0 >> 32) as u16 | 1
}

/// The first of the ways in `matches`, which has one.
#[inline(always)]
const fn way(matches: Lanes) -> usize {
    (matches.trailing_zeros() / 2) as usize % WAYS
}

impl Bucket {
    /// The ways whose tag is `tag`: eight compares at once.
    #[inline(always)]
    fn matches(&self, tag: u16) -> Lanes {
        cpu::equal_lanes(&self.tags, tag)
    }

    #[allow(clippy::unused_self, reason = "reads as a question to the bucket")]
    fn ways(&self, mut matches: Lanes) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let way = (matches != 0).then(|| way(matches));
            matches &= matches.wrapping_sub(1);
            matches &= matches.wrapping_sub(1);
            way
        })
    }

    /// A place that is empty: its tag is 0.
    #[inline(always)]
    fn vacancy(&self) -> Option<usize> {
        let empty = self.matches(0);
        (empty != 0).then(|| way(empty))
    }

    fn clear(&mut self, id: ConnId) -> bool {
        let Some(way) = self.index.iter().position(|i| *i == id) else { return false };
        (self.tags[way], self.index[way]) = (0, 0);
        true
    }
}

impl Conn {
    #[inline(always)]
    fn is(&self, key: &FlowKey, family: Family) -> bool {
        // Lengths that the compiler knows: a call of memcmp costs as much as the rest of a lookup.
        let same = match family {
            Family::V4 => self.key.0.first_chunk::<16>() == key.0.first_chunk(),
            Family::V6 => self.key == *key,
        };
        same && self.is_live_of(family)
    }
}
