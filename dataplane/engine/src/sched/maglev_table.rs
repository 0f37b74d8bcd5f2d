//! The table of a Maglev: who has which place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::buckets::fold;
use crate::addr::Addr;
use crate::pool::{Pool, gcd};

/// The sizes that LVS knows.
pub const KERNEL_SIZES: [u32; 10] =
    [251, 509, 1021, 2039, DEFAULT_SIZE, 8191, 16381, 32749, 65521, 131_071];

/// LVS's default, and the size of fallback tables.
pub const DEFAULT_SIZE: u32 = 4093;

/// The smallest and the largest table.
pub const SIZES: std::ops::RangeInclusive<u32> = 251..=1_048_573;

/// Whether a table may be of this size: a prime, so that any skip visits all places.
#[must_use]
pub fn is_size(places: u32) -> bool {
    let root = places.isqrt();
    SIZES.contains(&places) && (2..=root).all(|n| !places.is_multiple_of(n))
}

/// What a table depends on, server by server: address, port, and the last weight above 0.
type Member = (Addr, u16, u32);

/// The table of one pool. Two bytes a place: it holds positions, so equal pools can share it.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Position in the pool, or [`VACANT`]. Only a pool without any weight leaves it empty.
    pub(super) places: Box<[u16]>,
    members: Box<[Member]>,
    disruption: Option<Disruption>,
}

/// How a table differs from the one before it, in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// Places whose server is another one now.
    pub moved: u32,
    /// As many had to be, by how many places each server has now and had before.
    pub least: u32,
}

fn members(pool: &Pool) -> impl Iterator<Item = Member> {
    pool.servers.iter().map(|s| (s.addr, s.port, s.last_weight))
}

impl Table {
    /// Lets the servers take their places. `old` is the table before, of the same size and hashing.
    pub(super) fn new(pool: &Pool, hashing: Hashing, size: u32, old: Option<&Self>) -> Self {
        let members: Box<[_]> = members(pool).collect();
        let places = match hashing {
            Hashing::Kernel => fill_in_rounds(&members, size),
            Hashing::Keyed(key) => fill_by_share(&members, &key, size),
        };
        let mut table = Self { places, members, disruption: None };
        table.disruption = old.map(|old| table.disruption(old));
        table
    }

    /// Whether the table is that of a pool, so that it need not be built again.
    pub(super) fn is_of(&self, pool: &Pool) -> bool {
        self.members.iter().copied().eq(members(pool))
    }

    #[allow(clippy::cast_possible_truncation, reason = "one of SIZES")]
    pub(super) const fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many places each server has, by position.
    pub(super) fn shares(&self) -> Vec<u32> {
        let mut shares = vec![0; self.members.len()];
        let taken = self.places.iter().filter(|at| **at != VACANT);
        taken.for_each(|at| shares[usize::from(*at)] += 1);
        shares
    }

    /// See [`Disruption`]; `None` for the first table of a service, a size or a key.
    pub(super) const fn last_disruption(&self) -> Option<Disruption> {
        self.disruption
    }

    /// Bytes that the table takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.places) + size_of_val(&*self.members)
    }

    fn disruption(&self, old: &Self) -> Disruption {
        let whose = |table: &Self, at: u16| {
            table.members.get(usize::from(at)).map(|(addr, port, _)| (*addr, *port))
        };
        let (mut moved, mut gains) = (0, BTreeMap::new());
        for (new, before) in self.places.iter().zip(&old.places) {
            let (new, before) = (whose(self, *new), whose(old, *before));
            if new != before {
                moved += 1;
                *gains.entry(new).or_insert(0_i64) += 1;
                *gains.entry(before).or_insert(0_i64) -= 1;
            }
        }
        let least: i64 = gains.values().filter(|gain| **gain > 0).sum();
        Disruption { moved, least: u32::try_from(least).unwrap_or(moved) }
    }
}

/// How addresses become numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hashing {
    Kernel,
    Keyed([u8; 16]),
}

/// One server's way through the table: a random order of all places.
struct Way {
    at: u16,
    place: u32,
    skip: u32,
}

impl Way {
    const fn new(at: u16, (place, skip): (u32, u32), size: u32) -> Self {
        Self { at, place: place % size, skip: skip % (size - 1) + 1 }
    }

    /// Takes the next free place.
    fn take(&mut self, table: &mut [u16], size: u32) {
        while table[self.place as usize] != VACANT {
            self.place = (self.place + self.skip) % size;
        }
        table[self.place as usize] = self.at;
    }
}

/// As LVS does it: in each round each server, in the order of the pool, takes as many places as its
/// weight says, divided by the common divisor and cut to half the bits of the size.
fn fill_in_rounds(members: &[Member], size: u32) -> Box<[u16]> {
    let mut table = vec![VACANT; size as usize].into_boxed_slice();
    let weights = members.iter().map(|m| m.2);
    let divisor = weights.clone().fold(0, gcd).max(1);
    let shift = shift(weights.max().unwrap_or(0) / divisor, size);
    // More servers than numbers below VACANT cannot have a place each in any table.
    let weighty = (0..VACANT).zip(members).filter(|(_, m)| m.2 > 0);
    let mut ways: Vec<_> = weighty
        .map(|(at, (addr, port, weight))| {
            let [place, skip] = KERNEL_KEYS.map(|key| kernel_hash((*addr, *port), 0, key));
            (Way::new(at, (place, skip), size), ((weight / divisor) >> shift).max(1))
        })
        .collect();
    let mut left = if ways.is_empty() { 0 } else { size };
    while left > 0 {
        for (way, turns) in &mut ways {
            for _ in 0..left.min(*turns) {
                way.take(&mut table, size);
                left -= 1;
            }
        }
    }
    table
}

/// The next place goes to whoever is furthest behind his share: after `n` places a server of weight
/// `w` is due at (n + 1/2) / w. Shares are exact to a place, whatever the weights; equals take turns
/// in the order of their addresses, not of their adding, so directors agree whatever their history.
#[allow(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
fn fill_by_share(members: &[Member], key: &[u8; 16], size: u32) -> Box<[u16]> {
    let mut table = vec![VACANT; size as usize].into_boxed_slice();
    let mut order: Vec<_> = (0..VACANT).zip(members).filter(|(_, m)| m.2 > 0).collect();
    order.sort_by_key(|(_, m)| (m.0, m.1));
    let mut ways: Vec<_> = order
        .iter()
        .map(|(at, (addr, port, _))| {
            let hash = keyed_hash((*addr, *port), SERVER, key);
            Way::new(*at, (hash as u32, (hash >> 32) as u32), size)
        })
        .collect();
    let steps: Vec<_> = order.iter().map(|(_, m)| (1_u128 << 64) / u128::from(m.2)).collect();
    let mut due: BinaryHeap<_> = steps.iter().map(|s| s / 2).zip(0..).map(Reverse).collect();
    for _ in 0..if ways.is_empty() { 0 } else { size } {
        let mut first = due.peek_mut().expect("nobody leaves");
        let Reverse((time, server)) = *first;
        let server: usize = server;
        ways[server].take(&mut table, size);
        *first = Reverse((time + steps[server], server));
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
pub(super) fn kernel_hash((addr, port): (Addr, u16), number: u32, key: u64) -> u32 {
    let sum = fold(addr).wrapping_add(u32::from(port)).wrapping_add(number);
    let mut hasher = SipHasher13::new_with_keys(key, key);
    hasher.write(&sum.to_le_bytes());
    hasher.finish() as u32
}

pub(super) fn keyed_hash((addr, port): (Addr, u16), number: u32, key: &[u8; 16]) -> u64 {
    let mut bytes = [0; 22];
    bytes[..16].copy_from_slice(&addr.0);
    bytes[16..18].copy_from_slice(&port.to_be_bytes());
    bytes[18..].copy_from_slice(&number.to_be_bytes());
    SipHasher13::new_with_key(key).hash(&bytes)
}

pub(super) const VACANT: u16 = u16::MAX;

/// The number under which servers are hashed; clients' probes stay below the greatest table.
const SERVER: u32 = u32::MAX;

/// LVS's two keys; each is both halves of a SipHash key.
pub(super) const KERNEL_KEYS: [u64; 2] = [2_654_435_761, 2_654_446_892];
