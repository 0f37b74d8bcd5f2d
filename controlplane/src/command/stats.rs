//! `stats`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::words::OneOrAll;
use super::{Command, Work, ask, occupancy};
use crate::ctl::{Ctl, Failed, listing};
use crate::document::Statistics;
use crate::protocol::Failure;
use crate::table::{Table, count, rate, scaled};

/// Show what services, servers and lcores count: in sum, or per second
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl stats [SERVICE] [--rate]")]
pub struct Stats {
    /// Only this one: its name, or tcp|udp and ADDRESS:PORT
    #[arg(num_args = 0..=2)]
    service: Vec<String>,
    /// Per second, mean of the last 2 s
    #[arg(long)]
    rate: bool,
}

impl Command for Stats {
    const METHOD: &'static str = "stats";
    const EXAMPLES: &'static str = "
        sluicectl stats
        sluicectl stats web --rate";

    fn work(params: Value) -> Result<Work, Failure> {
        ask(params, |which: OneOrAll, control| control.statistics(which.service.as_ref()))
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let which = OneOrAll::of(&self.service)?;
        ctl.show(Self::METHOD, &which, |doc: &Statistics| {
            let (table, totals) = if self.rate {
                (rates(doc), rate_lines(doc))
            } else {
                (sums(doc), sum_lines(doc))
            };
            format!("{}{totals}", listing(&doc.director, &table))
        })
    }
}

/// What direct routing and tunnels cannot see: answers go past the director.
const UNSEEN: &str = "-";

fn sums(doc: &Statistics) -> Table {
    let mut table = Table::new(&[
        "SERVICE/server", ">Conns", ">InPkts", ">InBytes", ">OutPkts", ">OutBytes", ">SYNretr",
        ">untracked", ">stray", ">no-server",
    ]);
    for service in &doc.services {
        let t = service.totals;
        let numbers = [t.conns, t.in_packets, t.in_bytes, t.syn_retransmits];
        let own = [t.untracked, t.stray_packets, t.no_server].map(count);
        table.row(row(service.name.clone(), numbers.map(count), own));
        for server in &service.servers {
            let t = server.totals;
            let numbers = [t.conns, t.in_packets, t.in_bytes, t.syn_retransmits];
            let none = [UNSEEN, UNSEEN, UNSEEN].map(str::to_owned);
            table.row(row(format!("  {}", server.name), numbers.map(count), none));
        }
    }
    table
}

fn rates(doc: &Statistics) -> Table {
    let mut table = Table::new(&[
        "SERVICE/server", ">CPS", ">InPPS", ">In bit/s", ">OutPPS", ">Out bit/s", ">SYNretr/s",
        ">untracked/s", ">stray/s", ">no-server/s",
    ]);
    for service in &doc.services {
        let r = service.rates;
        let numbers = [rate(r.cps), rate(r.in_pps), scaled(r.in_bits), rate(r.syn_retransmits)];
        let own = [r.untracked, r.stray, r.no_server].map(rate);
        table.row(row(service.name.clone(), numbers, own));
        for server in &service.servers {
            let r = server.rates;
            let numbers = [rate(r.cps), rate(r.in_pps), scaled(r.in_bits), rate(r.syn_retransmits)];
            let none = [UNSEEN, UNSEEN, UNSEEN].map(str::to_owned);
            table.row(row(format!("  {}", server.name), numbers, none));
        }
    }
    table
}

fn row(name: String, numbers: [String; 4], own: [String; 3]) -> [String; 10] {
    let [conns, packets, bytes, retransmits] = numbers;
    let [untracked, stray, no_server] = own;
    let unseen = || UNSEEN.to_owned();
    [name, conns, packets, bytes, unseen(), unseen(), retransmits, untracked, stray, no_server]
}

/// Counters of the director that are worth a line, in the order of a packet's way.
const TOTALS: [&str; 9] = [
    "received", "forwarded", "replied", "punted", "handed_over", "originated", "sent", "created",
    "untracked",
];

/// Drops that are named even when there are none: the first things to look for.
const ALWAYS: [&str; 2] = ["no-neighbour", "no-server"];

fn sum_lines(doc: &Statistics) -> String {
    let s = &doc.stats;
    let total = |name: &str| count(s.totals.get(name).copied().unwrap_or(0));
    let mut text = format!("drops  {}  tx-full {}", named(&s.drops, |n| count(*n)), total("tx_full"));
    let _ = writeln!(
        text,
        " | NIC imissed {}  rx_nombuf {} | {}",
        count(s.imissed),
        count(s.rx_nombuf),
        busy(&doc.busy_percent)
    );
    let totals: Vec<_> = TOTALS.iter().map(|name| format!("{name} {}", total(name))).collect();
    let _ = writeln!(text, "lcores  {}", totals.join("  "));
    text.push_str(&occupancy::connections(&doc.memory));
    text.push_str(&occupancy::templates(&doc.memory));
    if s.address_conflicts > 0 {
        let _ = writeln!(
            text,
            "{} packets claimed an address of ours: another station uses it; see the log",
            count(s.address_conflicts)
        );
    }
    text
}

fn rate_lines(doc: &Statistics) -> String {
    let s = &doc.stats;
    let per_second = |name: &str| rate(s.rates.get(name).copied().unwrap_or(0.0));
    let mut text =
        format!("drops/s  {}  tx-full {}", named(&s.drop_rates, |r| rate(*r)), per_second("tx_full"));
    let _ = writeln!(text, " | {}", busy(&doc.busy_percent));
    let totals: Vec<_> = TOTALS.iter().map(|name| format!("{name} {}", per_second(name))).collect();
    let _ = writeln!(text, "lcores/s  {}", totals.join("  "));
    text
}

/// `no-neighbour 0  no-server 0  malformed 2`: those that must be seen, and those that are not 0.
fn named<T: PartialEq + Default>(drops: &BTreeMap<String, T>, show: fn(&T) -> String) -> String {
    let none = T::default();
    let always = ALWAYS.iter().map(|name| (*name, drops.get(*name).unwrap_or(&none)));
    let more = drops
        .iter()
        .filter(|(name, n)| **n != none && !ALWAYS.contains(&name.as_str()))
        .map(|(name, n)| (name.as_str(), n));
    always.chain(more).map(|(name, n)| format!("{name} {}", show(n))).collect::<Vec<_>>().join("  ")
}

fn busy(percent: &[f64]) -> String {
    let all: Vec<_> = percent.iter().map(|p| format!("{p:.0}")).collect();
    format!("lcores {} %", all.join(" "))
}
