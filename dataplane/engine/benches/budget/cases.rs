//! What is counted. A case prepares, then works inside [`measured`] and says on how many units.

use std::hint::black_box;
use std::sync::Arc;

use engine::addr::Mac;
use engine::conn::entry::Conn;
use engine::conn::table::ConnTable;
use engine::flow::{FlowHash, FlowHasher};
use engine::forward::ForwarderKind;
use engine::frame::BURST;
use engine::live::LoadView;
use engine::mailbox::{Order, Query};
use engine::neigh::Hop;
use engine::parse::{Parsed, parse, parse_into};
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::service::{Persistence, Rules};
use engine::snapshot::{PortFacts, Snapshot};
use engine::stats::LcoreBoard;
use engine::testkit::{HeapFrame, craft, table_memory};
use engine::ticks::{TickSpan, Ticks};

use crate::rig::{self, NOW, Rig, packets};

const FLOWS: usize = 1 << 10;
/// Turns of one count.
const TURNS: usize = 64;
/// Milliseconds after which entries end that never saw more than a SYN, and a little more.
const HALF_OPEN_MS: u64 = 60_500;

/// One line of the ledger.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnOnce() -> usize>,
}

/// All there are: every scheduler and every forwarder that is registered has its own.
pub(crate) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |name: String, run: Box<dyn FnOnce() -> usize>| all.push(Case { name, run });
    add("parse".into(), Box::new(parse_and_hash));
    add("find-hit".into(), Box::new(|| find(FLOWS)));
    add("find-miss".into(), Box::new(|| find(0)));
    for kind in SchedulerKind::ALL {
        add(format!("pick-{kind}-8"), Box::new(|| pick(*kind, 8)));
    }
    add("pick-wlc-1000".into(), Box::new(|| pick(SchedulerKind::Wlc, 1000)));
    for kind in ForwarderKind::ALL {
        add(format!("forward-{kind}"), Box::new(|| forward(*kind)));
        add(format!("turn-{kind}-hit"), Box::new(|| turn(*kind, Load::Hit)));
        add(format!("turn-{kind}-new"), Box::new(|| turn(*kind, Load::New)));
    }
    add("turn-dr-new-persistent".into(), Box::new(|| turn(ForwarderKind::Dr, Load::Persistent)));
    add("turn-dr-hit-listed".into(), Box::new(|| turn(ForwarderKind::Dr, Load::Listed)));
    add("turn-stray".into(), Box::new(|| turn(ForwarderKind::Dr, Load::Stray)));
    add("turn-idle".into(), Box::new(|| turn(ForwarderKind::Dr, Load::Idle)));
    add("expire".into(), Box::new(|| expire("S")));
    add("rearm".into(), Box::new(|| expire("A")));
    all
}

/// The frame within which callgrind counts. The result is used, so no call at the end becomes a jump.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn frames(flags: &str) -> Vec<HeapFrame> {
    packets(FLOWS, flags).iter().map(|bytes| HeapFrame::new(bytes)).collect()
}

fn read(frames: &[HeapFrame]) -> Vec<(Parsed, FlowHash)> {
    let hasher = FlowHasher::new(7);
    let read = |frame| {
        let at = parse(frame, craft::STATION).expect("a TCP segment to this station");
        (at, hasher.hash(&at.key, at.family))
    };
    frames.iter().map(read).collect()
}

/// Headers to key and hash.
fn parse_and_hash() -> usize {
    let (frames, hasher) = (frames("A"), FlowHasher::new(7));
    let mut at = Parsed::default();
    let port = PortFacts { mac: craft::STATION, mtu: 1500 };
    measured(|| {
        for frame in &frames {
            if parse_into(frame, &port, black_box(&mut at)).is_ok() {
                black_box(hasher.hash(&at.key, at.family));
            }
        }
    });
    FLOWS
}

/// A burst's two walks through a table that has the first `present` of the flows.
fn find(present: usize) -> usize {
    let capacity = 2 * FLOWS as u32;
    let memory = table_memory(ConnTable::bytes(capacity));
    let mut table = ConnTable::new(memory, capacity).expect("fresh memory");
    let flows = read(&frames("A"));
    for (at, hash) in &flows[..present] {
        let conn = Conn::new(at.key, at.family, 0, 1, 0);
        table.insert(*hash, conn, NOW).expect("half empty");
    }
    let found = measured(|| {
        let mut found = 0;
        for burst in flows.chunks(BURST) {
            let mut ids = [0; BURST];
            burst.iter().for_each(|(_, hash)| table.prefetch_bucket(table.home(*hash)));
            for ((_, hash), id) in burst.iter().zip(&mut ids) {
                *id = table.candidate(table.home(*hash), *hash);
            }
            for ((at, hash), id) in burst.iter().zip(ids) {
                found += usize::from(table.find(id, *hash, &at.key, at.family).is_some());
            }
        }
        found
    });
    assert_eq!(found, present);
    FLOWS
}

/// Picks among so many servers, each of which begins a connection.
fn pick(kind: SchedulerKind, servers: u16) -> usize {
    let (pool, live) = (rig::pool(servers), rig::live(servers));
    let board = LcoreBoard::new(servers.into(), 1);
    let scheduler = Scheduler::build(kind, &pool, SchedFlags::default());
    let (mut cursor, flows) = (Cursor::default(), read(&frames("S")));
    measured(|| {
        for (at, _) in &flows {
            let arrival =
                Arrival { key: &at.key, family: at.family, who: Who::ALONE, now: Ticks(0) };
            let load = LoadView::new(&live, &board);
            // `ovf` refuses clients in the end.
            if let Some(picked) = black_box(scheduler.pick(&pool, arrival, &mut cursor, load)) {
                board.change(pool.servers[picked].slot, 1, 1, 1, 0);
                scheduler.changed(0, picked as u32);
            }
        }
    });
    FLOWS
}

/// Frames to their server.
fn forward(kind: ForwarderKind) -> usize {
    let (mut frames, snap) = (frames("A"), rig::snapshot(kind));
    let flows = read(&frames);
    let hop = Hop::new(0, Some(Mac([2, 0, 0, 0, 1, 0])));
    let (line, port) = (&snap.servers[0], &snap.ports[0]);
    measured(|| {
        for (frame, (at, _)) in frames.iter_mut().zip(&flows) {
            black_box(kind.apply(frame, at, line, hop, port).is_ok());
        }
    });
    FLOWS
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Hit,
    /// While the table, which is full, is being listed.
    Listed,
    New,
    /// New connections of a persistent service, 256 of each client.
    Persistent,
    Stray,
    Idle,
}

/// Whole turns, a burst each, of which `Idle` is none.
fn turn(kind: ForwarderKind, load: Load) -> usize {
    let mut rig = Rig::new(kind, if load == Load::Listed { FLOWS } else { 4 * FLOWS });
    // The wheel's hand comes to the present.
    (0..2 * TURNS).for_each(|_| _ = rig.worker.turn(NOW));
    match load {
        Load::Hit | Load::Listed => {
            rig.open(FLOWS);
            // Once around, so that every entry is established.
            (0..FLOWS / BURST).for_each(|_| _ = rig.worker.turn(NOW));
        }
        Load::New => rig.cable.play(packets(TURNS * BURST, "S")),
        Load::Persistent => {
            let persistence = Some(Persistence { life: TickSpan::from_secs(300), bits: 128 });
            let rules = Rules { persistence, ..Rules::default() };
            let snapshot = Snapshot { version: 2, ..rig::snapshot_with(kind, rules) };
            rig.control.orders.push(Order::Snapshot(Arc::new(snapshot))).expect("an empty ring");
            rig.worker.turn(NOW);
            rig.cable.play(packets(TURNS * BURST, "S"));
        }
        Load::Stray => rig.cable.play(packets(TURNS * BURST, "A")),
        Load::Idle => {
            rig.open(FLOWS);
            rig.cable.play(Vec::new());
        }
    }
    let before = rig.board.stats.read();
    if load == Load::Listed {
        let everything = Query { limit: u32::MAX, ..Query::default() };
        rig.control.orders.push(Order::Query(everything)).expect("an empty ring");
    }
    rig.cable.step_aside();
    measured(|| (0..TURNS).for_each(|_| _ = black_box(rig.worker.turn(NOW))));
    let listed = rig.control.events.slots();
    assert_eq!(load == Load::Listed, listed > TURNS / 16 * 2, "{listed} rows");
    let made = rig.board.stats.templates_made.get();
    assert_eq!(made, if load == Load::Persistent { (TURNS * BURST / 256) as u64 } else { 0 });
    let seen = rig.board.stats.read().since(&before);
    let packets = (TURNS * BURST) as u64;
    match load {
        Load::Hit | Load::Listed => assert_eq!((seen.forwarded, seen.created), (packets, 0)),
        Load::New | Load::Persistent => {
            assert_eq!((seen.forwarded, seen.created), (packets, packets))
        }
        Load::Stray => assert!(seen.received == packets && seen.forwarded == 0, "{seen:?}"),
        Load::Idle => assert_eq!(seen.received, 0),
    }
    if load == Load::Idle { TURNS } else { TURNS * BURST }
}

/// Visits of connections whose time has come: half-open ones end, established ones live on.
fn expire(flags: &str) -> usize {
    let mut rig = Rig::new(ForwarderKind::Dr, 2 * FLOWS);
    rig.open(FLOWS);
    rig.cable.play(packets(FLOWS, flags));
    (0..FLOWS / BURST).for_each(|_| _ = rig.worker.turn(NOW));
    rig.cable.play(Vec::new());
    // The wheel is turned until shortly before.
    (0..2 * TURNS).for_each(|_| _ = rig.worker.turn(Ticks(NOW.0 + HALF_OPEN_MS - 1000)));
    let later = Ticks(NOW.0 + HALF_OPEN_MS);
    rig.cable.step_aside();
    measured(|| (0..TURNS).for_each(|_| _ = rig.worker.turn(later)));
    let seen = rig.board.stats.read();
    assert_eq!(if flags == "S" { seen.ended } else { seen.rearmed }, FLOWS as u64, "{seen:?}");
    FLOWS
}
