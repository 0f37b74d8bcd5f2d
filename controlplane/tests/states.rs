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
