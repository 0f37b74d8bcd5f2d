//! Columns for people: aligned by two spaces, no borders, numbers to the right.
//!
//! Also the house's way to write numbers: `64,700` for counts, `72.0 M` for rates in bit/s, `41d` for
//! spans. Scripts use `--json`.

use anstyle::Style;

/// Widest table, in characters; the first column gives way.
const WIDTH: usize = 120;
/// Narrowest first column.
const NARROWEST: usize = 12;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table: titles, then rows of as many cells.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a title that begins with `>` is a column of numbers.
    #[must_use]
    pub fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('>') {
            Some(title) => (title, Align::Right),
            None => (*title, Align::Left),
        };
        Self { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    /// Whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, at most 120 characters wide as far as the first column can give way. `bold` sets
    /// off the titles.
    #[must_use]
    pub fn render(&self, bold: Style) -> String {
        let widths = self.widths();
        let titles = self.columns.iter().map(|c| c.0);
        let mut text = format!("{bold}{}{bold:#}\n", self.line(titles, &widths));
        for row in &self.rows {
            text.push_str(&self.line(row.iter().map(String::as_str), &widths));
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|r| r[i].chars().count());
            cells.chain([self.columns[i].0.chars().count()]).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let all = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if let Some(first) = widths.first_mut() {
            let least = NARROWEST.min(*first);
            *first = first.saturating_sub(all.saturating_sub(WIDTH)).max(least);
        }
        widths
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
        let mut text = String::new();
        for ((cell, width), (_, align)) in cells.zip(widths).zip(&self.columns) {
            if !text.is_empty() {
                text.push_str("  ");
            }
            let cell = shorten(cell, *width);
            match align {
                Align::Left => text.push_str(&format!("{cell:<width$}")),
                Align::Right => text.push_str(&format!("{cell:>width$}")),
            }
        }
        text.truncate(text.trim_end().len());
        text
    }
}

fn shorten(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A count: `64,700`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate in whole units: `10,000`; below 10 with one digit after the point, unless it is whole.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive")]
pub fn rate(per_second: f64) -> String {
    let tenths = (per_second * 10.0).round();
    if tenths > 0.0 && tenths < 100.0 && tenths % 10.0 != 0.0 {
        return format!("{per_second:.1}");
    }
    count(per_second.round() as u64)
}

/// A rate with its power of 1000: `72.0 M`, `14.4 M`, `820`.
#[must_use]
pub fn scaled(n: f64) -> String {
    for (size, unit) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")] {
        if n >= size * 0.99995 {
            return format!("{:.1} {unit}", n / size);
        }
    }
    format!("{n:.0}")
}

/// A span of seconds in its greatest unit: `41d`, `7h`, `12m`, `5s`.
#[must_use]
pub fn span(seconds: u64) -> String {
    for (size, unit) in [(86_400, "d"), (3_600, "h"), (60, "m")] {
        if seconds >= size {
            return format!("{}{unit}", seconds / size);
        }
    }
    format!("{seconds}s")
}

/// A time that runs down: `14:59`, `1:59:59`.
#[must_use]
pub fn clock(seconds: u32) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A part of a whole in percent, with `digits` after the point; `-` of nothing.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
pub fn share(part: u64, whole: u64, digits: usize) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.digits$} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", ">Weight", "State"]);
        table.row(["web".into(), "500".into(), "4/4 up".into()]);
        table.row(["  web-1".into(), "100,000".into(), "up".into()]);
        let text = table.render(Style::new());
        assert_eq!(
            text,
            "NAME      Weight  State\n\
             web          500  4/4 up\n\
             \u{20} web-1  100,000  up\n"
        );
    }

    #[test]
    fn the_first_column_gives_way_to_the_width() {
        let mut table = Table::new(&["NAME", "Address"]);
        table.row(["n".repeat(64), "a".repeat(80)]);
        let text = table.render(Style::new());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains('…'));
        assert!(text.contains(&"a".repeat(80)));
    }

    #[test]
    fn numbers_are_written_the_house_s_way() {
        let counts = [(0, "0"), (999, "999"), (1_000, "1,000"), (64_700, "64,700")];
        for (n, text) in counts {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        for (n, text) in [(0.0, "0"), (0.04, "0"), (0.5, "0.5"), (3.0, "3"), (9.96, "10")] {
            assert_eq!(rate(n), text);
        }
        assert_eq!(rate(10_000.4), "10,000");
        let rates = [(0.0, "0"), (820.0, "820"), (999.96, "1.0 K"), (72e6, "72.0 M")];
        for (n, text) in rates {
            assert_eq!(scaled(n), text);
        }
        for (s, text) in [(5, "5s"), (125, "2m"), (7_300, "2h"), (41 * 86_400 + 9, "41d")] {
            assert_eq!(span(s), text);
        }
        assert_eq!((clock(899).as_str(), clock(7_199).as_str()), ("14:59", "1:59:59"));
        assert_eq!(share(4_012, 20_000, 1), "20.1 %");
        assert_eq!(share(1, 0, 1), "-");
    }
}
