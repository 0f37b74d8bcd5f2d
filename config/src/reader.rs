//! Reads the keys of one TOML table; what is wrong is gathered, not thrown, so that one look at a
//! file tells everything.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::load::MAX_TIMEOUT;
use crate::report::Problem;

/// The problems found so far.
pub(crate) type Problems = RefCell<Vec<Problem>>;

/// One table while it is read.
pub(crate) struct Reader<'a> {
    /// The table's name in messages: `[director]`.
    name: &'static str,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    asked: RefCell<BTreeSet<&'static str>>,
    problems: &'a Problems,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        name: &'static str,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        problems: &'a Problems,
    ) -> Self {
        Self { name, table, span, asked: RefCell::default(), problems }
    }

    /// A table among the values.
    pub(crate) fn of_value(
        name: &'static str,
        value: &'a Spanned<DeValue<'a>>,
        problems: &'a Problems,
    ) -> Option<Self> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = value.get_ref().type_str();
            let message = format!("{name} must be a table, not {found}");
            problems.borrow_mut().push(Problem::new(value.span(), message));
        }
        Some(Self::new(name, table?, value.span(), problems))
    }

    /// Notes something that is wrong.
    pub(crate) fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Where problems go.
    pub(crate) const fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Where a key's value is, else the whole table.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// A key's value as it is.
    pub(crate) fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().insert(key);
        self.table.get(key)
    }

    /// A key's value, if it is there and `read` can make something of it.
    pub(crate) fn read<T>(
        &self,
        key: &'static str,
        read: impl Fn(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        match read(value.get_ref()) {
            Ok(v) => Some(v),
            Err(why) => {
                self.problem(Problem::new(value.span(), format!("`{key}`: {why}")));
                None
            }
        }
    }

    /// A key that must be there.
    pub(crate) fn need<T>(
        &self,
        key: &'static str,
        read: impl Fn(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let found = self.read(key, read);
        if self.table.get(key).is_none() {
            let message = format!("{} lacks `{key}`", self.name);
            self.problem(Problem::new(self.span.clone(), message));
        }
        found
    }

    /// A list, item by item; what is wrong with one item is shown at that item.
    pub(crate) fn list<T>(
        &self,
        key: &'static str,
        read: impl Fn(&DeValue<'a>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let values = self.items(key)?;
        let mut list = Vec::new();
        for value in values {
            match read(value.get_ref()) {
                Ok(v) => list.push(v),
                Err(why) => self.problem(Problem::new(value.span(), format!("`{key}`: {why}"))),
            }
        }
        Some(list)
    }

    /// The items of a list as they are.
    pub(crate) fn items(&self, key: &'static str) -> Option<&'a [Spanned<DeValue<'a>>]> {
        let value = self.value(key)?;
        let array = value.get_ref().as_array();
        if array.is_none() {
            let found = value.get_ref().type_str();
            self.problem(Problem::new(
                value.span(),
                format!("`{key}` must be a list, not {found}"),
            ));
        }
        array.map(|a| &a[..])
    }

    /// Refuses, by name, every key that was not asked for; `later` are those of coming releases.
    pub(crate) fn finish(&self, later: &[&str]) {
        let asked = self.asked.borrow();
        let allowed: Vec<&str> = asked.iter().copied().collect();
        for (key, value) in self.table {
            let name: &str = key.get_ref();
            if asked.contains(name) {
                continue;
            }
            let problem = if later.contains(&name) {
                let span = key.span().start..value.span().end;
                Problem::new(span, format!("`{name}` in {} is not supported yet", self.name))
            } else {
                Problem::new(key.span(), format!("`{name}` is unknown in {}", self.name))
            };
            self.problem(problem.help(allowed.join(", ")));
        }
    }
}

/// A text.
pub(crate) fn text(value: &DeValue<'_>) -> Result<String, String> {
    let wrong = || format!("must be a text in quotes, not {}", value.type_str());
    value.as_str().map(str::to_owned).ok_or_else(wrong)
}

/// A text that is not empty.
pub(crate) fn filled(value: &DeValue<'_>) -> Result<String, String> {
    text(value)
        .and_then(|t| if t.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(t) })
}

/// A device string. DPDK says whether there is such a device; what can be none is refused here.
pub(crate) fn device(value: &DeValue<'_>) -> Result<String, String> {
    let text = filled(value)?;
    let name = text.split(',').next().unwrap_or_default();
    let known = ["net_", "eth_", "virtio_user"].iter().any(|p| name.starts_with(p));
    if known || name.contains(':') {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is neither a PCI address (0000:3b:00.0) nor a virtual device (net_...); for a \
         kernel interface write net_af_packet0,iface={name}"
    ))
}

/// A text that a type reads.
pub(crate) fn parsed<T: FromStr<Err: Display>>(value: &DeValue<'_>) -> Result<T, String> {
    text(value)?.parse().map_err(|e: T::Err| e.to_string())
}

/// An IP address; the parser's own words would not show the value.
pub(crate) fn ip(value: &DeValue<'_>) -> Result<std::net::IpAddr, String> {
    let text = text(value)?;
    text.parse().map_err(|_| format!("{text:?} is not an address such as 10.0.0.1"))
}

/// true or false.
pub(crate) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("must be true or false, not {}", value.type_str()))
}

/// A whole number in a range.
pub(crate) fn number<T>(
    range: std::ops::RangeInclusive<T>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String>
where
    T: TryFrom<i128> + PartialOrd + Display + Copy,
{
    move |value| {
        let (low, high) = (range.start(), range.end());
        let Some(integer) = value.as_integer() else {
            return Err(format!("must be a number from {low} to {high}, not {}", value.type_str()));
        };
        let digits = integer.as_str().replace('_', "");
        let n = i128::from_str_radix(digits.trim_start_matches('+'), integer.radix());
        let fits = n.ok().and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        fits.ok_or_else(|| format!("{digits} is not in {low} to {high}"))
    }
}

/// A decimal number that a type reads.
pub(crate) fn decimal<T: FromStr<Err: Display>>(value: &DeValue<'_>) -> Result<T, String> {
    let number = value.as_float().map(|f| f.as_str());
    let number = number.or_else(|| value.as_integer().map(|i| i.as_str()));
    let wrong = || format!("must be a number, not {}", value.type_str());
    number.ok_or_else(wrong)?.parse().map_err(|e: T::Err| e.to_string())
}

/// A number of seconds, or a text with a unit.
pub(crate) fn seconds(value: &DeValue<'_>) -> Result<u32, String> {
    value.as_str().map_or_else(|| number(0..=MAX_TIMEOUT)(value), crate::text::seconds)
}

/// A number, or a text with a suffix.
pub(crate) fn scaled(
    read: impl Fn(&str) -> Result<u64, String>,
    range: std::ops::RangeInclusive<u64>,
) -> impl Fn(&DeValue<'_>) -> Result<u64, String> {
    move |value| match value.as_str() {
        None => number(range.clone())(value),
        Some(text) => read(text).and_then(|n| {
            let (low, high) = (range.start(), range.end());
            range.contains(&n).then_some(n).ok_or_else(|| format!("{n} is not in {low} to {high}"))
        }),
    }
}
