//! Every choice that a real Linux kernel was seen to make, made again.
//!
//! `data/ipvs_oracle.json` says how it was recorded.

mod sched_lab;

use std::net::SocketAddr;

use engine::sched::SchedulerKind;
use sched_lab::Lab;
use sched_lab::history::{History, change};
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    facts: Vec<Fact>,
    change_facts: Vec<ChangeFact>,
    recorded: Vec<History>,
}

#[derive(Deserialize)]
struct Fact {
    scheduler: String,
    flags: Option<String>,
    connections: String,
    servers: Vec<Server>,
    clients: Vec<SocketAddr>,
    picks: Vec<String>,
}

#[derive(Deserialize)]
struct Server {
    addr: SocketAddr,
    name: String,
    weight: u32,
}

#[derive(Deserialize)]
struct ChangeFact {
    scheduler: String,
    flags: Option<String>,
    config: String,
    port: u16,
    changes: Vec<Vec<String>>,
    clients: Vec<SocketAddr>,
    picks: Vec<String>,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("data/ipvs_oracle.json")).expect("the data file parses")
}

fn lab(scheduler: &str, flags: Option<&str>) -> Lab {
    let kind: SchedulerKind = scheduler.parse().expect("a scheduler of ours");
    Lab::new(kind, flags.unwrap_or(""))
}

/// Reports how many of the cases agree, and fails with the first that does not.
fn all_agree<T>(what: &str, cases: &[T], check: impl Fn(&T) -> Result<(), String>) {
    let wrong: Vec<_> =
        cases.iter().map(check).enumerate().filter_map(|(n, r)| Some((n, r.err()?))).collect();
    println!("{} of {} {what} reproduced", cases.len() - wrong.len(), cases.len());
    assert!(!cases.is_empty());
    assert!(wrong.is_empty(), "{} of {what} differ; {wrong:#?}", wrong.len());
}

fn same<T: PartialEq + std::fmt::Debug>(case: &str, ours: &T, kernel: &T) -> Result<(), String> {
    if ours == kernel { Ok(()) } else { Err(format!("{case}: {ours:?}, the kernel {kernel:?}")) }
}

#[test]
fn picks_of_fixed_pools() {
    all_agree("facts", &oracle().facts, |fact| {
        let mut lab = lab(&fact.scheduler, fact.flags.as_deref());
        for server in &fact.servers {
            lab.add(server.addr, server.weight, 0);
        }
        let name = |addr| {
            let server = fact.servers.iter().find(|s| Some(s.addr) == addr);
            server.map_or("ECONNREFUSED".to_owned(), |s| s.name.clone())
        };
        let close = fact.connections == "close_before_next";
        let mut picks = Vec::new();
        for (n, client) in fact.clients.iter().enumerate() {
            picks.push(name(lab.open(*client)));
            if close {
                lab.close(n);
            }
        }
        same(&fact.scheduler, &picks, &fact.picks)
    });
}

#[test]
fn picks_around_changes() {
    all_agree("change facts", &oracle().change_facts, |fact| {
        assert_eq!(fact.config, "w123");
        let mut lab = lab(&fact.scheduler, fact.flags.as_deref());
        for n in 1..=3 {
            lab.add(format!("10.0.0.1{n}:{}", fact.port).parse().unwrap(), n, 0);
        }
        let mut picks = Vec::new();
        for (n, client) in fact.clients.iter().enumerate() {
            if n > 0 && n % 8 == 0 {
                fact.changes[n / 8 - 1].iter().for_each(|line| change(&mut lab, line).unwrap());
            }
            let server = lab.open(*client).expect("all of these are answered");
            picks.push(format!("rs{}", &server.ip().to_string()["10.0.0.1".len()..]));
        }
        same(&fact.scheduler, &picks, &fact.picks)
    });
}

#[test]
fn picks_of_recorded_histories() {
    all_agree("recorded histories", &oracle().recorded, History::replay);
}
