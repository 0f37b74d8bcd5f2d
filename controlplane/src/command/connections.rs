//! `connections`.

use std::net::{IpAddr, SocketAddr};

use config::spec::ServerRef;
use serde_json::Value;

use super::words::OneOrAll;
use super::{Command, Work, answer};
use crate::ctl::{self, Ctl, Failed, listing};
use crate::document::Connections as Document;
use crate::protocol::{self, Failure};
use crate::table::{Table, clock};
use crate::views::{ConnCursor, ConnFilter, ConnView};

/// Show connections, a page at a time
///
/// A page shows about --limit connections and says how to get the next one. Lcores that are too busy
/// to answer within a second are named, not waited for.
#[derive(Debug, clap::Args)]
pub struct Connections {
    /// Only of this service: its name, or tcp|udp and ADDRESS:PORT
    #[arg(long, num_args = 1..=2)]
    service: Vec<String>,
    /// Only to this server: its name, ADDRESS or ADDRESS:PORT
    #[arg(long)]
    server: Option<ServerRef>,
    /// Only from this client address
    #[arg(long)]
    client: Option<IpAddr>,
    /// About how many rows a page has
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on where a page ended: LCORE:BUCKET
    #[arg(long, value_name = "LCORE:BUCKET", value_parser = cursor)]
    cursor: Option<ConnCursor>,
    /// All pages; with --json one document a page, each on its line
    #[arg(long)]
    all: bool,
}

impl Command for Connections {
    const METHOD: &'static str = "connections";
    const EXAMPLES: &'static str = "
        sluicectl connections --client 198.51.100.7
        sluicectl connections --service tcp 192.0.2.10:80
        sluicectl conn --service web --server web-2 --limit 100
        sluicectl connections --cursor 1:4096
        sluicectl connections --all --json";

    fn work(params: Value) -> Result<Work, Failure> {
        let filter: ConnFilter = protocol::params(params)?;
        Ok(Work::Ask(Box::new(move |control, respond| {
            let director = control.header();
            let whole = move |page| answer(Document { director, page });
            control.connections(&filter, Box::new(move |page| respond(page.map(whole))));
        })))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let Self { service, server, client, limit, cursor, all } = self;
        let service = OneOrAll::of(&service)?.service;
        let mut filter = ConnFilter { service, server, client, cursor, limit };
        loop {
            let document = ctl.client()?.ask(Self::METHOD, &filter)?;
            let page: Document = ctl::read(document.clone())?;
            if ctl.json() {
                ctl.print_json(&document)?;
            } else {
                let first = filter.cursor.is_none();
                ctl::print(&text(&page, first, all))?;
            }
            warn(&page.page.incomplete);
            match page.page.next {
                Some(next) if all => filter.cursor = Some(next),
                _ => return Ok(()),
            }
        }
    }
}

fn text(doc: &Document, first: bool, all: bool) -> String {
    let mut table = Table::new(&[
        "Pro", ">Expire", "State", "Source", "Virtual", "Destination", ">Lcore",
    ]);
    for conn in &doc.page.connections {
        table.row(row(conn));
    }
    let mut text = listing(&doc.director, &table);
    if all && !first {
        // Pages after the first: only their rows.
        text = text.splitn(3, '\n').nth(2).unwrap_or_default().to_owned();
    }
    if let (Some(ConnCursor { lcore, bucket }), false) = (doc.page.next, all) {
        text.push_str(&format!("more: add --cursor {lcore}:{bucket}, or --all\n"));
    }
    text
}

fn row(c: &ConnView) -> [String; 7] {
    let server = match (c.server, c.server_port) {
        (Some(address), Some(port)) => SocketAddr::new(address, port).to_string(),
        _ => "removed".to_owned(),
    };
    [
        c.protocol.to_string(),
        clock(c.expires_secs),
        c.state.clone(),
        SocketAddr::new(c.client, c.client_port).to_string(),
        SocketAddr::new(c.virtual_address, c.virtual_port).to_string(),
        server,
        c.lcore.to_string(),
    ]
}

fn warn(incomplete: &[u16]) {
    if !incomplete.is_empty() {
        eprintln!(
            "sluicectl: lcores {incomplete:?} did not answer within 1 s: their connections are \
             missing; see \"sluicectl lcores\""
        );
    }
}

fn cursor(text: &str) -> Result<ConnCursor, String> {
    let parts = text.split_once(':');
    parts
        .and_then(|(lcore, bucket)| {
            Some(ConnCursor { lcore: lcore.parse().ok()?, bucket: bucket.parse().ok()? })
        })
        .ok_or_else(|| format!("{text:?} is not a cursor such as 1:4096, as a page's end names it"))
}
