//! Searches: trials on the bench, led by [`traffic::search`].

use std::process::Command;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result, ensure};
use traffic::plan::{Choice, Flows, Life};
use traffic::search::Search;
use traffic::tally::Tally;

use crate::args::{Mode, Run, What};
use crate::bench::{Bench, Load, SECOND};
use crate::report::Report;
use crate::{News, warm_up};

/// Packets of a connection in a search for connections per second.
const LIFE: u32 = 3;

/// How to search.
pub(crate) struct How {
    what: What,
    near: f64,
    between: Option<String>,
}

/// A trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// What was tried, in the search's unit.
    pub(crate) load: f64,
    pub(crate) held: bool,
    /// Packets, and how many a second were sent in truth.
    pub(crate) sent: u64,
    pub(crate) rate: f64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) resets: u64,
    /// Flows that came to another server.
    pub(crate) moved: u64,
    /// All that is no loss and no reset, with those moved.
    pub(crate) faults: u64,
}

/// What a search tried and found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) what: What,
    pub(crate) steps: Vec<Step>,
    /// The highest load that held; `None`: not even the lowest did.
    pub(crate) answer: Option<f64>,
}

impl How {
    /// `None`: the mode is no search.
    pub(crate) fn of(mode: &Mode) -> Option<Self> {
        let Mode::Search { what, near, between, .. } = mode else { return None };
        Some(Self { what: *what, near: *near, between: between.clone() })
    }
}

impl What {
    /// What a load counts.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::ZeroLoss => "packets/s",
            Self::Cps => "new connections/s",
            Self::Table => "flows",
        }
    }

    /// The load that is tried first.
    fn highest(self, run: &Run) -> f64 {
        match self {
            Self::ZeroLoss => run.rate,
            Self::Cps => run.rate / f64::from(LIFE),
            Self::Table => f64::from(run.flows),
        }
    }
}

impl Step {
    fn new(what: What, load: f64, tally: &Tally, run: &Run) -> Self {
        let c = &tally.counts;
        Self {
            load,
            held: holds(run, tally, what, load),
            sent: c.sent,
            rate: tally.rate(c.sent),
            received: c.received,
            lost: c.lost(),
            resets: c.resets,
            moved: c.moved,
            faults: c.faults(),
        }
    }

    /// What became of it: `held`, or why not.
    pub(crate) fn outcome(&self) -> &'static str {
        match (self.held, self.lost + self.resets + self.faults) {
            (true, _) => "held",
            (false, 0) => "failed: the tester or its device was too slow",
            (false, _) => "failed",
        }
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let Self { load, sent, rate, lost, moved, resets, faults, .. } = self;
        let outcome = self.outcome();
        let others = faults - moved;
        format!(
            "{load:>12.0}  {outcome}  (sent {sent} at {rate:.0}/s, lost {lost}, moved {moved}, \
             resets {resets}, other faults {others})"
        )
    }
}

/// Looks for a limit and reports the trial that found it, or the last.
pub(crate) fn search(bench: &mut Bench, run: &Run, how: &How, tell: &Sender<News>) -> Result<()> {
    let (what, high) = (how.what, how.what.highest(run));
    let mut search = Search::new((high * how.near).max(1.0).min(high), high, how.near);
    let (mut steps, mut shown) = (Vec::new(), None);
    if what == What::ZeroLoss {
        warm_up(bench, run);
    }
    while let Some(load) = search.next() {
        let tally = match what {
            What::ZeroLoss => bench.play(timed(run, load), |_| ()),
            What::Cps => connections(bench, run, load),
            What::Table => table(bench, run, load as u32, how.between.as_deref())?,
        };
        if bench.is_stopped() {
            break;
        }
        let step = Step::new(what, load, &tally, run);
        let _ = tell.send(News::Line(format!("{}: {}", what.unit(), step.line())));
        search.tell(step.held);
        steps.push(step);
        let report = Report::new(bench, tally, Vec::new());
        // The best that held; until one does, the last.
        if step.held || search.answer().is_none() {
            shown = Some(report);
        }
    }
    let mut report = shown.context("interrupted before the first trial had ended")?;
    report.found = Some(Found { what, steps, answer: search.answer() });
    let _ = tell.send(News::Report(Box::new(report)));
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
