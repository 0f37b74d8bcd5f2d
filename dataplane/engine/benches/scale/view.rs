//! What a new connection costs an lcore that follows the loads of the whole director.
//!
//! One lcore of several begins [`BEGUN`] connections a millisecond by `wlc`; then its view moves as
//! if each of the others had begun as many. Timed is what the lcore does: pick, count, tell the
//! scheduler; the first pick after a move takes the view over. With one lcore nothing moves.

use std::hint::black_box;
use std::time::Instant;

use engine::addr::L4Proto;
use engine::flow::{Family, FlowKey};
use engine::live::LoadView;
use engine::sched::{Arrival, Cursor, SchedFlags, Scheduler, SchedulerKind, Who};
use engine::stats::{ConnCounts, LcoreBoard};

use crate::rig::{self, NOW};

/// Connections that each lcore begins in a millisecond.
const BEGUN: usize = 100;
/// Milliseconds.
const LOOKS: usize = 401;

/// Nanoseconds per new connection: the median of all milliseconds.
pub(crate) fn ns_a_connection(lcores: u16, servers: u16) -> f64 {
    let (pool, live) = (rig::pool(servers), rig::live(servers));
    let board = LcoreBoard::new(servers.into(), 1);
    let flags = SchedFlags { lcores, ..SchedFlags::default() };
    let scheduler = Scheduler::build(SchedulerKind::Wlc, &pool, flags);
    let key = FlowKey::v4([10, 0, 0, 1], [192, 0, 2, 10], [4, 0, 0, 80], L4Proto::Tcp);
    let who = Who { lcore: 0, lcores };
    let arrival = Arrival { key: &key, family: Family::V4, who, now: NOW };
    let mut cursor = Cursor::default();
    let mut others = vec![ConnCounts::default(); servers.into()];
    let mut dice = 1_u32;
    let mut looks = [(); LOOKS].map(|()| {
        let began = Instant::now();
        for _ in 0..BEGUN {
            let load = LoadView::new(&live, &board);
            let at = scheduler.pick(&pool, arrival, &mut cursor, load).expect("all are eligible");
            board.change(pool.servers[black_box(at)].slot, 1, 1, 1, 0);
            scheduler.changed(0, u32::try_from(at).expect("few servers"));
        }
        let ns = began.elapsed().as_nanos();
        for _ in 0..(usize::from(lcores) - 1) * BEGUN {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (dice >> 8) % u32::from(servers);
            others[slot as usize].active += 1;
            live.set_others(slot, others[slot as usize]);
        }
        if lcores > 1 {
            live.publish();
        }
        ns
    });
    looks.sort_unstable();
    looks[LOOKS / 2] as f64 / BEGUN as f64
}
