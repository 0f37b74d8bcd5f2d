//! `server enable`.

use config::ServerRef;

use super::Command;
use crate::change::Change;
use crate::ctl::Failed;

/// Let a real server take new connections again, in all its services; undoes `server drain`
#[derive(Debug, clap::Args)]
pub struct ServerEnable {
    /// The server: its name, ADDRESS or ADDRESS:PORT
    server: ServerRef,
}

impl Command for ServerEnable {
    const METHOD: &'static str = "server.enable";
    const EXAMPLES: &'static str = "
        sluicectl server enable web-2";

    fn change(self) -> Result<Change, Failed> {
        Ok(Change::EnableServer { server: self.server })
    }
}
