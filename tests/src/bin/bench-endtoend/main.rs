//! Requests end to end through the lab: Sluice beside HAProxy and nginx's stream module.
//!
//! The director has the last core to itself, like a machine of its own: what it receives, and each
//! candidate's process, run there; clients, bridge and real servers have the other cores (see
//! [`stage`]). Without that the kernel charges whoever sends a packet with all that its receiver
//! does, so that a director pays for its servers' TCP.
//!
//! Sluice has net_af_packet and an lcore that sleeps when idle, as proxies do: on two cores of a
//! virtual EPYC that was faster than yielding in every case. CPU time is what the kernel counted for
//! a process. An lcore polls without end, so for it counts
//! what its turns with work took, and never more than its thread's CPU time; to this comes what
//! `sluiced`'s other threads used.

mod candidate;
mod case;
mod cpu;
mod report;
mod stage;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tests::lab::{self, Lab};
use tests::load::{curl, pace};

use crate::candidate::{Candidate, Running};
use crate::case::{Case, Load};
use crate::cpu::Others;
use crate::report::Sample;
use crate::stage::Stage;

/// Requests per second, latency and CPU per request through the lab, in the same namespaces and the
/// same run: Sluice, HAProxy (TCP mode) and nginx (stream), on one core each.
///
/// A case is CANDIDATE/LOAD. Candidates: sluice-dr, sluice-ipip, haproxy, nginx-stream; only when
/// --only names them: sluice-dr-xdp, sluice-dr-yield. Loads, by wrk over 20 connections: 100B and
/// 100KB (bodies, on kept connections), 100B-new (a connection for each request), 100KB-tso (as
/// 100KB, but replies leave the servers in super-frames of up to 64 kB; the other loads have no
/// offloads, so frames are as on the wire). Each round runs every case once, in turning order.
#[derive(Parser)]
#[command(name = "bench-endtoend")]
struct Args {
    /// Only cases whose name is one of these words, or contains one that is no case's name.
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds per case and run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// One JSON object per case and line.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(nix::unistd::geteuid().is_root(), "needs root: it makes network namespaces");
    let mut cases = case::chosen(&args.only);
    for name in candidate::missing(&cases) {
        eprintln!("skipped: {name} is not installed (scripts/setup bench)");
        cases.retain(|c| c.candidate.name() != name);
    }
    ensure!(!cases.is_empty(), "no such case, or none that can run: see --help");
    let turn = lab::turn()?;
    let signals = Signals::catch()?;
    // Everything started from here on inherits the cores that are not the director's.
    let stage = Stage::enter()?;
    let lab = Lab::up(turn)?;
    stage.steer(&lab)?;
    let mut samples: Vec<Vec<Sample>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..args.runs {
        eprintln!("round {} of {}", round + 1, args.runs);
        for candidate in in_turn(&cases, round as usize) {
            let running = candidate.start(&lab, &stage)?;
            for (case, samples) in cases.iter().zip(&mut samples) {
                if case.candidate == candidate {
                    signals.check()?;
                    let sample = measure(&lab, &stage, &running, case.load, args.seconds);
                    samples.push(sample.with_context(|| case.name())?);
                }
            }
            running.stop()?;
        }
    }
    signals.check()?;
    drop(lab);
    report::print(&report::rows(&cases, &samples), args.json);
    Ok(())
}

/// The candidates of the cases, each round beginning with another.
fn in_turn(cases: &[Case], round: usize) -> Vec<Candidate> {
    let mut candidates: Vec<_> = cases.iter().map(|c| c.candidate).collect();
    candidates.dedup();
    let first = round % candidates.len();
    candidates.rotate_left(first);
    candidates
}

fn measure(
    lab: &Lab,
    stage: &Stage,
    running: &Running,
    load: &Load,
    seconds: u32,
) -> Result<Sample> {
    stage.offloads(lab, load.tso, running.candidate().is_sluice())?;
    let url = format!("http://{}{}", running.candidate().vip(), load.path);
    let first = curl(lab, "c1", &url, 6)?;
    ensure!(first.failed == 0, "the first requests failed: {first:?}");
    let others = Others::of(lab)?;
    let (director_before, others_before) = (running.reading()?, others.reading()?);
    let pace = pace(lab, "c1", &url, seconds, load.close)?;
    let (director_after, others_after) = (running.reading()?, others.reading()?);
    ensure!(pace.tally.requests > 0, "no request was answered");
    Ok(Sample::new(&pace, director_after.since(&director_before), others_after - others_before))
}

/// SIGINT and SIGTERM as something to look at between two runs, so that guards clear up.
struct Signals(SignalFd);

impl Signals {
    fn catch() -> Result<Self> {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        mask.thread_block().context("blocking signals")?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    fn check(&self) -> Result<()> {
        match self.0.read_signal().context("reading signals")? {
            Some(_) => bail!("interrupted"),
            None => Ok(()),
        }
    }
}
