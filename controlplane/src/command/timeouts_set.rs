//! `timeouts set`.

use config::load::MAX_TIMEOUT;
use config::spec::Timeouts;

use super::{Command, words};
use crate::change::Change;
use crate::ctl::Failed;

/// Set the idle times after which connections end, in seconds; 0 keeps a value
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl timeouts set TCP TCPFIN UDP")]
pub struct TimeoutsSet {
    /// Established TCP
    #[arg(value_parser = words::number(MAX_TIMEOUT), allow_negative_numbers = true)]
    tcp: u32,
    /// TCP after a FIN
    #[arg(value_parser = words::number(MAX_TIMEOUT), allow_negative_numbers = true)]
    tcpfin: u32,
    /// UDP
    #[arg(value_parser = words::number(MAX_TIMEOUT), allow_negative_numbers = true)]
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
