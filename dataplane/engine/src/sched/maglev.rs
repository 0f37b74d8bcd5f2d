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
//! * **keyed**: SipHash-1-3 of whole addresses under a key. Servers take their turns in the order of
//!   their addresses, not of their adding, so directors agree whatever their history.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::buckets::fold;
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::addr::Addr;
use crate::flow::{Family, FlowKey};
use crate::live::LoadView;
use crate::pool::{Pool, gcd};

/// Sizes of tables: the primes that LVS knows.
pub const SIZES: [u32; 10] =
    [251, 509, 1021, 2039, DEFAULT_SIZE, 8191, 16381, 32749, 65521, 131_071];

/// LVS's default, and the size of fallback tables.
pub const DEFAULT_SIZE: u32 = 4093;

/// The table of one pool. Two bytes a place: it holds positions, so equal pools can share it.
#[derive(Clone, Debug)]
pub struct Maglev {
    hashing: Hashing,
    with_port: bool,
    fallback: bool,
    /// Position in the pool, or [`VACANT`]. Only a pool without any weight leaves it empty.
    table: Box<[u16]>,
}

impl Schedule for Maglev {
    /// # Panics
    /// When the size is not one of [`SIZES`].
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        let size = flags.mh_size.unwrap_or(DEFAULT_SIZE);
        assert!(SIZES.contains(&size), "{size} is not a size of a Maglev table");
        let hashing = flags.mh_key.map_or(Hashing::Kernel, Hashing::Keyed);
        Self {
            hashing,
            with_port: flags.mh_port,
            fallback: flags.mh_fallback,
            table: fill(pool, hashing, size),
        }
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        self.pick_stateless(pool, arrival.key, arrival.family, load)
    }
}

impl Maglev {
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
        let client = (key.src(family), if self.with_port { key.ports(family).0 } else { 0 });
        let place = self.place(client, 0);
        match self.eligible(pool, place, load) {
            None if self.fallback => self.pick_other(pool, client, place, load),
            pick => pick,
        }
    }

    /// Another server for a client whose own is not eligible: the first eligible one among the
    /// places of further hashes, which LVS numbers from the first place on.
    ///
    /// LVS refuses the client when all probes fail, as they may when few places are left; here an
    /// eligible server is found whenever there is one.
    #[cold]
    fn pick_other(
        &self,
        pool: &Pool,
        client: (Addr, u16),
        first: u32,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let is_eligible = |at: &usize| load.weight(pool.servers[*at].slot) > 0;
        let eligible = (0..pool.servers.len()).filter(is_eligible);
        let count = eligible.clone().count();
        if count == 0 {
            return None;
        }
        let size = self.size();
        let probes = if self.hashing == Hashing::Kernel { size } else { KEYED_PROBES };
        (0..probes)
            .map(|probe| self.place(client, (first + probe) % size))
            .find_map(|place| self.eligible(pool, place, load))
            .or_else(|| eligible.clone().nth(first as usize % count))
    }

    fn eligible(&self, pool: &Pool, place: u32, load: LoadView<'_>) -> Option<usize> {
        let at = usize::from(self.table[place as usize]);
        (load.weight(pool.servers.get(at)?.slot) > 0).then_some(at)
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

    #[allow(clippy::cast_possible_truncation, reason = "one of SIZES")]
    const fn size(&self) -> u32 {
        self.table.len() as u32
    }
}

/// How addresses become numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hashing {
    Kernel,
    Keyed([u8; 16]),
}

/// One server's way through the table.
struct Turns {
    at: u16,
    place: u32,
    skip: u32,
    turns: u32,
}

impl Turns {
    #[allow(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    fn new(at: u16, server: (Addr, u16), turns: u32, hashing: Hashing, size: u32) -> Self {
        let (place, skip) = match hashing {
            Hashing::Kernel => {
                let [first, second] = KERNEL_KEYS.map(|key| kernel_hash(server, 0, key));
                (first, second)
            }
            Hashing::Keyed(key) => {
                let hash = keyed_hash(server, SERVER, &key);
                (hash as u32, (hash >> 32) as u32)
            }
        };
        Self { at, place: place % size, skip: skip % (size - 1) + 1, turns }
    }
}

/// Lets the servers take their places.
fn fill(pool: &Pool, hashing: Hashing, size: u32) -> Box<[u16]> {
    let mut table = vec![VACANT; size as usize].into_boxed_slice();
    let weights = pool.servers.iter().map(|s| s.last_weight);
    let divisor = weights.clone().fold(0, gcd).max(1);
    let shift = shift(weights.max().unwrap_or(0) / divisor, size);
    // More servers than numbers below VACANT cannot have a place each in any table.
    let mut order: Vec<_> = (0..VACANT).zip(&pool.servers).collect();
    if hashing != Hashing::Kernel {
        order.sort_by_key(|(_, s)| (s.addr, s.port));
    }
    let mut takers: Vec<_> = order
        .into_iter()
        .filter(|(_, s)| s.last_weight > 0)
        .map(|(at, s)| {
            let turns = ((s.last_weight / divisor) >> shift).max(1);
            Turns::new(at, (s.addr, s.port), turns, hashing, size)
        })
        .collect();
    let mut left = if takers.is_empty() { 0 } else { size };
    while left > 0 {
        for taker in &mut takers {
            for _ in 0..taker.turns.min(left) {
                while table[taker.place as usize] != VACANT {
                    taker.place = (taker.place + taker.skip) % size;
                }
                table[taker.place as usize] = taker.at;
                left -= 1;
            }
        }
    }
    table
}

/// By how many bits weights are cut so that the greatest leaves the small ones room: LVS keeps half
/// as many bits as the size of the table has.
fn shift(greatest: u32, size: u32) -> u32 {
    let bits = |n: u32| u32::BITS - n.leading_zeros();
    bits(greatest).saturating_sub(bits(size) / 2)
}

/// SipHash-1-3 of the folded address plus the port plus a number, cut to 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the low 32 bits are the hash")]
fn kernel_hash((addr, port): (Addr, u16), number: u32, key: u64) -> u32 {
    let sum = fold(addr).wrapping_add(u32::from(port)).wrapping_add(number);
    let mut hasher = SipHasher13::new_with_keys(key, key);
    hasher.write(&sum.to_le_bytes());
    hasher.finish() as u32
}

fn keyed_hash((addr, port): (Addr, u16), number: u32, key: &[u8; 16]) -> u64 {
    let mut bytes = [0; 22];
    bytes[..16].copy_from_slice(&addr.0);
    bytes[16..18].copy_from_slice(&port.to_be_bytes());
    bytes[18..].copy_from_slice(&number.to_be_bytes());
    SipHasher13::new_with_key(key).hash(&bytes)
}

const VACANT: u16 = u16::MAX;

/// The number under which servers are hashed; clients' probes stay below the greatest table.
const SERVER: u32 = u32::MAX;

/// After so many failures only small servers are left, and one is taken by its rank.
const KEYED_PROBES: u32 = 64;

/// LVS's two keys; each is both halves of a SipHash key.
const KERNEL_KEYS: [u64; 2] = [2_654_435_761, 2_654_446_892];

/// For directors that were told no secret: they must agree all the same.
const PUBLIC_KEY: [u8; 16] = *b"sluice fallback\0";
