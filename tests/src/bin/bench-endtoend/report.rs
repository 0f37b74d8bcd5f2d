//! Figures of all runs of a case, for people and for programs.

use ::tests::load::Pace;
use serde_json::{Value, json};

use crate::case::Case;

/// What came of one run of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    requests: u64,
    failed: u64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// CPU time per request, in microseconds.
    director_us: f64,
    /// The same of all who take part.
    total_us: f64,
}

impl Sample {
    /// What wrk saw, and CPU seconds of the director and of all others.
    pub(crate) fn new(pace: &Pace, director: f64, others: f64) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "requests of minutes")]
        let each = |seconds: f64| seconds * 1e6 / pace.tally.requests as f64;
        Self {
            requests: pace.tally.requests,
            failed: pace.tally.failed,
            per_second: pace.per_second,
            p50_us: pace.p50_us,
            p99_us: pace.p99_us,
            director_us: each(director),
            total_us: each(director + others),
        }
    }
}

/// The middle and the ends of a case's runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> Self {
        let mut figures: Vec<f64> = samples.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let at = |n: usize| figures.get(n).copied().unwrap_or(f64::NAN);
        Self { median: at(figures.len() / 2), min: at(0), max: at(figures.len().saturating_sub(1)) }
    }

    fn json(self) -> Value {
        let round = |x: f64| (x * 100.0).round() / 100.0;
        json!({ "median": round(self.median), "min": round(self.min), "max": round(self.max) })
    }
}

/// What came of one case.
pub(crate) struct Row {
    case: Case,
    requests: u64,
    failed: u64,
    per_second: Spread,
    p50_us: Spread,
    p99_us: Spread,
    director_us: Spread,
    total_us: Spread,
    /// The director's CPU per request over that of `sluice-dr` under the same load.
    ratio: Option<f64>,
    /// For a proxy under long replies: what Sluice must reach, and whether it does.
    bar: Option<String>,
}

/// Rows of cases with their samples.
pub(crate) fn rows(cases: &[Case], samples: &[Vec<Sample>]) -> Vec<Row> {
    let mut rows: Vec<_> = cases.iter().zip(samples).map(|(c, s)| row(*c, s)).collect();
    let sluice: Vec<_> = rows
        .iter()
        .filter(|r| r.case.candidate.name() == "sluice-dr")
        .map(|r| (r.case.load, r.per_second.median, r.director_us.median))
        .collect();
    for row in &mut rows {
        let same = sluice.iter().find(|(load, ..)| *load == row.case.load);
        let Some((load, per_second, director_us)) = same else { continue };
        row.ratio = Some(row.director_us.median / director_us);
        if !row.case.candidate.is_sluice() && load.path == "/100k" {
            let rate = per_second / row.per_second.median;
            row.bar = Some(bar(rate, director_us / row.director_us.median));
        }
    }
    rows
}

/// Sluice must answer as many requests at a quarter of the CPU per request.
fn bar(rate: f64, cpu: f64) -> String {
    let holds = if rate >= 1.0 && cpu <= 0.25 { "holds" } else { "MISSED" };
    format!("sluice-dr: {rate:.2} x requests/s (>= 1), {cpu:.2} x CPU (<= 0.25): {holds}")
}

fn row(case: Case, samples: &[Sample]) -> Row {
    Row {
        case,
        requests: samples.iter().map(|s| s.requests).sum(),
        failed: samples.iter().map(|s| s.failed).sum(),
        per_second: Spread::of(samples, |s| s.per_second),
        p50_us: Spread::of(samples, |s| s.p50_us),
        p99_us: Spread::of(samples, |s| s.p99_us),
        director_us: Spread::of(samples, |s| s.director_us),
        total_us: Spread::of(samples, |s| s.total_us),
        ratio: None,
        bar: None,
    }
}

/// Prints a table, or an object per line.
pub(crate) fn print(rows: &[Row], json: bool) {
    if json {
        rows.iter().for_each(|row| println!("{}", object(row)));
        return;
    }
    println!(
        "{:<24} {:>10} {:>17} {:>8} {:>8} {:>11} {:>15} {:>6} {:>9} {:>7}  bar",
        "medians (min to max)",
        "requests/s",
        "",
        "P50 us",
        "P99 us",
        "director us",
        "per request",
        "ratio",
        "all us",
        "failed"
    );
    for row in rows {
        let range =
            |s: Spread, digits: usize| format!("({:.digits$} to {:.digits$})", s.min, s.max);
        println!(
            "{:<24} {:>10.0} {:>17} {:>8.0} {:>8.0} {:>11.1} {:>15} {:>6} {:>9.1} {:>7}  {}",
            row.case.name(),
            row.per_second.median,
            range(row.per_second, 0),
            row.p50_us.median,
            row.p99_us.median,
            row.director_us.median,
            range(row.director_us, 1),
            row.ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.1}")),
            row.total_us.median,
            row.failed,
            row.bar.as_deref().unwrap_or_default()
        );
    }
}

fn object(row: &Row) -> Value {
    let mut object = json!({
        "case": row.case.name(),
        "candidate": row.case.candidate.name(),
        "load": row.case.load.name,
        "requests": row.requests,
        "failed": row.failed,
        "requests_per_second": row.per_second.json(),
        "p50_us": row.p50_us.json(),
        "p99_us": row.p99_us.json(),
        "director_cpu_us_per_request": row.director_us.json(),
        "total_cpu_us_per_request": row.total_us.json(),
    });
    if let Some(ratio) = row.ratio {
        object["ratio_to_sluice"] = json!((ratio * 100.0).round() / 100.0);
    }
    if let Some(bar) = &row.bar {
        object["bar"] = json!(bar);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::chosen;
    use ::tests::load::Tally;

    fn sample(per_second: f64, director: f64) -> Sample {
        let tally = Tally { requests: 1000, failed: 0 };
        Sample::new(&Pace { tally, per_second, p50_us: 1.0, p99_us: 2.0 }, director, 0.1)
    }

    #[test]
    fn the_bar_compares_medians_of_one_load() {
        let cases = chosen(&["sluice-dr/100KB".to_owned(), "haproxy/100KB".to_owned()]);
        let [fast, slow] = [[0.01, 0.03, 0.02], [0.1, 0.2, 0.3]]
            .map(|runs| runs.map(|seconds| sample(500.0, seconds)).to_vec());
        let rows = rows(&cases, &[fast, slow]);
        assert_eq!(object(&rows[0])["director_cpu_us_per_request"]["median"], 20.0);
        assert_eq!(object(&rows[0])["total_cpu_us_per_request"]["median"], 120.0);
        assert_eq!(object(&rows[1])["ratio_to_sluice"], 10.0);
        assert!(rows[1].bar.as_ref().is_some_and(|b| b.ends_with("holds")));
        assert!(bar(0.99, 0.1).ends_with("MISSED") && bar(1.5, 0.26).ends_with("MISSED"));
    }
}
