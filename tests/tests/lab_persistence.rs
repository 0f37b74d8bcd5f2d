//! Clients keep their servers, on whatever lcore their connections land.
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::output;
use tests::service::{DEVICE, URL, web};

/// Connections of each client in a round.
const ROUND: usize = 16;

/// The servers that a client's connections reach, each of which is its own.
fn servers(lab: &Lab, client: &str) -> anyhow::Result<BTreeSet<String>> {
    let asks = (0..ROUND).map(|_| {
        let mut curl = lab.command("c1", "curl");
        curl.args(["-sS", "-m", "5", "--interface", client, "-H", "Connection: close", URL]);
        Ok(output(&mut curl)?.trim().to_owned())
    });
    asks.collect()
}

/// The one server of each client.
fn homes(lab: &Lab, clients: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let home = |client: &String| {
        let servers = servers(lab, client)?;
        ensure!(servers.len() == 1, "{client} reached {servers:?}");
        Ok((client.clone(), servers.into_iter().next().context("a server")?))
    };
    clients.iter().map(home).collect()
}

/// Connections that each lcore has begun.
fn created(ctl: &Ctl) -> anyhow::Result<Vec<u64>> {
    let all = ctl.json("lcores")?;
    let lcores = all["lcores"].as_array().context("lcores")?;
    lcores.iter().map(|l| l["counters"]["created"].as_u64().context("created")).collect()
}

fn states(ctl: &Ctl) -> anyhow::Result<Vec<String>> {
    let all = ctl.json("connections --templates")?;
    let rows = all["templates"].as_array().context("templates")?;
    rows.iter().map(|row| Ok(row["state"].as_str().context("state")?.to_owned())).collect()
}

#[test]
fn clients_keep_their_servers_over_both_lcores() {
    story(|lab| {
        let services = web("rr", [1; 3]).replace("scheduler", "persistence = 300\nscheduler");
        let mut daemon = Daemon::in_lab(lab, &[0, 1], DEVICE, &services)?;
        let clients: Vec<String> = (111..119).map(|n| format!("192.0.2.{n}")).collect();
        for client in &clients {
            let address = format!("{client}/24");
            output(lab.command("c1", "ip").args(["addr", "add", &address, "dev", "eth0"]))?;
        }
        let first = homes(lab, &clients)?;
        let used: BTreeSet<_> = first.values().collect();
        ensure!(used.len() == 3, "round robin over clients: {first:?}");
        let created = created(&daemon.ctl)?;
        let most = (ROUND * clients.len()) as u64;
        ensure!(created.iter().sum::<u64>() == most && created.iter().all(|n| *n > most / 4));
        ensure!(states(&daemon.ctl)? == ["ASSURED"; 8]);
        ensure!(homes(lab, &clients)? == first, "they are remembered");

        // Weight 0 keeps the clients that it has.
        daemon.ctl.ok("server edit web web-1 -w 0")?;
        ensure!(homes(lab, &clients)? == first, "a server of weight 0 keeps its clients");
        daemon.ctl.ok("server edit web web-1 -w 1")?;
        // A drain does not; the others stay where they are.
        let drained = &first[&clients[0]];
        let name = format!("web-{}", drained.chars().last().context("the server's name")?);
        daemon.ctl.ok(&format!("server drain {name} --no-wait"))?;
        let moved = first.values().filter(|home| *home == drained).count();
        let void = states(&daemon.ctl)?.iter().filter(|state| state.as_str() == "VOID").count();
        ensure!(void == moved, "{void} of {moved} templates are void");
        let second = homes(lab, &clients)?;
        for (client, home) in &second {
            ensure!(home != drained, "{client} went to a draining server");
            ensure!(first[client] == *drained || first[client] == *home, "{client} moved");
        }
        daemon.ctl.ok(&format!("server enable {name}"))?;
        ensure!(homes(lab, &clients)? == second, "who has moved stays");
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        Ok(())
    });
}
