//! Packet cases as data: `golden/*.toml`. A case is a sentence, a director, and steps; a step is a
//! packet in, what comes out, the verdict, and every counter that moves. All others must stand
//! still. `golden_lab/notation.rs` says how packets are written.

mod golden_lab;

use std::collections::BTreeMap;

use engine::addr::{Addr, Mac};
use engine::frame::Frame;
use engine::mailbox::Event;
use engine::testkit::{HeapFrame, craft};
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

/// A thousand stations shout in one millisecond, then rs1 says a word: how many of the others were
/// heard by the control thread, was rs1, and did it get an answer?
fn heard_after(storm: impl Fn(u16) -> HeapFrame) -> (usize, bool, bool) {
    let file: File = toml::from_str(include_str!("golden/reply.toml")).unwrap();
    let mut director = Director::new(&file.director);
    let moved = Mac([2, 0, 0, 0, 9, 9]);
    let word = craft::arp_request(moved, "192.0.2.21", "192.0.2.10");
    let mut answered = false;
    for frame in (0..1000).map(storm).chain([word]) {
        director.wire_in.push(director.pool.frame(frame.bytes()).expect("room in the pool"));
        director.turn(Ticks(1_000_000));
        answered = director.wire_out.drain().iter().any(|f| f.bytes()[..6] == moved.0);
    }
    let (mut others, mut found) = (0, false);
    while let Ok(event) = director.control.events.pop() {
        let Event::Arp(heard) = event else { continue };
        let is_word = (heard.addr, heard.mac) == (Addr::v4([192, 0, 2, 21]), moved);
        found |= is_word;
        others += usize::from(!is_word);
    }
    (others, found, answered)
}

#[test]
fn a_storm_of_arp_drowns_no_neighbour() {
    let mac = |n: u16| Mac([2, 0, 0, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
    let crowd = |n| craft::arp_request(mac(n), &*format!("198.51.100.{}", n % 250), "192.0.2.10");
    assert_eq!(heard_after(crowd), (0, true, true), "strangers are none of our business");
    let liar = |n| craft::arp_request(mac(n), "192.0.2.22", "192.0.2.22");
    assert_eq!(heard_after(liar), (10, true, true), "its limit is its own");
    let thief = |n| craft::arp_reply(mac(n), "192.0.2.10", "192.0.2.10");
    assert_eq!(heard_after(thief), (10, true, true), "its limit is its own");
    let asker = |n| craft::arp_request(mac(n), "192.0.2.22", "192.0.2.11");
    assert_eq!(heard_after(asker), (10, true, true), "its limit is its own");
}
