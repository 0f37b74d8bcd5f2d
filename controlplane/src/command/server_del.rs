//! `server del`.

use config::spec::OnRemove;

use super::{Command, words};
use crate::change::Change;
use crate::ctl::Failed;

/// Remove a real server; its open connections stay unless the service or --then says otherwise
#[derive(Debug, clap::Args)]
#[command(alias = "delete", override_usage = "sluicectl server del SERVICE SERVER [--then WHAT]")]
pub struct ServerDel {
    /// The service: its name, or tcp|udp and ADDRESS:PORT
    service: String,
    /// The server: its name, ADDRESS or ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    server: Vec<String>,
    /// What becomes of its connections: drain (they stay), reset, forget or reschedule
    #[arg(long, value_name = "WHAT")]
    then: Option<OnRemove>,
    /// As --then reset
    #[arg(long, conflicts_with = "then")]
    purge: bool,
}

impl Command for ServerDel {
    const METHOD: &'static str = "server.delete";
    const EXAMPLES: &'static str = "
        sluicectl server del tcp 192.0.2.10:80 10.0.0.11
        sluicectl server del web web-2 --then reset";

    fn change(self) -> Result<Change, Failed> {
        let (service, server) = words::service_and_server(self.service, self.server)?;
        let then = if self.purge { Some(OnRemove::Reset) } else { self.then };
        Ok(Change::DelServer { service, server, then })
    }
}
