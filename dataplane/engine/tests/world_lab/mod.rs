//! What the stories of a whole director share: chance, packets, and the laws that always hold.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod dice;
pub(crate) mod laws;
pub(crate) mod packets;

use engine::addr::{Addr, L4Proto};
use engine::sched::{SchedFlags, SchedulerKind};
use engine::service::{ServiceKey, StrayPolicy};
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::testkit::world::Size;
use engine::ticks::TickSpan;

pub(crate) const VIP: Addr = Addr::v4([192, 0, 2, 10]);

pub(crate) fn world(lcores: u16, capacity: u32, timeouts: Timeouts) -> World {
    World::new(Size { lcores, capacity, seed: 7, timeouts })
}

/// A TCP service at [`VIP`] whose servers 10.0.0.11, .12, … have these weights; not yet published.
pub(crate) fn tcp_service(w: &mut World, kind: SchedulerKind, port: u16, weights: &[u32]) -> u16 {
    service(w, L4Proto::Tcp, kind, port, weights)
}

pub(crate) fn service(
    w: &mut World,
    proto: L4Proto,
    kind: SchedulerKind,
    port: u16,
    weights: &[u32],
) -> u16 {
    let key = ServiceKey { proto, addr: VIP, port };
    let id = w.add_service(key, kind, SchedFlags::default(), StrayPolicy::Reset);
    for (n, weight) in (11..).zip(weights) {
        w.add_server(id, (Addr::v4([10, 0, 0, n]), port), *weight);
    }
    id
}

/// Turns with nothing new until nothing waits any more, time going on.
pub(crate) fn settle(w: &mut World) {
    for _ in 0..10_000 {
        w.look();
        w.turn();
        let idle = |s: &engine::testkit::world::Site| {
            s.worker.is_quiet() && s.worker.inbound() == 0 && s.wire_in.is_empty()
        };
        if w.sites.iter().all(idle) && w.snapshots_abroad() == w.sites.len() {
            return;
        }
        w.now = w.now + TickSpan(1);
    }
    panic!("the director never comes to rest");
}
