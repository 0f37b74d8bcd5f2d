//! `man`, for packagers.

use std::path::PathBuf;

use super::Command;
use crate::ctl::{self, Ctl, Failed};

/// Write the manual pages of all commands to a folder
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Man {
    /// An existing folder
    folder: PathBuf,
}

impl Command for Man {
    /// Needs no director.
    const METHOD: &'static str = "";
    const EXAMPLES: &'static str = "
        sluicectl man /usr/share/man/man1";

    fn run(self, _: &mut Ctl) -> Result<(), Failed> {
        clap_mangen::generate_to(ctl::cli(), &self.folder).map_err(Failed::Io)
    }
}
