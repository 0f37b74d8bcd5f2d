//! States of servers through `sluicectl`.

mod director;

use director::Director;
use director::ctl::{err, good, run, status};
use serde_json::Value;

fn row<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let line = list.lines().find(|l| l.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("{name}: {list}")).split_whitespace().collect()
}

#[test]
fn health_is_told_by_command() {
    let director = Director::start();
    let told = good(&director, "server health web-1 down");
    assert_eq!(told, "web-1 is down in 1 service: web\n");
    let list = good(&director, "service list");
    assert_eq!(row(&list, "web-1")[3..7], ["100", "0", "down", "0s"], "{list}");
    assert_eq!(row(&list, "web")[4..6], ["250", "150"], "{list}");
    assert!(list.lines().next().unwrap().contains(" = sluice.toml "), "{list}");
    let list = good(&director, "server list");
    let down = row(&list, "web-1");
    assert_eq!(down[4..9], ["100", "0", "enabled", "down", "down"], "{list}");
    let document: Value = serde_json::from_str(&good(&director, "server list --json")).unwrap();
    let server = &document["services"][0]["servers"][0];
    assert_eq!((&server["health"], &server["why"]), (&"down".into(), &"down".into()), "{server}");
    assert!(server["health_secs"].is_u64(), "{server}");
    assert!(!good(&director, "save").contains("down"), "health is no configuration");
    good(&director, "server health 10.0.1.11 unknown");
    let list = good(&director, "server list");
    assert_eq!(row(&list, "web-1")[4..8], ["100", "100", "enabled", "unknown"], "{list}");
    let nobody = run(&director.socket, "server health nobody up", None);
    assert_eq!(status(&nobody), 1, "{}", err(&nobody));
    assert_eq!(status(&run(&director.socket, "server health web-1 ill", None)), 2);
}

#[test]
fn backups_and_their_quorum_are_configuration() {
    let director = Director::start();
    good(&director, "service edit web --quorum 2 --hysteresis 1 --no-server fail-open");
    good(&director, "server add web 203.0.113.21 -i -w 5 --backup --name sorry");
    let list = good(&director, "service list");
    assert_eq!(row(&list, "web")[4..9], ["255", "250", "0/2", "up", "0"], "{list}");
    let list = good(&director, "server list");
    assert_eq!(row(&list, "sorry")[4..9], ["5", "0", "backup", "unknown", "standby"], "{list}");
    good(&director, "server health web-1 down");
    let one = good(&director, "server list");
    assert_eq!(row(&one, "web-2")[5], "150", "one is not below two less one: {one}");
    good(&director, "server health web-2 down");
    let list = good(&director, "service list");
    assert!(list.contains("0/2 up, backup active"), "{list}");
    assert_eq!(row(&list, "sorry")[3..5], ["5", "5"], "{list}");
    good(&director, "server health web-1 up");
    let list = good(&director, "server list");
    assert_eq!(row(&list, "web-1")[5..9], ["0", "enabled", "up", "quorum"], "{list}");
    good(&director, "server health web-1 down");
    good(&director, "server health sorry down");
    let list = good(&director, "service list");
    assert!(list.contains("0/2 up, fail-open"), "{list}");
    let document: Value = serde_json::from_str(&good(&director, "service list --json")).unwrap();
    let web = &document["services"][0];
    for (key, value) in [
        ("quorum", Value::from(2)),
        ("hysteresis", 1.into()),
        ("no_server_policy", "fail-open".into()),
        ("quorum_lost", true.into()),
        ("acting", "servers".into()),
        ("fail_open", true.into()),
    ] {
        assert_eq!(web[key], value, "{key}: {web}");
    }
    assert_eq!(web["servers"][2]["backup"], true, "{web}");

    // What is saved is what runs: restoring it changes nothing, and health stays.
    let saved = good(&director, "save");
    for line in ["quorum = 2", "hysteresis = 1", "no-server = \"fail-open\"", "backup = true"] {
        assert!(saved.contains(line), "{line}: {saved}");
    }
    let restored = run(&director.socket, "restore", Some(&saved));
    assert_eq!(status(&restored), 0, "{}", err(&restored));
    assert_eq!(good(&director, "save"), saved);
    assert!(good(&director, "service list").contains("0/2 up, fail-open"));
    good(&director, "server edit web sorry --backup=false");
    let list = good(&director, "service list");
    assert!(list.contains("0/3 up, fail-open"), "{list}");

    for (refused, word) in [
        ("service edit web --hysteresis 2", "below the quorum"),
        ("service edit web --quorum 0", "quorum"),
    ] {
        let out = run(&director.socket, refused, None);
        assert_eq!(status(&out), 1, "{refused}");
        assert!(err(&out).contains(word), "{}", err(&out));
    }
    assert_eq!(status(&run(&director.socket, "service edit web --no-server pray", None)), 2);
}
