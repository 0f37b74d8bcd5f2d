//! `director stop`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed, confirm};
use crate::protocol::Failure;

/// Stop the director: forwarding ends
#[derive(Debug, clap::Args)]
pub struct DirectorStop {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Command for DirectorStop {
    const METHOD: &'static str = "director.stop";
    const EXAMPLES: &'static str = "
        sluicectl director stop
        sluicectl director stop --yes";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            control.stop();
            Ok(())
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        confirm("Stop the director? Forwarding ends.", self.yes)?;
        ctl.show(Self::METHOD, &NoParams {}, |_: &Value| "stopping\n".to_owned())
    }
}
