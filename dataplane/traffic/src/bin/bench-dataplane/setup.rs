//! The configuration that a measured director has: `wlc` among the servers of each service.

use std::sync::Arc;

use engine::addr::{Addr, L4Proto, Mac};
use engine::forward::ForwarderKind;
use engine::live::LiveView;
use engine::neigh::{HopId, HopTable};
use engine::pool::{Pool, PoolServer};
use engine::sched::maglev::Maglev;
use engine::sched::{SchedFlags, Scheduler, SchedulerKind};
use engine::server::ServerLine;
use engine::service::{Rules, Service, ServiceKey, ServiceTable};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use traffic::template::Target;

/// Entries that fit the table of all cases but those that need more: a director's table is sized
/// for its worst day.
const CAPACITY: u64 = (1 << 20) / 4 * 5;
/// Connections that come due in a second, where any do.
pub(crate) const DUE_PER_SECOND: u64 = 1 << 20;
pub(crate) const TARGET: Target =
    Target { station: Mac([2, 0, 0, 0, 0x0d, 1]), vip: [192, 0, 2, 10], port: 80, ports: 1 };

/// What meets the director.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Segments of 2^n known flows in random order.
    Hit(u32),
    /// SYNs of new flows, of which 2^n are alive at any time.
    New(u32),
    /// Segments of 2^n known flows, while a million others a second come due.
    Expire(u32),
}

/// A director and what meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) forwarder: ForwarderKind,
    pub(crate) load: Load,
    /// Servers, which all services share.
    pub(crate) servers: u16,
    /// Services, which flows are spread over.
    pub(crate) services: u16,
}

impl Setting {
    /// Entries that its table has room for.
    pub(crate) fn capacity(self) -> u32 {
        let most = match self.load {
            Load::Hit(bits) | Load::New(bits) => 1 << bits,
            Load::Expire(bits) => (1 << bits) + DUE_PER_SECOND,
        };
        u32::try_from(CAPACITY.max(most / 4 * 5)).unwrap_or(u32::MAX)
    }
}

fn server_addr(slot: u16) -> Addr {
    let [high, low] = slot.to_be_bytes();
    Addr::v4([198, 18, high, low])
}

pub(crate) fn live(servers: u16) -> LiveView {
    let live = LiveView::new(servers.into());
    (0..servers).for_each(|slot| live.set_weight(slot.into(), 100, 1));
    live
}

pub(crate) fn hops(servers: u16) -> HopTable {
    let hops = HopTable::new(servers.into());
    for slot in 0..servers {
        let [high, low] = slot.to_be_bytes();
        hops.set(HopId(slot.into()), 0, Some(Mac([2, 0, 0, 5, high, low])));
    }
    hops
}

pub(crate) fn snapshot(setting: Setting) -> Snapshot {
    let vip = Addr::v4(TARGET.vip);
    let mut pool = Pool::default();
    for slot in 0..setting.servers {
        pool.add(PoolServer::new(slot.into(), u64::from(slot) + 1, 100, server_addr(slot), 80));
    }
    let fallback = Arc::new(Maglev::fallback(&pool, None));
    let service = |id: u16| Service {
        id,
        key: ServiceKey { proto: L4Proto::Tcp, addr: vip, port: TARGET.port + id },
        scheduler: Scheduler::build(SchedulerKind::Wlc, &pool, SchedFlags::default()),
        fallback: Arc::clone(&fallback),
        pool: pool.clone(),
        backup: None,
        rules: Rules::default(),
    };
    let line = |slot: u16| ServerLine {
        addr: server_addr(slot),
        tunnel_source: Addr::v4([192, 0, 2, 2]),
        hop: HopId(slot.into()),
        generation: 1,
        port: 80,
        mtu: 1500,
        forwarder: setting.forwarder,
        in_use: true,
        ..ServerLine::vacant(1)
    };
    Snapshot {
        version: 1,
        services: ServiceTable::new((0..setting.services).map(service).map(Arc::new), 1),
        servers: (0..setting.servers).map(line).collect(),
        limited: Box::default(),
        ports: [PortFacts { mac: TARGET.station, mtu: 1500 }].into(),
        locals: [Local { addr: vip, kind: LocalKind::Vip, ports: 1 }].into(),
        neighbours: [].into(),
        timeouts: Timeouts::default(),
        closed_port_reset: true,
        flood_guard: 0,
    }
}
