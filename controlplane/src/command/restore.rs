//! `restore`.

use std::io::{IsTerminal, Read};

use config::Settings;

use super::Command;
use crate::change::{Change, Wanted};
use crate::ctl::{Ctl, Failed};

/// Replace all services and idle times by those of a config file, in one transaction
///
/// Reads the file from stdin. Servers that stay keep their connections. Ports, lcores and DPDK's
/// part of the file are checked but not applied: they need a restart of sluiced.
#[derive(Debug, clap::Args)]
pub struct Restore {}

impl Command for Restore {
    const METHOD: &'static str = "restore";
    const EXAMPLES: &'static str = "
        sluicectl restore < sluice.toml";

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let mut stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Err(Failed::Usage("give it a file: sluicectl restore < sluice.toml".into()));
        }
        let mut text = String::new();
        stdin.read_to_string(&mut text)?;
        let settings = config::parse(&text, "stdin").map_err(|e| Failed::Input(e.to_string()))?;
        let applied = ctl.client()?.batch(&parts(settings))?;
        ctl.applied(&applied)
    }
}

/// One part for the idle times and one a service, so that a config of any length can be sent; the
/// parts of one batch make one change again ([`crate::session::whole`]).
fn parts(settings: Settings) -> Vec<Change> {
    let timeouts = Some(settings.director.timeouts);
    let first = Wanted { services: Vec::new(), timeouts };
    let service = |s| Wanted { services: vec![s], timeouts: None };
    let rest = settings.services.into_iter().map(service);
    std::iter::once(first).chain(rest).map(Change::Restore).collect()
}
