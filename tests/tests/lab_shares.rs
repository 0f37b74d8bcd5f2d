//! Connections held open lie on the servers by weight, whatever the number of lcores.
use std::time::Duration;

use anyhow::ensure;
use tests::daemon::Daemon;
use tests::lab::{Lab, story};
use tests::load::{Held, open_at_server};
use tests::service::{DEVICE, LISTEN, TWO_QUEUES, web};
use tests::wait_for;

const HELD: u64 = 300;
const WEIGHTS: [(&str, u8, f64); 3] =
    [("web-1", 1, 100.0), ("web-2", 2, 150.0), ("web-3", 3, 200.0)];
const TOTAL_WEIGHT: f64 = 450.0;

/// 22.2, 33.3 and 44.4 %, each within one percentage point, as the servers themselves count.
fn shares_by_weight(lab: &Lab) -> anyhow::Result<()> {
    for (name, server, weight) in WEIGHTS {
        let share = 100.0 * open_at_server(lab, server)? as f64 / HELD as f64;
        let want = 100.0 * weight / TOTAL_WEIGHT;
        println!("{name}: {share:.1} % (weight says {want:.1} %)");
        ensure!((share - want).abs() <= 1.0, "{name} holds {share:.1} %, weight says {want:.1} %");
    }
    Ok(())
}

fn wlc_spreads(lcores: &[usize], device: &str) {
    story(|lab| {
        let daemon = Daemon::in_lab(lab, lcores, device, &web("wlc", [100, 150, 200]))?;
        let held =
            [Held::open(lab, "c1", LISTEN, HELD / 2)?, Held::open(lab, "c2", LISTEN, HELD / 2)?];
        shares_by_weight(lab)?;
        wait_for("the director counts what the servers do", Duration::from_secs(3), || {
            let active = daemon.ctl.servers("web", "active")?;
            Ok(active.iter().map(|(_, n)| n).sum::<u64>() == HELD)
        })?;
        for (held, client) in held.into_iter().zip(["c1", "c2"]) {
            ensure!(held.close()? == HELD / 2, "{client} lost connections");
        }
        Ok(())
    });
}

#[test]
fn wlc_on_one_lcore() {
    wlc_spreads(&[1], DEVICE);
}

#[test]
fn wlc_on_two_lcores() {
    wlc_spreads(&[0, 1], TWO_QUEUES);
}

#[test]
fn wlc_on_two_lcores_over_af_xdp() {
    wlc_spreads(&[0, 1], "net_af_xdp0,iface=eth0");
}
