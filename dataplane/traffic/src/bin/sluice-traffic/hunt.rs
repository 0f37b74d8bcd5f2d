//! Searches: trials on the bench, led by [`traffic::search`].

use std::process::Command;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result, ensure};
use traffic::plan::{Choice, Flows, Life};
use traffic::search::Search;
use traffic::tally::Tally;

use crate::args::{Run, What};
use crate::bench::{Bench, Load, SECOND};
use crate::report::Report;
use crate::{News, warm_up};

/// Packets of a connection in a search for connections per second.
const LIFE: u32 = 3;

/// Looks for a limit and reports the trial that found it. `how`: what, how near, the command
/// between.
pub(crate) fn search(
    bench: &mut Bench,
    run: &Run,
    how: (What, f64, Option<&str>),
    tell: &Sender<News>,
) -> Result<()> {
    let (what, near, between) = how;
    ensure!((0.0001..=0.5).contains(&near), "--near: 0.0001 to 0.5");
    let (high, unit) = match what {
        What::ZeroLoss => (run.rate, "packets/s"),
        What::Cps => (run.rate / f64::from(LIFE), "new connections/s"),
        What::Table => (f64::from(run.flows), "flows"),
    };
    let mut search = Search::new((high * near).max(1.0).min(high), high, near);
    let mut best = None;
    if what == What::ZeroLoss {
        warm_up(bench, run);
    }
    while let Some(load) = search.next() {
        let tally = match what {
            What::ZeroLoss => bench.play(timed(run, load), |_| ()),
            What::Cps => connections(bench, run, load),
            What::Table => table(bench, run, load as u32, between)?,
        };
        let held = holds(run, &tally, what, load);
        let c = &tally.counts;
        let line = format!(
            "{load:.0} {unit}: {} (sent {} at {:.0}/s, lost {}, moved {}, resets {}, other faults {})",
            match (held, c.lost() + c.resets + c.faults()) {
                (true, _) => "held",
                (false, 0) => "failed: the tester or its device was too slow",
                (false, _) => "failed",
            },
            c.sent,
            tally.rate(c.sent),
            c.lost(),
            c.moved,
            c.resets,
            c.faults() - c.moved,
        );
        let _ = tell.send(News::Line(line));
        search.tell(held);
        if held {
            best = Some(tally);
        }
    }
    let answer = search.answer().with_context(|| format!("not even the lowest of {unit} held"))?;
    let _ = tell.send(News::Line(format!("answer: {answer:.0} {unit}")));
    let tally = best.context("an answer without a trial")?;
    let _ = tell.send(News::Report(Box::new(Report::new(bench, tally, Vec::new()))));
    Ok(())
}

fn timed(run: &Run, rate: f64) -> Load {
    let lasts = (run.seconds * SECOND as f64) as u64;
    Load { rate, lasts, packets: u64::MAX, opens: false }
}

/// Short connections at a rate, each new.
fn connections(bench: &mut Bench, run: &Run, cps: f64) -> Tally {
    let flows = Flows { life: Life::Cycle(LIFE), new_per_second: 0, ..run.plan() };
    bench.renew(flows);
    bench.play(timed(run, cps * f64::from(LIFE)), |_| ())
}

/// Opens so many flows, lets the command run, and asks for each flow once: a sum of both.
fn table(bench: &mut Bench, run: &Run, count: u32, between: Option<&str>) -> Result<Tally> {
    let choice = Choice::InTurn;
    bench.renew(Flows { count, choice, life: Life::Hits, new_per_second: 0, ..run.plan() });
    let load = Load { rate: run.rate, lasts: 600 * SECOND, packets: count.into(), opens: false };
    let opening = bench.play(load, |_| ());
    if let Some(command) = between {
        let status = Command::new("sh").arg("-c").arg(command).status().context("--between")?;
        ensure!(status.success(), "--between {command:?}: {status}");
    }
    let mut tally = bench.play(load, |_| ());
    tally.add(&opening);
    Ok(tally)
}

/// Whether the director stood a trial, and the trial was what it was to be.
fn holds(run: &Run, tally: &Tally, what: What, load: f64) -> bool {
    let c = &tally.counts;
    let asked = if what == What::Cps { load * f64::from(LIFE) } else { load };
    // The tester itself, or the device, may be what is too slow.
    let was_offered = what == What::Table || tally.rate(c.sent) >= 0.97 * asked;
    was_offered && c.loss() <= run.loss && c.faults() == 0 && c.resets == 0
}
