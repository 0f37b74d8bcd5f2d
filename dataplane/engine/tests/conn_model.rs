//! The connection table against an obvious model: a `HashMap` with a clock.

use std::collections::HashMap;

use engine::addr::L4Proto;
use engine::conn::entry::Conn;
use engine::conn::table::{ConnTable, Fate, LayoutError};
use engine::conn::tcp_state::ConnState;
use engine::conn::wheel::SLOTS;
use engine::flow::{Family, FlowHash, FlowHasher, FlowKey};
use engine::testkit::table_memory;
use engine::ticks::{TickSpan, Ticks};
use proptest::prelude::*;

fn key(n: u32, family: Family) -> FlowKey {
    let b = n.to_be_bytes();
    match family {
        Family::V4 => {
            FlowKey::v4([10, b[1], b[2], b[3]], [192, 0, 2, 1], [1, 2, 0, 80], L4Proto::Tcp)
        }
        Family::V6 => {
            let mut src = [0; 16];
            src[12..].copy_from_slice(&b);
            FlowKey::v6(src, [1; 16], [1, 2, 0, 80], L4Proto::Tcp)
        }
    }
}

fn family(n: u32) -> Family {
    if n.is_multiple_of(3) { Family::V6 } else { Family::V4 }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Touch(u32),
    Remove(u32),
    Shorten(u32),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let flow = 0..96_u32;
    prop_oneof![
        4 => flow.clone().prop_map(Op::Insert),
        3 => flow.clone().prop_map(Op::Touch),
        1 => flow.clone().prop_map(Op::Remove),
        1 => flow.prop_map(Op::Shorten),
        1 => (1..400_000_u64).prop_map(Op::Pass),
    ]
}

/// A table and what it should hold: flow → (last seen, timeout).
struct Pair {
    table: ConnTable,
    model: HashMap<u32, (u64, u64)>,
    hash: Box<dyn Fn(u32) -> FlowHash>,
    now: Ticks,
}

const TIMEOUT: u64 = 100_000;
const SHORT: u64 = 10_000;

impl Pair {
    fn new(capacity: u32, hash: impl Fn(u32) -> FlowHash + 'static) -> Self {
        let memory = table_memory(ConnTable::bytes(capacity));
        let table = ConnTable::new(memory, capacity).expect("fresh memory");
        Self { table, model: HashMap::new(), hash: Box::new(hash), now: Ticks(0) }
    }

    fn find(&self, n: u32) -> Option<u32> {
        let (hash, family) = ((self.hash)(n), family(n));
        let candidate = self.table.candidate(self.table.home(hash), hash);
        self.table.find(candidate, hash, &key(n, family), family)
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(n) if !self.model.contains_key(&n) => {
                let mut conn = Conn::new(key(n, family(n)), family(n), n, 1, 0);
                conn.set_state(ConnState::Established);
                conn.last_seen = self.now.low();
                let due = self.now + TickSpan(TIMEOUT);
                let full = self.model.len() == self.table.capacity() as usize;
                match self.table.insert((self.hash)(n), conn, due) {
                    Some(_) => {
                        assert!(!full, "a full table took one more");
                        self.model.insert(n, (self.now.0, TIMEOUT));
                    }
                    None => assert!(full || self.table.capacity() < 64, "refused with room"),
                }
            }
            Op::Touch(n) => {
                if let Some(id) = self.find(n) {
                    self.table.get_mut(id).last_seen = self.now.low();
                    self.model.get_mut(&n).expect("the model has it").0 = self.now.0;
                }
            }
            Op::Remove(n) => {
                if let Some(id) = self.find(n) {
                    self.table.remove(id, (self.hash)(n));
                    self.model.remove(&n);
                }
            }
            Op::Shorten(n) => {
                if let Some(id) = self.find(n) {
                    self.table.get_mut(id).set_state(ConnState::Close);
                    let m = self.model.get_mut(&n).expect("the model has it");
                    m.1 = SHORT;
                    self.table.rearm(id, Ticks(m.0 + SHORT));
                }
            }
            Op::Pass(ticks) => self.pass(ticks),
            Op::Insert(_) => {}
        }
        self.check();
    }

    fn pass(&mut self, ticks: u64) {
        self.now = self.now + TickSpan(ticks);
        let (now, hash) = (self.now, &self.hash);
        // Time may have jumped by more slots than one call passes.
        for _ in 0..=SLOTS / 512 {
            while self.table.expire(now, 7, |conn| judge(conn, now, hash)) > 0 {}
        }
        // A visit comes up to one wheel slot late; in between either answer is right.
        self.model.retain(|n, (seen, timeout)| {
            let due = *seen + *timeout;
            let (hash, family) = (hash(*n), family(*n));
            let candidate = self.table.candidate(self.table.home(hash), hash);
            let found = self.table.find(candidate, hash, &key(*n, family), family).is_some();
            let context = format!("flow {n} seen {seen} timeout {timeout} now {now:?}");
            assert!(found || due <= now.0, "ended early: {context}");
            assert!(!found || due.next_multiple_of(128) > now.0, "outlived its time: {context}");
            found
        });
    }

    fn check(&self) {
        assert_eq!(self.table.len() as usize, self.model.len());
        for n in 0..96 {
            assert_eq!(self.find(n).is_some(), self.model.contains_key(&n), "flow {n}");
        }
        let mut listed: Vec<u32> = Vec::new();
        let mut at = 0;
        while let Some(conns) = self.table.bucket(at) {
            listed.extend(conns.map(|c| c.server));
            at += 1;
        }
        listed.sort_unstable();
        let mut wanted: Vec<u32> = self.model.keys().copied().collect();
        wanted.sort_unstable();
        assert_eq!(listed, wanted, "a walk over the buckets lists each connection once");
    }
}

fn judge(conn: &Conn, now: Ticks, hash: &dyn Fn(u32) -> FlowHash) -> Fate {
    let timeout = if conn.state() == ConnState::Close { SHORT } else { TIMEOUT };
    let due = Ticks(u64::from(conn.last_seen) + timeout);
    if due > now { Fate::Until(due) } else { Fate::End(hash(conn.server)) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn behaves_like_a_map(ops in prop::collection::vec(op(), 1..200), seed: u64) {
        let hasher = FlowHasher::new(seed);
        let mut pair = Pair::new(64, move |n| hasher.hash(&key(n, family(n)), family(n)));
        ops.iter().for_each(|op| pair.apply(op));
    }

    /// Hashes that collide in bucket and tag: every lookup must compare keys, and overflow.
    #[test]
    fn behaves_like_a_map_when_hashes_collide(
        ops in prop::collection::vec(op(), 1..200), spread in 1..6_u32,
    ) {
        let mut pair = Pair::new(48, move |n| {
            let step = u64::from(n % spread);
            FlowHash(step << 31 | (step & 1) << 32)
        });
        ops.iter().for_each(|op| pair.apply(op));
    }
}

#[test]
fn fills_up_and_empties() {
    let capacity = 10_000;
    let hasher = FlowHasher::new(7);
    let memory = table_memory(ConnTable::bytes(capacity));
    let mut table = ConnTable::new(memory, capacity).expect("fresh memory");
    let hash = |n| hasher.hash(&key(n, Family::V4), Family::V4);
    let mut refused = 0;
    for n in 0..capacity {
        let conn = Conn::new(key(n, Family::V4), Family::V4, n, 1, 0);
        if table.insert(hash(n), conn, Ticks(1000)).is_none() {
            refused += 1;
        }
    }
    assert!(refused <= 1, "{refused} of {capacity} refused before the table was full");
    while table.expire(Ticks(2000), 64, |c| Fate::End(hash(c.server))) > 0 {}
    assert!(table.is_empty());
    let conn = Conn::new(key(1, Family::V4), Family::V4, 1, 1, 0);
    assert!(table.insert(hash(1), conn, Ticks(9000)).is_some(), "freed places serve again");
}

#[test]
fn remembers_by_bucket_who_found_no_room() {
    let hasher = FlowHasher::new(7);
    let mut table = ConnTable::new(table_memory(ConnTable::bytes(300)), 300).expect("fresh memory");
    let hash = |n| hasher.hash(&key(n, Family::V4), Family::V4);
    // Ticks that are 0 in the low half are a time, too.
    let (then, now) = (Ticks(1 << 32), Ticks((1 << 32) + 500));
    let home = table.home(hash(1));
    assert_eq!(table.refused(home, now), None);
    table.refuse(hash(1), then);
    assert_eq!(table.refused(home, now), Some(499));
    let others = (0..200).map(|n| table.home(hash(n))).filter(|other| *other != home);
    assert_eq!(others.filter(|other| table.refused(*other, now).is_some()).count(), 0);
    table.refuse(hash(1), now);
    assert_eq!(table.refused(home, now + TickSpan(7)), Some(7));
}

#[test]
fn refuses_foreign_memory() {
    let memory = table_memory(ConnTable::bytes(100));
    assert!(matches!(ConnTable::new(memory, 99), Err(LayoutError::Memory)));
    let memory = table_memory(ConnTable::bytes(100));
    memory[0] = 1;
    assert!(matches!(ConnTable::new(memory, 100), Err(LayoutError::Foreign)));
}

#[test]
fn costs_at_most_96_bytes_a_connection() {
    for capacity in [1_000_000, 16_000_000] {
        assert!(ConnTable::bytes(capacity) as u64 <= u64::from(capacity) * 96);
    }
}
