//! What the figures should reach.

const KNOWN: &str = "dr-v4-hit-1k";
const NEW: &str = "dr-v4-new";
/// Most that expiry may add to hits: the same director beside itself.
const EXPIRY: f64 = 1.1;

/// What a case is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The floor `5tswap`.
    Floor,
    /// Another case, measured in the same rounds.
    Case(&'static str),
}

/// A case, the most cycles it may take (0: any), and at most how many times what.
const BARS: [(&str, f64, f64, To); 10] = [
    ("pcap-5tswap", 0.0, 1.1, To::Case("testpmd-5tswap")),
    (KNOWN, 75.0, 2.0, To::Floor),
    ("ipip-v4-hit-1k", 95.0, 2.5, To::Floor),
    ("dr-v4-hit-64k", 90.0, 1.2, To::Case(KNOWN)),
    ("dr-v4-hit-1M", 130.0, 1.75, To::Case(KNOWN)),
    ("dr-v4-hit-16M", 180.0, 2.4, To::Case(KNOWN)),
    (NEW, 250.0, 3.3, To::Case(KNOWN)),
    ("dr-v4-new-1000servers", 0.0, 1.5, To::Case(NEW)),
    ("dr-v4-hit-1k-1000servers", 0.0, 1.2, To::Case(KNOWN)),
    ("dr-v4-hit-1k-10kservices", 0.0, 1.1, To::Case(KNOWN)),
];

/// The other case that must be measured beside this one.
pub(crate) fn beside(case: &str) -> Option<&'static str> {
    match BARS.iter().find(|bar| bar.0 == case)?.3 {
        To::Case(other) => Some(other),
        To::Floor => None,
    }
}

/// Median, least and most of a ratio by round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// What a case is compared with, by name.
pub(crate) fn other(case: &str) -> Option<&'static str> {
    if case.contains("-expire") { Some("without expiry") } else { beside(case) }
}

/// The bars of a case with what became of them.
pub(crate) fn of(case: &str, cycles: f64, floor: Ratio, beside: Option<Ratio>) -> Option<String> {
    if case.contains("-expire") {
        return Some(compared(EXPIRY, other(case)?, beside?));
    }
    let (_, most, times, to) = BARS.into_iter().find(|bar| bar.0 == case)?;
    let mut said = Vec::new();
    if most > 0.0 {
        said.push(format!("{most}: {}", verdict(cycles, most)));
    }
    match (to, beside) {
        (To::Floor, _) => said.push(compared(times, "5tswap", floor)),
        (To::Case(other), Some(ratio)) => said.push(compared(times, other, ratio)),
        (To::Case(_), None) => (),
    }
    Some(said.join(", "))
}

fn compared(times: f64, what: &str, Ratio { median, min, max }: Ratio) -> String {
    format!("{times} x {what}: {median:.2} ({min:.2} to {max:.2}) {}", verdict(median, times))
}

fn verdict(figure: f64, most: f64) -> String {
    if figure <= most {
        return "met".to_owned();
    }
    format!("missed by {:.0} %", (figure / most - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_compared_with_figures_of_the_same_rounds() {
        let ratio = |median| Ratio { median, min: median - 0.1, max: median + 0.1 };
        assert_eq!(
            of(KNOWN, 90.0, ratio(3.0), None).unwrap(),
            "75: missed by 20 %, 2 x 5tswap: 3.00 (2.90 to 3.10) missed by 50 %"
        );
        assert_eq!(
            of("dr-v4-hit-64k", 1.0, ratio(1.0), Some(ratio(1.2))).unwrap(),
            "90: met, 1.2 x dr-v4-hit-1k: 1.20 (1.10 to 1.30) met"
        );
        assert_eq!(
            of("ipip-v4-expire-64k", 1.0, ratio(1.0), Some(ratio(1.21))).unwrap(),
            "1.1 x without expiry: 1.21 (1.11 to 1.31) missed by 10 %"
        );
        assert_eq!(of("5tswap", 1.0, ratio(1.0), None), None);
    }
}
