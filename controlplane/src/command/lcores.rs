//! `lcores`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{BOLD, Ctl, Failed, listing};
use crate::document::Lcores as Document;
use crate::protocol::Failure;
use crate::table::{Table, count, rate, share};
use crate::views::{LcoreView, TurnBucket};

/// Show the polling cores: how busy, which snapshot, what they hold and counted
///
/// The second table says how long turns with work took since the start or the last zero. A turn is
/// one round of an lcore: a burst from each port, timers, a slice of a listing. Times are of the
/// time-stamp counter, so where the kernel gave the core to another thread in between, that is in
/// them, too; and they are rounded up, by a quarter at most.
#[derive(Debug, clap::Args)]
pub struct Lcores {
    /// Also how many turns took how long
    #[arg(long)]
    histogram: bool,
}

impl Command for Lcores {
    const METHOD: &'static str = "lcores";
    const EXAMPLES: &'static str = "
        sluicectl lcores
        sluicectl lcores --histogram
        sluicectl lcores --json";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Document { director: control.header(), lcores: control.lcores() })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |doc: &Document| {
            let mut text = listing(&doc.director, &table(doc));
            let histogram = self.histogram.then(|| histogram(doc));
            for table in [turns(doc)].iter().chain(&histogram) {
                text.push('\n');
                text.push_str(&table.render(BOLD));
            }
            text
        })
    }
}

fn table(doc: &Document) -> Table {
    let mut table = Table::new(&[
        "LCORE", ">Busy", ">Snapshot", "State", ">Entries", ">RxPPS", ">Received", ">Forwarded",
        ">Dropped",
    ]);
    for lcore in &doc.lcores {
        let counter = |name: &str| count(lcore.counters.get(name).copied().unwrap_or(0));
        table.row([
            lcore.lcore.to_string(),
            format!("{:.0} %", lcore.busy_percent),
            lcore.snapshot.to_string(),
            state(lcore),
            count(lcore.entries),
            rate(lcore.received_pps),
            counter("received"),
            counter("forwarded"),
            count(lcore.drops.values().sum()),
        ]);
    }
    table
}

fn turns(doc: &Document) -> Table {
    let mut table =
        Table::new(&["LCORE", ">Turns", ">p50 us", ">p99 us", ">p99.9 us", ">max us"]);
    for lcore in &doc.lcores {
        let t = &lcore.turns;
        let turns = t.buckets.iter().map(|b| b.count).sum();
        table.row([
            lcore.lcore.to_string(),
            count(turns),
            rate(t.p50_us),
            rate(t.p99_us),
            rate(t.p999_us),
            rate(t.max_us),
        ]);
    }
    table
}

/// Characters of the longest bar.
const BAR: u64 = 40;

fn histogram(doc: &Document) -> Table {
    let mut table = Table::new(&["LCORE", ">to us", ">Turns", ">Share", ""]);
    for lcore in &doc.lcores {
        let octaves = octaves(&lcore.turns.buckets);
        let all = octaves.iter().map(|b| b.count).sum();
        let most = octaves.iter().map(|b| b.count).max().unwrap_or(0).max(1);
        for TurnBucket { to_us, count: n } in octaves {
            let bar = match n * BAR / most {
                0 if n > 0 => ".".to_owned(),
                length => "#".repeat(usize::try_from(length).unwrap_or(0)),
            };
            table.row([lcore.lcore.to_string(), rate(to_us), count(n), share(n, all, 2), bar]);
        }
    }
    table
}

/// The buckets, as many together as make an octave.
fn octaves(buckets: &[TurnBucket]) -> Vec<TurnBucket> {
    let mut octaves: Vec<TurnBucket> = Vec::new();
    for bucket in buckets {
        match octaves.last_mut() {
            // A little more than an octave, for the rounding of edges.
            Some(octave) if bucket.to_us <= octave.to_us * 1.001 => octave.count += bucket.count,
            last => {
                let to_us = last.map_or(bucket.to_us, |octave| octave.to_us * 2.0);
                octaves.push(TurnBucket { to_us, count: bucket.count });
            }
        }
    }
    octaves
}

fn state(lcore: &LcoreView) -> String {
    match lcore.silent_ms {
        0..1_000 if lcore.current => "current".to_owned(),
        0..1_000 => "updating".to_owned(),
        ms => format!("silent {} s", ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::TurnsView;

    #[test]
    fn a_histogram_looks_like_this() {
        let counts = [(0.25, 3), (0.3125, 10), (0.375, 0), (0.4375, 20), (0.5, 50), (0.625, 0)];
        let more = [(0.75, 0), (0.875, 0), (1.0, 0), (1.25, 1)];
        let buckets = counts.iter().chain(&more);
        let buckets = buckets.map(|(to_us, count)| TurnBucket { to_us: *to_us, count: *count });
        let turns = TurnsView { buckets: buckets.collect(), ..TurnsView::default() };
        let lcore = LcoreView { lcore: 2, turns, ..LcoreView::default() };
        let doc = Document { director: Default::default(), lcores: vec![lcore] };
        let expected = "
LCORE  to us  Turns    Share
2        0.2      3   3.57 %  #
2        0.5     80  95.24 %  ########################################
2          1      0   0.00 %
2          2      1   1.19 %  .
";
        assert_eq!(histogram(&doc).render(anstyle::Style::new()), expected.trim_start());
    }
}
