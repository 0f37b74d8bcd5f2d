//! `service del`.

use super::{Command, words};
use crate::change::Change;
use crate::ctl::Failed;

/// Remove a service; its connections end
#[derive(Debug, clap::Args)]
#[command(alias = "delete", override_usage = "sluicectl service del SERVICE")]
pub struct ServiceDel {
    /// Which: its name, or tcp|udp and ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    service: Vec<String>,
}

impl Command for ServiceDel {
    const METHOD: &'static str = "service.delete";
    const EXAMPLES: &'static str = "
        sluicectl service del tcp 192.0.2.10:80
        sluicectl service del web";

    fn change(self) -> Result<Change, Failed> {
        Ok(Change::DelService { service: words::service(&self.service)? })
    }
}
