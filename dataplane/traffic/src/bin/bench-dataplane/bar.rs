//! What the figures should reach.

const FLOOR: &str = "5tswap";
const KNOWN: &str = "dr-v4-hit-1k";
const NEW: &str = "dr-v4-new";

/// A case, the most cycles it may take (0: any), and at most how many times another case.
const BARS: [(&str, f64, f64, &str); 9] = [
    (KNOWN, 75.0, 2.0, FLOOR),
    ("ipip-v4-hit-1k", 95.0, 2.5, FLOOR),
    ("dr-v4-hit-64k", 90.0, 1.2, KNOWN),
    ("dr-v4-hit-1M", 130.0, 1.75, KNOWN),
    ("dr-v4-hit-16M", 180.0, 2.4, KNOWN),
    (NEW, 250.0, 3.3, KNOWN),
    ("dr-v4-new-1000servers", 0.0, 1.5, NEW),
    ("dr-v4-hit-1k-1000servers", 0.0, 1.2, KNOWN),
    ("dr-v4-hit-1k-10kservices", 0.0, 1.1, KNOWN),
];

/// The bars of a case with what became of them. `median` gives the cycles of other cases in the run.
pub(crate) fn of(case: &str, cycles: f64, median: &dyn Fn(&str) -> Option<f64>) -> Option<String> {
    let (_, most, times, other) = BARS.into_iter().find(|bar| bar.0 == case)?;
    let mut said = Vec::new();
    if most > 0.0 {
        said.push(format!("{most}: {}", verdict(cycles, most)));
    }
    said.push(match median(other) {
        Some(base) => format!("{times} x {other}: {}", verdict(cycles, times * base)),
        None => format!("{times} x {other}: not in this run"),
    });
    Some(said.join(", "))
}

fn verdict(cycles: f64, most: f64) -> String {
    if cycles <= most {
        return "met".to_owned();
    }
    format!("missed by {:.0} %", (cycles / most - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_compared_with_figures_of_the_same_run() {
        let median = |case: &str| (case == FLOOR).then_some(30.0);
        let said = |case, cycles| of(case, cycles, &median);
        assert_eq!(said(KNOWN, 60.0).unwrap(), "75: met, 2 x 5tswap: met");
        assert_eq!(said(KNOWN, 90.0).unwrap(), "75: missed by 20 %, 2 x 5tswap: missed by 50 %");
        assert_eq!(
            said("dr-v4-hit-64k", 1.0).unwrap(),
            "90: met, 1.2 x dr-v4-hit-1k: not in this run"
        );
        assert_eq!(said(FLOOR, 1.0), None);
    }
}
