//! `sluice-traffic`: sends numbered flows through a director, or any device that gives packets
//! back, and verifies every one of them. See `sluice-traffic run --help`.
//!
//! One lcore sends and receives ([`mod@bench`]); the main thread shows, asks and reports.

mod args;
mod bench;
mod device;
mod hunt;
mod prompt;
mod report;
mod svg;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result, anyhow};
use clap::{CommandFactory, Parser};
use dpdk::Clock;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use traffic::signals::Signals;

use crate::args::{Args, Mode, Run};
use crate::bench::{Bench, Load, SECOND, Second, Wishes};
use crate::device::{Devices, Queues};
use crate::report::Report;

/// What the lcore tells.
pub(crate) enum News {
    /// A second of the load has passed.
    Second(Second),
    /// Something worth a line.
    Line(String),
    /// A load has ended.
    Report(Box<Report>),
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(e) = args.mode.check() {
        eprintln!("{e}");
        return ExitCode::from(2);
    }
    let all_held = match &args.mode {
        Mode::Run(run) | Mode::Search { run, .. } => start(&args.mode, run),
        Mode::Man { folder } => clap_mangen::generate_to(Args::command(), folder)
            .map(|()| true)
            .with_context(|| folder.display().to_string()),
    };
    match all_held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for; whether all held.
fn start(mode: &Mode, run: &Run) -> Result<bool> {
    let (main_core, last) = cores()?;
    let (wishes, (tell, news)) = (Arc::new(Wishes::default()), mpsc::channel());
    let struck = Arc::clone(&wishes);
    // DPDK's threads inherit that they are blocked.
    Signals::block()?.then(move || struck.quit.store(true, Ordering::Relaxed));
    let devices = Devices::start(run, main_core, &wishes)?;
    let hz = Clock::new(&devices.eal).hz();
    let (core, heeded, asked) = (run.core.unwrap_or(last), Arc::clone(&wishes), run.clone());
    let search = hunt::How::of(mode);
    let (orders, inbox) = mpsc::channel();
    let Devices { eal, pool, mut ports } = devices;
    let queues: Vec<_> = ports.iter_mut().map(|p| (p.rx.remove(0), p.tx.remove(0))).collect();
    let lcore = dpdk::spawn_lcore(&eal, core, "traffic", move || {
        let queues = queues.into_iter().map(|(rx, tx)| Queues::new(rx, tx)).collect();
        let mut bench = Bench::new(&asked, queues, pool, hz, &heeded)?;
        match search {
            Some(how) => hunt::search(&mut bench, &asked, &how, &tell)?,
            None if asked.interactive => {
                while inbox.recv().is_ok() {
                    run_once(&mut bench, &asked, &tell);
                }
            }
            None => run_once(&mut bench, &asked, &tell),
        }
        anyhow::Ok(())
    })?;
    let all_held = if run.interactive {
        prompt::talk(run, &wishes, orders, &news)
    } else {
        drop(orders);
        report::follow(run, &news)
    };
    lcore.join().map_err(|_| anyhow!("the lcore panicked"))??;
    drop(ports);
    all_held
}

/// Warm-up, then the load. The main thread may be gone, which ends nothing.
fn run_once(bench: &mut Bench, run: &Run, tell: &Sender<News>) {
    warm_up(bench, run);
    let rate = if run.line_rate && run.rate <= 1e6 { f64::INFINITY } else { run.rate };
    let lasts = (run.seconds * SECOND as f64) as u64;
    let load = Load { rate, lasts, packets: run.packets.unwrap_or(u64::MAX), opens: false };
    let mut seconds = Vec::new();
    let tally = bench.play(load, |second| {
        seconds.push(second);
        let _ = tell.send(News::Second(second));
    });
    let _ = tell.send(News::Report(Box::new(Report::new(bench, tally, seconds))));
}

/// Opens all flows at a share of the rate.
fn warm_up(bench: &mut Bench, run: &Run) {
    let lasts = (run.warm_up * SECOND as f64) as u64;
    let rate = run.rate * run.warm_share;
    bench.play(Load { rate, lasts, packets: u64::MAX, opens: true }, |_| ());
}

/// The first and the last core that this process may use.
fn cores() -> Result<(usize, usize)> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let mut own = (0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false));
    let first = own.next().context("no core")?;
    Ok((first, own.next_back().unwrap_or(first)))
}
