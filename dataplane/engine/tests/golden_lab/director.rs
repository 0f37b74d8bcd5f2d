//! A whole director of one lcore and one port, on queues in memory.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

use engine::addr::{Addr, L4Proto};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::forward::ForwarderKind;
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::{ControlEnd, mailbox};
use engine::neigh::{HopId, HopTable};
use engine::out::Outlet;
use engine::owner::Peers;
use engine::sched::maglev::Maglev;
use engine::sched::{SchedFlags, Scheduler, SchedulerKind, Who};
use engine::server::ServerLine;
use engine::service::{
    NoServerPolicy, Pool, PoolServer, Rules, Service, ServiceKey, ServiceTable, StrayPolicy,
};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use engine::stats::LcoreBoard;
use engine::templates::Templates;
use engine::testkit::{HeapPool, MemQueue, craft, table_memory};
use engine::ticks::Ticks;
use engine::verdict::DropReason;
use engine::worker::Worker;
use serde::Deserialize;

use super::notation::server_mac;

/// The director's own address on its port.
const OWN: Addr = Addr::v4([192, 0, 2, 1]);
const PORT: PortFacts = PortFacts { mac: craft::STATION, mtu: 1500 };
const MAX: usize = 16;

/// A director as a case describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub service: Vec<ServicePlan>,
    /// Whether closed ports of a VIP are answered.
    #[serde(default)]
    closed_port_reset: bool,
    /// Connections that fit.
    #[serde(default = "Plan::capacity")]
    capacity: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicePlan {
    proto: String,
    vip: SocketAddrV4,
    #[serde(default = "ServicePlan::scheduler")]
    scheduler: String,
    #[serde(default)]
    silent: bool,
    /// What new flows get when no server is eligible.
    #[serde(default)]
    no_server: NoServer,
    pub server: Vec<ServerPlan>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerPlan {
    pub name: String,
    addr: SocketAddrV4,
    #[serde(default = "ServerPlan::forwarder")]
    forwarder: String,
    #[serde(default = "ServerPlan::one")]
    weight: u32,
    #[serde(default = "ServerPlan::mtu")]
    mtu: u16,
    /// Whether its hardware address is unknown.
    #[serde(default)]
    unknown: bool,
}

impl Plan {
    const fn capacity() -> u32 {
        64
    }

    /// The names of all servers; a server's index is its slot.
    pub(crate) fn names(&self) -> Vec<String> {
        let servers = self.service.iter().flat_map(|s| &s.server);
        servers.map(|s| s.name.clone()).collect()
    }
}

impl ServicePlan {
    fn scheduler() -> String {
        "rr".to_owned()
    }
}

impl ServerPlan {
    fn forwarder() -> String {
        "dr".to_owned()
    }

    const fn one() -> u32 {
        1
    }

    const fn mtu() -> u16 {
        1500
    }
}

/// As [`NoServerPolicy`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoServer {
    #[default]
    Unreachable,
    Reset,
    Drop,
}

impl From<NoServer> for NoServerPolicy {
    fn from(policy: NoServer) -> Self {
        match policy {
            NoServer::Unreachable => Self::Unreachable,
            NoServer::Reset => Self::Reset,
            NoServer::Drop => Self::Drop,
        }
    }
}

/// A director at work. `wire_in` and `wire_out` are the two directions of its cable.
pub(crate) struct Director {
    worker: Worker<MemQueue, MemQueue, HeapPool>,
    pub control: ControlEnd,
    board: Arc<LcoreBoard>,
    names: Vec<String>,
    pub wire_in: MemQueue,
    pub wire_out: MemQueue,
    pub pool: HeapPool,
}

impl Director {
    pub(crate) fn new(plan: &Plan) -> Self {
        let (wire_in, wire_out, pool) = (MemQueue::new(), MemQueue::new(), HeapPool::new(64));
        let (live, hops) = (Arc::new(LiveView::new(MAX)), Arc::new(HopTable::new(MAX)));
        let snapshot = snapshot(plan, &live, &hops);
        let board = Arc::new(LcoreBoard::new(MAX, MAX));
        let memory = table_memory(ConnTable::bytes(plan.capacity));
        let parts = LcoreParts {
            who: Who::ALONE,
            hasher: FlowHasher::new(7),
            table: ConnTable::new(memory, plan.capacity).expect("fresh memory"),
            board: Arc::clone(&board),
            live,
            hops,
            templates: Arc::new(Templates::new(8, 7)),
            peers: Peers::connect(1).remove(0),
            outlets: vec![Outlet::new(wire_out.clone())],
        };
        let (control, mail) = mailbox();
        let inlets = vec![wire_in.clone()];
        let worker = Worker::new(parts, inlets, pool.clone(), mail, Arc::new(snapshot));
        Self { worker, control, board, names: plan.names(), wire_in, wire_out, pool }
    }

    /// One turn.
    pub(crate) fn turn(&mut self, now: Ticks) {
        self.worker.turn(now);
    }

    /// All counters by name. Turns, which every step moves, and bytes received, which follow from
    /// the frames, are left out.
    pub(crate) fn counters(&self) -> BTreeMap<String, i64> {
        let totals = self.board.stats.read();
        let untold = ["turns", "busy_turns", "received_bytes"];
        let named = totals.named().into_iter().filter(|(name, _)| !untold.contains(name));
        let mut all: Vec<(String, u64)> = named.map(|(name, n)| (name.to_owned(), n)).collect();
        let drops = DropReason::ALL.iter().zip(totals.drops);
        all.extend(drops.map(|(reason, n)| (format!("drop {reason}"), n)));
        for (name, server) in self.names.iter().zip(&self.board.servers) {
            let counts = server.counts(0);
            all.extend([
                (format!("{name}-conns"), server.conns.get()),
                (format!("{name}-in_packets"), server.in_packets.get()),
                (format!("{name}-in_bytes"), server.in_bytes.get()),
                (format!("{name}-syn_retransmits"), server.syn_retransmits.get()),
                (format!("{name}-active"), counts.active.into()),
                (format!("{name}-inactive"), counts.inactive.into()),
            ]);
        }
        for (n, service) in self.board.services.iter().enumerate() {
            all.extend([
                (format!("service{n}-untracked"), service.untracked.get()),
                (format!("service{n}-stray"), service.stray.get()),
                (format!("service{n}-no_server"), service.no_server.get()),
            ]);
        }
        all.into_iter().map(|(name, n)| (name, i64::try_from(n).unwrap())).collect()
    }
}

fn snapshot(plan: &Plan, live: &LiveView, hops: &HopTable) -> Snapshot {
    let (mut servers, mut services) = (Vec::new(), Vec::new());
    let mut locals = vec![Local { addr: OWN, kind: LocalKind::Own, ports: 1 }];
    for (id, service) in plan.service.iter().enumerate() {
        let id = u16::try_from(id).unwrap();
        let mut pool = Pool::default();
        for server in &service.server {
            let slot = u32::try_from(servers.len()).unwrap();
            let mac = (!server.unknown).then(|| server_mac(servers.len()));
            hops.set(HopId(slot), 0, mac);
            live.set_weight(slot, server.weight, 0);
            let line = line(server, id, HopId(slot));
            let seq = u64::from(slot) + 1;
            pool.add(PoolServer::new(slot, seq, server.weight, line.addr, line.port));
            servers.push(line);
        }
        let vip = Addr::from(*service.vip.ip());
        if locals.iter().all(|l| l.addr != vip) {
            locals.push(Local { addr: vip, kind: LocalKind::Vip, ports: 1 });
        }
        services.push(Arc::new(compile(service, id, pool)));
    }
    locals.sort_by_key(|l| l.addr);
    let mut neighbours: Vec<_> = servers.iter().map(|line| (0, line.addr)).collect();
    neighbours.sort_unstable();
    Snapshot {
        version: 1,
        services: ServiceTable::new(services.into_iter(), 5),
        servers: servers.into(),
        limited: Box::default(),
        ports: [PORT].into(),
        locals: locals.into(),
        neighbours: neighbours.into(),
        timeouts: Timeouts::default(),
        closed_port_reset: plan.closed_port_reset,
        flood_guard: 0,
    }
}

fn line(server: &ServerPlan, service: u16, hop: HopId) -> ServerLine {
    let forwarder: ForwarderKind = server.forwarder.parse().unwrap();
    ServerLine {
        addr: Addr::from(*server.addr.ip()),
        tunnel_source: OWN,
        hop,
        service,
        port: server.addr.port(),
        mtu: server.mtu,
        forwarder,
        in_use: true,
        ..ServerLine::vacant(0)
    }
}

fn compile(plan: &ServicePlan, id: u16, pool: Pool) -> Service {
    let proto: L4Proto = plan.proto.parse().unwrap();
    let kind: SchedulerKind = plan.scheduler.parse().unwrap();
    Service {
        id,
        key: ServiceKey { proto, addr: Addr::from(*plan.vip.ip()), port: plan.vip.port() },
        scheduler: Scheduler::build(kind, &pool, SchedFlags::default()),
        fallback: Arc::new(Maglev::fallback(&pool, None)),
        backup: None,
        rules: Rules {
            stray: if plan.silent { StrayPolicy::Drop } else { StrayPolicy::Reset },
            no_server: plan.no_server.into(),
            ..Rules::default()
        },
        pool,
    }
}
