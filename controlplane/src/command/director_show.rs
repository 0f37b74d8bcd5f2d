//! `director show`.

use std::fmt::Write;

use serde_json::Value;

use super::{Command, NoParams, Work, ask};
use crate::ctl::{Ctl, Failed, header_line};
use crate::document::Director;
use crate::protocol::Failure;
use crate::table::{count, share};

/// Show the director: its state, its tables, its memory
#[derive(Debug, clap::Args)]
pub struct DirectorShow {}

impl Command for DirectorShow {
    const METHOD: &'static str = "director.show";
    const EXAMPLES: &'static str = "
        sluicectl director show";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |NoParams {}, control| {
            Ok(Director { director: control.header(), memory: control.memory() })
        })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        ctl.show(Self::METHOD, &NoParams {}, text)
    }
}

fn text(doc: &Director) -> String {
    let m = &doc.memory;
    let mut text = format!("{}\n", header_line(&doc.director));
    let mut line = |what: &str, used: u64, most: u64, more: &str| {
        let share = share(used, most, 0);
        let _ = writeln!(text, "{what:<13} {} of {} ({share}){more}", count(used), count(most));
    };
    let peak = format!(", peak {}", count(m.connections_peak));
    line("connections", m.connections, m.connections_max, &peak);
    let peak = format!(", peak {}", count(m.templates_peak));
    line("templates", m.templates, m.templates_max, &peak);
    line("server slots", m.server_slots, m.server_slots_max, "");
    line("services", m.services, m.services_max, "");
    for (what, bytes) in &m.budget {
        let _ = writeln!(text, "memory        {what} {} MiB", count(bytes.div_ceil(1 << 20)));
    }
    text
}
