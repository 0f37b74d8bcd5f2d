//! What holds after every step of any world, found by walking the tables and reading the frames.

use std::collections::{HashMap, HashSet};

use engine::conn::tcp_state::ConnState;
use engine::flow::{Family, FlowKey};
use engine::live::LoadView;
use engine::stats::ConnCounts;
use engine::testkit::World;

use super::packets::{Out, drain};

/// An entry, as far as the laws care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    lcore: usize,
    slot: u32,
    generation: u16,
    state: ConnState,
}

/// Remembers what must be remembered between steps.
#[derive(Default)]
pub(crate) struct Laws {
    entries: HashMap<FlowKey, Entry>,
    forwarded: HashSet<u64>,
    /// The last number that went from a flow to a slot.
    last: HashMap<(FlowKey, u32), u64>,
    /// Packets below this number may belong to a flow's earlier life, and be late: they waited for
    /// another server's hardware address.
    reborn: HashMap<FlowKey, u64>,
    /// When a SYN, and when a FIN or RST of a flow was last sent, in steps.
    moved: HashMap<FlowKey, (u32, u32)>,
    step: u32,
    pub went: usize,
    pub untracked: usize,
}

/// Steps after which a packet has met its entry.
const ON_ITS_WAY: u32 = 100;

impl Laws {
    /// Notes that a packet of a flow was sent.
    pub(crate) fn note(&mut self, key: FlowKey, flags: &str) {
        let now = self.step + ON_ITS_WAY;
        let moved = self.moved.entry(key).or_default();
        if flags == "S" {
            moved.0 = now;
        } else if flags.contains(['F', 'R']) {
            moved.1 = now;
        }
    }

    /// Whether a flow whose entry is `old` may have begun anew: a SYN, and an end before it.
    fn may_begin(&self, w: &World, key: &FlowKey, old: Option<&Entry>) -> bool {
        let (syn, end) = self.moved.get(key).copied().unwrap_or_default();
        let refused = |e: &Entry| !e.state.is_active() || w.sites[e.lcore].live.weight(e.slot) == 0;
        syn > self.step && (end > self.step || old.is_none_or(refused))
    }

    /// One turn of every lcore, and all laws. `sent` numbers exist.
    pub(crate) fn turn(&mut self, w: &mut World, sent: u64) {
        // What waits for a slow device was decided in an earlier turn.
        let late: Vec<_> = w.sites.iter().map(|s| s.board.stats.queued.get() > 0).collect();
        w.turn();
        self.step += 1;
        let before = std::mem::replace(&mut self.entries, walk(w));
        self.assert_affinity(w, &before, sent);
        assert_counts(w, &self.entries);
        for (lcore, out) in drain(w) {
            if let Out::Forwarded { key, slot, number, .. } = out {
                assert!(number < sent, "a packet that nobody sent");
                assert!(self.forwarded.insert(number), "packet {number} was forwarded twice");
                let last = self.last.insert((key, slot), number);
                let begun = self.entries.get(&key).and_then(|_| self.reborn.get(&key));
                let reborn = number < begun.copied().unwrap_or(sent);
                assert!(reborn || last.is_none_or(|l| l < number), "{last:?} left before {number}");
                self.went += 1;
                if !late[lcore] {
                    self.assert_destination(w, lcore, &before, key, slot);
                }
            }
        }
    }

    /// An entry moves to another server only when its flow began anew after its end, or its
    /// server's generation died; nobody gets a new entry on a server that takes none.
    fn assert_affinity(&mut self, w: &World, before: &HashMap<FlowKey, Entry>, sent: u64) {
        for (key, entry) in &self.entries {
            assert_eq!(owner(w, key), entry.lcore, "an entry lives with its owner");
            let old = before.get(key);
            let same = |o: &Entry| (o.slot, o.generation) == (entry.slot, entry.generation);
            if old.is_some_and(same) {
                continue;
            }
            self.reborn.insert(*key, sent);
            let weight = w.sites[entry.lcore].live.weight(entry.slot);
            assert!(weight > 0, "a new connection to a server that takes none");
            if let Some(old) = old {
                let died = !alive(w, old);
                assert!(died || self.may_begin(w, key, Some(old)), "{old:?} became {entry:?}");
            }
        }
    }

    /// A packet goes to its entry's server, and without an entry to the consistent hash's.
    fn assert_destination(
        &mut self,
        w: &World,
        lcore: usize,
        before: &HashMap<FlowKey, Entry>,
        key: FlowKey,
        slot: u32,
    ) {
        assert_eq!(owner(w, &key), lcore, "forwarded by a stranger");
        let old = before.get(&key).filter(|e| alive(w, e));
        let new = self.entries.get(&key);
        if [old, new].iter().flatten().any(|e| e.slot == slot) {
            return;
        }
        // A flow that began anew may have found the table full, or have begun twice in one turn.
        let old = old.filter(|e| !self.may_begin(w, &key, Some(e)));
        if new.is_some() && self.may_begin(w, &key, old) {
            return;
        }
        assert_eq!((old, new), (None, None), "not to its connection's server");
        assert_eq!(hashed(w, lcore, &key), Some(slot), "not to the consistent hash's server");
        self.untracked += 1;
    }
}

/// The server that the service's consistent hash names, by the snapshot that all lcores use.
pub(crate) fn hashed(w: &World, lcore: usize, key: &FlowKey) -> Option<u32> {
    let (proto, addr) = (key.proto(Family::V4), key.dst(Family::V4));
    let port = key.ports(Family::V4).1;
    let service = w.snapshot.service(engine::service::ServiceKey { proto, addr, port })?;
    let load = LoadView::new(&w.sites[lcore].live, &w.sites[lcore].board);
    let pick = service.fallback.pick_stateless(&service.pool, key, Family::V4, load);
    let backup = || service.backup.as_ref()?.pick_stateless(key, Family::V4, load);
    pick.map(|at| service.pool.servers[at].slot).or_else(backup)
}

fn owner(w: &World, key: &FlowKey) -> usize {
    usize::from(w.hasher.hash(key, Family::V4).owner(u16::try_from(w.sites.len()).unwrap()))
}

fn alive(w: &World, entry: &Entry) -> bool {
    w.snapshot.server(entry.slot, entry.generation).is_some()
}

fn walk(w: &World) -> HashMap<FlowKey, Entry> {
    let mut all = HashMap::new();
    for (lcore, site) in w.sites.iter().enumerate() {
        let table = site.worker.table();
        let buckets = (0..).map_while(|at| table.bucket(at));
        for conn in buckets.flatten() {
            let (slot, generation, state) = (conn.server, conn.generation, conn.state());
            let twice = all.insert(conn.key, Entry { lcore, slot, generation, state });
            assert_eq!(twice, None, "one flow, two entries");
        }
        let mine = all.values().filter(|e| e.lcore == lcore).count();
        assert_eq!(mine, table.len() as usize, "the table's own count");
    }
    all
}

/// ActiveConn and InActConn of each slot on each lcore are the entries by state.
fn assert_counts(w: &World, entries: &HashMap<FlowKey, Entry>) {
    let mut counted: HashMap<(usize, u32), ConnCounts> = HashMap::new();
    for entry in entries.values().filter(|e| alive(w, e)) {
        let counts = counted.entry((entry.lcore, entry.slot)).or_default();
        *(if entry.state.is_active() { &mut counts.active } else { &mut counts.inactive }) += 1;
    }
    for (lcore, site) in w.sites.iter().enumerate() {
        for (slot, line) in (0..).zip(&w.snapshot.servers) {
            let told = site.board.servers[slot as usize].counts(line.generation);
            let found = counted.get(&(lcore, slot)).copied().unwrap_or_default();
            assert_eq!(told, found, "lcore {lcore}, slot {slot}");
        }
    }
}
