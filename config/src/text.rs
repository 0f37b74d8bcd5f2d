//! serde for types whose text form is `Display` and `FromStr`; sizes and durations with a unit.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a value as its text.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Reads a value from its text.
///
/// # Errors
/// The type's own words on what is wrong.
pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}

/// The same for optional values.
pub mod option {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer, de};

    /// Writes a value as its text, or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(v) => to.collect_str(v),
            None => to.serialize_none(),
        }
    }

    /// Reads a value from its text; null and absence are `None`.
    ///
    /// # Errors
    /// The type's own words on what is wrong.
    pub fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|t| t.parse().map_err(de::Error::custom)).transpose()
    }
}

/// A number of things with a power-of-1000 suffix: `4M` is four million.
///
/// # Errors
/// In words that say what is allowed.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(text, 1000).ok_or_else(|| format!("{text:?} is not a number such as 64k, 4M or 4000000"))
}

/// A number of bytes with a power-of-1024 suffix: `512M` is 512 MiB.
///
/// # Errors
/// In words that say what is allowed.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1024).ok_or_else(|| format!("{text:?} is not a size such as 512M or 2G"))
}

fn scaled(text: &str, unit: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        _ => return None,
    };
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(unit.pow(power))
}

/// A time in seconds, with a unit: `30s`, `10m`, `2h`; at most [`crate::load::MAX_TIMEOUT`].
///
/// # Errors
/// In words that say what is allowed.
pub fn seconds(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is no time such as 300s, 10m or 2h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let secs = number.checked_mul(unit).filter(|secs| *secs <= crate::load::MAX_TIMEOUT);
    secs.ok_or_else(|| format!("{text:?} is too long"))
}

/// A number in the shortest form that [`count`] reads back.
#[must_use]
pub fn show_count(n: u64) -> String {
    shortest(n, 1000)
}

/// A size in the shortest form that [`bytes`] reads back.
#[must_use]
pub fn show_bytes(n: u64) -> String {
    shortest(n, 1024)
}

/// So many of something: `1 port`, `2 ports`.
#[must_use]
pub fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn shortest(n: u64, unit: u64) -> String {
    for (power, suffix) in [(3, "G"), (2, "M"), (1, "k")] {
        let size = unit.pow(power);
        if n > 0 && n.is_multiple_of(size) {
            return format!("{}{suffix}", n / size);
        }
    }
    n.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_read_back() {
        for n in [0, 1, 999, 1000, 1024, 4_000_000, 3 << 30, 1_500] {
            assert_eq!(count(&show_count(n)), Ok(n));
            assert_eq!(bytes(&show_bytes(n)), Ok(n));
        }
        assert_eq!(count("4M"), Ok(4_000_000));
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert!(count("4X").is_err());
        assert!(count("M").is_err());
        assert!(bytes("99999999999999999999G").is_err());
    }

    #[test]
    fn times_have_units() {
        for (text, secs) in [("0", 0), ("300s", 300), ("300", 300), ("10m", 600), ("2h", 7200)] {
            assert_eq!(seconds(text), Ok(secs));
        }
        for text in ["", "s", "1d", "-1s", "1.5m", "99999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
