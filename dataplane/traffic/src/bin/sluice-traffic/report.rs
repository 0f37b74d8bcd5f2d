//! What came of a load: lines while it runs, then a table, a document, a picture.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::Receiver;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use traffic::tally::{Latency, Share, Tally};

use crate::args::{LifeWord, Run};
use crate::bench::{Bench, Second};
use crate::hunt::{Found, Step};
use crate::{News, svg};

/// A load that has ended.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) seconds: Vec<Second>,
    /// Names by number.
    pub(crate) servers: Vec<String>,
    /// Flows that each has in the end.
    pub(crate) living: Vec<u64>,
    pub(crate) hops: Option<(u8, u8)>,
    /// The search that it belongs to.
    pub(crate) found: Option<Found>,
}

impl Report {
    pub(crate) fn new(bench: &Bench, tally: Tally, seconds: Vec<Second>) -> Self {
        let (servers, living) = (bench.servers().to_vec(), bench.living());
        Self { tally, seconds, servers, living, hops: bench.hops(), found: None }
    }

    /// Name, share of the load, and living flows of each server.
    fn shares(&self) -> impl Iterator<Item = (&String, Share, u64)> {
        let share = |n| self.tally.shares.get(n).copied().unwrap_or_default();
        let living = |n| self.living.get(n).copied().unwrap_or_default();
        self.servers.iter().enumerate().map(move |(n, name)| (name, share(n), living(n)))
    }

    /// Whether something came, and nothing was hurt, misled or lost beyond what is allowed; of a
    /// search, whether it has an answer.
    pub(crate) fn holds(&self, run: &Run) -> bool {
        if let Some(found) = &self.found {
            return found.answer.is_some();
        }
        let c = &self.tally.counts;
        c.received > 0 && c.faults() == 0 && c.resets == 0 && c.loss() <= run.loss
    }
}

/// Prints the news of a run or a search to its end; whether all held.
pub(crate) fn follow(run: &Run, news: &Receiver<News>) -> Result<bool> {
    let mut held = None;
    for news in news {
        match news {
            News::Second(second) => live(&progress(&second)),
            News::Line(line) => eprintln!("{line}"),
            News::Report(report) => {
                if std::io::stderr().is_terminal() {
                    eprintln!();
                }
                show(run, &report)?;
                held = Some(report.holds(run));
            }
        }
    }
    // Without a report the lcore has an error, which comes with its end.
    Ok(held.unwrap_or(false))
}

/// On a terminal each second overwrites the last.
fn live(line: &str) {
    let end = if std::io::stderr().is_terminal() { "\r" } else { "\n" };
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{line}{end}").and_then(|()| err.flush());
}

/// A second in a line.
pub(crate) fn progress(s: &Second) -> String {
    format!(
        "{:>6.1} s  sent {:>10.0}/s  received {:>10.0}/s  p50 {:>8}  p99 {:>8}  faults {}",
        s.at,
        s.sent as f64 / s.lasted,
        s.received as f64 / s.lasted,
        time(s.p50),
        time(s.p99),
        s.faults
    )
}

/// The report in the forms that were asked for.
pub(crate) fn show(run: &Run, report: &Report) -> Result<()> {
    if let Some(file) = &run.svg {
        let picture = match &report.found {
            Some(found) => svg::draw_search(found, &title(run)),
            None => {
                ensure!(report.seconds.len() > 1, "--svg: the load was too short for a picture");
                svg::draw(&report.seconds, &title(run))
            }
        };
        std::fs::write(file, picture).with_context(|| file.display().to_string())?;
    }
    if run.json {
        println!("{}", document(run, report));
    } else {
        print!("{}", table(run, report));
    }
    Ok(())
}

fn title(run: &Run) -> String {
    let sizes = if run.imix { "IMIX".to_owned() } else { format!("{} bytes", run.frame) };
    let rate = if run.line_rate { "line rate".to_owned() } else { format!("{} pps", run.rate) };
    let (transport, life) = (run.transport(), run.life.unwrap_or(LifeWord::Hits));
    let version = if run.vip.is_ipv4() { 4 } else { 6 };
    let text = format!("{transport:?} over IPv{version}, {life:?}, {} flows", run.flows);
    format!("{}, {sizes}, {rate}", text.to_lowercase())
}

fn table(run: &Run, report: &Report) -> String {
    use std::fmt::Write;
    let (tally, c) = (&report.tally, &report.tally.counts);
    let (mut text, l) = (String::new(), &tally.latency);
    let rate = |count: u64| tally.rate(count);
    let mut line = |name: &str, rest: String| {
        writeln!(text, "{name:<12} {rest}").expect("text takes text");
    };
    line("load", title(run));
    let sent = format!("{:>12} packets  {:>11.0}/s", c.sent, rate(c.sent));
    line("sent", format!("{sent}  {:.1} Mbit/s", rate(c.sent_bytes) * 8e-6));
    let received = format!("{:>12} packets  {:>11.0}/s", c.received, rate(c.received));
    line("received", format!("{received}  {:.1} Mbit/s", rate(c.received_bytes) * 8e-6));
    line("lost", format!("{:>12} packets  {:>11.4} %", c.lost(), c.loss() * 100.0));
    line("new flows", format!("{:>12} begun    {:>11.0}/s", c.begun, rate(c.begun)));
    let hurt = format!("altered {}  unreadable {}", c.altered, c.unreadable);
    let misled = format!("wrong server {}  moved {}", c.wrong_server, c.moved);
    let order = format!("reordered {}  duplicates {}", c.reordered, c.duplicates);
    line("faults", format!("{hurt}  {misled}  {order}"));
    if c.migrations > 0 {
        let moved = c.moved_migrating;
        line("migrations", format!("{:>12} seen     {moved:>11} to another server", c.migrations));
    }
    line("others", format!("resets {}  ICMP errors {}  foreign {}", c.resets, c.errors, c.foreign));
    if let Some((least, most)) = report.hops {
        line("ttl", format!("- {least} to {most}"));
    }
    let parts = PARTS.map(|(name, part)| format!("{name} {}", time(l.at(part))));
    let ends = (time(l.min()), time(l.max()));
    line("latency", format!("min {}  {}  max {}", ends.0, parts.join("  "), ends.1));
    for (name, share, living) in report.shares() {
        let part = share.packets as f64 * 100.0 / c.received.max(1) as f64;
        let flows = format!("{living:>8} flows  {:>8} new", share.flows);
        line("server", format!("{name:<18} {:>12} packets {part:>5.1} %  {flows}", share.packets));
    }
    for step in report.found.iter().flat_map(|found| &found.steps) {
        line("trial", step.line());
    }
    if let Some(found) = &report.found {
        let answer = found.answer.map_or("none: not even the lowest held".to_owned(), |answer| {
            format!("{answer:>12.0} {}", found.what.unit())
        });
        line("answer", answer);
    }
    line("verdict", verdict(run, report).to_owned());
    text
}

const PARTS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn verdict(run: &Run, report: &Report) -> &'static str {
    if report.holds(run) { "pass" } else { "fail" }
}

/// Version 1: keys may be added, never renamed.
fn document(run: &Run, report: &Report) -> Value {
    let (tally, c) = (&report.tally, &report.tally.counts);
    let side = |packets: u64, bytes: u64| {
        let (pps, bps) = (tally.rate(packets).round(), (tally.rate(bytes) * 8.0).round());
        json!({"packets": packets, "bytes": bytes, "pps": pps, "bps": bps})
    };
    let server = |(name, share, living): (&String, Share, u64)| json!({"name": name, "packets": share.packets, "flows": living, "new_flows": share.flows});
    let second = |s: &Second| {
        json!({"at": s.at, "lasted": s.lasted, "sent": s.sent, "received": s.received,
               "p50_ns": s.p50, "p99_ns": s.p99})
    };
    json!({
        "version": 1,
        "load": title(run),
        "verdict": verdict(run, report),
        "seconds": tally.lasted as f64 * 1e-9,
        "sent": side(c.sent, c.sent_bytes),
        "received": side(c.received, c.received_bytes),
        "lost": c.lost(),
        "loss": c.loss(),
        "flows": {"begun": c.begun, "seen": c.flows},
        "faults": {"altered": c.altered, "unreadable": c.unreadable, "moved": c.moved,
                   "wrong_server": c.wrong_server, "reordered": c.reordered,
                   "duplicates": c.duplicates},
        "migrations": {"seen": c.migrations, "moved": c.moved_migrating},
        "resets": c.resets,
        "icmp_errors": c.errors,
        "foreign": c.foreign,
        "ttl_lost": report.hops.map(|(least, most)| json!({"min": least, "max": most})),
        "latency_ns": latency(&tally.latency),
        "servers": report.shares().map(server).collect::<Vec<_>>(),
        "timeline": report.seconds.iter().map(second).collect::<Vec<_>>(),
        "search": report.found.as_ref().map(search),
    })
}

fn search(found: &Found) -> Value {
    let step = |s: &Step| {
        json!({"load": s.load.round(), "held": s.held, "outcome": s.outcome(), "sent": s.sent,
               "rate": s.rate.round(), "received": s.received, "lost": s.lost,
               "resets": s.resets, "moved": s.moved, "faults": s.faults})
    };
    json!({"mode": found.what.name(), "unit": found.what.unit(),
           "steps": found.steps.iter().map(step).collect::<Vec<_>>(),
           "answer": found.answer.map(f64::round)})
}

fn latency(l: &Latency) -> Value {
    json!({"min": l.min(), "mean": l.mean().round(), "p50": l.at(0.5), "p90": l.at(0.9),
           "p99": l.at(0.99), "p99_9": l.at(0.999), "max": l.max()})
}

/// Nanoseconds for people.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}
