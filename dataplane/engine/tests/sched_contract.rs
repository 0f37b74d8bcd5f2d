//! What every scheduler promises, for all of them; and what holds with several lcores.

use engine::addr::{Addr, L4Proto};
use engine::flow::{Family, FlowKey};
use engine::live::{LiveView, LoadView};
use engine::pool::{Pool, PoolServer};
use engine::sched::maglev::Maglev;
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::stats::{ConnCounts, LcoreBoard};
use engine::ticks::Ticks;
use proptest::prelude::*;

/// Several lcores that schedule for one service.
struct Director {
    pool: Pool,
    scheduler: Scheduler,
    lcores: Vec<(LcoreBoard, LiveView, Cursor)>,
    clients: u32,
}

impl Director {
    fn new(kind: SchedulerKind, flags: SchedFlags, lcores: usize, weights: &[u32]) -> Self {
        let pool = pool(weights);
        let flags = SchedFlags { lcores: u16::try_from(lcores).unwrap(), ..flags };
        let scheduler = Scheduler::build(kind, &pool, flags);
        let lcore = || {
            let live = LiveView::new(weights.len());
            pool.servers.iter().for_each(|s| live.set_weight(s.slot, s.weight, 0));
            (LcoreBoard::new(weights.len(), 1), live, Cursor::default())
        };
        let lcores = (0..lcores).map(|_| lcore()).collect();
        Self { pool, scheduler, lcores, clients: 0 }
    }

    /// One new connection on one lcore: the slot of its server.
    fn open(&mut self, lcore: usize) -> Option<usize> {
        self.clients += 1;
        let key = client(self.clients);
        let lcores = u16::try_from(self.lcores.len()).unwrap();
        let who = Who { lcore: u16::try_from(lcore).unwrap(), lcores };
        let (board, live, cursor) = &mut self.lcores[lcore];
        let arrival = Arrival { key: &key, family: Family::V4, who, now: Ticks(0) };
        let at = self.scheduler.pick(&self.pool, arrival, cursor, LoadView::new(live, board))?;
        let slot = self.pool.servers[at].slot as usize;
        board.change(slot as u32, 0, 0, 1, 0);
        self.scheduler.changed(who.lcore, u32::try_from(at).unwrap());
        Some(slot)
    }

    /// What the control thread does every millisecond.
    fn share_loads(&self) {
        for slot in 0..self.pool.servers.len() {
            let active = |at: usize| self.lcores[at].0.servers[slot].counts(0).active;
            let total: u32 = (0..self.lcores.len()).map(active).sum();
            for (at, (_, live, _)) in self.lcores.iter().enumerate() {
                let others = ConnCounts { active: total - active(at), inactive: 0 };
                live.set_others(u32::try_from(slot).unwrap(), others);
            }
        }
        self.lcores.iter().for_each(|(_, live, _)| live.publish());
    }
}

/// A pool whose slots count up in the order of adding.
fn pool(weights: &[u32]) -> Pool {
    let mut pool = Pool::default();
    for (slot, weight) in (0..).zip(weights) {
        let addr = Addr::v4([10, 0, (slot >> 8) as u8, slot as u8]);
        pool.add(PoolServer::new(slot, u64::from(slot) + 1, *weight, addr, 80));
    }
    pool
}

fn client(n: u32) -> FlowKey {
    FlowKey::v4((0xc0a8_0000 + n).to_be_bytes(), [192, 168, 0, 1], [1, 2, 0, 80], L4Proto::Tcp)
}

fn shares(director: &mut Director, connections: usize) -> Vec<f64> {
    let mut counts = vec![0.0; director.pool.servers.len()];
    for n in 0..connections {
        let lcore = n % director.lcores.len();
        if n % 80 == 0 {
            director.share_loads();
        }
        counts[director.open(lcore).expect("all are eligible")] += 1.0;
    }
    counts.iter().map(|n| n / connections as f64).collect()
}

/// Whether a kind spreads connections by weight (or evenly), and how far from its aim chance may
/// take 10,000 of them.
fn tolerance(kind: SchedulerKind) -> Option<f64> {
    match kind {
        // A hash spreads clients as chance does; 256 buckets hardly fit weights.
        SchedulerKind::Mh => Some(0.015),
        SchedulerKind::Sh => Some(0.03),
        // One server at a time is what these are for.
        SchedulerKind::Dh | SchedulerKind::Fo | SchedulerKind::Ovf => None,
        SchedulerKind::Lblc | SchedulerKind::Lblcr => None,
        _ => Some(0.01),
    }
}

/// Whether each lcore walks the pool from a place of its own.
fn walks(kind: SchedulerKind) -> bool {
    tolerance(kind).is_some()
        && !matches!(kind, SchedulerKind::Mh | SchedulerKind::Sh | SchedulerKind::Twos)
}

fn fair(kind: SchedulerKind, weights: &[u32]) -> Vec<f64> {
    let all_equal = matches!(kind, SchedulerKind::Rr | SchedulerKind::Lc);
    let weight = |w: &u32| if all_equal { 1.0 } else { f64::from(*w) };
    let total: f64 = weights.iter().map(weight).sum();
    weights.iter().map(|w| weight(w) / total).collect()
}

#[test]
fn shares_follow_weights_on_any_number_of_lcores() {
    for kind in SchedulerKind::ALL {
        let Some(tolerance) = tolerance(*kind) else { continue };
        for weights in [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[1; 8], &[10, 20], &[3, 3, 1000]] {
            // The kernel cuts 3 : 3 : 1000 to 6 bits, or to 256 buckets: not the scheduler's error.
            let hash = matches!(kind, SchedulerKind::Mh | SchedulerKind::Sh);
            if hash && weights.contains(&1000) {
                continue;
            }
            for lcores in [1, 2, 8] {
                let mut director = Director::new(*kind, SchedFlags::default(), lcores, weights);
                let got = shares(&mut director, 10_000);
                for (got, fair) in got.iter().zip(fair(*kind, weights)) {
                    let what = format!("{kind} {weights:?} on {lcores}: {got:.4}, fair {fair:.4}");
                    assert!((got - fair).abs() <= tolerance, "{what}");
                }
            }
        }
    }
}

#[test]
fn lcores_start_on_different_servers() {
    let walkers = SchedulerKind::ALL.iter().filter(|k| walks(**k));
    for (kind, lcores) in walkers.flat_map(|k| [(*k, 2), (*k, 8)]) {
        let mut director = Director::new(kind, SchedFlags::default(), lcores, &[5; 8]);
        // None sees the others' picks.
        let mut picks: Vec<_> = (0..lcores).map(|lcore| director.open(lcore)).collect();
        picks.sort_unstable();
        picks.dedup();
        assert_eq!(picks.len(), lcores, "{kind}: {picks:?}");
    }
}

#[test]
fn lcores_do_not_march_in_step() {
    // The loads that wlc goes by are what lcores share; here they share nothing.
    for kind in &[SchedulerKind::Rr, SchedulerKind::Wrr, SchedulerKind::Lc] {
        let mut director =
            Director::new(*kind, SchedFlags::default(), 8, &[1, 2, 3, 4, 5, 6, 7, 8]);
        for turn in 0..72 {
            let mut counts = [0; 8];
            (0..8).for_each(|lcore| counts[director.open(lcore).unwrap()] += 1);
            assert!(counts.iter().max() <= Some(&6), "{kind}, turn {turn}: {counts:?}");
        }
    }
}

#[test]
fn lcores_do_not_rush_to_an_idle_server() {
    for kind in [SchedulerKind::Lc, SchedulerKind::Wlc] {
        let mut director = Director::new(kind, SchedFlags::default(), 8, &[1; 8]);
        shares(&mut director, 800);
        director.share_loads();
        // All loads are equal now; eight lcores break the tie in eight ways, or nearly.
        let mut counts = [0; 8];
        (0..8).for_each(|lcore| counts[director.open(lcore).unwrap()] += 1);
        assert!(counts.iter().max() <= Some(&3), "{kind}: {counts:?}");
    }
}

#[test]
fn all_lcores_fail_over_to_the_same_server() {
    for kind in [SchedulerKind::Fo, SchedulerKind::Ovf] {
        let mut director = Director::new(kind, SchedFlags::default(), 8, &[3, 9, 9, 1]);
        let picks: Vec<_> = (0..8).map(|lcore| director.open(lcore)).collect();
        assert_eq!(picks, [Some(2); 8], "{kind}");
    }
}

/// Opens connections to one destination, each on the next lcore, and gives the servers' counts.
fn crowd(kind: SchedulerKind, lcores: usize, weights: &[u32], connections: usize) -> Vec<usize> {
    let mut director = Director::new(kind, SchedFlags::default(), lcores, weights);
    let mut counts = vec![0; weights.len()];
    for n in 0..connections {
        director.share_loads();
        counts[director.open(n % lcores).expect("all are eligible")] += 1;
    }
    counts
}

#[test]
fn a_destination_stays_with_its_server_until_that_is_overloaded() {
    for kind in [SchedulerKind::Lblc, SchedulerKind::Lblcr] {
        // The newest takes weight + 1 before it counts as overloaded.
        assert_eq!(crowd(kind, 1, &[10, 10, 10], 11), [0, 0, 11], "{kind}");
        assert_eq!(crowd(kind, 1, &[10, 10, 10], 12), [0, 1, 11], "{kind}");
        // Lcores remember for themselves, and each starts with another server.
        let counts = crowd(kind, 2, &[10, 10, 10], 20);
        assert_eq!(counts.iter().filter(|n| **n >= 9).count(), 2, "{kind}: {counts:?}");
    }
}

fn fallback() -> SchedFlags {
    SchedFlags { mh_fallback: true, sh_fallback: true, ..SchedFlags::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn picks_whoever_is_eligible_and_nobody_else(
        kind in prop::sample::select(SchedulerKind::ALL),
        weights in prop::collection::vec(prop_oneof![0..3_u32, 0..=i32::MAX.unsigned_abs()], 0..10),
        effective in prop::collection::vec(prop_oneof![Just(0), any::<u32>()], 10),
        lcores in prop::sample::select(vec![1, 2, 8]),
    ) {
        for flags in [SchedFlags::default(), fallback(), SchedFlags { mh_key: Some([7; 16]), ..fallback() }] {
            let mut director = Director::new(kind, flags, lcores, &weights);
            let weight = |slot: usize| effective[slot].min(weights[slot]);
            for (_, live, _) in &director.lcores {
                (0..weights.len()).for_each(|s| live.set_weight(u32::try_from(s).unwrap(), weight(s), 0));
            }
            let somebody = (0..weights.len()).any(|s| weight(s) > 0);
            for n in 0..40 {
                let pick = director.open(n % lcores);
                prop_assert!(pick.is_none_or(|slot| weight(slot) > 0));
                // These refuse clients although somebody else is eligible, as LVS does.
                let refuses = match kind {
                    SchedulerKind::Mh | SchedulerKind::Sh => !flags.mh_fallback,
                    SchedulerKind::Dh | SchedulerKind::Ovf => true,
                    _ => false,
                };
                if !refuses {
                    prop_assert_eq!(pick.is_some(), somebody);
                }
            }
        }
    }
}

/// Where 20,000 clients go, by slot.
fn homes(maglev: &Maglev, pool: &Pool, down: &[u32]) -> Vec<Option<u32>> {
    let (live, board) = (LiveView::new(64), LcoreBoard::new(64, 1));
    for server in pool.servers.iter().filter(|s| !down.contains(&s.slot)) {
        live.set_weight(server.slot, server.weight, 0);
    }
    let load = LoadView::new(&live, &board);
    let pick = |n| maglev.pick_stateless(pool, &client(n), Family::V4, load);
    (0..20_000).map(|n| pick(n).map(|at| pool.servers[at].slot)).collect()
}

#[test]
fn maglev_moves_hardly_more_than_the_clients_of_who_leaves() {
    for key in [None, Some([3; 16])] {
        for size in [4093, 131_071] {
            let flags = SchedFlags { mh_key: key, mh_size: Some(size), ..SchedFlags::default() };
            let Scheduler::Mh(build) = Scheduler::build(SchedulerKind::Mh, &pool(&[1; 10]), flags)
            else {
                unreachable!("mh was asked for")
            };
            let before = homes(&build, &pool(&[1; 10]), &[]);
            let mut less = pool(&[1; 10]);
            assert!(less.remove(4));
            let Scheduler::Mh(build) = Scheduler::build(SchedulerKind::Mh, &less, flags) else {
                unreachable!("mh was asked for")
            };
            let after = homes(&build, &less, &[]);
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            let share = moved as f64 / before.len() as f64;
            assert!((0.08..0.10 + 0.04).contains(&share), "key {key:?}, {size} places: {share:.3}");
        }
    }
}

#[test]
fn the_fallback_moves_only_the_clients_of_who_is_down() {
    let pool = pool(&[1, 2, 3, 1]);
    let maglev = Maglev::fallback(&pool, None);
    let before = homes(&maglev, &pool, &[]);
    let after = homes(&maglev, &pool, &[2]);
    for (before, after) in before.iter().zip(&after) {
        match before {
            Some(2) => assert!(after.is_some_and(|slot| slot != 2)),
            other => assert_eq!(other, after),
        }
    }
    assert_eq!(homes(&maglev, &pool, &[0, 1, 2, 3]), vec![None; 20_000]);
}

#[test]
fn keyed_tables_agree_whatever_the_order_of_adding() {
    let forth = pool(&[1, 2, 3, 4]);
    let mut back = Pool::default();
    for (seq, server) in (1..).zip(&forth.servers) {
        back.add(PoolServer { seq, ..*server });
    }
    assert!(!forth.same_members(&back) && forth.same_members(&pool(&[1, 2, 3, 4])));
    let (one, other) = (Maglev::fallback(&forth, None), Maglev::fallback(&back, None));
    assert_eq!(homes(&one, &forth, &[1]), homes(&other, &back, &[1]));
}
