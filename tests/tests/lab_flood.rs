//! A flood of spoofed SYNs fills the connection table and goes on: honest clients are served, and
//! memory stays what it was.
use std::process::Child;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, Wrk, wrk};
use tests::program;
use tests::service::{DEVICE, LISTEN, TWO_QUEUES, URL, web};

/// SYNs a second that leave honest clients their part of the machine.
const RATE: u64 = 20_000;
/// As fast as this machine makes them, while nobody else sends.
const FAST: u64 = 150_000;

struct Flood {
    lcores: &'static [usize],
    device: &'static str,
    connections: &'static str,
    /// Keys of `[director]`, or none.
    guard: &'static str,
}

/// Connections held from before the flood live on; a client that keeps its connections and one that
/// opens ever-new ones, while the flood meets a full table, see no failure.
fn honest_clients_are_served(flood: &Flood) {
    story(|lab| {
        let director = format!("connections = \"{}\"\n{}", flood.connections, flood.guard);
        let services = web("wlc", [1; 3]);
        let mut daemon =
            Daemon::in_lab_with(lab, flood.lcores, flood.device, &director, &services)?;
        let held = Held::open(lab, "c2", LISTEN, 100)?;
        let at_first = daemon.memory_kb()?;
        if flood.guard.is_empty() {
            fill(lab, &daemon.ctl)?;
        }
        let filled = daemon.memory_kb()?;
        let mut syns = start(lab, RATE, 7)?;
        let kept = Wrk::start(lab, "c2", URL)?;
        let new = wrk(lab, "c2", URL, 6, true)?;
        ensure!(syns.wait()?.success(), "the flood came");
        let kept = kept.finish()?;
        println!("{}", daemon.ctl.ok("stats")?);
        println!("kept {kept:?}, new {new:?}");
        ensure!(kept.failed + new.failed == 0, "{kept:?} {new:?}");
        ensure!(kept.requests.min(new.requests) > 100, "{kept:?} {new:?}");
        let alive = held.close()?;
        ensure!(alive == 100, "{alive} of 100 held connections live");
        let stats = daemon.ctl.json("stats")?;
        let max = consistent(flood, &stats)?;
        let memory = daemon.memory_kb()?;
        println!("{at_first} kB at first, {filled} kB when full, {memory} kB in the end");
        ensure!(memory < at_first + max * 96 / 1024 + (16 << 10), "more than the table");
        ensure!(!flood.guard.is_empty() || memory < filled + (8 << 10), "it grows");
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        Ok(())
    });
}

fn start(lab: &Lab, rate: u64, seconds: u64) -> anyhow::Result<Child> {
    let mut flood = lab.command("c1", program("lab-flood"));
    flood.args([LISTEN, &rate.to_string(), &seconds.to_string()]);
    flood.spawn().context("lab-flood")
}

/// Half-open entries up to the table's edge; they live for 60 s.
fn fill(lab: &Lab, ctl: &Ctl) -> anyhow::Result<()> {
    for _ in 0..12 {
        ensure!(start(lab, FAST, 3)?.wait()?.success(), "the flood came");
        let memory = &ctl.json("stats")?["memory"];
        if memory["insert_failures"].as_u64() > Some(0) {
            return Ok(());
        }
    }
    bail!("the table does not fill:\n{}", ctl.ok("stats")?)
}

/// The table was full or guarded, never more than full, and `stats` says so: the most entries.
fn consistent(flood: &Flood, stats: &Value) -> anyhow::Result<u64> {
    let of = |what: &str| stats["memory"][what].as_u64().with_context(|| format!("no {what}"));
    let [now, max, peak] = [of("connections")?, of("connections_max")?, of("connections_peak")?];
    ensure!(now <= peak && peak <= max, "{now} of {max}, peak {peak}");
    let untracked = stats["stats"]["totals"]["untracked"].as_u64().unwrap_or(0);
    let [full, guarded, evicted] =
        [of("insert_failures")?, of("flood_guarded")?, of("half_open_evicted")?];
    println!("peak {peak}, full {full}, guarded {guarded}, evicted {evicted}");
    ensure!(untracked > 0 && full + guarded <= untracked, "{untracked} without an entry");
    if flood.guard.is_empty() {
        ensure!(peak * 10 > max * 9 && full > 0, "the table was full: {peak} of {max}");
        ensure!(guarded == 0 && evicted > 10_000, "half-open entries gave way: {evicted}");
    } else {
        ensure!(guarded > 10_000 && full == 0, "the guard was asleep: {guarded}");
    }
    Ok(max)
}

#[test]
fn that_fills_a_small_table_many_times() {
    honest_clients_are_served(&Flood {
        lcores: &[1],
        device: DEVICE,
        connections: "64k",
        guard: "",
    });
}

#[test]
fn that_fills_a_million_entries() {
    honest_clients_are_served(&Flood {
        lcores: &[1],
        device: DEVICE,
        connections: "1M",
        guard: "",
    });
}

#[test]
fn that_fills_a_million_entries_of_two_lcores() {
    honest_clients_are_served(&Flood {
        lcores: &[0, 1],
        device: TWO_QUEUES,
        connections: "1M",
        guard: "",
    });
}

#[test]
fn that_meets_the_guard() {
    honest_clients_are_served(&Flood {
        lcores: &[0, 1],
        device: TWO_QUEUES,
        connections: "1M",
        guard: "flood-guard = 5000\n",
    });
}
