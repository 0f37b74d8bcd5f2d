//! The least-connection family: its tournament picks what a walk over all servers would pick, and
//! several lcores share fairly, however bursty their connections come.

use engine::addr::{Addr, L4Proto};
use engine::flow::{Family, FlowKey};
use engine::live::{LiveView, LoadView};
use engine::pool::{Pool, PoolServer};
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::stats::{ConnCounts, LcoreBoard};
use engine::ticks::Ticks;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

const FAMILY: [SchedulerKind; 4] =
    [SchedulerKind::Lc, SchedulerKind::Wlc, SchedulerKind::Sed, SchedulerKind::Nq];

/// One lcore of several, with what it sees of the others.
struct Lcore {
    who: Who,
    board: LcoreBoard,
    live: LiveView,
}

impl Lcore {
    fn new(who: Who, slots: usize) -> Self {
        Self { who, board: LcoreBoard::new(slots, 1), live: LiveView::new(slots) }
    }

    fn load(&self) -> LoadView<'_> {
        LoadView::new(&self.live, &self.board)
    }

    fn pick(&self, pool: &Pool, scheduler: &Scheduler) -> Option<usize> {
        let key = FlowKey::v4([1, 2, 3, 4], [192, 168, 0, 1], [1, 2, 0, 80], L4Proto::Tcp);
        let arrival = Arrival { key: &key, family: Family::V4, who: self.who, now: Ticks(0) };
        scheduler.pick(pool, arrival, &mut Cursor::default(), self.load())
    }

    /// Changes the counts of the server at a position.
    fn count(&self, pool: &Pool, scheduler: &Scheduler, at: usize, by: (u16, i32, i32)) {
        let slot = pool.servers[at].slot;
        self.board.change(slot, by.0, by.0, by.1, by.2);
        scheduler.changed(self.who.lcore, u32::try_from(at).unwrap());
    }
}

/// Walks all servers and keeps the first of the least.
fn walk(kind: SchedulerKind, pool: &Pool, load: LoadView<'_>) -> Option<usize> {
    let mut best: Option<(u128, u128, usize)> = None;
    for (at, server) in pool.servers.iter().enumerate() {
        let (counts, weight) = (load.counts(server.slot), load.weight(server.slot));
        let overhead = counts.active * 256 + counts.inactive;
        let (cost, by) = match kind {
            SchedulerKind::Lc => (overhead, 1),
            SchedulerKind::Wlc => (overhead, weight),
            SchedulerKind::Nq if counts.active == 0 => (0, weight),
            _ => (counts.active + 1, weight),
        };
        let (cost, by) = (u128::from(cost), u128::from(by));
        if weight > 0 && best.is_none_or(|(least, least_by, _)| cost * least_by < least * by) {
            best = Some((cost, by, at));
        }
    }
    best.map(|(.., at)| at)
}

/// What happens between two picks; servers are chosen modulo their number.
#[derive(Clone, Debug)]
enum Event {
    /// A connection goes where the scheduler says.
    Open,
    /// Connections elsewhere: at a server, so many active and inactive.
    Others(usize, u32, u32),
    /// One of the lcore's own ends, or becomes inactive.
    End(usize, bool),
    Weigh(usize, u32),
    Purge(usize),
    Add(u32),
    Remove(usize),
    Edit(usize, u32),
}

fn event() -> impl Strategy<Value = Event> {
    let weight = || prop_oneof![0..4_u32, 90..110_u32, 0..=i32::MAX.unsigned_abs()];
    let server = any::<usize>;
    prop_oneof![
        20 => Just(Event::Open),
        6 => (server(), any::<bool>()).prop_map(|(at, gone)| Event::End(at, gone)),
        2 => (server(), 0..6_u32, 0..600_u32).prop_map(|(at, a, i)| Event::Others(at, a, i)),
        1 => (server(), any::<u32>(), any::<u32>()).prop_map(|(at, a, i)| Event::Others(at, a, i)),
        2 => (server(), weight()).prop_map(|(at, w)| Event::Weigh(at, w)),
        1 => server().prop_map(Event::Purge),
        1 => weight().prop_map(Event::Add),
        1 => server().prop_map(Event::Remove),
        1 => (server(), weight()).prop_map(|(at, w)| Event::Edit(at, w)),
    ]
}

/// A pool that changes, one lcore, and the generation of each slot.
struct Lab {
    kind: SchedulerKind,
    lcore: Lcore,
    pool: Pool,
    scheduler: Scheduler,
    generations: Vec<u16>,
}

impl Lab {
    const SLOTS: usize = 1200;

    fn new(kind: SchedulerKind, weights: &[u32]) -> Self {
        let pool = Pool::default();
        let scheduler = Scheduler::build(kind, &pool, SchedFlags::default());
        let lcore = Lcore::new(Who::ALONE, Self::SLOTS);
        let mut lab = Self { kind, lcore, pool, scheduler, generations: Vec::new() };
        weights.iter().for_each(|w| lab.add(*w));
        lab.rebuild();
        lab
    }

    fn add(&mut self, weight: u32) {
        let slot = u32::try_from(self.generations.len()).unwrap();
        self.generations.push(0);
        let server = PoolServer::new(slot, u64::from(slot) + 1, weight, Addr::UNSPECIFIED, 80);
        self.pool.add(server);
        self.lcore.live.set_weight(slot, weight, 0);
    }

    fn rebuild(&mut self) {
        self.scheduler = self.scheduler.rebuild(self.kind, &self.pool, SchedFlags::default());
    }

    fn happen(&mut self, event: &Event) {
        let n = self.pool.servers.len();
        let slot = |at: usize| self.pool.servers[at % n].slot;
        match *event {
            Event::Add(weight) if self.generations.len() < Self::SLOTS => {
                self.add(weight);
                self.rebuild();
            }
            _ if n == 0 => {}
            Event::Open => {
                let pick = self.lcore.pick(&self.pool, &self.scheduler);
                if let Some(at) = pick {
                    let generation = self.generations[slot(at) as usize];
                    self.lcore.count(&self.pool, &self.scheduler, at, (generation, 1, 0));
                }
            }
            Event::End(at, gone) => {
                let generation = self.generations[slot(at) as usize];
                let own = self.lcore.load().own(slot(at), generation);
                let by = match own {
                    ConnCounts { active: 1.., .. } => (generation, -1, i32::from(!gone)),
                    ConnCounts { inactive: 1.., .. } => (generation, 0, -1),
                    _ => return,
                };
                self.lcore.count(&self.pool, &self.scheduler, at % n, by);
            }
            Event::Others(at, active, inactive) => {
                self.lcore.live.set_others(slot(at), ConnCounts { active, inactive });
                self.lcore.live.publish();
            }
            Event::Weigh(at, weight) => {
                let generation = self.generations[slot(at) as usize];
                self.lcore.live.set_weight(slot(at), weight, generation);
            }
            Event::Purge(at) => {
                let (slot, load) = (slot(at), self.lcore.load());
                self.generations[slot as usize] += 1;
                let generation = self.generations[slot as usize];
                self.lcore.live.set_weight(slot, load.weight(slot), generation);
            }
            Event::Remove(at) => {
                let slot = slot(at);
                self.pool.remove(slot);
                self.lcore.live.set_weight(slot, 0, self.generations[slot as usize]);
                self.rebuild();
            }
            Event::Edit(at, weight) => {
                let slot = slot(at);
                self.pool.set_weight(slot, weight);
                self.lcore.live.set_weight(slot, weight, self.generations[slot as usize]);
                self.rebuild();
            }
            Event::Add(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_winner_is_whom_a_walk_would_find(
        kind in prop::sample::select(FAMILY.to_vec()),
        size in prop_oneof![0..20_usize, 100..140_usize, Just(1000)],
        weights in prop::collection::vec(
            prop_oneof![0..3_u32, Just(100), 0..=i32::MAX.unsigned_abs()], 1000),
        equal in any::<bool>(),
        events in prop::collection::vec(event(), 1..150),
    ) {
        let weights = if equal { vec![7; size] } else { weights[..size].to_vec() };
        let mut lab = Lab::new(kind, &weights);
        for event in &events {
            lab.happen(event);
            let walked = walk(kind, &lab.pool, lab.lcore.load());
            let picked = lab.lcore.pick(&lab.pool, &lab.scheduler);
            prop_assert_eq!(picked, walked, "after {:?}", event);
        }
    }
}

/// A load on several lcores.
struct Traffic {
    /// The longest burst of an lcore within a millisecond.
    busy: u32,
    /// So many connections live; then one ends for each that begins.
    alive: usize,
}

/// How far servers are from their fair share of the living connections when 10,000 have begun.
fn unfairness(
    kind: SchedulerKind,
    weights: &[u32],
    lcores: u16,
    traffic: &Traffic,
    rng: &mut TestRng,
) -> f64 {
    let mut pool = Pool::default();
    for (slot, weight) in (0..).zip(weights) {
        pool.add(PoolServer::new(slot, u64::from(slot) + 1, *weight, Addr::UNSPECIFIED, 80));
    }
    let scheduler = Scheduler::build(kind, &pool, SchedFlags { lcores, ..SchedFlags::default() });
    let lcores: Vec<_> =
        (0..lcores).map(|lcore| Lcore::new(Who { lcore, lcores }, weights.len())).collect();
    for lcore in &lcores {
        pool.servers.iter().for_each(|s| lcore.live.set_weight(s.slot, s.weight, 0));
    }
    let (mut held, mut begun) = (Vec::new(), 0);
    while begun < 10_000 {
        // A millisecond: the control thread looks, then each lcore has a burst of its own length.
        look(&lcores, &pool);
        for (n, lcore) in lcores.iter().enumerate() {
            for _ in 0..rng.random_range(0..=traffic.busy) {
                let at = lcore.pick(&pool, &scheduler).expect("all are eligible");
                lcore.count(&pool, &scheduler, at, (0, 1, 0));
                held.push((n, at));
                begun += 1;
                if held.len() > traffic.alive {
                    let (n, at) = held.swap_remove(rng.random_range(0..held.len()));
                    lcores[n].count(&pool, &scheduler, at, (0, -1, 0));
                }
            }
        }
    }
    let weight = |s: &PoolServer| f64::from(if kind == SchedulerKind::Lc { 1 } else { s.weight });
    let sum: f64 = pool.servers.iter().map(weight).sum();
    let off = |(at, server)| {
        let here = held.iter().filter(|(_, there)| *there == at).count();
        (here as f64 / held.len() as f64 - weight(server) / sum).abs()
    };
    pool.servers.iter().enumerate().map(off).fold(0.0, f64::max)
}

/// The control thread's look: each lcore is told what the others have.
fn look(lcores: &[Lcore], pool: &Pool) {
    for slot in pool.servers.iter().map(|s| s.slot) {
        let own = |l: &Lcore| l.board.servers[slot as usize].counts(0).active;
        let all: u32 = lcores.iter().map(own).sum();
        for lcore in lcores {
            lcore.live.set_others(slot, ConnCounts { active: all - own(lcore), inactive: 0 });
        }
    }
    lcores.iter().for_each(|l| l.live.publish());
}

/// The worst of some runs of each kind and pool with each number of lcores.
fn worst(busy: u32, alive: usize) -> (f64, String) {
    let pools = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[1; 8], &[10, 20], &[3, 3, 1000], &[5; 100]];
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut worst = (0.0, String::new());
    for (kind, weights) in FAMILY.iter().flat_map(|k| pools.map(|w| (*k, w))) {
        for lcores in [1, 2, 8] {
            let off = unfairness(kind, weights, lcores, &Traffic { busy, alive }, &mut rng);
            if off > worst.0 {
                worst = (off, format!("{kind} {weights:?} on {lcores}, up to {busy}: {off:.4}"));
            }
        }
    }
    println!("bursts up to {busy}, {alive} alive: at most {:.4}", worst.0);
    worst
}

#[test]
fn bursts_on_several_lcores_are_shared_fairly() {
    for busy in [1, 5, 40] {
        let (off, what) = worst(busy, usize::MAX);
        assert!(off <= 0.002, "{what}");
    }
}

#[test]
fn the_gaps_that_ends_leave_are_filled_and_not_overfilled() {
    for busy in [1, 5, 40] {
        let (off, what) = worst(busy, 3000);
        assert!(off <= 0.01, "{what}");
    }
}
