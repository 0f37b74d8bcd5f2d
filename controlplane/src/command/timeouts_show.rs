//! `timeouts show`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed};
use crate::document::IdleTimes;
use crate::protocol::Failure;

/// Show the idle times after which connections end
#[derive(Debug, clap::Args)]
pub struct TimeoutsShow {}

impl Command for TimeoutsShow {
    const METHOD: &'static str = "timeouts.show";
    const EXAMPLES: &'static str = "
        sluicectl timeouts show";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| Ok(IdleTimes { timeouts: control.timeouts() }))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |doc: &IdleTimes| {
            let t = doc.timeouts;
            format!("tcp {} s  tcpfin {} s  udp {} s\n", t.tcp, t.tcpfin, t.udp)
        })
    }
}
