//! `server add`.

use config::spec::{Admin, MAX_WEIGHT, ServerRef, ServerSpec, TunType};
use engine::addr::Mac;
use engine::thresholds::Thresholds;

use super::Command;
use super::words::{self, ForwardArgs};
use crate::change::Change;
use crate::ctl::Failed;

/// Add a real server to a service
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl server add SERVICE ADDRESS[:PORT] [OPTIONS]")]
pub struct ServerAdd {
    /// The service: its name, or tcp|udp and ADDRESS:PORT
    service: String,
    /// The server: ADDRESS or ADDRESS:PORT; the port is the service's unless given
    #[arg(required = true, num_args = 1..=2)]
    server: Vec<String>,
    #[command(flatten)]
    forward: ForwardArgs,
    /// What a tunnel is made of: ipip
    #[arg(long, value_name = "TYPE")]
    tun_type: Option<TunType>,
    /// Its share of new connections
    #[arg(short, long, default_value_t = 1, value_parser = words::number(MAX_WEIGHT))]
    #[arg(allow_negative_numbers = true)]
    weight: u32,
    /// Its name in commands and lists; the address if absent
    #[arg(long)]
    name: Option<String>,
    /// Its hardware address, if it is not to be asked for
    #[arg(long)]
    mac: Option<Mac>,
    /// The largest IP packet towards it, in bytes; the port's if absent
    #[arg(long)]
    mtu: Option<u16>,
    /// Most connections it may have, active and inactive; 0 for any number
    #[arg(short = 'x', long, value_name = "CONNS", default_value_t = 0)]
    #[arg(value_parser = words::number(Thresholds::MAX), allow_negative_numbers = true)]
    u_threshold: u32,
    /// Once full, it takes new ones again below this; 0 for three quarters of -x
    #[arg(short = 'y', long, value_name = "CONNS", default_value_t = 0)]
    #[arg(value_parser = words::number(Thresholds::MAX), allow_negative_numbers = true)]
    l_threshold: u32,
    /// Whether it takes new connections: enabled, drain or disabled
    #[arg(long, value_name = "STATE", default_value = "enabled")]
    admin: Admin,
    /// It only stands in for the others, when fewer than the service's quorum are up
    #[arg(long)]
    backup: bool,
}

impl Command for ServerAdd {
    const METHOD: &'static str = "server.add";
    const EXAMPLES: &'static str = "
        sluicectl server add tcp 192.0.2.10:80 10.0.0.11 -g -w 100
        sluicectl server add web 203.0.113.21:80 --forward tunnel --tun-type ipip --name web-b
        sluicectl server add web 10.0.0.12 -x 1000 -y 800
        sluicectl server add web 203.0.113.22 -i --backup --name sorry";

    fn change(self) -> Result<Change, Failed> {
        let (service, server) = words::service_and_server(self.service, self.server)?;
        let ServerRef::Address(address, port) = server else {
            let text = format!("{server} is not an address such as 10.0.0.11 or 10.0.0.11:80");
            return Err(Failed::Usage(text));
        };
        let mut spec = ServerSpec::new(address);
        spec.name = self.name.unwrap_or_default();
        spec.port = port;
        spec.forward = self.forward.forward()?;
        spec.tun_type = self.tun_type.unwrap_or_default();
        spec.weight = self.weight;
        spec.mac = self.mac;
        spec.mtu = self.mtu;
        spec.u_threshold = self.u_threshold;
        spec.l_threshold = self.l_threshold;
        spec.admin = self.admin;
        spec.backup = self.backup;
        Ok(Change::AddServer { service, server: spec })
    }
}
