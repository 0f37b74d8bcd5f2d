//! Packet cases as data: `golden/*.toml`. A case is a sentence, a director, and steps; a step is a
//! packet in, what comes out, the verdict, and every counter that moves. All others must stand
//! still. `golden_lab/notation.rs` says how packets are written.

mod golden_lab;

use std::collections::BTreeMap;

use engine::frame::Frame;
use engine::ticks::Ticks;
use golden_lab::director::{Director, Plan};
use golden_lab::notation;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The director of all cases of the file; each case starts with a new one.
    director: Plan,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The sentence.
    says: String,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(rename = "in")]
    packet: String,
    /// What is sent, in order.
    #[serde(default)]
    out: Vec<String>,
    /// `forward`, `reply`, `punt`, `park`, or `drop` and a reason. Says how the packet itself is
    /// counted.
    verdict: String,
    /// By how much other counters and gauges move.
    #[serde(default)]
    also: BTreeMap<String, i64>,
    /// Milliseconds since the step before.
    #[serde(default)]
    after: u64,
}

impl Step {
    /// Everything that may move, by how much.
    fn expected(&self) -> BTreeMap<String, i64> {
        let ends: &[&str] = match &*self.verdict {
            "forward" => &["forwarded", "sent"],
            "reply" => &["replied", "sent"],
            "punt" => &["punted"],
            "park" => &["parked", "waiting"],
            drop => &[drop],
        };
        let mut moves = self.also.clone();
        for name in ends.iter().chain(&["received"]) {
            *moves.entry((*name).to_owned()).or_default() += 1;
        }
        moves
    }
}

fn run(case: &Case, plan: &Plan) {
    let mut director = Director::new(plan);
    let names = plan.names();
    let mut now = Ticks(1_000_000);
    director.turn(now);
    for step in &case.step {
        now = Ticks(now.0 + step.after);
        let before = director.counters();
        let bytes = notation::frame(&step.packet, &names);
        director.wire_in.push(director.pool.frame(&bytes).expect("room in the pool"));
        director.turn(now);
        let sent: Vec<String> = director.wire_out.drain().iter().map(|f| hex(f.bytes())).collect();
        let due: Vec<String> =
            step.out.iter().map(|text| hex(&notation::frame(text, &names))).collect();
        assert_eq!(sent, due, "{}\n in: {}\nout: {:?}", case.says, step.packet, step.out);
        let after = director.counters();
        let moved: BTreeMap<String, i64> = after
            .iter()
            .map(|(name, n)| (name.clone(), n - before[name]))
            .filter(|(_, by)| *by != 0)
            .collect();
        assert_eq!(moved, step.expected(), "{}\n in: {}", case.says, step.packet);
        let waiting = usize::try_from(after["waiting"] + after["queued"]).unwrap();
        assert_eq!(director.pool.live(), waiting, "{}: a frame leaked", case.says);
    }
}

/// Two digits a byte, four bytes a group: differences are found by eye.
fn hex(bytes: &[u8]) -> String {
    let group = |g: &[u8]| g.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(4).map(group).collect::<Vec<_>>().join(" ")
}

fn run_file(text: &str, least: usize) {
    let file: File = toml::from_str(text).unwrap();
    assert!(file.case.len() >= least, "cases got lost");
    for case in &file.case {
        run(case, &file.director);
    }
}

#[test]
fn forward() {
    run_file(include_str!("golden/forward.toml"), 8);
}

#[test]
fn reply() {
    run_file(include_str!("golden/reply.toml"), 8);
}

#[test]
fn refuse() {
    run_file(include_str!("golden/refuse.toml"), 8);
}

#[test]
fn full() {
    run_file(include_str!("golden/full.toml"), 2);
}
