//! Figures of all rounds of a case, for people and for programs.

use serde::Serialize;
use serde_json::Value;

use crate::bar::{self, Ratio};
use crate::group::Figures;

/// What came of one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Its name.
    case: String,
    /// Cycles per packet in the median run.
    cycles_median: f64,
    /// In the best run.
    cycles_min: f64,
    /// In the worst run.
    cycles_max: f64,
    /// The median over that of our own `5tswap` in the same rounds.
    ratio_5tswap: f64,
    /// What the bar compares it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    /// What it should reach, and whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    bar: Option<String>,
    /// Packets of all runs.
    packets: u64,
    /// What the figures depend on.
    config: Value,
}

/// Cycles over another case's, by round.
#[derive(Debug, Serialize)]
struct Compared {
    with: &'static str,
    cycles_median: f64,
    ratio_median: f64,
    ratio_min: f64,
    ratio_max: f64,
}

impl Row {
    /// The row of a case.
    pub(crate) fn new(figures: Figures, config: &Value) -> Self {
        let [min, median, max] = spread(&figures.cycles);
        let floor = ratio(&figures.cycles, &figures.floor);
        let beside = (!figures.beside.is_empty()).then(|| ratio(&figures.cycles, &figures.beside));
        let compared = beside.zip(bar::other(&figures.case)).map(|(ratio, with)| Compared {
            with,
            cycles_median: round(spread(&figures.beside)[1], 10.0),
            ratio_median: round(ratio.median, 1000.0),
            ratio_min: round(ratio.min, 1000.0),
            ratio_max: round(ratio.max, 1000.0),
        });
        Self {
            bar: bar::of(&figures.case, median, floor, beside),
            case: figures.case,
            cycles_median: round(median, 10.0),
            cycles_min: round(min, 10.0),
            cycles_max: round(max, 10.0),
            ratio_5tswap: round(median / spread(&figures.floor)[1], 100.0),
            compared,
            packets: figures.packets,
            config: config.clone(),
        }
    }

    /// Prints it: an object per line, or a line of the table.
    pub(crate) fn print(&self, json: bool) {
        if json {
            println!("{}", serde_json::to_string(self).expect("numbers and strings"));
            return;
        }
        println!(
            "{:<25} {:>7.1} {:>7.1} {:>7.1} {:>8.2} {:>12}  {}",
            self.case,
            self.cycles_median,
            self.cycles_min,
            self.cycles_max,
            self.ratio_5tswap,
            self.packets,
            self.bar.as_deref().unwrap_or_default()
        );
    }
}

/// The table's head.
pub(crate) fn head() {
    println!(
        "{:<25} {:>7} {:>7} {:>7} {:>8} {:>12}  bar",
        "cycles per packet", "median", "min", "max", "x5tswap", "packets"
    );
}

/// Round by round, since what disturbs a round disturbs both.
fn ratio(own: &[f64], other: &[f64]) -> Ratio {
    let ratios: Vec<_> = own.iter().zip(other).map(|(own, other)| own / other).collect();
    let [min, median, max] = spread(&ratios);
    Ratio { median, min, max }
}

/// Least, median, most.
fn spread(figures: &[f64]) -> [f64; 3] {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |n: usize| sorted.get(n).copied().unwrap_or(f64::NAN);
    [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
}

fn round(x: f64, to: f64) -> f64 {
    (x * to).round() / to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_made_round_by_round() {
        let figures = Figures {
            case: "dr-v4-hit-64k".to_owned(),
            cycles: vec![100.0, 200.0, 110.0],
            floor: vec![30.0, 60.0, 33.0],
            beside: vec![90.0, 181.0, 100.0],
            packets: 5,
        };
        let row = Row::new(figures, &Value::Null);
        assert_eq!((row.cycles_min, row.cycles_median, row.cycles_max), (100.0, 110.0, 200.0));
        let compared = row.compared.expect("a case beside");
        assert_eq!((compared.with, compared.cycles_median), ("dr-v4-hit-1k", 100.0));
        assert_eq!((compared.ratio_min, compared.ratio_max), (1.1, 1.111));
        assert_eq!(row.ratio_5tswap, 3.33);
    }
}
