//! What becomes of connections when servers drain, die, go and come back, as clients see it.
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, wrk};
use tests::service::{DEVICE, LISTEN, URL, web};
use tests::{output, wait_for};

const HELD: u64 = 60;

/// A number that the director counts for a server.
fn of(ctl: &Ctl, server: &str, what: &str) -> anyhow::Result<u64> {
    let all = ctl.servers("web", what)?;
    all.into_iter().find(|(name, _)| name == server).map(|(_, n)| n).context("no such server")
}

/// A story with connections that a client holds, a third on each server.
fn held(act: impl FnOnce(&Lab, &Ctl, Held) -> anyhow::Result<()>) {
    story(|lab| {
        let mut daemon = Daemon::in_lab(lab, &[1], DEVICE, &web("wlc", [1; 3]))?;
        let held = Held::open(lab, "c1", LISTEN, HELD)?;
        wait_for("a third on each", Duration::from_secs(3), || {
            Ok(of(&daemon.ctl, "web-1", "active")? == HELD / 3)
        })?;
        act(lab, &daemon.ctl, held)?;
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        Ok(())
    });
}

/// Before the deadline nothing ends, at the deadline those of this server alone; requests that come
/// meanwhile are served by the others.
#[test]
fn a_drain_with_a_deadline() {
    held(|lab, ctl, held| {
        ctl.ok("server drain web-1 --deadline 3s --then reset --no-wait")?;
        let before = of(ctl, "web-1", "conns")?;
        let tally = wrk(lab, "c2", URL, 2, true)?;
        ensure!(of(ctl, "web-1", "active")? == HELD / 3, "they stay until the deadline");
        let after = wrk(lab, "c2", URL, 3, true)?;
        println!("{tally:?}, then {after:?}");
        ensure!(tally.failed + after.failed == 0 && after.requests > 100, "{tally:?} {after:?}");
        ensure!(of(ctl, "web-1", "conns")? == before, "no new connections");
        ensure!(of(ctl, "web-1", "active")? == 0, "the deadline is over");
        let alive = held.close()?;
        ensure!(alive == HELD * 2 / 3, "{alive} of {HELD} live");
        ctl.ok("server enable web-1")?;
        let tally = wrk(lab, "c2", URL, 1, true)?;
        ensure!(tally.failed == 0 && of(ctl, "web-1", "conns")? > before, "it serves again");
        Ok(())
    });
}

#[test]
fn a_killed_server_loses_its_own_connections_alone() {
    held(|lab, _, held| {
        for pid in lab.pids("s1")? {
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL)?;
        }
        let alive = held.close()?;
        ensure!(alive == HELD * 2 / 3, "{alive} of {HELD} live");
        Ok(())
    });
}

#[test]
fn a_server_that_comes_back_has_its_connections() {
    held(|_, ctl, held| {
        ctl.ok("server del web web-1")?;
        std::thread::sleep(Duration::from_millis(300));
        ctl.ok("server add web 192.0.2.11 --name web-1")?;
        wait_for("they are counted again", Duration::from_secs(3), || {
            Ok(of(ctl, "web-1", "active")? == HELD / 3)
        })?;
        let alive = held.close()?;
        ensure!(alive == HELD, "{alive} of {HELD} live");
        Ok(())
    });
}

#[test]
fn a_removed_server_resets_its_connections_if_told() {
    held(|_, ctl, held| {
        ctl.ok("server del web web-1 --then reset")?;
        let began = Instant::now();
        let alive = held.close()?;
        ensure!(alive == HELD * 2 / 3, "{alive} of {HELD} live");
        ensure!(began.elapsed() < Duration::from_secs(3), "clients learn it at once");
        Ok(())
    });
}

/// A client uses its port again while the old connection closes: the first SYN is served at once,
/// also when the old server drains.
#[test]
fn a_port_is_used_again() {
    story(|lab| {
        let daemon = Daemon::in_lab(lab, &[1], DEVICE, &web("wlc", [1; 3]))?;
        // Only the director is to remember an ended connection.
        let no_wait = ["-qw", "net.ipv4.tcp_max_tw_buckets=0"];
        output(lab.command("c1", "sysctl").args(no_wait))?;
        let ask = || -> anyhow::Result<f64> {
            let mut curl = lab.command("c1", "curl");
            curl.args(["-sS", "-m", "5", "-o", "/dev/null", "--local-port", "40000"]);
            curl.args(["-H", "Connection: close", "-w", "%{time_connect}", URL]);
            Ok(output(&mut curl)?.trim().parse()?)
        };
        let conns = || daemon.ctl.servers("web", "conns");
        for _ in 0..6 {
            let before = conns()?;
            let took = ask()?;
            println!("connected in {took} s");
            ensure!(took < 0.9, "the first SYN was lost: {took} s");
            let served = conns()?.into_iter().zip(before).find(|(now, old)| now.1 > old.1);
            let (server, _) = served.context("nobody got it")?.0;
            daemon.ctl.ok(&format!("server drain {server} --no-wait"))?;
            let before = of(&daemon.ctl, &server, "conns")?;
            ensure!(ask()? < 0.9, "the first SYN was lost");
            ensure!(of(&daemon.ctl, &server, "conns")? == before, "to a draining server");
            daemon.ctl.ok(&format!("server enable {server}"))?;
        }
        Ok(())
    });
}
