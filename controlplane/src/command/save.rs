//! `save`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed};
use crate::document::Saved;
use crate::protocol::Failure;

/// Print settings and running services in the config's own shape
#[derive(Debug, clap::Args)]
pub struct Save {}

impl Command for Save {
    const METHOD: &'static str = "save";
    const EXAMPLES: &'static str = "
        sluicectl save > sluice.toml";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| Ok(Saved { config: control.save() }))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |saved: &Saved| saved.config.clone())
    }
}
