//! A server that joins under load starts slowly, by least connections too.
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, wrk};

const DEVICE: &str = "net_af_packet0,iface=eth0";
const URL: &str = "http://192.0.2.10/";
const RAMP_SECS: u32 = 8;

/// Two servers; web-3 joins them.
const WEB: &str = r#"
[[service]]
name = "web"
listen = "tcp 192.0.2.10:80"
scheduler = "wlc"
forward = "dr"
slow-start = "8s"
servers = [
  { name = "web-1", address = "192.0.2.11" },
  { name = "web-2", address = "192.0.2.12" },
]
"#;

/// The share of one of three servers, so long after it joined.
fn share(since: Duration) -> f64 {
    let part = (since.as_secs_f64() / f64::from(RAMP_SECS)).clamp(0.05, 1.0);
    part / (part + 2.0)
}

/// Connections that web-3 and all have got.
fn conns(daemon: &Daemon) -> anyhow::Result<(u64, u64)> {
    let all = daemon.ctl.servers("web", "conns")?;
    let joined = all.iter().find(|(name, _)| name == "web-3").context("web-3")?.1;
    Ok((joined, all.iter().map(|(_, n)| n).sum()))
}

/// Adds web-3 and looks once a second what it gets.
fn joins(daemon: &Daemon) -> anyhow::Result<()> {
    let began = Instant::now();
    daemon.ctl.ok("server add web 192.0.2.13 --name web-3")?;
    let (mut last, mut looked) = (conns(daemon)?, began.elapsed());
    let (mut ramped, mut wanted) = (0.0, 0.0);
    let list = daemon.ctl.ok("server list web")?;
    ensure!(list.contains("slow start 8 s left"), "{list}");
    for second in 0..RAMP_SECS + 4 {
        std::thread::sleep(Duration::from_secs(1));
        let (now, at) = (conns(daemon)?, began.elapsed());
        let (got, came) = ((now.0 - last.0) as f64, (now.1 - last.1) as f64);
        // The share of its end is more than that of all the second before.
        let most = came * share(at) + (0.3 * came * share(at)).max(3.0);
        println!("second {second}: {got} of {came}, share {:.3}, at most {most:.0}", share(at));
        ensure!(got <= most, "second {second}: {got} of {came}, not {most:.0} at most");
        if second < RAMP_SECS {
            wanted += came * share(looked);
            ramped += got;
        }
        (last, looked) = (now, at);
    }
    println!("{ramped} in the ramp; its share was {wanted:.0} at least");
    ensure!(wanted > 50.0 && ramped > wanted * 0.5, "{ramped} is not {wanted:.0}");
    Ok(())
}

fn starts_slowly(lab: &Lab, lcores: &[usize]) -> anyhow::Result<()> {
    let mut daemon = Daemon::in_lab(lab, lcores, DEVICE, WEB)?;
    // The others have connections that stay, so by load alone all others were web-3's.
    let held = Held::open(lab, "c1", "192.0.2.10:80", 200)?;
    let (told, load) = std::thread::scope(|s| {
        let load = s.spawn(|| wrk(lab, "c2", URL, RAMP_SECS + 8, true));
        std::thread::sleep(Duration::from_secs(1));
        (joins(&daemon), load.join())
    });
    told?;
    let load = load.expect("no panic")?;
    ensure!(load.failed == 0 && load.requests > 500, "{load:?}");
    ensure!(held.close()? == 200, "connections were lost");
    ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
    Ok(())
}

#[test]
fn a_server_that_joins_under_load_gets_its_ramped_share() {
    story(|lab| starts_slowly(lab, &[1]));
}

#[test]
fn a_server_that_joins_under_load_gets_its_ramped_share_on_two_lcores() {
    story(|lab| starts_slowly(lab, &[0, 1]));
}
