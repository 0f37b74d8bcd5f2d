//! Connection rules through `sluicectl`.

mod director;

use director::Director;
use director::ctl::{err, good, run, status};

#[test]
fn a_service_says_how_its_flows_are_treated() {
    let director = Director::start();
    good(&director, "service add udp 192.0.2.20:53 -s rr --name dns --ops --on-remove forget");
    good(&director, "service edit web --sloppy --timeouts 60,0,0 --on-remove reschedule");
    let saved = good(&director, "save");
    for line in ["one-packet = true", "on-remove = \"forget\"", "sloppy = true"] {
        assert!(saved.contains(line), "{line}: {saved}");
    }
    assert!(saved.contains("timeouts = { tcp = 60 }"), "{saved}");
    good(&director, "service edit web --sloppy=false --timeouts 0,0,0 --on-remove drain");
    let saved = good(&director, "save");
    assert!(!saved.contains("sloppy") && !saved.contains("{ tcp = 60 }"), "{saved}");
    for (refused, word) in [
        ("service edit web --ops", "one-packet"),
        ("service edit web --timeouts 99999999,0,0", "timeouts"),
    ] {
        let out = run(&director.socket, refused, None);
        assert_eq!(status(&out), 1, "{refused}");
        assert!(err(&out).contains(word), "{}", err(&out));
    }
}

#[test]
fn servers_are_removed_in_four_ways() {
    let director = Director::start();
    for (n, then) in ["drain", "reset", "forget", "reschedule"].into_iter().enumerate() {
        good(&director, &format!("server add web 10.0.1.{} --name s", 50 + n));
        good(&director, &format!("server del web s --then {then}"));
    }
    assert_eq!(status(&run(&director.socket, "server del web web-1 --then fly", None)), 2);
}

#[test]
fn a_server_drains_in_all_its_services() {
    let director = Director::start();
    let told = good(&director, "server drain web-2 --deadline 300s --then reset");
    assert!(told.starts_with("web-2 (10.0.1.12) drains in 1 service: web. By "), "{told}");
    assert!(told.contains(" UTC, then reset. Serving weight left "), "{told}");
    assert!(told.contains("\nno new connections since "), "{told}");
    assert!(told.contains(" UTC (config #2 on 2 lcores)\n"), "{told}");
    assert!(told.contains("undo: sluicectl server enable web-2"), "{told}");
    assert!(told.contains("web 0 -> 0 active   100 %"), "{told}");
    let list = good(&director, "server list web");
    let row = list.lines().find(|l| l.contains("web-2")).unwrap_or_default();
    let left = row.split_once("drain ").and_then(|(_, rest)| rest.split_once("s reset"));
    let left: u32 = left.and_then(|(seconds, _)| seconds.parse().ok()).expect(row);
    assert!((240..=300).contains(&left), "{list}");
    good(&director, "server enable web-2");
    let list = good(&director, "server list web");
    assert!(!list.contains("drain"), "{list}");
    assert_eq!(status(&run(&director.socket, "server drain nobody --no-wait", None)), 1);
    assert_eq!(status(&run(&director.socket, "server drain web-2 --then reset", None)), 2);
}

#[test]
fn a_service_is_rebalanced() {
    let director = Director::start();
    let told = good(&director, "service rebalance web --rate 50/s");
    assert!(told.contains("0 connections of 0 servers"), "{told}");
    assert_eq!(status(&run(&director.socket, "service rebalance nothing --rate 50/s", None)), 1);
    assert_eq!(status(&run(&director.socket, "service rebalance web --rate fast", None)), 2);
}

#[test]
fn statistics_show_the_table() {
    let director = Director::start();
    let stats = good(&director, "stats");
    let line = stats.lines().find(|l| l.starts_with("table  ")).unwrap_or_default();
    let all = "table  0 of 4M, peak 0  full 0  flood-guard 0  half-open ended 0";
    assert_eq!(line.replace("4,000,000", "4M"), all, "{stats}");
}
