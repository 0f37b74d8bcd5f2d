//! `lcores`.

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Lcores as Document;
use crate::protocol::Failure;
use crate::table::{Table, count, rate};
use crate::views::LcoreView;

/// Show the polling cores: how busy, which snapshot, what they hold and counted
#[derive(Debug, clap::Args)]
pub struct Lcores {}

impl Command for Lcores {
    const METHOD: &'static str = "lcores";
    const EXAMPLES: &'static str = "
        sluicectl lcores
        sluicectl lcores --json";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Document { director: control.header(), lcores: control.lcores() })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, |doc: &Document| listing(&doc.director, &table(doc)))
    }
}

fn table(doc: &Document) -> Table {
    let mut table = Table::new(&[
        "LCORE", ">Busy", ">Snapshot", "State", ">Entries", ">RxPPS", ">Received", ">Forwarded",
        ">Dropped",
    ]);
    for lcore in &doc.lcores {
        let counter = |name: &str| count(lcore.counters.get(name).copied().unwrap_or(0));
        table.row([
            lcore.lcore.to_string(),
            format!("{:.0} %", lcore.busy_percent),
            lcore.snapshot.to_string(),
            state(lcore),
            count(lcore.entries),
            rate(lcore.received_pps),
            counter("received"),
            counter("forwarded"),
            count(lcore.drops.values().sum()),
        ]);
    }
    table
}

fn state(lcore: &LcoreView) -> String {
    match lcore.silent_ms {
        0..1_000 if lcore.current => "current".to_owned(),
        0..1_000 => "updating".to_owned(),
        ms => format!("silent {} s", ms / 1_000),
    }
}
