//! The daemon's command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Sluice's director: forwards what clients send to virtual services.
#[derive(Debug, Parser)]
#[command(
    name = "sluiced",
    version,
    after_help = "Examples:
  sluiced --check                             is the config file right?
  sluiced                                     run with /etc/sluice/sluice.toml
  sluiced --config lab.toml --socket /tmp/s   a second director on one machine
  sluiced --config pcap.toml --exit-when-idle a capture in, a capture out

Exit status: 0 clean end, 1 failed while running, 2 wrong config or usage."
)]
pub(crate) struct Args {
    /// The config file.
    #[arg(short, long, value_name = "FILE", default_value = config::settings::DEFAULT_FILE)]
    pub(crate) config: PathBuf,

    /// The control socket, in place of the config's.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Check the config and end. Nothing is started or opened.
    #[arg(long)]
    pub(crate) check: bool,

    /// End when nothing was received for so many milliseconds and nothing is queued or waits for a
    /// neighbour.
    #[arg(
        long,
        value_name = "MS",
        num_args = 0..=1,
        default_missing_value = "200",
        require_equals = true,
        value_parser = milliseconds
    )]
    pub(crate) exit_when_idle: Option<Duration>,

    /// One more argument for DPDK's EAL, after the config's. May be given several times.
    #[arg(long = "eal", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal_args: Vec<String>,

    /// One more driver plug-in, after the config's (shared build only). May be given several times.
    #[arg(long = "plugin", value_name = "FILE")]
    pub(crate) plugins: Vec<PathBuf>,

    /// Run without hugepages, whatever the config says. Slower.
    #[arg(long)]
    pub(crate) no_huge: bool,

    /// More log: -v what is found, -vv everything.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms = text.parse().map_err(|_| format!("{text:?} is not a number of milliseconds"))?;
    Ok(Duration::from_millis(ms))
}
