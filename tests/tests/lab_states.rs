//! Health, backups and what is left without anybody, as clients see them.
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, curl, wrk};
use tests::wait_for;

const DEVICE: &str = "net_af_packet0,iface=eth0";
const URL: &str = "http://192.0.2.10/";

/// Two servers by direct routing, and one that stands in for them through a tunnel.
const WEB: &str = r#"
[[service]]
name = "web"
listen = "tcp 192.0.2.10:80"
scheduler = "rr"
forward = "dr"
no-server = "reset"
servers = [
  { name = "web-1", address = "192.0.2.11" },
  { name = "web-2", address = "192.0.2.12" },
  { name = "sorry", address = "192.0.2.13", forward = "tunnel", backup = true },
]
"#;

fn mark(ctl: &Ctl, server: &str, health: &str) -> anyhow::Result<()> {
    let answer = ctl.call("server.health", json!({"server": server, "health": health}))?;
    ensure!(answer["result"]["health"] == health, "{answer}");
    Ok(())
}

fn conns(ctl: &Ctl, server: &str) -> anyhow::Result<u64> {
    let all = ctl.servers("web", "conns")?;
    all.into_iter().find(|(name, _)| name == server).map(|(_, n)| n).context("no such server")
}

/// From here on a server gets no connection, while a load asks for new ones all the time.
fn rests(ctl: &Ctl, server: &str) -> anyhow::Result<()> {
    let before = conns(ctl, server)?;
    std::thread::sleep(Duration::from_millis(200));
    let since = conns(ctl, server)? - before;
    ensure!(since == 0, "{server} got {since} new connections");
    Ok(())
}

fn serves(ctl: &Ctl, server: &str) -> anyhow::Result<()> {
    let before = conns(ctl, server)?;
    let longest = Duration::from_secs(3);
    wait_for("it gets connections", longest, || Ok(conns(ctl, server)? > before))
}

/// Whoever is down gets nothing new from that moment, backups serve while nobody else can, and no
/// client fails or loses a connection by any of it.
#[test]
fn health_moves_new_connections() {
    story(|lab| {
        let mut daemon = Daemon::in_lab(lab, &[1], DEVICE, WEB)?;
        let ctl = &daemon.ctl;
        let warm = curl(lab, "c1", URL, 4)?;
        ensure!(warm.failed == 0, "{warm:?}");
        let held = Held::open(lab, "c1", "192.0.2.10:80", 20)?;
        let story = || -> anyhow::Result<()> {
            let mut quickest = Duration::MAX;
            for _ in 0..5 {
                serves(ctl, "web-1")?;
                let began = Instant::now();
                mark(ctl, "web-1", "down")?;
                quickest = quickest.min(began.elapsed());
                rests(ctl, "web-1")?;
                serves(ctl, "web-2")?;
                mark(ctl, "web-1", "up")?;
            }
            println!("down after {quickest:?}");
            ensure!(quickest < Duration::from_millis(50), "{quickest:?}");
            rests(ctl, "sorry")?;
            mark(ctl, "web-1", "down")?;
            mark(ctl, "web-2", "down")?;
            rests(ctl, "web-1")?;
            rests(ctl, "web-2")?;
            serves(ctl, "sorry")?;
            let list = ctl.ok("service list")?;
            ensure!(list.contains("0/2 up, backup active"), "{list}");
            mark(ctl, "web-2", "up")?;
            rests(ctl, "sorry")?;
            serves(ctl, "web-2")
        };
        let (told, load) = std::thread::scope(|s| {
            let load = s.spawn(|| wrk(lab, "c2", URL, 8, true));
            std::thread::sleep(Duration::from_millis(500));
            (story(), load.join())
        });
        told?;
        let load = load.expect("no panic")?;
        println!("{load:?}");
        ensure!(load.failed == 0 && load.requests > 500, "{load:?}");
        let alive = held.close()?;
        ensure!(alive == 20, "{alive} of 20 live: those of a server that is down stay");
        ensure!(daemon.log()?.contains("quorum lost"), "{}", daemon.log()?);
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        Ok(())
    });
}

/// Curl's exit status, and how long it took; nobody waits longer than 2 s for a connection.
fn ask(lab: &Lab) -> anyhow::Result<(i32, Duration)> {
    let began = Instant::now();
    let mut curl = lab.command("c1", "curl");
    let status = curl.args(["-s", "-o", "/dev/null", "--connect-timeout", "2", URL]).status()?;
    Ok((status.code().context("killed")?, began.elapsed()))
}

const CONNECTION_REFUSED: i32 = 7;
const TIMED_OUT: i32 = 28;

#[test]
fn nobody_left_is_as_the_service_says() {
    story(|lab| {
        let daemon = Daemon::in_lab(lab, &[1], DEVICE, WEB)?;
        let ctl = &daemon.ctl;
        ["web-1", "web-2", "sorry"].iter().try_for_each(|s| mark(ctl, s, "down"))?;
        for (policy, expected) in [
            ("reset", CONNECTION_REFUSED),
            ("unreachable", CONNECTION_REFUSED),
            ("drop", TIMED_OUT),
            ("fail-open", 0),
            ("backup", 0),
        ] {
            ctl.ok(&format!("service edit web --no-server {policy}"))?;
            let (status, took) = ask(lab)?;
            println!("{policy}: {status} after {took:?}");
            ensure!(status == expected, "{policy}: curl ended with {status}");
            let at_once = took < Duration::from_secs(1);
            ensure!(at_once == (expected != TIMED_OUT), "{policy} after {took:?}");
        }
        ensure!(conns(ctl, "sorry")? == 1 && conns(ctl, "web-1")? + conns(ctl, "web-2")? == 1);
        // Who drains does not serve, whatever the policy.
        ctl.ok("service edit web --no-server fail-open")?;
        ["web-1", "web-2", "sorry"]
            .iter()
            .try_for_each(|s| ctl.ok(&format!("server drain {s} --no-wait")).map(drop))?;
        let (status, _) = ask(lab)?;
        ensure!(status == CONNECTION_REFUSED, "curl ended with {status}");
        Ok(())
    });
}
