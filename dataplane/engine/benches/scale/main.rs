//! What several lcores cost each other: packets that arrive anywhere and go on from their owner.
//!
//! Every lcore receives segments of all flows, so (n - 1) / n of them are handed over. `in turn`: all
//! lcores in one thread, one turn each: what the work alone costs. `threads`: each in its own, as far
//! as there are cores; there the lines that move between cores come in. Nanoseconds of CPU time per
//! packet, median of seven runs; `lost` are packets that met a full ring of an owner that did not run.
//! `view.rs` adds what each lcore pays for the loads of the others. `--json`: an object per line.

#[path = "../rig/mod.rs"]
#[allow(dead_code, reason = "another benchmark uses the rest")]
mod rig;
mod view;

use std::sync::Barrier;
use std::{array, fs, thread};

use engine::forward::ForwarderKind;
use engine::frame::BURST;
use engine::owner::Peers;
use engine::sched::Who;
use engine::stats::LcoreTotals;
use engine::testkit::HeapFrame;
use serde_json::json;

use crate::rig::{NOW, Rig, packets};

const FLOWS: usize = 1 << 10;
/// Turns of each lcore in one run.
const TURNS: usize = 4096;
const RUNS: usize = 7;
/// Per cent of packets lost beyond which the lcores did not work together: the cores are not free.
const MOST_LOST: f64 = 5.0;

/// CPU time of this thread and what its lcores did meanwhile.
type Seen = (u64, LcoreTotals);

fn main() {
    let json = std::env::args().any(|a| a == "--json");
    if !json {
        println!("{:<18} {:>12} {:>12} {:>8}", "lcores", "ns a packet", "handed over", "lost");
    }
    for lcores in [1, 2, 4, 8, 16] {
        print(json, "in turn", lcores, array::from_fn(|_| in_turn(lcores)));
    }
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    for lcores in (2..=16).filter(|n| usize::from(*n) <= cores) {
        print(json, "threads", lcores, array::from_fn(|_| in_threads(lcores)));
    }
    if !json {
        println!("\n{:<18} {:>12} {:>18}", "lcores", "servers", "ns a new connection");
    }
    for servers in [8, 1_000, 10_000] {
        for lcores in [1, 4, 16, 64] {
            let ns = view::ns_a_connection(lcores, servers);
            if json {
                let case = format!("view-{lcores}-{servers}");
                println!("{}", json!({"case": case, "ns_per_connection": ns}));
            } else {
                println!("{lcores:>3} {:<14} {servers:>12} {ns:>18.1}", "view");
            }
        }
    }
}

fn print(json: bool, how: &str, lcores: u16, runs: [Vec<Seen>; RUNS]) {
    let mut figures = runs.map(|run| {
        let sum = |of: fn(&LcoreTotals) -> u64| run.iter().map(|(_, t)| of(t)).sum::<u64>() as f64;
        let ns = run.iter().map(|(ns, _)| ns).sum::<u64>() as f64;
        let forwarded = sum(|t| t.forwarded);
        let lost = sum(|t| t.drops.iter().sum());
        (ns / forwarded, sum(|t| t.taken_over) / forwarded, lost / sum(|t| t.received))
    });
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ns, handed, lost) = figures[RUNS / 2];
    let (handed, lost) = (handed * 100.0, lost * 100.0);
    if json {
        let case = format!("hand-over-{}-{lcores}", how.replace(' ', "-"));
        let together = lost <= MOST_LOST;
        let row = json!({"case": case, "ns_per_packet": together.then_some(ns),
            "handed_over_percent": handed, "lost_percent": lost});
        println!("{row}");
        return;
    }
    if lost > MOST_LOST {
        println!("{lcores:>3} {how:<14} no figure, {lost:.0} % lost: they did not run at one time");
        return;
    }
    println!("{lcores:>3} {how:<14} {ns:>12.1} {handed:>10.0} % {lost:>6.1} %");
}

fn in_turn(lcores: u16) -> Vec<Seen> {
    let team = Peers::connect(lcores).into_iter().zip(0..);
    let mut team: Vec<_> = team.map(|(peers, lcore)| member(peers, lcore, lcores)).collect();
    open(|| team.iter_mut().for_each(|rig| _ = rig.worker.turn(NOW)));
    team.iter().for_each(|rig| rig.cable.play(packets(FLOWS, "A")));
    let before: Vec<_> = team.iter().map(|rig| rig.board.stats.read()).collect();
    let began = cpu_ns();
    (0..TURNS).for_each(|_| team.iter_mut().for_each(|rig| _ = rig.worker.turn(NOW)));
    let ns = (cpu_ns() - began) / u64::from(lcores);
    team.iter().zip(before).map(|(rig, b)| (ns, rig.board.stats.read().since(&b))).collect()
}

fn in_threads(lcores: u16) -> Vec<Seen> {
    let together = Barrier::new(lcores.into());
    let work = |peers, lcore| {
        let mut rig = member(peers, lcore, lcores);
        open(|| {
            rig.worker.turn(NOW);
            together.wait();
        });
        rig.cable.play(packets(FLOWS, "A"));
        let before = rig.board.stats.read();
        together.wait();
        let began = cpu_ns();
        (0..TURNS).for_each(|_| _ = rig.worker.turn(NOW));
        let ns = cpu_ns() - began;
        (ns, rig.board.stats.read().since(&before))
    };
    thread::scope(|scope| {
        let team = Peers::connect(lcores).into_iter().zip(0..);
        let team: Vec<_> = team.map(|(p, n)| scope.spawn(move || work(p, n))).collect();
        team.into_iter().map(|lcore| lcore.join().expect("no panic")).collect()
    })
}

fn member(peers: Peers<HeapFrame>, lcore: u16, lcores: u16) -> Rig {
    let rig = Rig::beside(ForwarderKind::Dr, 2 * FLOWS, Who { lcore, lcores }, peers);
    rig.cable.play(packets(FLOWS, "S"));
    rig
}

/// Every flow once, and some turns more for what is handed over last.
fn open(turn: impl FnMut()) {
    std::iter::repeat_with(turn).take(2 * FLOWS / BURST).for_each(|()| ());
}

/// CPU time of this thread: the first number of its schedstat.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}
