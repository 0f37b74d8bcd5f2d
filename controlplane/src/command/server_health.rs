//! `server health`.

use config::ServerRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Command, Work, ask};
use crate::control::health::Marked;
use crate::ctl::{Ctl, Failed};
use crate::protocol::Failure;
use crate::states::Health;

/// Say whether a real server answers: down gives it no new connections, in all its services
#[derive(Debug, clap::Args)]
pub struct ServerHealth {
    /// The server: its name, ADDRESS or ADDRESS:PORT
    server: ServerRef,
    /// up, down, or unknown, which counts as up
    health: Health,
}

/// The parameters of the method.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Which server.
    pub server: ServerRef,
    /// Its health.
    #[serde(with = "config::text")]
    pub health: Health,
}

impl Command for ServerHealth {
    const METHOD: &'static str = "server.health";
    const EXAMPLES: &'static str = "
        sluicectl server health web-2 down
        sluicectl server health 10.0.0.11 up";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |p: Params, control| control.set_health(&p.server, p.health))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let params = Params { server: self.server, health: self.health };
        ctl.show(Self::METHOD, &params, |marked: &Marked| {
            let of = config::text::many(marked.services.len() as u64, "service");
            let services = marked.services.join(", ");
            format!("{} is {} in {of}: {services}\n", marked.server, marked.health)
        })
    }
}
