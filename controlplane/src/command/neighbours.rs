//! `neighbours`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Neighbours as Document;
use crate::protocol::Failure;
use crate::table::{Table, count, span};

/// Show the next hops: real servers and gateways with their hardware addresses
#[derive(Debug, clap::Args)]
pub struct Neighbours {}

impl Command for Neighbours {
    const METHOD: &'static str = "neighbours";
    const EXAMPLES: &'static str = "
        sluicectl neighbours
        sluicectl neigh --json";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Document { director: control.header(), neighbours: control.neighbours() })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |doc: &Document| listing(&doc.director, &table(doc)))
    }
}

fn table(doc: &Document) -> Table {
    let mut table =
        Table::new(&["NEIGHBOUR", "Port", "MAC", "State", ">Confirmed", ">Asked", ">Servers"]);
    for n in &doc.neighbours {
        table.row([
            n.address.to_string(),
            n.port.clone(),
            n.mac.map_or_else(|| "-".to_owned(), |mac| mac.to_string()),
            n.state.clone(),
            n.age_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ago", span(ms / 1000))),
            count(n.asked.into()),
            count(n.servers as u64),
        ]);
    }
    table
}
