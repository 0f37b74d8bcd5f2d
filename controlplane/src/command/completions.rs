//! `completions`.

use clap_complete::Shell;

use super::Command;
use crate::ctl::{self, Ctl, Failed};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Command for Completions {
    /// Needs no director.
    const METHOD: &'static str = "";
    const EXAMPLES: &'static str = "
        sluicectl completions bash > /etc/bash_completion.d/sluicectl
        sluicectl completions zsh";

    fn run(self, _: &mut Ctl) -> Result<(), Failed> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut ctl::cli(), "sluicectl", &mut script);
        ctl::print(&String::from_utf8_lossy(&script))
    }
}
