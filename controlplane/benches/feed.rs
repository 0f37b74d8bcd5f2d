//! What the control thread pays per tick to tell each lcore what the others have.
//!
//! Microseconds of CPU time a tick, the median of all ticks of a case, and what that is of a core
//! at a tick a millisecond. `changes` are connections that each lcore began or ended since the last
//! tick, anywhere among the slots. One thread plays all parts, so lines that come from another
//! core's cache are not in it. `--json`: a row a line.

use std::sync::Arc;

use controlplane::feed::Feeder;
use controlplane::slots::{Slot, Use};
use engine::live::LiveView;
use engine::server::Orphans;
use engine::stats::LcoreBoard;
use nix::time::{ClockId, clock_gettime};
use serde_json::json;

const TICKS: usize = 501;

fn main() {
    let json = std::env::args().any(|a| a == "--json");
    if !json {
        println!(
            "{:>6} {:>7} {:>8} {:>10} {:>8}",
            "lcores", "slots", "changes", "us a tick", "core"
        );
    }
    for lcores in [1, 4, 16] {
        for slots in [8, 1_000, 10_000] {
            for changes in [0, 10, 100, 1_000] {
                let us = Case::new(lcores, slots).us_a_tick(changes);
                print(json, lcores, slots, changes, us);
            }
        }
    }
}

fn print(json: bool, lcores: usize, slots: usize, changes: usize, us: f64) {
    let core = us / 10.0;
    if json {
        let what = format!("feed-{lcores}-{slots}-{changes}");
        println!("{}", json!({"case": what, "us_per_tick": us, "core_percent": core}));
    } else {
        println!("{lcores:>6} {slots:>7} {changes:>8} {us:>10.2} {core:>6.2} %");
    }
}

struct Case {
    boards: Vec<Arc<LcoreBoard>>,
    slots: Vec<Slot>,
    feeder: Feeder,
    dice: u32,
}

impl Case {
    fn new(lcores: usize, slots: usize) -> Self {
        let boards: Vec<_> = (0..lcores).map(|_| Arc::new(LcoreBoard::new(slots, 1))).collect();
        let member = Slot {
            generation: 0,
            service: 0,
            spec: None,
            usage: Use::Member,
            orphans: Orphans::default(),
        };
        let view = |b: &Arc<_>| (Arc::clone(b), Arc::new(LiveView::new(slots)));
        let mut feeder = Feeder::new(boards.iter().map(view));
        let slots = vec![member; slots];
        feeder.tick(1, &slots);
        Self { boards, slots, feeder, dice: 1 }
    }

    fn us_a_tick(mut self, changes: usize) -> f64 {
        let mut ticks = [(); TICKS].map(|()| {
            self.change(changes);
            let began = cpu_ns();
            self.feeder.tick(1, &self.slots);
            cpu_ns() - began
        });
        ticks.sort_unstable();
        ticks[TICKS / 2] as f64 / 1000.0
    }

    /// Each lcore counts so many connections more.
    fn change(&mut self, changes: usize) {
        for board in &self.boards {
            for _ in 0..changes {
                self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let slot = (self.dice >> 8) % self.slots.len() as u32;
                board.change(slot, 0, 0, 1, 0);
            }
        }
    }
}

/// CPU time of this thread.
fn cpu_ns() -> i64 {
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux");
    t.tv_sec() * 1_000_000_000 + t.tv_nsec()
}
