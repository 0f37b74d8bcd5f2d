//! Cycles per packet of the daemon's worker, beside what no director can be faster than.
//!
//! A figure without that of `5tswap` from the same run says nothing: machines differ. One run, on a
//! virtual Sapphire Rapids (2.6 GHz, L2 2 MiB, DPDK 22.11, hugepages), medians of 7:
//!
//! ```text
//!  macswap 27   5tswap 31   testpmd: macswap 42, 5tswap 56
//!
//!           hit 1 k  hit 64 k  hit 1 M  new, 1 k alive  new, 1 M alive
//!  DR            93       110      153             298             394
//!  IPIP         106         –      164             316             408
//! ```

mod bar;
mod case;
mod director;
mod floor;
mod report;
mod testpmd;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use dpdk::{Clock, Eal, EalSettings, Hugepages, LogLevel, Memory, Mempool, PoolSize, Socket};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde_json::json;

use crate::case::{Case, Place};

/// Cycles per packet (CPU time × TSC rate ÷ packets) of the director's worker, in process.
///
/// Cases: FORWARDER-v4-LOAD and, where it matters, -FLOWS -SERVERS -SERVICES, as in
/// dr-v4-hit-1k-10kservices (hit: segments of known flows in random order; new: SYNs of new flows,
/// of which 1 M or FLOWS are alive, so that as many expire), FLOWS of 32 1k 64k 1M 16M, SERVERS of
/// 3servers 100servers 1000servers (else 8), SERVICES 10kservices (else 1). Without --only, those
/// that have a bar. Besides the floors source-sink, macswap, 5tswap on the same queues, and
/// dpdk-testpmd's own. Each round runs every case once, so that noise falls on all alike.
#[derive(Parser)]
#[command(name = "bench-dataplane")]
struct Args {
    /// Only cases whose name is one of these words, or contains one that is no case's name (beside
    /// 5tswap, which ratios need).
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
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !(0.001..=60.0).contains(&args.seconds) || args.runs == 0 {
        bail!("--seconds wants 0.001 to 60, --runs at least 1");
    }
    let (main_core, last) = cores()?;
    let core = args.core.unwrap_or(last);
    let eal = Eal::start(&EalSettings {
        hugepages: if args.no_huge { Hugepages::No } else { Hugepages::Auto },
        memory_mb: 64,
        log_level: LogLevel::Error,
        ..EalSettings::default()
    })?;
    let huge = !matches!(eal.memory(), Memory::Plain { .. });
    if !huge {
        eprintln!("WARNING: {}; figures are not comparable", eal.memory());
    }
    let size = PoolSize { frames: 4095, ..PoolSize::default() };
    let pool = Mempool::new(&eal, "bench", size, Socket(None))?;
    let place = Place { pool, clock: Clock::new(&eal), main_core, core, huge };
    let config = json!({
        "scheduler": "wlc", "burst": 32,
        "frame_bytes": traffic::template::LEN, "memory": eal.memory().to_string(),
        "dpdk": eal.version(), "tsc_hz": place.clock.hz(), "core": core,
        "runs": args.runs, "seconds": args.seconds,
    });
    let work = move || measure(&place, &args).map(|results| (results, args.json));
    let lcore = dpdk::spawn_lcore(&eal, core, "bench", work)?;
    let (results, json) = lcore.join().map_err(|_| anyhow!("the lcore panicked"))??;
    report::print(&report::rows(results, &config), json);
    Ok(())
}

/// Name, cycles per packet of each run, packets of all.
type Results = Vec<(String, Vec<f64>, u64)>;

fn measure(place: &Place, args: &Args) -> Result<Results> {
    let limit = Duration::from_secs_f64(args.seconds);
    let mut testpmd = case::testpmd(place, &args.only)?;
    let mut cases: Vec<Case> = case::all(place, &args.only, testpmd.is_some())?;
    let mut results: Results = cases.iter().map(|c| (c.name.clone(), Vec::new(), 0)).collect();
    for round in 1..=args.runs {
        eprintln!("round {round} of {}", args.runs);
        for (case, (name, cycles, packets)) in cases.iter_mut().zip(&mut results) {
            let sample = case.run(limit, testpmd.as_mut()).with_context(|| name.clone())?;
            cycles.push(sample.cycles(place.clock.hz()));
            *packets += sample.packets;
        }
    }
    Ok(results)
}

/// The first and the last core that this process may use.
fn cores() -> Result<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut own = (0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false));
    let first = own.next().context("no core")?;
    Ok((first, own.next_back().unwrap_or(first)))
}
