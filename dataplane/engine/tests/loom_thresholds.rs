//! Model check, under every interleaving, of the count that all lcores share of a server with
//! thresholds. `RUSTFLAGS="--cfg loom" cargo test -p engine --test loom_thresholds --release`
#![cfg(loom)]

use std::sync::Arc;

use engine::thresholds::{Occupancies, Thresholds};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

const ONE: Thresholds = Thresholds { upper: 1, lower: 0 };

/// Two lcores want the only place at once: one gets it, and once it is given back nothing is left.
#[test]
fn a_limit_of_one_is_one() {
    loom::model(|| {
        let all = Arc::new(Occupancies::new(1));
        let inside = Arc::new(AtomicU32::new(0));
        let lcore = |all: Arc<Occupancies>, inside: Arc<AtomicU32>| {
            let entered = all.enter(0, 0, ONE, true);
            if entered {
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two at once");
                all.establish(0, 0, ONE);
                inside.fetch_sub(1, Ordering::Relaxed);
                all.leave(0, 0, ONE, false);
            }
            entered
        };
        let other = thread::spawn({
            let (all, inside) = (Arc::clone(&all), Arc::clone(&inside));
            move || lcore(all, inside)
        });
        let first = lcore(Arc::clone(&all), inside);
        assert!(first | other.join().unwrap(), "somebody gets the place");
        let left = all.read(0);
        assert_eq!((left.conns, left.half_open, left.full), (0, 0, false));
    });
}

/// Whoever sees that a server has become full sees it full.
#[test]
fn what_is_told_can_be_seen() {
    loom::model(|| {
        let all = Arc::new(Occupancies::new(1));
        let other = thread::spawn({
            let all = Arc::clone(&all);
            move || assert!(all.enter(0, 0, ONE, false))
        });
        if all.flips() == 1 {
            assert!(!all.is_eligible(0, 0));
        }
        other.join().unwrap();
        assert_eq!((all.flips(), all.is_eligible(0, 0)), (1, false));
    });
}

/// One lcore has seen a purge, the other has not yet: what the old life counts never shows in the
/// new one.
#[test]
fn a_purge_leaves_nothing_of_the_old_life() {
    loom::model(|| {
        let all = Arc::new(Occupancies::new(1));
        assert!(all.enter(0, 0, ONE, false));
        let behind = thread::spawn({
            let all = Arc::clone(&all);
            move || {
                all.leave(0, 0, ONE, false);
                let _ = all.enter(0, 0, ONE, false);
            }
        });
        assert!(all.enter(0, 1, ONE, false), "the new life is empty");
        behind.join().unwrap();
        let now = all.read(0);
        assert_eq!((now.generation, now.conns, now.full), (1, 1, true));
        all.leave(0, 1, ONE, false);
        assert_eq!(all.read(0).conns, 0);
    });
}
