//! A whole director in memory: lcores on [`MemQueue`]s that one thread turns one after another, and
//! the most obvious control side there can be.
//!
//! Nothing runs by itself: [`World::turn`] turns every lcore once, [`World::look`] is the control
//! thread's millisecond, [`World::publish`] hands a new snapshot out. One port, `port 0`; a server's
//! slot is also its next hop, and [`server_mac`] its hardware address.

mod backups;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::addr::{Addr, Mac};
use crate::conn::table::ConnTable;
use crate::flow::FlowHasher;
use crate::forward::ForwarderKind;
use crate::lcore::LcoreParts;
use crate::live::LiveView;
use crate::mailbox::{ConnRow, ControlEnd, Event, Order, Query, Thin, mailbox};
use crate::neigh::{HopId, HopTable};
use crate::out::Outlet;
use crate::owner::Peers;
use crate::ring::PushError;
use crate::sched::maglev::Maglev;
use crate::sched::{SchedFlags, Scheduler, SchedulerKind, Who};
use crate::server::{Orphans, ServerLine};
use crate::service::{Pool, PoolServer, Rules, Service, ServiceKey, ServiceTable, StrayPolicy};
use crate::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use crate::stats::{ConnCounts, LcoreBoard, LcoreTotals, assert_laws};
use crate::templates::Templates;
use crate::testkit::{HeapPool, MemQueue, craft, table_memory};
use crate::thresholds::{Occupancies, Thresholds};
use crate::ticks::Ticks;
use crate::worker::Worker;

/// Server slots that there is room for.
pub const SLOTS: usize = 64;
/// The director's own address.
pub const OWN: Addr = Addr::v4([192, 0, 2, 1]);

/// The hardware address of the server in a slot.
#[must_use]
pub const fn server_mac(slot: u32) -> Mac {
    let [_, _, hi, lo] = slot.to_be_bytes();
    Mac([2, 0xee, 0, 0, hi, lo])
}

/// How a world is made.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many lcores.
    pub lcores: u16,
    /// Connections that fit on each.
    pub capacity: u32,
    /// Secret of the flow hash.
    pub seed: u64,
    /// Idle times of connections.
    pub timeouts: Timeouts,
}

/// Templates that there is room for.
pub const TEMPLATES: usize = 4096;

/// One lcore and the control side's ends of what it shares.
pub struct Site {
    /// The lcore.
    pub worker: Worker<MemQueue, MemQueue, HeapPool>,
    /// What it publishes.
    pub board: Arc<LcoreBoard>,
    /// What it sees of the others.
    pub live: Arc<LiveView>,
    /// Frames on their way in.
    pub wire_in: MemQueue,
    /// Frames that went out.
    pub wire_out: MemQueue,
    control: ControlEnd,
    unsent: VecDeque<Order>,
}

/// A service as the control side knows it.
pub struct KnownService {
    key: ServiceKey,
    kind: SchedulerKind,
    flags: SchedFlags,
    /// How its flows are treated; seen by lcores with the next [`World::publish`].
    pub rules: Rules,
    pool: Pool,
    backups: Pool,
    fallback: Arc<Maglev>,
    fallback_of: Pool,
}

/// A server slot as the control side knows it.
#[derive(Clone, Copy, Debug)]
pub struct KnownServer {
    /// Its service.
    pub service: u16,
    /// Its address and port.
    pub at: (Addr, u16),
    /// The weight that the operator gave.
    pub weight: u32,
    /// Whether it may be picked: present, not drained, not down.
    pub eligible: bool,
    /// Whether it is configured; if not, its connections live on.
    pub present: bool,
    /// How many connections it may have.
    pub thresholds: Thresholds,
    /// The life of the slot.
    pub generation: u16,
    /// What becomes of connections of its earlier lives.
    pub orphans: Orphans,
    forwarder: ForwarderKind,
}

/// A director. See the module.
pub struct World {
    /// By lcore.
    pub sites: Vec<Site>,
    /// All frames come from here; it knows how many live.
    pub pool: HeapPool,
    /// Next hops, by slot.
    pub hops: Arc<HopTable>,
    /// The flow hash.
    pub hasher: FlowHasher,
    /// Of persistent services' clients.
    pub templates: Arc<Templates>,
    /// The present.
    pub now: Ticks,
    /// By service.
    pub services: Vec<KnownService>,
    /// By slot.
    pub servers: Vec<KnownServer>,
    /// What was published last.
    pub snapshot: Arc<Snapshot>,
    /// Rows of queries, with the lcore that told them.
    pub rows: Vec<(usize, ConnRow)>,
    /// Queries that ended: lcore, query, where to go on.
    pub ended: Vec<(usize, u32, Option<u32>)>,
    /// Next hops that packets wait for, in the order of asking.
    pub wanted: Vec<HopId>,
    /// Idle times; seen by lcores with the next [`World::publish`].
    pub timeouts: Timeouts,
    /// New entries per second and lcore; 0: no limit.
    pub flood_guard: u32,
    seq: u64,
    /// Snapshots that lcores were given, and that came home.
    given: usize,
    home: usize,
}

impl World {
    /// A director without services.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let (pool, hops) = (HeapPool::new(1 << 16), Arc::new(HopTable::new(SLOTS)));
        let hasher = FlowHasher::new(size.seed);
        let templates = Arc::new(Templates::new(TEMPLATES, size.seed));
        let snapshot = Arc::new(compile(None, size.lcores, &mut [], &[], size.timeouts));
        let peers = Peers::connect(size.lcores).into_iter();
        let occupancies = Arc::new(Occupancies::new(SLOTS));
        let sites = (0..size.lcores).zip(peers).map(|(lcore, peers)| {
            let (wire_in, wire_out) = (MemQueue::new(), MemQueue::new());
            let board = Arc::new(LcoreBoard::new(SLOTS, SLOTS));
            let live = Arc::new(LiveView::sharing(SLOTS, &occupancies));
            let memory = table_memory(ConnTable::bytes(size.capacity));
            let parts = LcoreParts {
                who: Who { lcore, lcores: size.lcores },
                hasher: hasher.clone(),
                table: ConnTable::new(memory, size.capacity).expect("fresh memory"),
                board: Arc::clone(&board),
                live: Arc::clone(&live),
                hops: Arc::clone(&hops),
                templates: Arc::clone(&templates),
                peers,
                outlets: vec![Outlet::new(wire_out.clone())],
            };
            let (control, mail) = mailbox();
            let (inlets, frames) = (vec![wire_in.clone()], pool.clone());
            let worker = Worker::new(parts, inlets, frames, mail, Arc::clone(&snapshot));
            Site { worker, board, live, wire_in, wire_out, control, unsent: VecDeque::new() }
        });
        Self {
            sites: sites.collect(),
            given: usize::from(size.lcores),
            pool,
            hops,
            hasher,
            templates,
            now: Ticks(0),
            services: Vec::new(),
            servers: Vec::new(),
            snapshot,
            rows: Vec::new(),
            ended: Vec::new(),
            wanted: Vec::new(),
            timeouts: size.timeouts,
            flood_guard: 0,
            seq: 0,
            home: 0,
        }
    }

    /// Every lcore turns once, in order; then the laws are looked at.
    ///
    /// # Panics
    /// When a counter law does not hold, or a frame was lost.
    pub fn turn(&mut self) {
        for site in &mut self.sites {
            site.worker.turn(self.now);
        }
        self.assert_laws();
    }

    /// The control thread's millisecond: views, mail.
    pub fn look(&mut self) {
        for (slot, server) in (0..).zip(&self.servers) {
            let own = |site: &Site| site.board.servers[slot as usize].counts(server.generation);
            let all = self.sites.iter().map(own).fold(ConnCounts::default(), |a, b| ConnCounts {
                active: a.active + b.active,
                inactive: a.inactive + b.inactive,
            });
            for site in &self.sites {
                let own = own(site);
                let (active, inactive) = (all.active - own.active, all.inactive - own.inactive);
                site.live.set_others(slot, ConnCounts { active, inactive });
            }
        }
        self.sites.iter().for_each(|site| site.live.publish());
        for (lcore, site) in self.sites.iter_mut().enumerate() {
            while let Ok(event) = site.control.events.pop() {
                match event {
                    Event::Retired(old) => {
                        drop(old);
                        self.home += 1;
                    }
                    Event::HopWanted(hop) => self.wanted.push(hop),
                    Event::Conn(row) => self.rows.push((lcore, row)),
                    Event::QueryDone { id, next } => self.ended.push((lcore, id, next)),
                    Event::Arp(_) | Event::Declined(_) => {}
                }
            }
            site.post();
        }
    }

    /// Hands the present configuration to every lcore.
    pub fn publish(&mut self) {
        let lcores = u16::try_from(self.sites.len()).expect("few lcores");
        let last = Some(&*self.snapshot);
        let compiled = compile(last, lcores, &mut self.services, &self.servers, self.timeouts);
        self.snapshot = Arc::new(Snapshot { flood_guard: self.flood_guard, ..compiled });
        for site in &mut self.sites {
            site.unsent.push_back(Order::Snapshot(Arc::clone(&self.snapshot)));
            self.given += 1;
            site.post();
        }
    }

    /// Asks one lcore for its connections.
    pub fn ask(&mut self, lcore: usize, query: Query) {
        self.sites[lcore].unsent.push_back(Order::Query(query));
        self.sites[lcore].post();
    }

    /// How many snapshots are with lcores or on their way to or from them.
    #[must_use]
    pub const fn snapshots_abroad(&self) -> usize {
        self.given - self.home
    }

    /// The sum over all lcores.
    #[must_use]
    pub fn totals(&self) -> LcoreTotals {
        self.sites.iter().fold(LcoreTotals::default(), |mut sum, site| {
            sum.add(&site.board.stats.read());
            sum
        })
    }

    /// ActiveConn and InActConn of a slot in its present generation, over all lcores.
    #[must_use]
    pub fn counts(&self, slot: u32) -> ConnCounts {
        let generation = self.servers[slot as usize].generation;
        let counts = self.sites.iter().map(|s| s.board.servers[slot as usize].counts(generation));
        counts.fold(ConnCounts::default(), |a, b| ConnCounts {
            active: a.active + b.active,
            inactive: a.inactive + b.inactive,
        })
    }

    /// The counter laws of each lcore and of all, and that every living frame is somewhere.
    fn assert_laws(&self) {
        let mut places = 0;
        for site in &self.sites {
            let stats = site.board.stats.read();
            assert_laws(&stats);
            let held = usize::try_from(stats.queued + stats.waiting).expect("few");
            places += held + site.wire_in.len() + site.wire_out.len() + site.worker.inbound();
        }
        let (sum, in_rings) = (self.totals(), self.sites.iter().map(|s| s.worker.inbound()).sum());
        let crossed = usize::try_from(sum.handed_over - sum.taken_over);
        assert_eq!(crossed, Ok::<usize, _>(in_rings), "handed over, but not taken over");
        assert_eq!(self.pool.live(), places, "a frame lives that nobody has");
    }
}

/// What an operator does. Each change is seen by lcores with the next [`World::publish`], except
/// that eligibility counts at once.
impl World {
    /// A new service; its index.
    pub fn add_service(
        &mut self,
        key: ServiceKey,
        kind: SchedulerKind,
        flags: SchedFlags,
        stray: StrayPolicy,
    ) -> u16 {
        let pool = Pool::default();
        let (fallback, fallback_of) =
            (Arc::new(Maglev::fallback(&pool, flags.mh_key)), pool.clone());
        let rules = Rules { stray, ..Rules::default() };
        let backups = Pool::default();
        self.services.push(KnownService {
            key,
            kind,
            flags,
            rules,
            pool,
            backups,
            fallback,
            fallback_of,
        });
        u16::try_from(self.services.len() - 1).expect("few services")
    }

    /// Adds a server, or brings one back with its living connections; its slot.
    pub fn add_server(&mut self, service: u16, at: (Addr, u16), weight: u32) -> u32 {
        self.add_server_by(service, at, weight, ForwarderKind::Dr)
    }

    /// The same, with a choice of forwarder.
    pub fn add_server_by(
        &mut self,
        service: u16,
        at: (Addr, u16),
        weight: u32,
        forwarder: ForwarderKind,
    ) -> u32 {
        let member = self.member(service, at, weight, forwarder);
        self.services[usize::from(service)].pool.add(member);
        member.slot
    }

    /// A server that is present from now on, as a pool has it.
    fn member(
        &mut self,
        service: u16,
        at: (Addr, u16),
        weight: u32,
        forwarder: ForwarderKind,
    ) -> PoolServer {
        let known = self.servers.iter().position(|s| (s.service, s.at) == (service, at));
        let index = known.unwrap_or_else(|| {
            self.servers.push(KnownServer {
                service,
                at,
                weight,
                eligible: true,
                present: true,
                thresholds: Thresholds::default(),
                generation: 0,
                orphans: Orphans::default(),
                forwarder,
            });
            self.servers.len() - 1
        });
        let slot = u32::try_from(index).expect("few servers");
        self.seq += 1;
        if known.is_none() {
            self.hops.set(HopId(slot), 0, Some(server_mac(slot)));
        }
        let server = &mut self.servers[index];
        (server.weight, server.present, server.eligible) = (weight, true, true);
        self.weigh(slot);
        PoolServer::new(slot, self.seq, weight, at.0, at.1)
    }

    /// Gives a server another weight.
    pub fn edit(&mut self, slot: u32, weight: u32) {
        let server = &mut self.servers[slot as usize];
        server.weight = weight;
        let service = &mut self.services[usize::from(server.service)];
        let _ = service.pool.set_weight(slot, weight) || service.backups.set_weight(slot, weight);
        self.weigh(slot);
    }

    /// Gives a server thresholds, or takes them.
    pub fn limit(&mut self, slot: u32, thresholds: Thresholds) {
        self.servers[slot as usize].thresholds = thresholds;
        self.weigh(slot);
    }

    /// Removes a server; its connections live on.
    pub fn remove(&mut self, slot: u32) {
        let server = &mut self.servers[slot as usize];
        server.present = false;
        let service = &mut self.services[usize::from(server.service)];
        let _ = service.pool.remove(slot) || service.backups.remove(slot);
        self.weigh(slot);
    }

    /// Ends all connections of a server.
    pub fn purge(&mut self, slot: u32) {
        let server = &mut self.servers[slot as usize];
        server.generation = server.generation.wrapping_add(1);
        self.weigh(slot);
    }

    /// Lets a server be picked or not: health, draining, limits.
    pub fn set_eligible(&mut self, slot: u32, eligible: bool) {
        self.servers[slot as usize].eligible = eligible;
        self.weigh(slot);
    }

    /// Says whether clients with a template for a server go to it while it may not be picked.
    pub fn set_keeps(&self, slot: u32, keeps: bool) {
        self.sites.iter().for_each(|site| site.live.set_keeps(slot, keeps));
    }

    /// Has an lcore give up connections of a server.
    pub fn thin(&mut self, lcore: usize, server: u32, count: u32) {
        let generation = self.servers[server as usize].generation;
        let order = Order::Thin(Thin { server, generation, count });
        self.sites[lcore].unsent.push_back(order);
        self.sites[lcore].post();
    }

    /// Says whether a server's hardware address is known.
    pub fn set_known(&self, slot: u32, known: bool) {
        self.hops.set(HopId(slot), 0, known.then(|| server_mac(slot)));
    }

    /// A service gets another scheduler, or other flags.
    pub fn reschedule(&mut self, service: u16, kind: SchedulerKind, flags: SchedFlags) {
        let service = &mut self.services[usize::from(service)];
        // LVS takes new flags at once, but starts over for another scheduler only.
        if kind != service.kind {
            service.pool.start_over();
            service.backups.start_over();
        }
        (service.kind, service.flags) = (kind, flags);
    }

    fn weigh(&self, slot: u32) {
        let server = &self.servers[slot as usize];
        let weight = if server.present && server.eligible { server.weight } else { 0 };
        let further = if server.thresholds.any() { LiveView::LOOK_FURTHER } else { 0 };
        for site in &self.sites {
            site.live.set_weight(slot, weight | further, server.generation);
        }
    }
}

impl Site {
    /// Orders go out in order, as many as the ring takes.
    fn post(&mut self) {
        while let Some(order) = self.unsent.pop_front() {
            if let Err(PushError::Full(order)) = self.control.orders.push(order) {
                self.unsent.push_front(order);
                break;
            }
        }
    }
}

fn compile(
    last: Option<&Snapshot>,
    lcores: u16,
    services: &mut [KnownService],
    servers: &[KnownServer],
    timeouts: Timeouts,
) -> Snapshot {
    let mut locals = vec![Local { addr: OWN, kind: LocalKind::Own, ports: 1 }];
    locals.extend(services.iter().map(|s| Local {
        addr: s.key.addr,
        kind: LocalKind::Vip,
        ports: 1,
    }));
    locals.sort_by_key(|l| l.addr);
    locals.dedup_by_key(|l| l.addr);
    let compiled = services.iter_mut().enumerate().map(|(id, s)| {
        let last = last.and_then(|snap| snap.service(s.key));
        Arc::new(s.compile(id, lcores, last.map(Arc::as_ref)))
    });
    let servers: Box<[_]> = (0..).zip(servers).map(|(slot, server)| line(slot, server)).collect();
    let mut neighbours: Vec<_> = servers.iter().map(|line| (0, line.addr)).collect();
    neighbours.sort_unstable();
    Snapshot {
        version: last.map_or(0, |snap| snap.version + 1),
        services: ServiceTable::new(compiled, 5),
        limited: Snapshot::limited(&servers),
        servers,
        ports: [PortFacts { mac: craft::STATION, mtu: 1500 }].into(),
        locals: locals.into(),
        neighbours: neighbours.into(),
        timeouts,
        closed_port_reset: false,
        flood_guard: 0,
    }
}

impl KnownService {
    fn compile(&mut self, id: usize, lcores: u16, last: Option<&Service>) -> Service {
        let flags = SchedFlags { lcores, ..self.flags };
        if !self.pool.same_members(&self.fallback_of) {
            self.fallback = Arc::new(Maglev::fallback(&self.pool, self.flags.mh_key));
            self.fallback_of = self.pool.clone();
        }
        Service {
            id: u16::try_from(id).expect("few services"),
            key: self.key,
            scheduler: last.map_or_else(
                || Scheduler::build(self.kind, &self.pool, flags),
                |last| last.scheduler.rebuild(self.kind, &self.pool, flags),
            ),
            fallback: Arc::clone(&self.fallback),
            backup: self.compile_backups(flags, last),
            rules: self.rules,
            pool: self.pool.clone(),
        }
    }
}

const fn line(slot: u32, server: &KnownServer) -> ServerLine {
    ServerLine {
        addr: server.at.0,
        tunnel_source: OWN,
        hop: HopId(slot),
        service: server.service,
        port: server.at.1,
        mtu: 1500,
        thresholds: server.thresholds,
        forwarder: server.forwarder,
        orphans: server.orphans,
        in_use: true,
        ..ServerLine::vacant(server.generation)
    }
}
