//! Figures of all runs of a case, for people and for programs.

use serde::Serialize;
use serde_json::Value;

use crate::bar;

/// What came of one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) case: String,
    /// Cycles per packet in the median run.
    pub(crate) cycles_median: f64,
    /// In the best run.
    pub(crate) cycles_min: f64,
    /// In the worst run.
    pub(crate) cycles_max: f64,
    /// The median over that of our own `5tswap`.
    pub(crate) ratio_5tswap: f64,
    /// What it should reach, and whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bar: Option<String>,
    /// Packets of all runs.
    pub(crate) packets: u64,
    /// What the figures depend on.
    pub(crate) config: Value,
}

/// Rows of cases with the cycles per packet of each run, and the packets of all.
pub(crate) fn rows(results: Vec<(String, Vec<f64>, u64)>, config: &Value) -> Vec<Row> {
    let mut rows: Vec<Row> = results.into_iter().map(|r| row(r, config)).collect();
    let floor = rows.iter().find(|r| r.case == "5tswap").map_or(f64::NAN, |r| r.cycles_median);
    rows.iter_mut().for_each(|r| r.ratio_5tswap = round(r.cycles_median / floor, 100.0));
    let median = |case: &str| rows.iter().find(|r| r.case == case).map(|r| r.cycles_median);
    let bars: Vec<_> = rows.iter().map(|r| bar::of(&r.case, r.cycles_median, &median)).collect();
    rows.iter_mut().zip(bars).for_each(|(row, bar)| row.bar = bar);
    rows
}

fn row((case, mut cycles, packets): (String, Vec<f64>, u64), config: &Value) -> Row {
    cycles.sort_by(f64::total_cmp);
    let at = |n: usize| cycles.get(n).map_or(f64::NAN, |c| round(*c, 10.0));
    Row {
        case,
        cycles_median: at(cycles.len() / 2),
        cycles_min: at(0),
        cycles_max: at(cycles.len().saturating_sub(1)),
        ratio_5tswap: f64::NAN,
        bar: None,
        packets,
        config: config.clone(),
    }
}

fn round(x: f64, to: f64) -> f64 {
    (x * to).round() / to
}

/// Prints a table, or an object per line.
pub(crate) fn print(rows: &[Row], json: bool) {
    if json {
        for row in rows {
            println!("{}", serde_json::to_string(row).expect("numbers and strings"));
        }
        return;
    }
    println!(
        "{:<24} {:>7} {:>7} {:>7} {:>8} {:>12}  bar",
        "cycles per packet", "median", "min", "max", "x5tswap", "packets"
    );
    for r in rows {
        println!(
            "{:<24} {:>7.1} {:>7.1} {:>7.1} {:>8.2} {:>12}  {}",
            r.case,
            r.cycles_median,
            r.cycles_min,
            r.cycles_max,
            r.ratio_5tswap,
            r.packets,
            r.bar.as_deref().unwrap_or_default()
        );
    }
}
