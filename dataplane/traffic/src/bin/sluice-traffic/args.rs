//! The command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use engine::addr::{Addr, Mac};
use traffic::packet::{Sizes, Transport};
use traffic::plan::{Choice, Flows, Life, MOST_FLOWS};
use traffic::servers::Server;

/// Sends numbered flows through a director and verifies every packet that comes out.
#[derive(Debug, Parser)]
#[command(
    name = "sluice-traffic",
    version,
    after_help = "Examples:
  sluice-traffic run --tx 0000:3b:00.0 --rx 0000:3b:00.1 --vip 192.0.2.10:80 --rate 1000000
  sluice-traffic run --tx net_memif0,role=client,socket=/tmp/m --vip 192.0.2.10:80 \\
      --server 192.0.2.11 --server 192.0.2.12 --life cycle --svg run.svg
  sluice-traffic run --tx 0000:3b:00.0 --vip '[2001:db8::10]:443' --to 02:00:00:00:0d:01 \\
      --quic --migrate 0.1 --life cycle --packets-per-flow 20
  sluice-traffic search zero-loss --tx 0000:3b:00.0 --vip 192.0.2.10:80 --rate 14000000
  sluice-traffic run --interactive --tx …

Exit status: 0 all is verified, 1 a packet was lost, hurt or misled, or the run failed, 2 usage."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// One load for a time, or several by a prompt.
    Run(Run),
    /// Looks for a limit, by trials of --seconds each.
    Search {
        /// What limit.
        #[arg(value_enum)]
        what: What,
        #[command(flatten)]
        run: Run,
        /// How near to the limit: part of where the search begins.
        #[arg(long, default_value_t = 0.02)]
        near: f64,
        /// Table: a shell command between opening the flows and asking for each of them once, such
        /// as one that adds a server. A director that hashes what it has no room for shows its limit
        /// only so, and only when each run of the command changes where the hash leads.
        #[arg(long, value_name = "COMMAND")]
        between: Option<String>,
    },
    /// Write the manual pages to a folder, for packagers.
    #[command(hide = true)]
    Man {
        /// An existing folder.
        folder: PathBuf,
    },
}

/// A limit to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Packets per second without loss (RFC 2544 26.1), from --rate downwards.
    ZeroLoss,
    /// New connections per second without loss, each a SYN, an ACK and a FIN; from a third of --rate.
    Cps,
    /// Flows that stay on their server, from --flows downwards.
    Table,
}

#[derive(Clone, Debug, Parser)]
pub(crate) struct Run {
    /// The device to send on: a PCI address or a virtual device, as in the director's config. The
    /// server of a memif must be there first.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) tx: String,
    /// The device that servers' packets come to; the same one unless given.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) rx: Option<String>,
    /// The virtual service.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "192.0.2.10:80")]
    pub(crate) vip: SocketAddr,
    /// The director's MAC address; asked for by ARP unless given. IPv6 wants it given.
    #[arg(long, value_name = "MAC")]
    pub(crate) to: Option<Mac>,
    /// A real server: ADDRESS, MAC or ADDRESS@MAC. Its ARP is answered, and no other may get
    /// packets. Without any, all that get packets are shown.
    #[arg(long = "server", value_name = "SERVER")]
    pub(crate) servers: Vec<Server>,
    /// Addresses of which we are the gateway: ARP for them is answered with the port's own MAC.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Vec<Ipv4Addr>,

    /// UDP in place of TCP.
    #[arg(long)]
    pub(crate) udp: bool,
    /// What looks like QUIC in place of TCP: an Initial of 1,200 bytes, then short headers with the
    /// same connection id.
    #[arg(long, conflicts_with = "udp")]
    pub(crate) quic: bool,
    /// The part of flows, 0 to 1, whose client changes its port on the way: half through a life, or
    /// after 8 packets. The connection id stays.
    #[arg(long, value_name = "PART", default_value_t = 0.0, requires = "quic")]
    pub(crate) migrate: f64,
    /// What a flow does; hits unless given.
    #[arg(long, value_enum)]
    pub(crate) life: Option<LifeWord>,
    /// Packets in the life of a flow (--life cycle); 10 unless given.
    #[arg(long, value_name = "N")]
    pub(crate) packets_per_flow: Option<u32>,
    /// Flows alive at once.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) flows: u32,
    /// Few flows send most: Zipf's law with this exponent, such as 1. All alike unless given.
    #[arg(long, value_name = "S")]
    pub(crate) zipf: Option<f64>,
    /// Most new flows per second; 0: as they come.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) new_flows: u32,
    /// Frame size in bytes with its check sequence; 76 at least by TCP, 64 by UDP, 77 by
    /// QUIC, 20 more over IPv6. A QUIC Initial is as long as it must be.
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    pub(crate) frame: usize,
    /// Mixed sizes: 7 of the smallest, 4 of 594, 1 of 1,518 bytes. The last does not fit a tunnel of
    /// MTU 1,500.
    #[arg(long, conflicts_with = "frame")]
    pub(crate) imix: bool,

    /// Packets per second, at most a million.
    #[arg(long, value_name = "PPS", default_value_t = 100_000.0)]
    pub(crate) rate: f64,
    /// As fast as the device takes them; lifts the limit of --rate too.
    #[arg(long)]
    pub(crate) line_rate: bool,
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// So many packets, and no longer than --seconds.
    #[arg(long, value_name = "N")]
    pub(crate) packets: Option<u64>,
    /// Warm-up before the load; it lasts until all flows are open, too. Not measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Its share of the rate.
    #[arg(long, value_name = "PART", default_value_t = 0.2)]
    pub(crate) warm_share: f64,
    /// The part of all packets that may be lost.
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub(crate) loss: f64,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// A prompt: start, stop, show, set rate PPS, quit.
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// The report as one JSON document, version 1.
    #[arg(long)]
    pub(crate) json: bool,
    /// A picture of throughput and latency over time; of a search, of its trials.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The core to run on; the last that this process may use unless given.
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Plain memory. Slower.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// One more argument for DPDK's EAL. May be given several times.
    #[arg(long = "eal", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,
}

/// The life of a flow, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LifeWord {
    /// Opened once, then segments for good.
    Hits,
    /// SYN, ACK, data, FIN, and a new flow in its place.
    Cycle,
    /// SYNs of ever-new flows with spoofed sources.
    Syn,
}

impl Mode {
    /// Refuses what cannot be, and what would be ignored.
    pub(crate) fn check(&self) -> Result<()> {
        let (what, run, near, between) = match self {
            Self::Man { .. } => return Ok(()),
            Self::Run(run) => return run.check(),
            Self::Search { what, run, near, between } => (what, run, near, between),
        };
        ensure!((0.0001..=0.5).contains(near), "--near: 0.0001 to 0.5");
        ensure!(!run.interactive, "--interactive: a search asks nobody");
        ensure!(run.packets.is_none(), "--packets: a trial of a search lasts --seconds");
        ensure!(between.is_none() || *what == What::Table, "--between: for search table only");
        if *what != What::ZeroLoss {
            let name = what.name();
            ensure!(run.life.is_none(), "--life: search {name} has its own");
            ensure!(run.new_flows == 0, "--new-flows: search {name} has its own");
        }
        ensure!(*what != What::Table || run.zipf.is_none(), "--zipf: search table asks in turn");
        run.check()
    }
}

impl What {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ZeroLoss => "zero-loss",
            Self::Cps => "cps",
            Self::Table => "table",
        }
    }
}

impl Run {
    fn check(&self) -> Result<()> {
        self.check_flows()?;
        ensure!((1.0..=1e9).contains(&self.rate), "--rate: 1 packet per second or more");
        ensure!((0.01..=86_400.0).contains(&self.seconds), "--seconds: 0.01 to 86400");
        ensure!((0.0..=3600.0).contains(&self.warm_up), "--warm-up: 0 to 3600");
        ensure!((0.001..=1.0).contains(&self.warm_share), "--warm-share: 0.001 to 1");
        ensure!((0.0..=1.0).contains(&self.loss), "--loss: 0 to 1");
        if self.rate > 1e6 && !self.line_rate {
            bail!("--rate above a million wants --line-rate: this may be a shared machine");
        }
        Ok(())
    }

    fn check_flows(&self) -> Result<()> {
        let (transport, is_v4) = (self.transport(), self.vip.is_ipv4());
        let (smallest, version) = (transport.smallest(is_v4), if is_v4 { 4 } else { 6 });
        ensure!(
            self.imix || (smallest..=1518).contains(&self.frame),
            "--frame: {smallest} to 1518 by {transport:?} over IPv{version}"
        );
        ensure!(is_v4 || self.to.is_some(), "--vip: IPv6 wants --to MAC: only ARP is spoken here");
        ensure!((1..=MOST_FLOWS).contains(&self.flows), "--flows: 1 to {MOST_FLOWS}");
        ensure!((0.0..=1.0).contains(&self.migrate), "--migrate: 0 to 1");
        ensure!(self.zipf.is_none_or(|s| (0.01..=10.0).contains(&s)), "--zipf: 0.01 to 10");
        let is = |life| self.life == Some(life);
        if let Some(packets) = self.packets_per_flow {
            ensure!(packets >= 3, "--packets-per-flow: at least 3");
            ensure!(is(LifeWord::Cycle), "--packets-per-flow wants --life cycle");
        }
        if is(LifeWord::Syn) {
            ensure!(!self.udp, "--life syn: UDP has no SYN");
            ensure!(self.zipf.is_none(), "--zipf: with --life syn no flow speaks twice");
            ensure!(self.new_flows == 0, "--new-flows: with --life syn all are new, see --rate");
            ensure!(self.migrate <= 0.0, "--migrate: with --life syn no flow lives so long");
        }
        Ok(())
    }

    pub(crate) fn transport(&self) -> Transport {
        match (self.udp, self.quic) {
            (true, _) => Transport::Udp,
            (_, true) => Transport::Quic,
            _ => Transport::Tcp,
        }
    }

    pub(crate) fn vip(&self) -> Addr {
        self.vip.ip().into()
    }

    pub(crate) fn life(&self) -> Life {
        match self.life.unwrap_or(LifeWord::Hits) {
            LifeWord::Hits => Life::Hits,
            LifeWord::Cycle => Life::Cycle(self.packets_per_flow.unwrap_or(10)),
            LifeWord::Syn => Life::Syn,
        }
    }

    pub(crate) fn plan(&self) -> Flows {
        Flows {
            count: self.flows,
            life: self.life(),
            choice: self.zipf.map_or(Choice::Uniform, Choice::Zipf),
            new_per_second: self.new_flows,
            seed: self.seed,
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        if self.imix {
            Sizes::imix(self.transport(), self.vip.is_ipv4())
        } else {
            Sizes::fixed(self.frame)
        }
    }
}

#[cfg(test)]
mod tests;
