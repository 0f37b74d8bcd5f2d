//! `scripts/replay-oracle` on recordings that are right, wrong and broken.

#[path = "../examples/replay-oracle/recording.rs"]
mod recording;
#[path = "../examples/replay-oracle/replay.rs"]
mod replay;

use engine::sched::SchedulerKind;
use proptest::prelude::*;
use recording::{Recording, read};
use serde_json::{Value, json};

const FACTS: &str = include_str!("data/ipvs_facts.json");

fn facts() -> Value {
    serde_json::from_str(FACTS).unwrap()
}

/// The titles of cases that the engine does not reproduce.
fn differing(recording: &Recording) -> Vec<&str> {
    let differs = recording.cases.iter().filter(|case| replay::picks(case) != case.picks);
    differs.map(|case| case.title.as_str()).collect()
}

#[test]
fn all_recorded_choices_are_made_again() {
    let recording = read(FACTS.as_bytes()).unwrap();
    assert_eq!(recording.cases.len(), 58);
    assert_eq!(differing(&recording), Vec::<&str>::new());
    for kind in SchedulerKind::ALL.iter().filter(|kind| **kind != SchedulerKind::Twos) {
        assert!(recording.cases.iter().any(|case| case.kind == *kind), "{kind} has no case");
    }
}

#[test]
fn a_choice_that_the_kernel_did_not_make_is_found() {
    let mut facts = facts();
    facts["facts"][3]["picks"][7] = json!("rs9");
    facts["change_facts"][5]["picks"][20] = json!("ECONNREFUSED");
    let recording = read(facts.to_string().as_bytes()).unwrap();
    assert_eq!(differing(&recording), ["facts[3] rr w321_reverse_add", "change_facts[5] lc w123"]);
}

#[test]
fn random_choices_are_left_out() {
    let mut facts = facts();
    facts["facts"][0]["scheduler"] = json!("twos");
    let recording = read(facts.to_string().as_bytes()).unwrap();
    assert_eq!((recording.cases.len(), recording.random.len()), (57, 1));
}

#[test]
fn servers_come_from_the_configuration_or_from_a_fact_with_the_same() {
    let mut facts = facts();
    for setup in [json!(null), json!("prose"), json!({"configs": {"w123": "three servers"}})] {
        facts["setup"] = setup;
        assert_eq!(differing(&read(facts.to_string().as_bytes()).unwrap()), Vec::<&str>::new());
    }
    facts["setup"] = json!({"configs": {
        "w123": "rs1 w4, rs12 w0 added in this order", "back": "same weights, added rs12, rs1",
        "all": "all weight 7, added rs2, rs1",
    }});
    let servers = |config: &str| {
        let fact = json!({"scheduler": "rr", "flags": null, "config": config, "port": 99,
            "changes": [["-a -r 10.0.0.20 -m -w 5", "-e -r 10.0.0.20:99 -m"]],
            "clients": [], "picks": []});
        let facts = json!({"setup": facts["setup"], "change_facts": [fact]});
        let recording = read(facts.to_string().as_bytes()).unwrap();
        let servers = &recording.cases[0].servers;
        servers.iter().map(|(at, weight)| format!("{at} {weight}")).collect::<Vec<_>>()
    };
    assert_eq!(servers("w123"), ["10.0.0.11:99 4", "10.0.0.22:99 0"]);
    assert_eq!(servers("back"), ["10.0.0.22:99 0", "10.0.0.11:99 4"]);
    assert_eq!(servers("all"), ["10.0.0.12:99 7", "10.0.0.11:99 7"]);
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    let change = |line: &str| json!([[line], []]);
    for (pointer, value, words) in [
        ("/facts/2/scheduler", json!("fastest"), "facts[2].scheduler: \"fastest\" is unknown"),
        ("/facts/2/flags", json!("sh-port"), "facts[2].flags: \"sh-port\" is no flag of rr"),
        ("/facts/2/connections", json!("reset"), "facts[2].connections: unknown variant"),
        ("/facts/2/connections", json!(null), "facts[2].connections, servers: a fact has both"),
        ("/facts/2/clients/3", json!("10.0.0.1"), "facts[2].clients[3]: invalid IPv4 socket"),
        ("/facts/2/clients", json!([]), "facts[2].picks: there are 24, and 0 clients"),
        ("/facts/2/vips", json!([]), "facts[2].vips: there are 0, not 1 to 256"),
        ("/facts/2/servers/1/weight", json!(-1), "facts[2].servers[1].weight: invalid value"),
        ("/facts/2/servers/1/weight", json!(1_u32 << 31), "facts[2].servers[1].weight: 2147483648"),
        ("/facts/2/servers/1/addr", json!("10.0.0.13:9003"), "servers[1].addr: 10.0.0.13:9003 is"),
        ("/change_facts/1/config", json!("w9"), "change_facts[1].config: \"w9\" is neither"),
        ("/change_facts/1/port", json!(70_000), "change_facts[1].port: invalid value"),
        ("/change_facts/1/changes", change("-e -r 10.0.0.1:9062"), "10.0.0.1:9062 is not there"),
        ("/change_facts/1/changes", change("-a -r 10.0.0.11:9062"), "is there already"),
        ("/change_facts/1/changes", change("-e -r 10.0.0.11 -w x"), "changes[0][0]: \"-e -r"),
        ("/change_facts/1/changes", change("-Z"), "no -r SERVER"),
        ("/facts", json!({}), "facts: invalid type: map"),
    ] {
        let mut facts = facts();
        *facts.pointer_mut(pointer).unwrap() = value;
        let why = read(facts.to_string().as_bytes()).unwrap_err();
        assert!(why.contains(words), "{pointer}: {why}");
    }
    for (json, words) in [
        ("", "EOF"),
        ("{\"facts\": [", "line 1 column"),
        ("{}", "nothing to replay"),
        ("[]", "nothing to replay"),
        ("{\"facts\": []} x", "trailing characters"),
        ("\u{0}\u{1}", "expected value"),
    ] {
        let why = read(json.as_bytes()).unwrap_err();
        assert!(why.contains(words), "{json}: {why}");
    }
    let many: Vec<_> = (0..65)
        .map(|i| json!({"addr": format!("10.0.1.{i}:9"), "name": "a", "weight": 1}))
        .collect();
    let mut facts = facts();
    facts["facts"][0]["servers"] = json!(many);
    assert!(read(facts.to_string().as_bytes()).unwrap_err().contains("servers: more than 64"));
}

/// Puts a value somewhere into a document: `path` chooses at each level, modulo what there is.
fn place(document: &mut Value, path: &[usize], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *document = value;
        return;
    };
    match document {
        Value::Array(items) if !items.is_empty() => {
            let n = items.len();
            place(&mut items[first % n], rest, value);
        }
        Value::Object(fields) if !fields.is_empty() => {
            let n = fields.len();
            place(fields.values_mut().nth(first % n).expect("below"), rest, value);
        }
        _ => *document = value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broken_recordings_are_refused_or_replayed(
        path in prop::collection::vec(any::<usize>(), 0..6),
        value in prop::sample::select(vec![
            json!(null), json!(""), json!("x"), json!(0), json!(-1), json!(1e300), json!([]), json!({}),
            json!("0.0.0.0:0"), json!("255.255.255.255:65535"), json!(i32::MAX), json!("wlc"), json!("mh"),
            json!([[["-d"]]]), json!("-a -r 1.2.3.4:5 -w 7"),
        ]),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let all = facts();
        let mut few = json!({"setup": all["setup"], "facts": [all["facts"][5], all["facts"][44]],
            "change_facts": [all["change_facts"][4]]});
        place(&mut few, &path, value);
        let text = few.to_string();
        let end = cut.map_or(text.len(), |cut| cut.index(text.len()));
        match read(&text.as_bytes()[..end]) {
            Ok(recording) => recording.cases.iter().for_each(|case| drop(replay::picks(case))),
            Err(why) => prop_assert!(!why.is_empty()),
        }
    }
}

#[test]
fn the_script_ends_with_0_1_or_2_and_says_what_it_saw() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-oracle");
    std::fs::create_dir_all(&folder).unwrap();
    let mut wrong = facts();
    wrong["facts"][0]["picks"][23] = json!("rs3");
    for (name, text, status, said) in [
        ("good.json", FACTS.to_owned(), 0, "58 of 58 reproduced\n"),
        (
            "wrong.json",
            wrong.to_string(),
            1,
            "connection 23 from 192.168.1.10:40023: rs1, recorded rs3",
        ),
        (
            "broken.json",
            "{\"facts\": 1}".to_owned(),
            2,
            "broken.json: facts: invalid type: integer `1`",
        ),
    ] {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/replay-oracle");
        let output = std::process::Command::new(script).arg(&file).output().expect("bash runs it");
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        assert_eq!(output.status.code(), Some(status), "{name}: {all}");
        assert!(all.contains(said), "{name}: {all}");
    }
}
