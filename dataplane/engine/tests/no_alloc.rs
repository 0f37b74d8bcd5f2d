//! A million packets through two lcores after their start, and not one allocation.

mod world_lab;

use std::alloc::System;

use engine::addr::L4Proto;
use engine::frame::Frame;
use engine::mailbox::Query;
use engine::sched::SchedulerKind;
use engine::snapshot::Timeouts;
use engine::testkit::{HeapFrame, World};
use engine::ticks::TickSpan;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use world_lab::packets::Client;
use world_lab::{service, tcp_service, world};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKETS: u64 = 1_000_000;
const BATCH: usize = 30;

/// Turns every lcore and gives how often memory was asked for meanwhile. Freeing is the test's own:
/// a frame on the heap that is dropped frees its bytes.
fn turn(w: &mut World) -> usize {
    let region = Region::new(ALLOCATOR);
    for site in &mut w.sites {
        site.worker.turn(w.now);
    }
    let change = region.change();
    change.allocations + change.reallocations
}

#[test]
fn a_million_packets_allocate_nothing() {
    // One thread and one test in this file: nobody else allocates while a turn is counted.
    let mut w = world(2, 4000, Timeouts { tcp: 20, tcp_fin: 4, udp: 8 });
    for (kind, port) in SchedulerKind::ALL.iter().zip(80..) {
        tcp_service(&mut w, *kind, port, &[1, 2, 3]);
    }
    service(&mut w, L4Proto::Udp, SchedulerKind::Wrr, 53, &[1, 2, 3]);
    w.publish();
    w.set_known(2, false);
    let plain: Vec<Vec<u8>> = packets();
    warm(&mut w, &plain[0]);
    let (mut sent, mut asked) = (0_u64, 0);
    while sent < PACKETS {
        for _ in 0..BATCH {
            let bytes = &plain[usize::try_from(sent).unwrap() * 7919 % plain.len()];
            let queue = usize::try_from(sent % 2).unwrap();
            let frame = w.pool.frame(bytes).expect("the pool is large");
            w.sites[queue].wire_in.push(frame);
            sent += 1;
        }
        if sent % 90_000 == 0 {
            w.publish();
            w.ask(0, Query { limit: 1000, ..Query::default() });
            w.set_known(2, sent % 180_000 == 0);
        }
        asked += turn(&mut w);
        w.sites.iter().for_each(|s| drop(s.wire_out.drain()));
        w.look();
        w.rows.clear();
        w.now = w.now + TickSpan(3);
    }
    let all = w.totals();
    assert_eq!(asked, 0, "{all:?}");
    let busy = [all.created, all.ended, all.handed_over, all.untracked, all.parked, all.forwarded];
    assert!(busy.iter().all(|n| *n > 500), "every way was gone: {busy:?}");
}

/// New flows, hits, ends of 12,000 clients, more than fit.
fn packets() -> Vec<Vec<u8>> {
    let flags = ["S", "A", "A", "FA"];
    let port = |n| 80 + u16::try_from(n % SchedulerKind::ALL.len()).unwrap();
    let proto = |n| if n % 3 == 0 { (53, L4Proto::Udp) } else { (port(n), L4Proto::Tcp) };
    let of = |n: usize| flags.map(|f| Client::nth(n, proto(n).0, proto(n).1).packet(f, 0));
    let crafted = (0..12_000).flat_map(of);
    crafted.map(|c| c.build().bytes().to_vec()).collect()
}

/// A queue in memory grows to its greatest length once; a device's has it from the start.
fn warm(w: &mut World, bytes: &[u8]) {
    for site in &w.sites {
        for queue in [&site.wire_in, &site.wire_out] {
            (0..4096).for_each(|_| queue.push(HeapFrame::new(bytes)));
            drop(queue.drain());
        }
    }
}
