//! `server list`.

use std::net::SocketAddr;

use config::spec::Admin;

use super::Command;
use super::words::{OneOrAll, forward_word};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Services;
use crate::table::{Table, count};
use crate::views::ServerView;

/// Show the real servers of all services, or of one
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl server list [SERVICE]")]
pub struct ServerList {
    /// Only of this service: its name, or tcp|udp and ADDRESS:PORT
    #[arg(num_args = 0..=2)]
    service: Vec<String>,
}

impl Command for ServerList {
    /// Asks by `service.list`, which has it all.
    const METHOD: &'static str = "";
    const EXAMPLES: &'static str = "
        sluicectl server list
        sluicectl server list web";

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let which = OneOrAll::of(&self.service)?;
        ctl.show("service.list", &which, |doc: &Services| listing(&doc.director, &table(doc)))
    }
}

fn table(doc: &Services) -> Table {
    let mut table = Table::new(&[
        "SERVER",
        "Service",
        "Address",
        "Forward",
        ">Weight",
        ">Eff",
        "Admin",
        "Health",
        "Why 0",
        ">Upper",
        ">Lower",
        ">ActiveConn",
        ">InActConn",
    ]);
    for service in &doc.services {
        for server in &service.servers {
            table.row([
                server.name.clone(),
                service.name.clone(),
                SocketAddr::new(server.address, server.port).to_string(),
                forward_word(server.forward).to_owned(),
                count(server.weight.into()),
                count(server.effective_weight.into()),
                admin_word(server),
                server.health.to_string(),
                server.why.map_or_else(String::new, |why| why.to_string()),
                count(server.u_threshold.into()),
                count(server.l_threshold.into()),
                count(server.active),
                count(server.inactive),
            ]);
        }
    }
    table
}

/// The admin state, with what ends it; an enabled backup is called that.
fn admin_word(server: &ServerView) -> String {
    match (&server.drain, server.slow_start_left_ms) {
        (None, Some(0)) => "slow start, levelling".to_owned(),
        (None, Some(left)) => format!("slow start {} s left", left.div_ceil(1000)),
        (None, None) if server.backup && server.admin == Admin::Enabled => "backup".to_owned(),
        (None, None) => server.admin.name().to_owned(),
        (Some(d), _) => format!("{} {}s {}", server.admin, d.left_ms.div_ceil(1000), d.then),
    }
}
