//! The law: each snapshot is in a ring, current at an lcore, or home; and it is dropped at home.

use std::sync::Arc;

use engine::mailbox::{ControlEnd, Event, LcoreEnd, Order, mailbox};
use engine::service::ServiceTable;
use engine::snapshot::{Snapshot, Timeouts};
use proptest::prelude::*;

use super::Publisher;

fn snapshot(version: u64) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        version,
        services: ServiceTable::new(std::iter::empty(), 0),
        servers: Box::default(),
        limited: Box::default(),
        ports: Box::default(),
        locals: Box::default(),
        neighbours: Box::default(),
        timeouts: Timeouts::default(),
        closed_port_reset: true,
        flood_guard: 0,
    })
}

/// An lcore that takes its mail when told to.
struct Lcore {
    end: LcoreEnd,
    current: Arc<Snapshot>,
}

impl Lcore {
    fn turn(&mut self) {
        while let Ok(order) = self.end.orders.pop() {
            let Order::Snapshot(newer) = order else { continue };
            assert!(newer.version > self.current.version, "never back in time");
            let old = std::mem::replace(&mut self.current, newer);
            assert!(Arc::strong_count(&old) >= 2, "an lcore would free this one");
            self.end.events.push(Event::Retired(old)).unwrap();
        }
    }
}

fn collect(publisher: &mut Publisher, end: &mut ControlEnd) {
    while let Ok(event) = end.events.pop() {
        if let Event::Retired(old) = event {
            publisher.home(&old);
        }
    }
}

proptest! {
    #[test]
    fn every_snapshot_comes_home(steps in prop::collection::vec((0..4_u8, 0..3_usize), 1..200)) {
        let first = snapshot(1);
        let mut publisher = Publisher::new(Arc::clone(&first), 3);
        let (mut ends, mut lcores): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (control, end) = mailbox();
                (control, Lcore { end, current: Arc::clone(&first) })
            })
            .unzip();
        drop(first);
        let mut made = vec![Arc::downgrade(publisher.current())];
        for (what, lcore) in steps {
            match what {
                0 => {
                    let next = snapshot(made.len() as u64 + 1);
                    made.push(Arc::downgrade(&next));
                    publisher.publish(next);
                }
                1 => { publisher.give(lcore, &mut ends[lcore]); }
                2 => lcores[lcore].turn(),
                _ => collect(&mut publisher, &mut ends[lcore]),
            }
            let newest = publisher.current().version;
            let given = publisher.kept.iter().any(|k| k.snapshot.version == newest);
            let alive = made.iter().filter(|m| m.strong_count() > 0).count();
            prop_assert_eq!(alive, publisher.outstanding() + usize::from(!given));
        }
        for lcore in 0..3 {
            publisher.give(lcore, &mut ends[lcore]);
            lcores[lcore].turn();
            collect(&mut publisher, &mut ends[lcore]);
            prop_assert_eq!(lcores[lcore].current.version, made.len() as u64);
        }
        prop_assert_eq!(publisher.outstanding(), 1);
        let alive = made.iter().filter(|m| m.strong_count() > 0).count();
        prop_assert_eq!(alive, 1, "only the newest lives");
    }
}

#[test]
fn a_full_ring_delays_and_then_gets_the_newest_alone() {
    let first = snapshot(1);
    let mut publisher = Publisher::new(Arc::clone(&first), 1);
    let (mut control, end) = mailbox();
    let mut lcore = Lcore { end, current: first };
    while control.orders.push(Order::Query(Default::default())).is_ok() {}
    publisher.publish(snapshot(2));
    assert!(!publisher.give(0, &mut control));
    publisher.publish(snapshot(3));
    lcore.turn();
    assert!(publisher.give(0, &mut control));
    assert!(!publisher.give(0, &mut control), "once is enough");
    lcore.turn();
    collect(&mut publisher, &mut control);
    assert_eq!(lcore.current.version, 3);
    assert_eq!(publisher.outstanding(), 1);
}
