//! `service list`.

use config::spec::Admin;
use serde_json::Value;

use super::words::{OneOrAll, forward_word};
use super::{Command, Work, ask};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Services;
use crate::protocol::Failure;
use crate::states::{Acting, Health, Why};
use crate::table::{Table, count, share, span};
use crate::views::{ServerView, ServiceView};

/// Show the services with their servers: weights, states, connections
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl service list [SERVICE]")]
pub struct ServiceList {
    /// Only this one: its name, or tcp|udp and ADDRESS:PORT
    #[arg(num_args = 0..=2)]
    service: Vec<String>,
}

impl Command for ServiceList {
    const METHOD: &'static str = "service.list";
    const EXAMPLES: &'static str = "
        sluicectl service list
        sluicectl service list tcp 192.0.2.10:80 --json";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |which: OneOrAll, control| {
            let services = control.services(which.service.as_ref())?;
            Ok(Services { director: control.header(), services })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let which = OneOrAll::of(&self.service)?;
        ctl.show(Self::METHOD, &which, |doc: &Services| listing(&doc.director, &table(doc)))
    }
}

fn table(doc: &Services) -> Table {
    let mut table = Table::new(&[
        "SERVICE/server",
        "Address",
        "Sched/Fwd",
        ">Weight",
        ">Eff",
        "State",
        ">ActiveConn",
        ">InActConn",
        ">Share",
        ">Want",
    ]);
    for service in &doc.services {
        service_rows(&mut table, service);
    }
    table
}

fn service_rows(table: &mut Table, service: &ServiceView) {
    let sum = |f: fn(&ServerView) -> u32| service.servers.iter().map(|s| u64::from(f(s))).sum();
    let effective: u64 = sum(|s| s.effective_weight);
    table.row([
        service.name.clone(),
        service.endpoint().to_string(),
        scheduling(service),
        count(sum(|s| s.weight)),
        count(effective),
        standing(service),
        count(service.active),
        count(service.inactive),
        String::new(),
        String::new(),
    ]);
    for server in &service.servers {
        table.row([
            format!("  {}", server.name),
            std::net::SocketAddr::new(server.address, server.port).to_string(),
            forward_word(server.forward).to_owned(),
            count(server.weight.into()),
            count(server.effective_weight.into()),
            state(server),
            count(server.active),
            count(server.inactive),
            share(server.active, service.active, 1),
            share(server.effective_weight.into(), effective, 0),
        ]);
    }
}

/// How many servers are up, and who takes their part if they are too few.
fn standing(service: &ServiceView) -> String {
    let own = || service.servers.iter().filter(|s| !s.backup);
    let may = |s: &&ServerView| {
        !matches!(s.why, Some(Why::Weight | Why::Drain | Why::Disabled | Why::Down))
    };
    let up = own().filter(may).filter(|s| s.health != Health::Down && s.reachable).count();
    let instead = match (service.acting, service.fail_open) {
        (Acting::Servers, false) => "",
        (Acting::Servers, true) => ", fail-open",
        (Acting::Backups, false) => ", backup active",
        (Acting::Backups, true) => ", backup fail-open",
        (Acting::Nobody, _) => ", nobody",
    };
    format!("{up}/{} up{instead}", own().count())
}

/// `wlc -p3600 -M24`: in ipvsadm's words.
fn scheduling(service: &ServiceView) -> String {
    let words = std::iter::once(service.scheduler.name()).chain(service.flags.names());
    let options = [
        service.persistence.map(|seconds| format!("-p{seconds}")),
        service.persistence_netmask.map(|length| format!("-M{length}")),
        service.slow_start.map(|start| format!("slow-start {}s", start.secs)),
    ];
    words.map(str::to_owned).chain(options.into_iter().flatten()).collect::<Vec<_>>().join(" ")
}

fn state(server: &ServerView) -> String {
    let since = |health| format!("{health} {}", span(server.health_secs.unwrap_or_default()));
    match (server.admin, server.health) {
        (Admin::Enabled, Health::Down) => since(Health::Down),
        (Admin::Enabled, _) if !server.reachable => "no-neighbour".to_owned(),
        (Admin::Enabled, _) if server.why == Some(Why::Full) => "full".to_owned(),
        (Admin::Enabled, _) if server.why == Some(Why::Standby) => "standby".to_owned(),
        (Admin::Enabled, _) if server.why == Some(Why::Quorum) => "below quorum".to_owned(),
        (Admin::Enabled, Health::Unknown) => "enabled".to_owned(),
        (Admin::Enabled, health) => since(health),
        (admin, _) => admin.name().to_owned(),
    }
}
