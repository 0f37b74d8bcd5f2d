//! `service flush`.

use super::Command;
use crate::change::Change;
use crate::ctl::{Ctl, Failed, confirm};

/// Remove all services; all connections end
#[derive(Debug, clap::Args)]
pub struct ServiceFlush {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Command for ServiceFlush {
    const METHOD: &'static str = "service.flush";
    const EXAMPLES: &'static str = "
        sluicectl service flush
        sluicectl service flush --yes";

    fn change(self) -> Result<Change, Failed> {
        Ok(Change::Flush)
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        confirm("Remove all services and end their connections?", self.yes)?;
        ctl.apply(&self.change()?)
    }
}
