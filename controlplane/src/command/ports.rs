//! `ports`.

use std::fmt::Write;

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Ports as Document;
use crate::protocol::Failure;
use crate::table::{Table, count};

/// Show the ports: link, addresses and what the device counts
#[derive(Debug, clap::Args)]
pub struct Ports {}

impl Command for Ports {
    const METHOD: &'static str = "ports";
    const EXAMPLES: &'static str = "
        sluicectl ports";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Document { director: control.header(), ports: control.ports() })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |doc: &Document| {
            let mut text = listing(&doc.director, &table(doc));
            for port in &doc.ports {
                let gateway = port.gateway.map(|g| format!(" gateway {g}")).unwrap_or_default();
                let addresses = port.addresses.join(" ");
                let _ = writeln!(text, "{}: {} {addresses}{gateway}", port.name, port.device);
            }
            text
        })
    }
}

fn table(doc: &Document) -> Table {
    let mut table = Table::new(&[
        "PORT", "Link", "MAC", ">MTU", ">RxPkts", ">TxPkts", ">imissed", ">rx_nombuf", ">RxErr",
        ">TxErr",
    ]);
    for port in &doc.ports {
        let c = &port.counters;
        let link = match (c.link_up, c.speed_mbps) {
            (false, _) => "down".to_owned(),
            (true, 0) => "up".to_owned(),
            (true, mbps) => format!("up {} Mbit/s", count(mbps.into())),
        };
        table.row([
            port.name.clone(),
            link,
            port.mac.to_string(),
            port.mtu.to_string(),
            count(c.rx_packets),
            count(c.tx_packets),
            count(c.imissed),
            count(c.rx_nombuf),
            count(c.ierrors),
            count(c.oerrors),
        ]);
    }
    table
}
