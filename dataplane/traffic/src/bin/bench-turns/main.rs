//! How long a turn takes at worst, and what a list of connections and statistics cost forwarding.
//!
//! ```text
//!  source ─┬─► the daemon's worker, 1 M connections ─► sink        (the lcore's core)
//!  source ─┘       ▲ orders      │ events, counters
//!                  │             ▼
//!              the daemon's control thread ◄─ connections --all, stats, over and over (main core)
//! ```
//! *Turns* are measured one by one in CPU time of the thread: what the kernel gave to others does
//! not count, what it did in the thread's name (interrupts) does. Two readings of that clock are in
//! every figure, some 0.3 µs.
//!
//! *Cost* is the cycles per packet with people at the director over those without, in pairs right
//! after one another whose order alternates; the median, and the bound that it exceeds with a
//! probability of 5 % at most.

mod director;
mod paired;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use dpdk::{Clock, Eal, EalSettings, LogLevel, Mempool, PoolSize, Socket};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::json;
use traffic::cost::{Sample, cpu_time};
use traffic::signals::Signals;
use traffic::source::{Others, Source};

use crate::director::{Director, HALF_OPEN_MS, People, Seed, TARGET};

/// Flows, as a power of two: the table's million.
const MILLION: u32 = 20;
/// Known flows beside a storm.
const SOME: u32 = 16;
/// The longest turn but one in a thousand, in µs.
const TURN_US: f64 = 100.0;
/// What people may cost.
const COST: f64 = 0.05;

/// CPU time of turns at worst, and what people at the director cost forwarding.
///
/// Turns: known flows in one port, new ones in the other, a million half-open connections that all
/// expire at once, and a list of connections that goes on for ever; then the list alone. Cost:
/// segments of known flows in random order, with and without `connections --all` and `stats` in
/// loops.
#[derive(Parser)]
#[command(name = "bench-turns")]
struct Args {
    /// Pairs, and storms.
    #[arg(long, default_value_t = 15)]
    runs: u32,
    /// CPU seconds of each half of a pair.
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

/// One line of the result.
struct Line {
    what: String,
    figures: Vec<(&'static str, f64)>,
    /// What is held against the bar, and the bar.
    bar: (f64, f64),
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !(0.01..=10.0).contains(&args.seconds) || (args.runs as usize) < paired::FEWEST {
        bail!("--seconds wants 0.01 to 10, --runs at least {}", paired::FEWEST);
    }
    let (main_core, core) = cores()?;
    ensure!(main_core != core, "people need a core beside the lcore's");
    // DPDK's threads inherit that they are blocked.
    let signals = Signals::block()?;
    let eal = Eal::start(&EalSettings {
        memory_mb: 64,
        log_level: LogLevel::Error,
        ..EalSettings::default()
    })?;
    signals.end_with(eal.run_dir());
    eprintln!("{}", eal.memory());
    let size = PoolSize { frames: 4095, ..PoolSize::default() };
    let pool = Mempool::new(&eal, "bench", size, Socket(None))?;
    let clock = Clock::new(&eal);
    let mut lines = Vec::new();
    let storm = |d: &mut Director, people: &People, args: &Args| turns(d, people, args);
    lines.extend(on_lcore(&eal, (main_core, core), &pool, clock, &args, SOME, storm)?);
    for bits in [10, MILLION] {
        let pairs = move |d: &mut Director, people: &People, args: &Args| {
            cost(d, people, args, bits).map(|line| vec![line])
        };
        lines.extend(on_lcore(&eal, (main_core, core), &pool, clock, &args, bits, pairs)?);
    }
    lines.iter().for_each(|line| print(line, args.json));
    Ok(())
}

/// A director on its core, people on the main core, and `work` with both: the first port has 2^`bits`
/// known flows, the second one opens a million.
fn on_lcore(
    eal: &Eal,
    (main_core, core): (usize, usize),
    pool: &Mempool,
    clock: Clock,
    args: &Args,
    bits: u32,
    work: impl Fn(&mut Director, &People, &Args) -> Result<Vec<Line>> + Send + 'static,
) -> Result<Vec<Line>> {
    let mut only = CpuSet::new();
    only.set(main_core)?;
    // Threads inherit it: nobody but the worker runs on the lcore's core.
    sched_setaffinity(Pid::from_raw(0), &only)?;
    let (seed, office) = director::open(clock)?;
    let mut all = CpuSet::new();
    [main_core, core].iter().try_for_each(|c| all.set(*c))?;
    sched_setaffinity(Pid::from_raw(0), &all)?;
    let (people, pool) = (std::sync::Arc::clone(&office.people), pool.clone());
    let args = Args { json: args.json, ..*args };
    let on_it = move || {
        let mut director = settled(seed, &pool, clock, bits)?;
        work(&mut director, &people, &args)
    };
    let lcore = dpdk::spawn_lcore(eal, core, "bench", on_it)?;
    let lines = lcore.join().map_err(|_| anyhow!("the lcore panicked"))?;
    office.close();
    lines
}

/// A million connections, those of the first port established.
fn settled(seed: Seed, pool: &Mempool, clock: Clock, bits: u32) -> Result<Director> {
    let sources = [
        Source::of_known_flows(pool.clone(), TARGET, bits, &Others::default()),
        Source::of_new_flows(pool.clone(), TARGET),
    ];
    let mut director = Director::new(seed, pool, clock, sources)?;
    director.let_in(false, true);
    director.receive(1 << MILLION)?;
    director.let_in(true, false);
    director.receive(4 << bits)?;
    let entries = director.board.stats.entries.get();
    ensure!(entries > (1 << MILLION) / 10_000 * 9_999, "{entries} entries");
    Ok(director)
}

/// Storms until there were as many as runs, then the list alone.
fn turns(director: &mut Director, people: &People, args: &Args) -> Result<Vec<Line>> {
    let (mut storm, mut alone) = (Vec::new(), Vec::new());
    for run in 1..=args.runs {
        eprintln!("storm {run} of {}", args.runs);
        director.let_in(false, true);
        while director.board.stats.entries.get() < 1 << MILLION {
            director.turn();
        }
        people.there.store(true, Ordering::Relaxed);
        director.let_in(true, true);
        director.ahead += HALF_OPEN_MS;
        let end = director.board.stats.ended.get() + (1 << MILLION) / 10 * 9;
        while director.board.stats.ended.get() < end {
            storm.push(timed(director));
        }
        director.let_in(false, false);
        let rows = people.rows.load(Ordering::Relaxed);
        while people.rows.load(Ordering::Relaxed) < rows + 100_000 {
            let before = director.board.stats.busy_turns.get();
            let took = timed(director);
            // Turns that list, not those that wait for the control thread.
            if director.board.stats.busy_turns.get() > before {
                alone.push(took);
            }
        }
        people.there.store(false, Ordering::Relaxed);
    }
    let what = "turn: hits, new flows, 1 M expire, list".to_owned();
    Ok(vec![quantiles(what, storm), quantiles("turn: list alone".to_owned(), alone)])
}

/// CPU time of one turn.
fn timed(director: &mut Director) -> Duration {
    let began = cpu_time();
    director.turn();
    cpu_time().saturating_sub(began)
}

fn quantiles(what: String, mut turns: Vec<Duration>) -> Line {
    turns.sort_unstable();
    let at = |per_mille: usize| {
        let rank = (turns.len() * per_mille).div_ceil(1000).max(1) - 1;
        turns.get(rank).map_or(f64::NAN, |t| t.as_secs_f64() * 1e6)
    };
    #[allow(clippy::cast_precision_loss, reason = "millions")]
    let count = turns.len() as f64;
    let figures = vec![
        ("turns", count),
        ("p50_us", at(500)),
        ("p99_us", at(990)),
        ("p999_us", at(999)),
        ("max_us", at(1000)),
    ];
    Line { what, figures, bar: (at(999), TURN_US) }
}

/// Pairs of measurements without and with people.
fn cost(director: &mut Director, people: &People, args: &Args, bits: u32) -> Result<Line> {
    let limit = Duration::from_secs_f64(args.seconds);
    let mut measure = |there: bool| {
        people.there.store(there, Ordering::Relaxed);
        Sample::take(limit / 5, || director.turn());
        let before = director.board.stats.read();
        let sample = Sample::take(limit, || director.turn());
        let seen = director.board.stats.read().since(&before);
        ensure!(seen.forwarded == seen.received && seen.created == 0, "not only hits: {seen:?}");
        Ok(sample.time.as_secs_f64() / f64::from(u32::try_from(sample.packets)?))
    };
    let counts =
        || (people.rows.load(Ordering::Relaxed), people.statistics.load(Ordering::Relaxed));
    let before = counts();
    let mut ratios = Vec::new();
    for run in 1..=args.runs {
        eprintln!("pair {run} of {}", args.runs);
        let first = run % 2 == 0;
        let (a, b) = (measure(first)?, measure(!first)?);
        ratios.push(if first { a / b } else { b / a } - 1.0);
    }
    people.there.store(false, Ordering::Relaxed);
    let after = counts();
    let (rows, statistics) = (after.0 - before.0, after.1 - before.1);
    let incomplete = people.incomplete.load(Ordering::Relaxed);
    ensure!(rows > 0 && statistics > 0 && incomplete == 0, "{rows}, {statistics}, {incomplete}");
    let (median, bound) = paired::median_and_bound(&ratios);
    #[allow(clippy::cast_precision_loss, reason = "millions")]
    let figures = vec![
        ("median_percent", median * 100.0),
        ("bound_percent", bound * 100.0),
        ("rows", rows as f64),
        ("statistics", statistics as f64),
    ];
    let what = format!("list and stats beside hits of {} flows", 1 << bits);
    Ok(Line { what, figures, bar: (bound, COST) })
}

fn print(line: &Line, json: bool) {
    let met = line.bar.0 <= line.bar.1;
    if json {
        let figures: serde_json::Map<_, _> =
            line.figures.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
        println!("{}", json!({ "case": line.what, "met": met, "figures": figures }));
        return;
    }
    let figures: Vec<_> = line.figures.iter().map(|(name, n)| format!("{name} {n:.1}")).collect();
    println!("{:<46} {}  {}", line.what, figures.join("  "), if met { "met" } else { "NOT MET" });
}

/// The first and the last core that this process may use.
fn cores() -> Result<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut own = (0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false));
    let first = own.next().context("no core")?;
    Ok((first, own.next_back().unwrap_or(first)))
}
