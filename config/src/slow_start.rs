//! Slow start: how the share of a server that joins a serving pool grows.

use std::fmt;
use std::str::FromStr;

use engine::sched::SchedulerKind;
use serde::{Deserialize, Serialize};

use crate::text;

/// The longest ramp, in seconds: an hour.
pub const MAX_SECS: u32 = 3600;

/// How the effective weight grows: after t of `secs` it is the weight × (t / secs) ^ exponent, and
/// never less than `floor` percent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowStart {
    /// How long it takes, in seconds; 0 is off.
    pub secs: u32,
    /// Percent of the weight to begin with, 1 … 100.
    #[serde(default = "default_floor")]
    pub floor: u32,
    /// 1 grows steadily, more begins more gently.
    #[serde(default, with = "text")]
    pub exponent: Exponent,
}

/// Where a ramp begins if nothing is said: at 5 percent.
pub const DEFAULT_FLOOR: u32 = 5;

const fn default_floor() -> u32 {
    DEFAULT_FLOOR
}

impl SlowStart {
    /// A steady ramp from [`DEFAULT_FLOOR`].
    #[must_use]
    pub fn new(secs: u32) -> Self {
        Self { secs, floor: DEFAULT_FLOOR, exponent: Exponent::default() }
    }

    /// The part of its weight that a server has so many ms after it joined: 1 from the end on.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "an hour in ms")]
    pub fn part(&self, ms: u64) -> f64 {
        let whole = f64::from(self.secs) * 1000.0;
        if ms as f64 >= whole {
            return 1.0;
        }
        let grown = (ms as f64 / whole).powf(f64::from(self.exponent.hundredths) / 100.0);
        grown.max(f64::from(self.floor) / 100.0)
    }
}

/// A decimal number from 0.1 to 10, to two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponent {
    hundredths: u32,
}

impl Default for Exponent {
    fn default() -> Self {
        Self { hundredths: 100 }
    }
}

impl fmt::Display for Exponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ones, rest) = (self.hundredths / 100, self.hundredths % 100);
        match (rest, rest % 10) {
            (_, 0) => write!(f, "{ones}.{}", rest / 10),
            _ => write!(f, "{ones}.{rest:02}"),
        }
    }
}

impl FromStr for Exponent {
    type Err = String;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "10 to 1000")]
    fn from_str(s: &str) -> Result<Self, String> {
        let number = s.parse::<f64>().ok().filter(|n| (0.1..=10.0).contains(n));
        let hundredths = number.map(|n| (n * 100.0).round() as u32);
        let wrong = || format!("{s:?} is not a number from 0.1 to 10, such as 1.5");
        hundredths.map(|hundredths| Self { hundredths }).ok_or_else(wrong)
    }
}

/// Whether servers of such a service can start slowly: not where a client or destination has its
/// server (`sh`, `dh`, `mh`), nor where weights are ranks and no shares (`fo`, `ovf`).
#[must_use]
pub const fn is_ramped(scheduler: SchedulerKind) -> bool {
    use SchedulerKind::{Dh, Fo, Mh, Ovf, Sh};
    !matches!(scheduler, Dh | Fo | Mh | Ovf | Sh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_grows_from_its_floor_to_the_whole() {
        let steady = SlowStart::new(30);
        let parts = [0, 1_000, 3_000, 15_000, 29_999, 30_000, u64::MAX].map(|ms| steady.part(ms));
        let want = [0.05, 0.05, 0.1, 0.5, 0.999_97, 1.0, 1.0];
        parts.iter().zip(want).for_each(|(p, w)| assert!((p - w).abs() < 1e-4, "{p} {w}"));
        let gentle = SlowStart { floor: 10, exponent: "2".parse().unwrap(), ..steady };
        let parts = [0, 15_000, 27_000].map(|ms| gentle.part(ms));
        parts.iter().zip([0.1, 0.25, 0.81]).for_each(|(p, w)| assert!((p - w).abs() < 1e-4));
        assert_eq!(SlowStart { floor: 100, ..steady }.part(0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn exponents_read_back() {
        for (text, shown) in [
            ("1", "1.0"),
            ("1.50", "1.5"),
            ("0.1", "0.1"),
            ("2.25", "2.25"),
            ("10", "10.0"),
            ("1.05", "1.05"),
        ] {
            let exponent: Exponent = text.parse().unwrap();
            assert_eq!(exponent.to_string(), shown);
            assert_eq!(shown.parse(), Ok(exponent));
        }
        for text in ["", "0", "0.09", "10.1", "NaN", "-1", "x"] {
            assert!(text.parse::<Exponent>().is_err(), "{text}");
        }
    }
}
