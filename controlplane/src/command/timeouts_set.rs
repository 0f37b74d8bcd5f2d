//! `timeouts set`.

use config::spec::Timeouts;

use super::Command;
use crate::change::Change;
use crate::ctl::Failed;

/// Set the idle times after which connections end, in seconds; 0 keeps a value
#[derive(Debug, clap::Args)]
pub struct TimeoutsSet {
    /// Established TCP
    tcp: u32,
    /// TCP after a FIN
    tcpfin: u32,
    /// UDP
    udp: u32,
}

impl Command for TimeoutsSet {
    const METHOD: &'static str = "timeouts.set";
    const EXAMPLES: &'static str = "
        sluicectl timeouts set 7200 60 300
        sluicectl timeouts set 0 0 120";

    fn change(self) -> Result<Change, Failed> {
        let Self { tcp, tcpfin, udp } = self;
        Ok(Change::SetTimeouts(Timeouts { tcp, tcpfin, udp }))
    }
}
