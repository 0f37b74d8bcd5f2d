//! Cycles per packet of the daemon's worker, beside what no director can be faster than.
//!
//! A figure without that of `5tswap` from the same run says nothing: machines differ. One run, on a
//! virtual Sapphire Rapids (2.6 GHz, L2 2 MiB, DPDK 22.11, hugepages), medians of 7:
//!
//! ```text
//!  macswap 27   5tswap 31   testpmd: macswap 42, 5tswap 56 (ours on its device: 48)
//!
//!           hit 1 k  hit 64 k  hit 1 M  new, 1 k alive  new, 1 M alive
//!  DR            93       110      153             298             394
//!  IPIP         106         –      164             316             408
//! ```

mod bar;
mod capture;
mod director;
mod expiry;
mod floor;
mod group;
mod matrix;
mod readiness;
mod report;
mod setup;
mod testpmd;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use dpdk::{
    Clock, Device, Eal, EalSettings, Hugepages, LogLevel, Memory, Mempool, PoolSize, PortBuilder,
    RxHandle, Socket, TxHandle,
};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traffic::signals::Signals;

use crate::capture::Capture;
use crate::group::{Figures, Place};
use crate::readiness::Readiness;
use crate::report::Row;

/// Cycles per packet (CPU time × TSC rate ÷ packets) of the director's worker, in process.
///
/// Cases: FORWARDER-v4-LOAD and, where it matters, -FLOWS -SERVERS -SERVICES, as in
/// dr-v4-hit-1k-10kservices. LOAD: hit, segments of FLOWS known flows in random order; new, SYNs of
/// new flows, of which 1 M or FLOWS are alive, so that as many expire; expire, hits of FLOWS known
/// flows while others come due at a million per second of CPU time. FLOWS: 1 1k 64k 1M 16M. SERVERS:
/// 3servers 100servers 1000servers (else 8). SERVICES: 10kservices (else 1; not with 1000servers).
/// Without --only, those that have a bar. Besides the floors source-sink, macswap, 5tswap on the
/// same queues, dpdk-testpmd's own, our 5tswap on testpmd's device (pcap-5tswap), and table-16M: when a table for so many connections is ready.
///
/// Each case has a process of its own, in which rounds of the floor, of the case that its bar
/// compares it with and of itself follow each other: noise falls on all alike, ratios are made round
/// by round, and no more tables exist than one comparison needs.
#[derive(Parser)]
#[command(name = "bench-dataplane")]
struct Args {
    /// Only cases whose name is one of these words, or contains one that is no case's name.
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    only: Vec<String>,
    /// CPU seconds per case and run.
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 7)]
    runs: u32,
    /// One JSON object per case and line.
    #[arg(long)]
    json: bool,
    /// The core to measure on; by default the last that this process may use.
    #[arg(long)]
    core: Option<usize>,
    /// Plain memory. Slower, and not comparable.
    #[arg(long)]
    no_huge: bool,
    /// Measure this group and say what came of it to the parent.
    #[arg(long, hide = true)]
    group: Option<String>,
}

/// What the process of a group says.
#[derive(Serialize, Deserialize)]
enum Said {
    Figures(Vec<Figures>, Value),
    Table(Readiness),
}

/// Bytes that must be left over when tables were made.
const RESERVE: u64 = 512 << 20;

fn main() -> Result<()> {
    let args = Args::parse();
    if !(0.001..=60.0).contains(&args.seconds) || args.runs == 0 {
        bail!("--seconds wants 0.001 to 60, --runs at least 1");
    }
    if let Some(group) = &args.group {
        prctl::set_pdeathsig(Signal::SIGTERM).context("set_pdeathsig")?;
        println!("{}", serde_json::to_string(&measure(&args, group)?)?);
        return Ok(());
    }
    let groups = matrix::groups(&args.only)?;
    if !args.json {
        report::head();
    }
    for (group, bytes) in groups {
        if has_room(bytes) {
            print(ask(&args, &group).with_context(|| group.clone())?, &args);
        } else {
            eprintln!("{group}: skipped, no memory for tables of {} MB", bytes >> 20);
        }
    }
    Ok(())
}

/// Lets a process of its own measure a group.
fn ask(args: &Args, group: &str) -> Result<Said> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["--group", group, "--seconds", &args.seconds.to_string()]);
    child.args(["--runs", &args.runs.to_string()]);
    child.args(args.core.iter().flat_map(|core| ["--core".to_owned(), core.to_string()]));
    child.args(args.no_huge.then_some("--no-huge"));
    let output = child.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{}", output.status);
    // DPDK may have said something before.
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(said.lines().last().unwrap_or_default())?)
}

fn print(said: Said, args: &Args) {
    match said {
        Said::Figures(all, config) => {
            let wanted = |figures: &Figures| {
                let name = &figures.case;
                args.only.is_empty() || args.only.iter().any(|word| name.contains(word.as_str()))
            };
            let wanted = all.into_iter().filter(wanted);
            wanted.for_each(|figures| Row::new(figures, &config).print(args.json));
        }
        Said::Table(readiness) if args.json => {
            println!("{}", serde_json::to_string(&readiness).expect("numbers and strings"));
        }
        Said::Table(readiness) => println!("{}", readiness.line()),
    }
}

/// Measures a group, in this process.
fn measure(args: &Args, group: &str) -> Result<Said> {
    if group == matrix::TABLE {
        return readiness::measure().map(Said::Table);
    }
    let (main_core, last) = cores()?;
    let core = args.core.unwrap_or(last);
    // DPDK's threads inherit that they are blocked.
    let signals = Signals::block()?;
    let eal = Eal::start(&EalSettings {
        hugepages: if args.no_huge { Hugepages::No } else { Hugepages::Auto },
        memory_mb: 64,
        log_level: LogLevel::Error,
        ..EalSettings::default()
    })?;
    signals.end_with(eal.run_dir());
    let huge = !matches!(eal.memory(), Memory::Plain { .. });
    if !huge {
        eprintln!("WARNING: {}; figures are not comparable", eal.memory());
    }
    let size = PoolSize { frames: 4095, ..PoolSize::default() };
    let pool = Mempool::new(&eal, "bench", size, Socket(None))?;
    let replay = (group == matrix::FLOOR_GROUP).then(|| replay(&eal)).transpose()?;
    let place = Place { pool, replay, clock: Clock::new(&eal), main_core, core, huge };
    let config = json!({
        "scheduler": "wlc", "burst": 32,
        "frame_bytes": traffic::template::LEN, "memory": eal.memory().to_string(),
        "dpdk": eal.version(), "tsc_hz": place.clock.hz(), "core": core,
        "runs": args.runs, "seconds": args.seconds,
    });
    let (group, limit, runs) = (group.to_owned(), Duration::from_secs_f64(args.seconds), args.runs);
    let work = move || group::measure(place, &group, limit, runs);
    let lcore = dpdk::spawn_lcore(&eal, core, "bench", work)?;
    let figures = lcore.join().map_err(|_| anyhow!("the lcore panicked"))??;
    Ok(Said::Figures(figures, config))
}

/// The device that `dpdk-testpmd` is measured on, for ourselves.
fn replay(eal: &Eal) -> Result<(RxHandle, TxHandle)> {
    let capture = Capture::new()?;
    let device = Device::parse(&capture.device())?;
    eal.add(&device)?;
    let size = PoolSize { frames: 4095, ..PoolSize::default() };
    let pool = Mempool::new(eal, "replay", size, Socket(None))?;
    let mut started = PortBuilder::new(eal, &device)?.start(&[&pool])?;
    Ok((started.rx.remove(0), started.tx.remove(0)))
}

/// Whether there is memory for tables: reserved pages, or what the kernel can give.
fn has_room(bytes: usize) -> bool {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = info.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    let huge = field("HugePages_Free:").saturating_sub(field("HugePages_Rsvd:")) * (2 << 20);
    huge >= bytes as u64 || field("MemAvailable:") * 1024 >= bytes as u64 + RESERVE
}

/// The first and the last core that this process may use.
fn cores() -> Result<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut own = (0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false));
    let first = own.next().context("no core")?;
    Ok((first, own.next_back().unwrap_or(first)))
}
