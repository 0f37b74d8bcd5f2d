//! Real clients reach real servers through the director: DR and IPIP, one lcore and two.
use std::time::Duration;

use anyhow::ensure;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Tally, curl, wrk};
use tests::service::{DEVICE, TWO_QUEUES, service, web};
use tests::wait_for;

/// A VIP of another subnet: clients reach it through the director's own address.
const ROUTED: &str = r#"
[[service]]
name = "routed"
listen = "tcp 198.51.100.10:80"
scheduler = "rr"
forward = "dr"
servers = [{ name = "routed-1", address = "192.0.2.11" }]
"#;

/// One service per way to reach the three real servers, and one that is routed.
fn services() -> String {
    let far = service("far", "192.0.2.20:80", "rr", "tunnel", [1; 3]);
    web("rr", [1; 3]) + &far + ROUTED
}

/// Every kind of load on one VIP, none of which may fail, and all servers must have had a part.
fn drive(lab: &Lab, daemon: &Daemon, service: &str, vip: &str) -> anyhow::Result<()> {
    let mut all = Tally::default();
    all += curl(lab, "c1", &format!("http://{vip}/"), 60)?;
    all += curl(lab, "c2", &format!("http://{vip}/100k"), 30)?;
    all += wrk(lab, "c1", &format!("http://{vip}/"), 3, false)?;
    all += wrk(lab, "c2", &format!("http://{vip}/"), 2, true)?;
    println!("{service}: {} requests, {} failed", all.requests, all.failed);
    ensure!(all.failed == 0, "{service}: {all:?}");
    ensure!(all.requests > 1000, "{service}: only {all:?}");
    let conns = daemon.ctl.servers(service, "conns")?;
    ensure!(conns.iter().all(|(_, n)| *n > 0), "{service}: a server had none: {conns:?}");
    Ok(())
}

fn forwards(lcores: &[usize], device: &str) {
    story(|lab| {
        let daemon = Daemon::in_lab(lab, lcores, device, &services())?;
        drive(lab, &daemon, "web", "192.0.2.10")?;
        drive(lab, &daemon, "far", "192.0.2.20")?;
        let routed = curl(lab, "c1", "http://198.51.100.10/", 20)?;
        ensure!(routed == Tally { requests: 20, failed: 0 }, "a VIP of another subnet: {routed:?}");
        ensure!(daemon.stop()?.success(), "a clean end");
        Ok(())
    });
}

#[test]
fn on_one_lcore_over_af_packet() {
    forwards(&[1], DEVICE);
}

#[test]
fn on_two_lcores_over_af_packet() {
    forwards(&[0, 1], TWO_QUEUES);
}

/// One queue for two lcores: half of the flows are handed over.
#[test]
fn on_two_lcores_over_af_xdp() {
    forwards(&[0, 1], "net_af_xdp0,iface=eth0");
}

/// A server's share follows its weight while connections run.
#[test]
fn a_weight_changes_live() {
    story(|lab| {
        let daemon = Daemon::in_lab(lab, &[1], DEVICE, &services())?;
        daemon.ctl.ok("server edit tcp 192.0.2.10:80 192.0.2.12 -w 0")?;
        let before = daemon.ctl.servers("web", "conns")?;
        let tally = curl(lab, "c1", "http://192.0.2.10/", 40)?;
        ensure!(tally.failed == 0, "{tally:?}");
        wait_for("the counters to show 40 connections", Duration::from_secs(3), || {
            let after = daemon.ctl.servers("web", "conns")?;
            let new: Vec<_> = after.iter().zip(&before).map(|(a, b)| (&a.0, a.1 - b.1)).collect();
            ensure!(new.iter().all(|(name, n)| *name != "web-2" || *n == 0), "{new:?}");
            Ok(new.iter().map(|(_, n)| n).sum::<u64>() == 40)
        })
    });
}
