//! Slow start in a simulation: in no second does a joining server get more than its share of then
//! and 30 %, or 3 connections, more; and it does not starve.

use engine::addr::{Addr, L4Proto};
use engine::flow::{Family, FlowKey};
use engine::live::{LiveView, LoadView};
use engine::pace::{Pace, WHOLE};
use engine::pool::{Pool, PoolServer};
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::stats::{ConnCounts, LcoreBoard};
use engine::ticks::Ticks;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

const KINDS: [SchedulerKind; 7] = [
    SchedulerKind::Rr,
    SchedulerKind::Wrr,
    SchedulerKind::Lc,
    SchedulerKind::Wlc,
    SchedulerKind::Sed,
    SchedulerKind::Nq,
    SchedulerKind::Twos,
];

/// The ramp: 5 % of the weight to all of it in 10 s.
const RAMP_MS: u32 = 10_000;
const FLOOR: f64 = 0.05;

/// When connections come.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// So many a second, at any time.
    Random(u32),
    /// So many a second, one after the other on the lcores in turn.
    Even(u32),
    /// So many at once, once a second.
    Burst(u32),
}

#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    kind: SchedulerKind,
    lcores: u16,
    /// The last one joins.
    weights: &'a [u32],
    arrivals: Arrivals,
    /// How long a connection lives, at most, in ms; `None`: for ever.
    life: Option<u32>,
    /// So many connections on each of the others before.
    before: u32,
}

struct Lab<'a> {
    case: Case<'a>,
    pool: Pool,
    scheduler: Scheduler,
    lcores: Vec<(LcoreBoard, LiveView, Cursor)>,
    /// When which connection of which lcore ends: lcore, position.
    ends: std::collections::BTreeMap<u32, Vec<(usize, usize)>>,
    rng: TestRng,
    clients: u32,
}

impl<'a> Lab<'a> {
    fn new(case: Case<'a>) -> Self {
        let mut pool = Pool::default();
        for (slot, weight) in (0..).zip(case.weights) {
            pool.add(PoolServer::new(slot, u64::from(slot) + 1, *weight, Addr::UNSPECIFIED, 80));
        }
        let flags = SchedFlags { lcores: case.lcores, ..SchedFlags::default() };
        let scheduler = Scheduler::build(case.kind, &pool, flags);
        let slots = case.weights.len();
        let lcore = || (LcoreBoard::new(slots, 1), LiveView::new(slots), Cursor::default());
        let lcores: Vec<_> = (0..case.lcores).map(|_| lcore()).collect();
        let joins = pool.servers[0].slot;
        for (_, live, _) in &lcores {
            for s in &pool.servers {
                let held = if s.slot == joins { LiveView::LOOK_FURTHER } else { 0 };
                live.hold(s.slot, s.slot == joins);
                live.set_weight(s.slot, s.weight | held, 0);
            }
        }
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let ends = std::collections::BTreeMap::new();
        let lab = Self { case, pool, scheduler, lcores, ends, rng, clients: 0 };
        for at in 1..slots {
            for n in 0..case.before {
                lab.count(n as usize % lab.lcores.len(), at, 1);
            }
        }
        lab
    }

    fn count(&self, lcore: usize, at: usize, by: i32) {
        let slot = self.pool.servers[at].slot;
        self.lcores[lcore].0.change(slot, 0, 0, by, 0);
        self.scheduler.changed(u16::try_from(lcore).unwrap(), u32::try_from(at).unwrap());
    }

    /// The control thread's look at loads.
    fn look(&self) {
        for slot in 0..u32::try_from(self.pool.servers.len()).unwrap() {
            let own = |l: &(LcoreBoard, LiveView, Cursor)| l.0.servers[slot as usize].counts(0);
            let all: u32 = self.lcores.iter().map(|l| own(l).active).sum();
            for lcore in &self.lcores {
                let active = all - own(lcore).active;
                lcore.1.set_others(slot, ConnCounts { active, inactive: 0 });
            }
        }
        self.lcores.iter().for_each(|l| l.1.publish());
    }

    /// The share of the joining server when it has this part of its weight.
    fn share(&self, part: f64) -> f64 {
        let alike = matches!(self.case.kind, SchedulerKind::Rr | SchedulerKind::Lc);
        let weight = |w: u32| if alike { 1.0 } else { f64::from(w) };
        let own = part * weight(self.pool.servers[0].weight);
        own / (own + self.pool.servers[1..].iter().map(|s| weight(s.weight)).sum::<f64>())
    }

    fn pace(&self, part: f64, share: f64) {
        let pace = Pace {
            slot: self.pool.servers[0].slot,
            place: 0,
            share: (share * 2_f64.powi(32)) as u32,
            part: (part * f64::from(WHOLE)) as u32,
            number: 1,
        };
        self.lcores.iter().for_each(|l| l.1.paces().set(&[None, Some(pace)]));
    }

    fn release(&self) {
        for (_, live, _) in &self.lcores {
            live.paces().set(&[]);
            live.hold(self.pool.servers[0].slot, false);
            live.set_weight(self.pool.servers[0].slot, self.pool.servers[0].weight, 0);
        }
    }

    /// A connection comes; whether the joining server gets it.
    fn open(&mut self, lcore: usize, now: u32) -> bool {
        self.clients += 1;
        let (client, vip) = (self.clients.to_be_bytes(), [192, 168, 0, 1]);
        let key = FlowKey::v4(client, vip, [1, 2, 0, 80], L4Proto::Tcp);
        let who = Who { lcore: u16::try_from(lcore).unwrap(), lcores: self.case.lcores };
        let arrival = Arrival { key: &key, family: Family::V4, who, now: Ticks(0) };
        let (board, live, cursor) = &mut self.lcores[lcore];
        let load = LoadView::new(live, board);
        let at = self.scheduler.pick(&self.pool, arrival, cursor, load).expect("eligible");
        self.count(lcore, at, 1);
        if let Some(life) = self.case.life {
            let end = now + self.rng.random_range(1..=life);
            self.ends.entry(end).or_default().push((lcore, at));
        }
        at == 0
    }

    /// One millisecond: who comes, on which lcores; gives how many came and the joining server got.
    fn tick(&mut self, now: u32) -> (u32, u32) {
        for (lcore, at) in self.ends.remove(&now).unwrap_or_default() {
            self.count(lcore, at, -1);
        }
        if self.lcores.len() > 1 {
            self.look();
        }
        let number = match self.case.arrivals {
            Arrivals::Random(rate) => {
                rate / 1000 + u32::from(self.rng.random_range(0..1000) < rate % 1000)
            }
            Arrivals::Even(rate) => {
                let before = |ms: u32| u64::from(ms) * u64::from(rate) / 1000;
                u32::try_from(before(now + 1) - before(now)).unwrap()
            }
            Arrivals::Burst(rate) => {
                if now % 1000 == 500 {
                    rate
                } else {
                    0
                }
            }
        };
        let mut got = 0;
        for _ in 0..number {
            let lcore = match self.case.arrivals {
                Arrivals::Even(_) => self.clients as usize % self.lcores.len(),
                _ => self.rng.random_range(0..self.lcores.len()),
            };
            got += u32::from(self.open(lcore, now));
        }
        (number, got)
    }
}

/// How much the joining server got in a second, and what its share was.
#[derive(Debug)]
struct Second {
    got: u32,
    share: f64,
}

impl Second {
    /// A second in which the server has a part of its weight and a pace of so many shares of that.
    fn run(lab: &mut Lab<'_>, second: u32, part: impl Fn(u32) -> f64, pace: f64) -> Self {
        let mut sum = Self { got: 0, share: 0.0 };
        for now in second * 1000..(second + 1) * 1000 {
            // The control thread looks every 20 ms.
            let part = part(now / 20 * 20);
            let share = lab.share(part);
            lab.pace(part, share * pace);
            let (came, got) = lab.tick(now);
            sum.got += got;
            sum.share += f64::from(came) * share;
        }
        sum
    }

    /// By how much it was more than the share, in parts of 30 %, or of `least` connections.
    fn excess(&self, least: f64) -> f64 {
        (f64::from(self.got) - self.share) / (self.share * 0.3).max(least)
    }
}

fn ramp(now: u32) -> f64 {
    (f64::from(now) / f64::from(RAMP_MS)).clamp(FLOOR, 1.0)
}

const POOLS: [&[u32]; 4] = [&[1, 1], &[1, 1, 1, 1], &[100, 200, 50, 300], &[7; 20]];
const ARRIVALS: [Arrivals; 6] = [
    Arrivals::Random(5),
    Arrivals::Random(300),
    Arrivals::Even(8),
    Arrivals::Even(150),
    Arrivals::Burst(50),
    Arrivals::Burst(200),
];
/// How long connections live, and how many were there before.
const LIVES: [(Option<u32>, u32); 3] = [(None, 500), (Some(400), 3), (Some(3_000), 20)];

fn cases() -> impl Iterator<Item = Case<'static>> {
    let kinds = KINDS.into_iter().flat_map(|k| [1, 2, 8].map(|l| (k, l)));
    let pools = kinds.flat_map(|k| POOLS.map(|p| (k, p)));
    let loads = || ARRIVALS.into_iter().flat_map(|a| LIVES.map(|l| (a, l)));
    pools.flat_map(move |((kind, lcores), weights)| {
        loads().map(move |(arrivals, (life, before))| Case {
            kind,
            lcores,
            weights,
            arrivals,
            life,
            before,
        })
    })
}

#[test]
fn no_second_brings_more_than_the_share_of_then() {
    for case in cases() {
        let mut lab = Lab::new(case);
        let seconds: Vec<_> = (0..10).map(|n| Second::run(&mut lab, n, ramp, 1.0)).collect();
        // What comes in one moment on many lcores no other lcore can know of.
        let at_once = matches!(case.arrivals, Arrivals::Burst(_)) && case.lcores > 3;
        let least = if at_once { 4.0 } else { 3.0 };
        for (n, second) in seconds.iter().enumerate() {
            assert!(second.excess(least) <= 1.0, "second {n}: {second:?} of {case:?}");
        }
        let got: u32 = seconds.iter().map(|s| s.got).sum();
        let share: f64 = seconds.iter().map(|s| s.share).sum();
        assert!(share < 20.0 || f64::from(got) / share > 0.8, "{got} of {share} of {case:?}");
    }
}

#[test]
fn after_the_ramp_a_server_catches_up_within_the_same_bound_until_it_is_level() {
    for kind in [SchedulerKind::Lc, SchedulerKind::Wlc, SchedulerKind::Sed, SchedulerKind::Nq] {
        let arrivals = Arrivals::Random(400);
        let weights = &[2, 1, 1, 2];
        let case = Case { kind, lcores: 2, weights, arrivals, life: None, before: 900 };
        let mut lab = Lab::new(case);
        for n in 0..40 {
            let second = Second::run(&mut lab, n, ramp, if n < 10 { 1.0 } else { 1.25 });
            assert!(second.excess(3.0) <= 1.0, "second {n}: {second:?} of {kind}");
            if n > 20 {
                assert!(f64::from(second.got) > second.share, "second {n}: {second:?} of {kind}");
            }
        }
    }
}

#[test]
fn after_the_ramp_shares_are_the_weights() {
    for kind in KINDS {
        let (arrivals, weights) = (Arrivals::Random(1_000), &[10, 20, 30, 40]);
        let case = Case { kind, lcores: 2, weights, arrivals, life: Some(300), before: 0 };
        let mut lab = Lab::new(case);
        for n in 0..10 {
            let _ = Second::run(&mut lab, n, ramp, 1.0);
        }
        lab.release();
        let (mut came, mut got) = (0, 0);
        for now in 10_000..20_000 {
            let (c, g) = lab.tick(now);
            (came, got) = (came + c, got + g);
        }
        let (held, share) = (f64::from(got) / f64::from(came), lab.share(1.0));
        assert!((held - share).abs() < 0.02, "{held} is not {share} of {kind}");
    }
}

#[test]
fn where_nobody_else_is_eligible_nobody_is_held_back() {
    for kind in KINDS {
        let (arrivals, weights) = (Arrivals::Even(100), &[1, 1, 1]);
        let mut lab = Lab::new(Case { kind, lcores: 1, weights, arrivals, life: None, before: 0 });
        lab.pace(0.05, 0.05);
        (0..2).for_each(|slot| lab.lcores[0].1.set_weight(slot, 0, 0));
        assert_eq!((0..1000).map(|now| lab.tick(now).1).sum::<u32>(), 100, "{kind}");
    }
}

#[test]
fn a_start_elsewhere_makes_no_server_eligible() {
    let (arrivals, weights) = (Arrivals::Even(100), &[1, 1]);
    let kind = SchedulerKind::Ovf;
    let mut lab = Lab::new(Case { kind, lcores: 1, weights, arrivals, life: None, before: 0 });
    lab.release();
    let elsewhere = Pace { slot: 9, place: 0, share: 1 << 31, part: WHOLE, number: 1 };
    lab.lcores[0].1.paces().set(&[Some(elsewhere)]);
    for _ in 0..4 {
        let _ = lab.open(0, 0);
    }
    let key = FlowKey::v4([1, 2, 3, 4], [192, 168, 0, 1], [1, 2, 0, 80], L4Proto::Tcp);
    let arrival = Arrival { key: &key, family: Family::V4, who: Who::ALONE, now: Ticks(0) };
    let (board, live, cursor) = &mut lab.lcores[0];
    let pick = lab.scheduler.pick(&lab.pool, arrival, cursor, LoadView::new(live, board));
    assert_eq!(pick, None, "both overflow");
}
