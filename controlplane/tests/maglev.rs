//! `service maglev` as operators meet it.

mod director;

use std::process::Command;

use director::Director;
use serde_json::Value;

/// Runs a line: its exit status, and what it said on either stream.
fn run(director: &Director, line: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicectl"));
    let output = command
        .args(line.split_whitespace())
        .env("SLUICE_SOCKET", &director.socket)
        .output()
        .unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

fn good(director: &Director, line: &str) -> String {
    let (status, said) = run(director, line);
    assert_eq!(status, 0, "{line}: {said}");
    said
}

#[test]
fn a_table_is_shown_with_what_its_last_change_moved() {
    let director = Director::start();
    let (status, said) = run(&director, "service maglev web");
    assert_eq!(status, 1);
    assert!(
        said.contains("its scheduler is wlc") && said.contains("service edit web -s mh"),
        "{said}"
    );
    let (status, said) = run(&director, "service edit web -s mh --maglev-size 65536");
    assert!(
        status == 1 && said.contains("65536 is not a prime") && said.contains("65537"),
        "{said}"
    );

    good(&director, "service edit web -s mh --maglev-size 65537");
    let text = good(&director, "service maglev web");
    for part in [
        "mh, keyed in public, for want of mh-key",
        "imbalance   +0.0 %",
        "disruption  - (a first table)",
        "65,537 places, built in",
        "26,215 40.0 %  40.0 %",
    ] {
        let even = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(even.contains(&part), "{part} is not in\n{text}");
    }
    good(&director, "server edit web web-1 -w 150");
    let json: Value = serde_json::from_str(&good(&director, "service maglev web --json")).unwrap();
    let maglev = &json["maglev"];
    let least = maglev["disruption"]["least_percent"].as_f64().unwrap();
    let moved = maglev["disruption"]["moved_percent"].as_f64().unwrap();
    assert!((least - 10.0).abs() < 0.1 && (least..20.0).contains(&moved), "{json}");
    assert!(
        maglev["bytes"].as_u64().unwrap() >= 2 * 65_537 && maglev["build_us"].as_u64().unwrap() > 0
    );
    assert_eq!((&json["version"], &maglev["hash"]), (&1.into(), &"keyed".into()));
    let saved = good(&director, "save");
    assert!(saved.contains("maglev-size = 65537") && !saved.contains("maglev-hash"), "{saved}");

    let (status, said) = run(&director, "service edit web --maglev-hash kernel");
    assert!(status == 1 && said.contains("Linux has no table of 65537 places"), "{said}");
    good(&director, "service edit web --maglev-hash kernel --maglev-size 65521");
    assert!(good(&director, "service maglev web").contains("kernel: agrees with Linux"));
    // Another scheduler takes nothing of it over.
    good(&director, "service edit web -s wrr");
    assert!(!good(&director, "save").contains("maglev"));
}
