//! `batch`.

use std::io::{BufRead, IsTerminal};

use serde_json::Value;

use super::{Command, Work};
use crate::change::Change;
use crate::client::ClientError;
use crate::ctl::{self, Ctl, Failed};
use crate::protocol::{self, Failure};
use crate::session::{Changes, whole};

/// Apply many changes as a whole or not at all, in one step for all lcores
///
/// Reads commands from stdin, one a line, as on the command line but without "sluicectl". Empty
/// lines and lines that begin with # are skipped.
#[derive(Debug, clap::Args)]
pub struct Batch {}

impl Command for Batch {
    const METHOD: &'static str = "batch";
    const EXAMPLES: &'static str = "
        sluicectl batch < changes.txt";

    fn work(params: Value) -> Result<Work, Failure> {
        let Changes { changes } = protocol::params(params)?;
        Ok(Work::Changes(whole(changes.into_iter().map(|c| c.0))))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Err(Failed::Usage("give it a file: sluicectl batch < changes.txt".into()));
        }
        let (lines, changes): (Vec<usize>, Vec<Change>) = read(stdin.lock())?.into_iter().unzip();
        let applied = ctl.client()?.batch(&changes).map_err(|e| at_line(e, &lines))?;
        ctl.applied(&applied)
    }
}

/// Says in which line a refused change stands.
fn at_line(error: ClientError, lines: &[usize]) -> Failed {
    let mut failed = Failed::from(error);
    if let Failed::Refused(failure) = &mut failed
        && let Some(line) = failure.data.change.and_then(|n| lines.get(n))
    {
        failure.message = format!("line {line}: {}", failure.message);
    }
    failed
}

/// The changes, each with the number of its line.
fn read(lines: impl BufRead) -> Result<Vec<(usize, Change)>, Failed> {
    let mut cli = ctl::cli();
    let mut changes = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line?;
        let words = line.split_whitespace();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let at = |e: String| Failed::Input(format!("line {}: {e}", number + 1));
        let matches = cli
            .try_get_matches_from_mut(std::iter::once("sluicectl").chain(words))
            .map_err(|e| at(e.to_string()))?;
        let Some((words, leaf)) = super::chosen(&matches) else {
            return Err(at("no command".into()));
        };
        let change = super::change(&words, leaf).map_err(|e| at(e.to_string()))?;
        changes.push((number + 1, change));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands() {
        let text = "# two services\n\nservice add tcp 192.0.2.1:80\n  service del web\n";
        let changes = read(text.as_bytes()).unwrap();
        assert_eq!(changes.len(), 2);
        assert!(matches!(changes[1], (4, Change::DelService { .. })));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, part) in [
            ("service add tcp 192.0.2.1:80\nservice ad", "line 2:"),
            ("stats", "changes nothing"),
            ("service add tcp 192.0.2.1", "line 1:"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
