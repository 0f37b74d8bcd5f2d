//! Connection thresholds through `sluicectl`.

mod director;

use director::Director;
use director::ctl::{err, good, run, status};
use serde_json::Value;

/// Upper and lower threshold of a server of `web`, as `--json` says.
fn thresholds(director: &Director, name: &str) -> (u64, u64) {
    let document: Value = serde_json::from_str(&good(director, "server list --json")).unwrap();
    let servers = document["services"][0]["servers"].as_array().unwrap();
    let server = servers.iter().find(|s| s["name"] == name).unwrap();
    (server["u_threshold"].as_u64().unwrap(), server["l_threshold"].as_u64().unwrap())
}

#[test]
fn thresholds_are_given_changed_shown_saved_and_restored() {
    let director = Director::start();
    good(&director, "server add web 10.0.1.13 --name web-3 -x 1000 -y 800");
    good(&director, "server edit web web-1 --u-threshold 7");
    let list = good(&director, "server list");
    let heads: Vec<_> = list.lines().nth(1).unwrap().split("  ").map(str::trim).collect();
    assert!(heads.contains(&"Upper") && heads.contains(&"Lower"), "{list}");
    let row = list.lines().find(|l| l.starts_with("web-3")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[8..10], ["1,000", "800"], "{list}");
    assert_eq!(thresholds(&director, "web-1"), (7, 0));
    assert_eq!(thresholds(&director, "web-2"), (0, 0));
    assert_eq!(thresholds(&director, "web-3"), (1000, 800));

    let saved = good(&director, "save");
    assert!(saved.contains("u-threshold = 1000, l-threshold = 800"), "{saved}");
    assert_eq!(saved.matches("threshold").count(), 3, "{saved}");
    good(&director, "service flush --yes");
    let restored = run(&director.socket, "restore", Some(&saved));
    assert_eq!(status(&restored), 0, "{}", err(&restored));
    assert_eq!(good(&director, "save"), saved);

    // Weights are changed without a word on thresholds.
    good(&director, "server edit web web-3 -w 5");
    assert_eq!(thresholds(&director, "web-3"), (1000, 800));
    for (refused, word) in [
        ("server edit web web-3 -x 700", "800 is above the upper threshold, 700"),
        ("server edit web web-2 -y 1", "1 is above the upper threshold, 0"),
    ] {
        let out = run(&director.socket, refused, None);
        assert_eq!(status(&out), 1, "{refused}");
        assert!(err(&out).contains(word), "{}", err(&out));
    }
    good(&director, "server edit web web-3 -x 0 -y 0");
    assert_eq!(thresholds(&director, "web-3"), (0, 0));
}
