//! `service maglev`.

use std::fmt::Write;

use config::spec::{MaglevHash, ServiceRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Command, Work, ask, words};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::MaglevTable as Document;
use crate::protocol::Failure;
use crate::table::{Table, count, scaled, share};
use crate::views::MaglevView;

/// Show the table of a service that hashes by Maglev: imbalance, disruption, memory, build time
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl service maglev SERVICE")]
pub struct ServiceMaglev {
    /// Which: its name, or tcp|udp and ADDRESS:PORT
    #[arg(required = true, num_args = 1..=2)]
    service: Vec<String>,
}

/// Which service.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    service: ServiceRef,
}

impl Command for ServiceMaglev {
    const METHOD: &'static str = "service.maglev";
    const EXAMPLES: &'static str = "
        sluicectl service maglev web
        sluicectl service maglev tcp 192.0.2.10:443";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |Params { service }, control| {
            Ok(Document { director: control.header(), maglev: control.maglev(&service)? })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let params = Params { service: words::service(&self.service)? };
        ctl.show(Self::METHOD, &params, |doc: &Document| {
            let text = listing(&doc.director, &table(&doc.maglev));
            summary(&doc.maglev) + &text
        })
    }
}

fn table(maglev: &MaglevView) -> Table {
    let mut table = Table::new(&["SERVER", "Address", ">Weight", ">Places", ">Share", ">Want"]);
    let total = maglev.servers.iter().map(|s| u64::from(s.weight)).sum();
    for server in &maglev.servers {
        table.row([
            server.name.clone(),
            std::net::SocketAddr::new(server.address, server.port).to_string(),
            count(server.weight.into()),
            count(server.places.into()),
            share(server.places.into(), maglev.places.into(), 1),
            share(server.weight.into(), total, 1),
        ]);
    }
    table
}

fn summary(m: &MaglevView) -> String {
    let hash = match (m.hash, m.own_key) {
        (MaglevHash::Kernel, _) => "kernel: agrees with Linux directors",
        (MaglevHash::Keyed, true) => "keyed by mh-key: agrees with directors that have the same",
        (MaglevHash::Keyed, false) => "keyed in public, for want of mh-key: strangers can aim",
    };
    let places = count(m.places.into());
    let mut text = format!("{}  mh, {hash}\n", m.service);
    let _ = writeln!(text, "imbalance   +{:.1} % at the fullest server", m.imbalance_percent);
    let _ = match m.disruption {
        None => writeln!(text, "disruption  - (a first table)"),
        Some(d) => writeln!(
            text,
            "disruption  {:.2} % of clients moved by the last change, {:.2} % had to",
            d.moved_percent, d.least_percent
        ),
    };
    let milliseconds = m.build_us as f64 / 1000.0;
    let memory = scaled(m.bytes as f64);
    let _ = writeln!(text, "memory      {memory}B for {places} places, built in {milliseconds:.1} ms");
    text
}
