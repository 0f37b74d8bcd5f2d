//! Random histories, asked of a real Linux kernel and of the schedulers: the same picks.
//!
//! Skipped with a message where `scripts/ask-ipvs` finds no user-mode-linux. `SLUICE_HISTORIES` is
//! how many of each scheduler (default 2), `SLUICE_SEED` another draw, `SLUICE_RECORD` a file for
//! the answers, `SLUICE_KINDS` the schedulers, by name.

mod sched_lab;

use std::collections::BTreeMap;
use std::{env, fs};

use engine::sched::SchedulerKind;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sched_lab::history::{History, ask};

/// One event; servers and connections are chosen by index, modulo how many there are.
#[derive(Clone, Debug)]
enum Event {
    Add(usize, u32, u32),
    Edit(usize, u32, u32),
    Delete(usize),
    Open(u8, u8),
    Close(usize),
    Reschedule(SchedulerKind, u8),
}

/// Whether the kernel has it, which was built without `twos`.
fn in_kernel(kind: SchedulerKind) -> bool {
    kind != SchedulerKind::Twos
}

/// Whether it remembers destinations: then LVS goes on using the server that a destination had
/// although it is over its limit, and Sluice does not.
fn remembers(kind: SchedulerKind) -> bool {
    matches!(kind, SchedulerKind::Lblc | SchedulerKind::Lblcr)
}

/// No fallback where servers have limits: LVS refuses a client when all servers that have a bucket
/// are at theirs, though others are not; Sluice takes one of those.
const fn flag_bits(bits: u8, limits: bool) -> u8 {
    if limits { bits & 1 } else { bits }
}

/// Two flags by two bits, as ipvsadm says them.
fn flags(kind: SchedulerKind, bits: u8) -> Option<String> {
    if !matches!(kind, SchedulerKind::Sh | SchedulerKind::Mh) {
        return None;
    }
    let names = [(1, format!("{kind}-port")), (2, format!("{kind}-fallback"))];
    let set: Vec<_> = names.into_iter().filter(|(bit, _)| bits & bit != 0).map(|n| n.1).collect();
    (!set.is_empty()).then(|| set.join(","))
}

fn weights() -> impl Strategy<Value = BoxedStrategy<u32>> {
    prop_oneof![
        3 => Just((0..5_u32).boxed()),
        2 => Just((0..100_u32).boxed()),
        1 => Just((0..6_u32).prop_map(|n| n * 30).boxed()),
        1 => Just((0..600_u32).boxed()),
        1 => Just((0..=i32::MAX.unsigned_abs()).boxed()),
    ]
}

fn event(
    kind: SchedulerKind,
    weight: BoxedStrategy<u32>,
    limits: bool,
) -> impl Strategy<Value = Event> {
    let index = any::<usize>;
    let limit = move || if limits { (0..6_u32).boxed() } else { Just(0).boxed() };
    let fits = |k: &SchedulerKind| in_kernel(*k) && !(limits && remembers(*k));
    let kinds: Vec<_> = SchedulerKind::ALL.iter().copied().filter(fits).collect();
    let kinds = prop_oneof![Just(kind), prop::sample::select(kinds)];
    prop_oneof![
        4 => (index(), weight.clone(), limit()).prop_map(|(at, w, x)| Event::Add(at, w, x)),
        4 => (index(), weight, limit()).prop_map(|(at, w, x)| Event::Edit(at, w, x)),
        3 => index().prop_map(Event::Delete),
        40 => (any::<u8>(), any::<u8>()).prop_map(|(c, v)| Event::Open(c, v)),
        8 => index().prop_map(Event::Close),
        1 => (kinds, any::<u8>()).prop_map(move |(k, bits)| Event::Reschedule(k, flag_bits(bits, limits))),
    ]
}

fn history(kind: SchedulerKind, port: u16) -> impl Strategy<Value = History> {
    let hashes = matches!(kind, SchedulerKind::Sh | SchedulerKind::Dh | SchedulerKind::Mh);
    let v6 = prop::bool::weighted(if hashes { 0.2 } else { 0.02 });
    let shape = (weights(), any::<u8>(), v6, any::<bool>(), prop::bool::weighted(0.2), 1..=20_u8);
    let all = shape.prop_flat_map(move |(weight, bits, v6, many, limits, vips)| {
        let keeps = remembers(kind);
        let first = prop::collection::vec(weight.clone(), 0..8);
        let events = prop::collection::vec(event(kind, weight, limits && !keeps), 20..100);
        (first, events, Just((flag_bits(bits, limits), v6, many && !v6 && (keeps || hashes), vips)))
    });
    all.prop_map(move |(first, events, (bits, v6, any_destination, vips))| {
        let adds = first.into_iter().enumerate().map(|(i, w)| Event::Add(i, w, 0));
        let mut draw = Draw { port, v6, ..Draw::default() };
        adds.chain(events).for_each(|event| draw.step(&event, any_destination.then_some(vips)));
        let (scheduler, flags) = (kind.to_string(), flags(kind, bits));
        History { scheduler, flags, port, any_destination, persistent: None, steps: draw.steps }
    })
}

/// Makes steps that ipvsadm accepts of events.
#[derive(Default)]
struct Draw {
    port: u16,
    v6: bool,
    present: Vec<usize>,
    open: Vec<usize>,
    opened: usize,
    steps: Vec<String>,
}

impl Draw {
    fn server(&self, i: usize) -> String {
        let host = 11 + i;
        if self.v6 {
            format!("[fd00:2::{host:x}]:{}", self.port)
        } else {
            format!("10.0.0.{host}:{}", self.port)
        }
    }

    fn step(&mut self, event: &Event, vips: Option<u8>) {
        let n = self.present.len();
        let limit = |x: u32| if x > 0 { format!(" -x {x}") } else { String::new() };
        let step = match *event {
            Event::Add(at, weight, x) => {
                let new = (0..16).map(|i| (at + i) % 16).find(|i| !self.present.contains(i));
                let Some(new) = new else { return };
                self.present.push(new);
                format!("-a -r {} -w {weight}{}", self.server(new), limit(x))
            }
            Event::Edit(at, weight, x) if n > 0 => {
                format!("-e -r {} -w {weight}{}", self.server(self.present[at % n]), limit(x))
            }
            Event::Delete(at) if n > 0 => {
                let gone = self.present.remove(at % n);
                format!("-d -r {}", self.server(gone))
            }
            Event::Open(client, vip) => {
                let (host, port) = (10 + client % 80, 20_000 + self.opened);
                self.open.push(self.opened);
                self.opened += 1;
                let vip = vips.map(|n| format!(" 192.168.2.{}", 1 + vip % n)).unwrap_or_default();
                match self.v6 {
                    true => format!("open [fd00:1::{host:x}]:{port} ? fd00:1::100"),
                    false => format!("open 192.168.1.{host}:{port} ?{vip}"),
                }
            }
            Event::Close(at) if !self.open.is_empty() => {
                format!("close {}", self.open.remove(at % self.open.len()))
            }
            Event::Reschedule(kind, bits) => {
                let flags = flags(kind, bits).map(|f| format!(" -b {f}")).unwrap_or_default();
                format!("-E -s {kind}{flags}")
            }
            _ => return,
        };
        self.steps.push(step);
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name}={n}")))
}

#[test]
fn random_histories_agree_with_a_real_kernel() {
    let (each, seed) = (number("SLUICE_HISTORIES", 2), number("SLUICE_SEED", 1));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let wanted = env::var("SLUICE_KINDS").unwrap_or_default();
    let kinds = SchedulerKind::ALL.iter().copied().filter(|k| in_kernel(*k));
    let kinds = kinds.filter(|k| wanted.is_empty() || wanted.split(' ').any(|w| w == k.name()));
    let all: Vec<_> = kinds
        .flat_map(|kind| (0..each).map(move |_| kind))
        .zip(10_000..)
        .map(|(kind, port)| history(kind, port).new_tree(&mut runner).unwrap().current())
        .collect();
    let Some(answers) = ask(&all) else { return };
    if let Ok(file) = env::var("SLUICE_RECORD") {
        fs::write(file, serde_json::to_string(&answers).unwrap()).unwrap();
    }
    let mut tally: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for answer in &answers {
        let row = tally.entry(&answer.scheduler).or_default();
        (row.0, row.1) =
            (row.0 + 1, row.1 + answer.steps.iter().filter(|s| s.starts_with("open")).count());
        match answer.replay() {
            Ok(()) => row.2 += 1,
            Err(why) => wrong.push(why),
        }
    }
    for (kind, (histories, picks, same)) in tally {
        println!("{kind:6} {same} of {histories} histories the same, {picks} picks");
    }
    assert!(wrong.is_empty(), "{} differ; the first: {}", wrong.len(), wrong[0]);
}
