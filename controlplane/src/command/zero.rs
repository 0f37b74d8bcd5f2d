//! `zero`.

use serde_json::Value;

use super::words::OneOrAll;
use super::{Command, Work, ask};
use crate::ctl::{Ctl, Failed};
use crate::protocol::Failure;

/// Start the counters of all services again from 0, or of one
///
/// Without a service everything that is counted starts again: services, servers, lcores with their
/// drops and turns, and ports. What there is stays: connections, and the most there ever were.
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl zero [SERVICE]")]
pub struct Zero {
    /// Only this one: its name, or tcp|udp and ADDRESS:PORT
    #[arg(num_args = 0..=2)]
    service: Vec<String>,
}

impl Command for Zero {
    const METHOD: &'static str = "zero";
    const EXAMPLES: &'static str = "
        sluicectl zero
        sluicectl zero tcp 192.0.2.10:80";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |which: OneOrAll, control| control.zero(which.service.as_ref()))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let which = OneOrAll::of(&self.service)?;
        ctl.show(Self::METHOD, &which, |_: &Value| String::new())
    }
}
