//! A day with a director, under load: servers are taken out in turn, one joins and grows, a pool is
//! scaled out. No client sees any of it, but those whose connections are given up on purpose.
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, Wrk, wrk};
use tests::service::{DEVICE, LISTEN, TWO_QUEUES, URL, web};
use tests::wait_for;

/// Closed connections are forgotten soon, so that a drained server is empty soon.
const DIRECTOR: &str = "connections = \"256k\"\ntimeouts = { tcp = 7200, tcpfin = 1, udp = 300 }\n";
/// A page that ends a connection after 200 requests: kept ones move on while a server drains.
const TURNS: &str = "http://192.0.2.10/turns";

/// A story beside a client that keeps connections for 200 requests and one that opens ever-new
/// ones. No request of theirs may fail.
fn no_request_fails(
    lcores: &[usize],
    device: &str,
    services: &str,
    act: impl FnOnce(&Lab, &Ctl) -> anyhow::Result<()>,
) {
    story(|lab| {
        let mut daemon = Daemon::in_lab_with(lab, lcores, device, DIRECTOR, services)?;
        let loads = [Wrk::start(lab, "c1", TURNS)?, Wrk::start_new(lab, "c2", URL)?];
        std::thread::sleep(Duration::from_millis(500));
        act(lab, &daemon.ctl)?;
        for load in loads {
            let tally = load.finish()?;
            println!("{} requests, {} failed", tally.requests, tally.failed);
            ensure!(tally.failed == 0 && tally.requests > 1000, "{tally:?}");
        }
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        Ok(())
    });
}

/// A number that the director counts for a server.
fn of(ctl: &Ctl, server: &str, what: &str) -> anyhow::Result<u64> {
    let all = ctl.servers("web", what)?;
    all.into_iter().find(|(name, _)| name == server).map(|(_, n)| n).context("no such server")
}

/// Drained until it is empty, long before the deadline; removed; added again; serving again.
fn out_and_back(ctl: &Ctl, server: u8) -> anyhow::Result<()> {
    let name = format!("web-{server}");
    let said = ctl.ok(&format!("server drain {name} --deadline 30s --then reset"))?;
    let line = said.lines().last().unwrap_or_default();
    println!("{line}");
    ensure!(line.contains("100 %"), "not empty before the deadline:\n{said}");
    ensure!(of(ctl, &name, "active")? + of(ctl, &name, "inactive")? == 0, "not empty");
    let served = of(ctl, &name, "conns")?;
    std::thread::sleep(Duration::from_millis(300));
    ensure!(of(ctl, &name, "conns")? == served, "a draining server got a connection");
    ctl.ok(&format!("server del web {name}"))?;
    std::thread::sleep(Duration::from_millis(300));
    ctl.ok(&format!("server add web 192.0.2.1{server} --name {name}"))?;
    wait_for("it serves again", Duration::from_secs(5), || Ok(of(ctl, &name, "active")? > 0))
}

#[test]
fn each_server_is_out_for_a_while() {
    no_request_fails(&[1], DEVICE, &web("wlc", [1; 3]), |_, ctl| {
        (1..=3).try_for_each(|server| out_and_back(ctl, server))
    });
}

/// From 10 to 60 % of the traffic in six steps: two others of weight 100 have the rest.
const STEPS: [(u32, f64); 6] =
    [(22, 0.1), (50, 0.2), (86, 0.3), (133, 0.4), (200, 0.5), (300, 0.6)];

/// At each step the newest server's share of new connections is its weight's.
#[test]
fn a_server_grows_by_turns() {
    no_request_fails(&[1], DEVICE, &web("wrr", [100, 100, 22]), |_, ctl| {
        for (weight, wanted) in STEPS {
            ctl.ok(&format!("server edit web web-3 -w {weight}"))?;
            std::thread::sleep(Duration::from_millis(500)); // so old is a count at most
            let before = counts(ctl, "conns")?;
            std::thread::sleep(Duration::from_millis(1000));
            let new = counts(ctl, "conns")?.iter().zip(before).map(|(a, b)| a - b).collect();
            share_is("wrr", weight, wanted, new, 0.02)?;
        }
        Ok(())
    });
}

/// The same for least connections and what they promise: the share of all that are open. New ones
/// that stay open let it grow.
#[test]
fn a_server_grows_by_least_connections() {
    no_request_fails(&[0, 1], TWO_QUEUES, &web("wlc", [100, 100, 22]), |lab, ctl| {
        let mut held = Vec::new();
        for (weight, wanted) in STEPS {
            ctl.ok(&format!("server edit web web-3 -w {weight}"))?;
            held.push(Held::open(lab, "c1", LISTEN, 150)?);
            std::thread::sleep(Duration::from_millis(300));
            share_is("wlc", weight, wanted, counts(ctl, "active")?, 0.04)?;
        }
        for held in held {
            ensure!(held.close()? == 150, "connections were lost");
        }
        Ok(())
    });
}

fn share_is(
    scheduler: &str,
    weight: u32,
    wanted: f64,
    counts: Vec<u64>,
    tolerance: f64,
) -> anyhow::Result<()> {
    let share = counts[2] as f64 / counts.iter().sum::<u64>() as f64;
    println!("{scheduler}, weight {weight}: {:.1} % of {counts:?}", 100.0 * share);
    ensure!((share - wanted).abs() <= tolerance, "weight {weight}: {share} of {counts:?}");
    Ok(())
}

/// What the director counts for each server.
fn counts(ctl: &Ctl, what: &str) -> anyhow::Result<Vec<u64>> {
    Ok(ctl.servers("web", what)?.into_iter().map(|(_, n)| n).collect())
}

/// A third server joins two that hold 300 silent connections and 20 busy ones: it gets its share
/// of both, at the rate that was asked for, and each connection given up fails one request at most.
#[test]
fn a_new_server_gets_its_share() {
    story(|lab| {
        let mut daemon = Daemon::in_lab(lab, &[0, 1], TWO_QUEUES, &web("wlc", [1, 1, 0]))?;
        let silent = Held::open(lab, "c1", LISTEN, 300)?;
        let busy = Wrk::start(lab, "c2", URL)?;
        let ctl = &daemon.ctl;
        wait_for("all are counted", Duration::from_secs(3), || {
            Ok(counts(ctl, "active")? == [160, 160, 0])
        })?;
        ctl.ok("server edit web web-3 -w 1")?;
        let plan = ctl.json("service rebalance web --rate 100/s")?;
        let planned = plan["connections"].as_u64().context("a number")?;
        ensure!(planned == 106, "what two servers have above 107: {plan}");
        let began = Instant::now();
        wait_for("they have given up", Duration::from_secs(10), || given_up(ctl, planned))?;
        println!("{planned} given up in {:?}", began.elapsed());
        ensure!(began.elapsed() > Duration::from_millis(800), "faster than asked for");
        std::thread::sleep(Duration::from_millis(500));
        let (loads, tally) = (counts(ctl, "active")?, busy.finish()?);
        let alive = silent.close()?;
        println!("{loads:?}, {alive} of 300 silent ones live; busy {tally:?}");
        ensure!(loads[2] > 0 && loads[2] == tally.failed, "who was reset came back: {loads:?}");
        ensure!(alive + planned == 300 + tally.failed, "nobody else was hurt: {alive}, {tally:?}");
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        again(lab)
    });
}

/// New connections find servers as ever.
fn again(lab: &Lab) -> anyhow::Result<()> {
    let tally = wrk(lab, "c1", URL, 1, true)?;
    ensure!(tally.failed == 0 && tally.requests > 100, "{tally:?}");
    Ok(())
}

fn given_up(ctl: &Ctl, planned: u64) -> anyhow::Result<bool> {
    let stats = ctl.json("stats")?;
    let n = stats["stats"]["totals"]["given_up"].as_u64().context("no given_up")?;
    ensure!(n <= planned, "{n} given up, {planned} were planned");
    Ok(n == planned)
}
