//! `connections`.

use std::net::{IpAddr, SocketAddr};

use config::spec::ServerRef;
use serde_json::Value;

use super::words::OneOrAll;
use super::{Command, Work, answer, occupancy};
use crate::ctl::{self, Ctl, Failed, listing};
use crate::document::{Connections as Document, Templates};
use crate::protocol::{self, Failure};
use crate::table::{Table, clock};
use crate::views::{ConnCursor, ConnFilter, ConnView, TemplateView};

/// Show connections, a page at a time
///
/// A page shows about --limit connections and says how to get the next one; below stands how full
/// the tables are. Lcores that are too busy to answer within a second are named, not waited for.
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
    /// Persistence templates instead: which server a client's new connections go to
    #[arg(long)]
    templates: bool,
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
        sluicectl connections --all --json
        sluicectl connections --templates --service web";

    fn work(params: Value) -> Result<Work, Failure> {
        let filter: ConnFilter = protocol::params(params)?;
        if filter.templates {
            return Ok(Work::Ask(Box::new(move |control, respond| {
                let (director, memory) = (control.header(), control.memory());
                let page = control.templates(&filter);
                respond(page.map(|page| answer(Templates { director, page, memory })));
            })));
        }
        Ok(Work::Ask(Box::new(move |control, respond| {
            let (director, memory) = (control.header(), control.memory());
            let whole = move |page| answer(Document { director, page, memory });
            control.connections(&filter, Box::new(move |page| respond(page.map(whole))));
        })))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let Self { service, server, client, templates, limit, cursor, all } = self;
        let service = OneOrAll::of(&service)?.service;
        let mut filter = ConnFilter { service, server, client, cursor, limit, templates };
        if templates {
            return list_templates(ctl, filter, all);
        }
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

/// Pages of templates. A page that is not full may be followed by others.
fn list_templates(ctl: &mut Ctl, mut filter: ConnFilter, all: bool) -> Result<(), Failed> {
    let (mut left, mut first) = (filter.limit as usize, true);
    loop {
        let document = ctl.client()?.ask(Connections::METHOD, &filter)?;
        let doc: Templates = ctl::read(document.clone())?;
        left = left.saturating_sub(doc.page.templates.len());
        let next = doc.page.next.filter(|_| all || left > 0);
        if ctl.json() {
            ctl.print_json(&document)?;
        } else {
            let mut table = Table::new(&[
                "Pro", ">Expire", "State", "Source", "Virtual", "Destination", "Service",
            ]);
            doc.page.templates.iter().for_each(|t| table.row(template_row(t)));
            let mut text = listing(&doc.director, &table);
            if !std::mem::take(&mut first) {
                text = rows_only(&text);
            }
            if next.is_none() {
                text.push_str(&occupancy::templates(&doc.memory));
            }
            if let (None, Some(ConnCursor { lcore, bucket })) = (next, doc.page.next) {
                text.push_str(&format!("more: add --cursor {lcore}:{bucket}, or --all\n"));
            }
            ctl::print(&text)?;
        }
        match next {
            Some(next) => filter.cursor = Some(next),
            None => return Ok(()),
        }
    }
}

fn template_row(t: &TemplateView) -> [String; 7] {
    let one = if t.client.is_ipv4() { 32 } else { 128 };
    let network = if t.client_prefix == one { String::new() } else { format!("/{}", t.client_prefix) };
    let client = SocketAddr::new(t.client, 0).to_string();
    [
        t.protocol.to_string(),
        clock(t.expires_secs),
        t.state.clone(),
        client.strip_suffix(":0").map_or_else(String::new, |host| format!("{host}{network}:0")),
        SocketAddr::new(t.virtual_address, t.virtual_port).to_string(),
        SocketAddr::new(t.server, t.server_port).to_string(),
        t.service.clone(),
    ]
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
        text = rows_only(&text);
    }
    if doc.page.next.is_none() || !all {
        text.push_str(&occupancy::connections(&doc.memory));
    }
    if let (Some(ConnCursor { lcore, bucket }), false) = (doc.page.next, all) {
        text.push_str(&format!("more: add --cursor {lcore}:{bucket}, or --all\n"));
    }
    text
}

/// A list without its two head lines.
fn rows_only(text: &str) -> String {
    text.splitn(3, '\n').nth(2).unwrap_or_default().to_owned()
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
