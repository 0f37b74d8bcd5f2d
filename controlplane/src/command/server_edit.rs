//! `server edit`.

use config::spec::{Admin, MAX_WEIGHT, TunType};
use engine::addr::Mac;
use engine::thresholds::Thresholds;

use super::Command;
use super::words::{self, ForwardArgs};
use crate::change::{self, Change};
use crate::ctl::Failed;

/// Change a real server; its connections stay
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl server edit SERVICE SERVER [OPTIONS]")]
pub struct ServerEdit {
    /// The service: its name, or tcp|udp and ADDRESS:PORT
    service: String,
    /// The server: its name, ADDRESS or ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    server: Vec<String>,
    #[command(flatten)]
    forward: ForwardArgs,
    /// What a tunnel is made of: ipip
    #[arg(long, value_name = "TYPE")]
    tun_type: Option<TunType>,
    /// Its share of new connections; 0 for none
    #[arg(short, long, value_parser = words::number(MAX_WEIGHT), allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Another name
    #[arg(long)]
    name: Option<String>,
    /// Its hardware address, if it is not to be asked for
    #[arg(long)]
    mac: Option<Mac>,
    /// The largest IP packet towards it, in bytes
    #[arg(long)]
    mtu: Option<u16>,
    /// Most connections it may have, active and inactive; 0 for any number
    #[arg(short = 'x', long, value_name = "CONNS")]
    #[arg(value_parser = words::number(Thresholds::MAX), allow_negative_numbers = true)]
    u_threshold: Option<u32>,
    /// Once full, it takes new ones again below this; 0 for three quarters of -x
    #[arg(short = 'y', long, value_name = "CONNS")]
    #[arg(value_parser = words::number(Thresholds::MAX), allow_negative_numbers = true)]
    l_threshold: Option<u32>,
    /// Whether it takes new connections: enabled, drain or disabled
    #[arg(long, value_name = "STATE")]
    admin: Option<Admin>,
    /// Whether it only stands in for the others
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    backup: Option<bool>,
}

impl Command for ServerEdit {
    const METHOD: &'static str = "server.edit";
    const EXAMPLES: &'static str = "
        sluicectl server edit tcp 192.0.2.10:80 10.0.0.11 -w 50
        sluicectl server edit web web-2 --admin drain
        sluicectl server edit web sorry --backup=false";

    fn change(self) -> Result<Change, Failed> {
        let (service, server) = words::service_and_server(self.service, self.server)?;
        let edit = change::ServerEdit {
            name: self.name,
            weight: self.weight,
            forward: self.forward.forward()?,
            tun_type: self.tun_type,
            mac: self.mac,
            mtu: self.mtu,
            u_threshold: self.u_threshold,
            l_threshold: self.l_threshold,
            admin: self.admin,
            backup: self.backup,
        };
        if edit == change::ServerEdit::default() {
            return Err(Failed::Usage("nothing to change was given".into()));
        }
        Ok(Change::EditServer { service, server, edit })
    }
}
