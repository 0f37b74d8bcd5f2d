//! Model checks, under every interleaving, of what the control thread and an lcore share.
//! `RUSTFLAGS="--cfg loom" cargo test -p engine --test loom_mailbox --release`
#![cfg(loom)]

use std::sync::Arc;

use engine::addr::Mac;
use engine::counter::Counter;
use engine::live::{LiveView, LoadView};
use engine::mailbox::{ControlEnd, Event, Held, LcoreEnd, Order, mailbox_of};
use engine::neigh::{HopId, HopTable};
use engine::service::ServiceTable;
use engine::snapshot::{Snapshot, Timeouts};
use engine::stats::{ConnCounts, LcoreBoard};
use loom::thread;

fn snapshot(version: u64) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        version,
        services: ServiceTable::new(std::iter::empty::<Arc<_>>(), 0),
        servers: [].into(),
        limited: Box::default(),
        ports: [].into(),
        locals: [].into(),
        neighbours: [].into(),
        timeouts: Timeouts::default(),
        closed_port_reset: false,
        flood_guard: 0,
    })
}

/// What an lcore does with its mail in one turn.
fn turn(held: &mut Held, mail: &mut LcoreEnd) {
    while held.send_home(&mut mail.events) {
        let Ok(Order::Snapshot(new)) = mail.orders.pop() else { break };
        assert!(new.version > held.snapshot.version, "snapshots come in order");
        held.adopt(new, &mut mail.events);
    }
}

fn come_home(control: &mut ControlEnd, home: &mut Vec<Arc<Snapshot>>) {
    while let Ok(Event::Retired(old)) = control.events.pop() {
        home.push(old);
    }
}

/// Each snapshot handed to an lcore is in a ring, current, or come home: exactly one of them. Rings
/// of one place make both kinds of full happen.
#[test]
fn no_snapshot_is_lost_or_doubled() {
    loom::model(|| {
        let (mut control, mut mail) = mailbox_of(1, 1);
        let lcore = thread::spawn(move || {
            let mut held = Held::new(snapshot(0));
            (0..2).for_each(|_| turn(&mut held, &mut mail));
            (held, mail)
        });
        let (mut home, mut kept) = (Vec::new(), Vec::new());
        for version in 1..=3 {
            if let Err(engine::ring::PushError::Full(Order::Snapshot(refused))) =
                control.orders.push(Order::Snapshot(snapshot(version)))
            {
                kept.push(refused);
            }
            come_home(&mut control, &mut home);
        }
        let (held, mut mail) = lcore.join().unwrap();
        come_home(&mut control, &mut home);
        let in_ring = std::iter::from_fn(|| match mail.orders.pop() {
            Ok(Order::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        });
        let all = held.into_all().chain(in_ring).chain(home).chain(kept);
        let mut versions: Vec<_> = all
            .map(|s| {
                assert_eq!(Arc::strong_count(&s), 1, "it is in one place");
                s.version
            })
            .collect();
        versions.sort_unstable();
        assert_eq!(versions, [0, 1, 2, 3]);
    });
}

/// What the control thread wrote before it published is seen by an lcore that uses the snapshot.
#[test]
fn a_server_drained_before_a_snapshot_is_drained_with_it() {
    loom::model(|| {
        let live = Arc::new(LiveView::new(1));
        live.set_weight(0, 5, 0);
        let (mut control, mut mail) = mailbox_of(1, 1);
        let view = Arc::clone(&live);
        let lcore = thread::spawn(move || {
            let mut held = Held::new(snapshot(0));
            turn(&mut held, &mut mail);
            (held.snapshot.version, view.weight(0))
        });
        live.set_weight(0, 0, 0);
        control.orders.push(Order::Snapshot(snapshot(1))).unwrap();
        let seen = lcore.join().unwrap();
        assert!(matches!(seen, (0, 0 | 5) | (1, 0)), "{seen:?}");
    });
}

/// A reader who asks for the new generation finds none of the old one's connections.
#[test]
fn counts_belong_to_their_generation() {
    loom::model(|| {
        let board = Arc::new(LcoreBoard::new(1, 1));
        board.change(0, 0, 0, 3, 4);
        let written = Arc::clone(&board);
        let lcore = thread::spawn(move || {
            written.change(0, 0, 0, 1, 0);
            written.change(0, 1, 1, 1, 0);
            written.change(0, 1, 1, -1, 1);
        });
        let ConnCounts { active, inactive } = board.servers[0].counts(1);
        assert!(active <= 1 && inactive <= 1, "{active} and {inactive} are the old generation's");
        lcore.join().unwrap();
        assert_eq!(board.servers[0].counts(1), ConnCounts { active: 0, inactive: 1 });
        assert_eq!(board.servers[0].counts(0), ConnCounts::default());
    });
}

#[test]
fn a_counter_only_grows() {
    loom::model(|| {
        let counter = Arc::new(Counter::default());
        let written = Arc::clone(&counter);
        let lcore = thread::spawn(move || {
            written.add(1);
            written.add(2);
        });
        let (first, second) = (counter.get(), counter.get());
        assert!([0, 1, 3].contains(&first) && [0, 1, 3].contains(&second) && first <= second);
        lcore.join().unwrap();
        assert_eq!(counter.get(), 3);
    });
}

/// A hop's port and hardware address are one word: never one hop's port with another's address.
#[test]
fn a_hop_is_seen_whole() {
    loom::model(|| {
        let hops = Arc::new(HopTable::new(1));
        let written = Arc::clone(&hops);
        let control = thread::spawn(move || {
            written.set(HopId(0), 1, Some(Mac([1; 6])));
            written.set(HopId(0), 2, None);
            written.set(HopId(0), 3, Some(Mac([3; 6])));
        });
        let hop = hops.hop(HopId(0));
        let seen = (hop.is_reachable(), hop.port(), hop.mac().0[0], hop.mac().0[5]);
        assert!(
            [(false, 0, 0, 0), (true, 1, 1, 1), (false, 2, 0, 0), (true, 3, 3, 3)].contains(&seen),
            "{seen:?}"
        );
        control.join().unwrap();
    });
}

/// Own counts are the lcore's own and exact; the others' are the view's, old or new.
#[test]
fn a_load_is_own_plus_others() {
    loom::model(|| {
        let live = Arc::new(LiveView::new(1));
        let told = Arc::clone(&live);
        let control = thread::spawn(move || {
            told.set_others(0, ConnCounts { active: 7, inactive: 0 });
            told.set_weight(0, 1, 1);
        });
        let board = LcoreBoard::new(1, 1);
        board.change(0, 0, 0, 3, 0);
        let active = LoadView::new(&live, &board).counts(0).active;
        assert!([3, 10, 0, 7].contains(&active), "{active}");
        control.join().unwrap();
        assert_eq!(LoadView::new(&live, &board).counts(0).active, 7, "own counts are purged");
    });
}

/// After a look that says it was complete, a reader knows of every change whose note it has seen,
/// and no note is left out: what is missing is said to be.
#[test]
fn a_log_of_changes_hides_nothing() {
    loom::model(|| {
        // Two places: the writer overwrites them while they are read.
        let board = Arc::new(LcoreBoard::new(4, 1));
        let written = Arc::clone(&board);
        let lcore = thread::spawn(move || (1..4).for_each(|slot| written.change(slot, 0, 0, 1, 0)));
        let (mut read, mut known) = (0, [0; 4]);
        look(&board, &mut read, &mut known);
        lcore.join().unwrap();
        look(&board, &mut read, &mut known);
        assert_eq!(known, [0, 1, 1, 1]);
    });
}

fn look(board: &LcoreBoard, read: &mut u64, known: &mut [u32; 4]) {
    let mut look = |slot: u32| known[slot as usize] = board.servers[slot as usize].counts(0).active;
    if !board.changes.since(read, &mut look) {
        (0..4).for_each(look);
    }
}
