//! `service rebalance`.

use config::ServiceRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Command, Work, ask, words};
use crate::control::rebalance::Plan;
use crate::ctl::{Ctl, Failed};
use crate::protocol::Failure;
use crate::table::count;

/// Reset connections of the fullest servers, so that new servers get their share of them
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl service rebalance SERVICE --rate N/s")]
pub struct ServiceRebalance {
    /// Which: its name, or tcp|udp and ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    service: Vec<String>,
    /// How many connections per second, as 50/s; 0 stops it
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: u32,
}

/// The parameters of the method.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Which service.
    pub service: ServiceRef,
    /// Connections per second; 0 stops it.
    pub rate: u32,
}

impl Command for ServiceRebalance {
    const METHOD: &'static str = "service.rebalance";
    const EXAMPLES: &'static str = "
        sluicectl service rebalance web --rate 50/s
        sluicectl service rebalance web --rate 0";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |p: Params, control| control.rebalance(&p.service, p.rate))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let params = Params { service: words::service(&self.service)?, rate: self.rate };
        ctl.show(Self::METHOD, &params, |plan: &Plan| {
            let servers = config::text::many(plan.servers, "server");
            let (n, secs) = (count(plan.connections), plan.seconds);
            format!("{n} connections of {servers} are given up within {secs} s, if they send\n")
        })
    }
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let wrong = || format!("{text:?} is no rate such as 50/s, 1000000/s at most");
    number.parse().ok().filter(|n| *n <= 1_000_000).ok_or_else(wrong)
}
