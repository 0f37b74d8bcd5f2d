//! The schedulers against plain versions of themselves, over random histories.
//!
//! The plain versions walk a list with a pointer into it, as LVS does, and step through all rounds.

mod sched_lab;

use std::net::SocketAddr;

use engine::pool::gcd;
use engine::sched::SchedulerKind;
use proptest::prelude::*;
use sched_lab::Lab;

/// One event; servers and connections are chosen by index, modulo how many there are.
#[derive(Clone, Debug)]
enum Event {
    Add(u32),
    Edit(usize, u32),
    Delete(usize),
    Down(usize, bool),
    Open,
    Close(usize),
}

#[derive(Clone)]
struct Server {
    id: u16,
    weight: u32,
    down: bool,
}

/// The obvious scheduler: a list, newest first, and a pointer to an element (`None`: its head).
struct Plain {
    kind: SchedulerKind,
    list: Vec<Server>,
    pointer: Option<usize>,
    current: i64,
    /// Active and inactive connections by id.
    counts: Vec<(u128, u128)>,
}

impl Plain {
    fn weight(&self, at: usize) -> u32 {
        if self.list[at].down { 0 } else { self.list[at].weight }
    }

    fn step(&self) -> i64 {
        i64::from(self.list.iter().fold(0, |g, s| gcd(g, s.weight)).max(1))
    }

    fn top(&self) -> i64 {
        let greatest = self.list.iter().map(|s| s.weight).max().unwrap_or(0);
        i64::from(greatest) - (self.step() - 1)
    }

    fn changed(&mut self) {
        if self.kind != SchedulerKind::Wrr {
            return;
        }
        self.pointer = None;
        if self.current > self.top() || self.current == 0 {
            self.current = self.top();
        } else if self.step() > 1 {
            self.current = self.current / self.step() * self.step() + 1;
        }
    }

    fn add(&mut self, id: u16, weight: u32) {
        self.list.insert(0, Server { id, weight, down: false });
        self.pointer = self.pointer.map(|p| p + 1);
        self.counts.push((0, 0));
        self.changed();
    }

    fn delete(&mut self, at: usize) {
        self.list.remove(at);
        self.pointer = match self.pointer {
            Some(p) if p >= at => p.checked_sub(1),
            p => p,
        };
        self.changed();
    }

    fn pick(&mut self) -> Option<usize> {
        match self.kind {
            SchedulerKind::Rr => self.round_robin(),
            SchedulerKind::Wrr => self.weighted_round_robin(),
            SchedulerKind::Lc => self.least(|_| 1),
            SchedulerKind::Wlc => self.least(u128::from),
            SchedulerKind::Sed => self.delay(|_| false),
            SchedulerKind::Nq => self.delay(|active| active == 0),
            SchedulerKind::Fo => self.highest(|_, _| true),
            SchedulerKind::Ovf => self.highest(|active, weight| active <= weight),
            _ => unreachable!("not walked"),
        }
    }

    fn round_robin(&mut self) -> Option<usize> {
        let n = self.list.len();
        let first = self.pointer.map_or(0, |p| p + 1);
        let at = (first..first + n).map(|at| at % n).find(|at| self.weight(*at) > 0)?;
        self.pointer = Some(at);
        Some(at)
    }

    fn weighted_round_robin(&mut self) -> Option<usize> {
        if self.top() == 0 {
            return None;
        }
        let mut next = self.pointer.map_or(0, |p| p + 1);
        let (mut restarted, mut last_pass) = (false, false);
        loop {
            for at in next..self.list.len() {
                if i64::from(self.weight(at)) >= self.current {
                    self.pointer = Some(at);
                    return Some(at);
                }
                if restarted && last_pass && self.pointer == Some(at) {
                    return None;
                }
            }
            next = 0;
            self.current -= self.step();
            if self.current <= 0 {
                self.current = self.top();
                // A whole last round was tried; before the head there is no other.
                if last_pass || self.pointer.is_none() {
                    return None;
                }
                restarted = true;
            }
            last_pass = self.current <= self.step();
        }
    }

    /// The first that suits, else the shortest expected delay.
    fn delay(&self, suits: impl Fn(u128) -> bool) -> Option<usize> {
        let active = |at: usize| self.counts[usize::from(self.list[at].id)].0;
        let mut all = (0..self.list.len()).filter(|at| self.weight(*at) > 0);
        let first = all.clone().find(|at| suits(active(*at)));
        first.or_else(|| {
            let first = all.next()?;
            let delay = |a: usize, b: usize| (active(a) + 1) * u128::from(self.weight(b));
            Some(
                all.fold(
                    first,
                    |best, at| if delay(at, best) < delay(best, at) { at } else { best },
                ),
            )
        })
    }

    fn highest(&self, fits: impl Fn(u128, u128) -> bool) -> Option<usize> {
        let active = |at: usize| self.counts[usize::from(self.list[at].id)].0;
        let all = (0..self.list.len()).filter(|at| fits(active(*at), self.weight(*at).into()));
        // The first of equals: the last of the list turned round.
        all.rev().filter(|at| self.weight(*at) > 0).max_by_key(|at| self.weight(*at))
    }

    fn least(&self, divisor: impl Fn(u32) -> u128) -> Option<usize> {
        let mut best: Option<(u128, u128, usize)> = None;
        for at in (0..self.list.len()).filter(|at| self.weight(*at) > 0) {
            let (active, inactive) = self.counts[usize::from(self.list[at].id)];
            let (cost, by) = (active * 256 + inactive, divisor(self.weight(at)));
            if best.is_none_or(|(least, least_by, _)| cost * least_by < least * by) {
                best = Some((cost, by, at));
            }
        }
        best.map(|(.., at)| at)
    }
}

fn address(id: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], id))
}

/// Runs the same history through both and compares each pick.
fn compare(kind: SchedulerKind, events: &[Event]) -> Result<(), TestCaseError> {
    let mut lab = Lab::new(kind, "");
    let mut plain = Plain { kind, list: Vec::new(), pointer: None, current: 0, counts: Vec::new() };
    let mut held = Vec::new();
    for event in events {
        let n = plain.list.len();
        match *event {
            Event::Add(weight) if plain.counts.len() < sched_lab::SLOTS => {
                let id = u16::try_from(plain.counts.len()).unwrap();
                plain.add(id, weight);
                lab.add(address(id), weight, 0);
            }
            Event::Edit(at, weight) if n > 0 => {
                plain.list[at % n].weight = weight;
                plain.changed();
                lab.edit(address(plain.list[at % n].id), weight, 0);
            }
            Event::Delete(at) if n > 0 => {
                lab.delete(address(plain.list[at % n].id));
                plain.delete(at % n);
            }
            Event::Down(at, down) if n > 0 => {
                plain.list[at % n].down = down;
                lab.set_down(address(plain.list[at % n].id), down);
            }
            Event::Open => {
                let pick = plain.pick().map(|at| plain.list[at].id);
                let client = SocketAddr::from(([192, 168, 1, 10], 40000));
                prop_assert_eq!(lab.open(client), pick.map(address));
                held.push(pick);
                if let Some(id) = pick {
                    plain.counts[usize::from(id)].0 += 1;
                }
            }
            Event::Close(connection) if !held.is_empty() => {
                let connection = connection % held.len();
                lab.close(connection);
                if let Some(id) = held[connection].take() {
                    let (active, inactive) = &mut plain.counts[usize::from(id)];
                    (*active, *inactive) = (*active - 1, *inactive + 1);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn events(weight: impl Strategy<Value = u32> + Clone) -> impl Strategy<Value = Vec<Event>> {
    let index = any::<usize>();
    let event = prop_oneof![
        3 => weight.clone().prop_map(Event::Add),
        2 => (index, weight).prop_map(|(at, w)| Event::Edit(at, w)),
        2 => index.prop_map(Event::Delete),
        3 => (index, any::<bool>()).prop_map(|(at, down)| Event::Down(at, down)),
        12 => Just(Event::Open),
        2 => index.prop_map(Event::Close),
    ];
    prop::collection::vec(event, 1..120)
}

/// Weights for `wrr`: with a common divisor often, and few rounds, for the plain one walks them all.
fn few_rounds() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![
        0..5_u32,
        0..100_u32,
        (0..8_u32).prop_map(|n| n * 12),
        (0..5_u32).prop_map(|n| n * 30)
    ]
}

fn any_weight() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![0..4_u32, 0..1000_u32, 0..=i32::MAX.unsigned_abs()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wrr_steps_like_the_plain_one(events in events(few_rounds())) {
        compare(SchedulerKind::Wrr, &events)?;
    }

    #[test]
    fn the_others_walk_like_the_plain_ones(
        kind in prop::sample::select(vec![
            SchedulerKind::Rr, SchedulerKind::Lc, SchedulerKind::Wlc, SchedulerKind::Sed, SchedulerKind::Nq, SchedulerKind::Fo, SchedulerKind::Ovf,
        ]),
        events in events(any_weight()),
    ) {
        compare(kind, &events)?;
    }
}
