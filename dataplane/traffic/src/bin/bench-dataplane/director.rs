//! The daemon's own worker between a source and a sink: `wlc` among the servers of each service.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use dpdk::{Clock, Mempool, Touch, zeroed_huge};
use engine::addr::{Addr, L4Proto, Mac};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::forward::ForwarderKind;
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::{ControlEnd, mailbox};
use engine::neigh::{HopId, HopTable};
use engine::out::Outlet;
use engine::owner::Peers;
use engine::pool::{Pool, PoolServer};
use engine::sched::maglev::Maglev;
use engine::sched::{SchedFlags, Scheduler, SchedulerKind, Who};
use engine::server::ServerLine;
use engine::service::{Service, ServiceKey, ServiceTable, StrayPolicy};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use engine::stats::{LcoreBoard, LcoreTotals, assert_laws};
use engine::ticks::Ticks;
use engine::worker::Worker;
use traffic::cost::Sample;
use traffic::sink::Sink;
use traffic::source::Source;
use traffic::template::Target;

/// Entries that fit the table of all cases but those that need more: a director's table is sized
/// for its worst day.
const CAPACITY: u32 = (1 << 20) / 4 * 5;
/// Milliseconds for which an entry lives that never saw more than a SYN.
const SYN_RECV_MS: u64 = 60_000;
pub(crate) const TARGET: Target =
    Target { station: Mac([2, 0, 0, 0, 0x0d, 1]), vip: [192, 0, 2, 10], port: 80, ports: 1 };

/// What meets the director.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Segments of 2^n known flows in random order.
    Hit(u32),
    /// SYNs of new flows, of which 2^n are alive at any time.
    New(u32),
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
        let (Load::Hit(bits) | Load::New(bits)) = self.load;
        CAPACITY.max((1 << bits) / 4 * 5)
    }
}

/// A worker, and the time it lives in.
pub(crate) struct Director {
    worker: Worker<Source, Sink, Mempool>,
    board: Arc<LcoreBoard>,
    setting: Setting,
    clock: Clock,
    /// Milliseconds added to the clock's.
    ahead: u64,
    _mail: ControlEnd,
}

impl Director {
    /// A director in its steady state: flows established, or as many expiring as beginning.
    pub(crate) fn new(pool: &Mempool, clock: Clock, setting: Setting) -> Result<Self> {
        let to = Target { ports: setting.services, ..TARGET };
        let source = match setting.load {
            Load::Hit(bits) => Source::of_known_flows(pool.clone(), to, bits),
            Load::New(_) => Source::of_new_flows(pool.clone(), to),
        };
        let (capacity, servers) = (setting.capacity(), usize::from(setting.servers));
        let memory = zeroed_huge(ConnTable::bytes(capacity), Touch::Now).context("a table")?;
        let table = ConnTable::new(memory.bytes, capacity).map_err(|e| anyhow!("table: {e:?}"))?;
        let board = Arc::new(LcoreBoard::new(servers, setting.services.into()));
        let (mail, end) = mailbox();
        let parts = LcoreParts {
            who: Who::ALONE,
            hasher: FlowHasher::new(1),
            table,
            board: Arc::clone(&board),
            live: Arc::new(live(setting.servers)),
            hops: Arc::new(hops(setting.servers)),
            peers: Peers::connect(1).remove(0),
            outlets: vec![Outlet::new(Sink)],
        };
        let snapshot = Arc::new(snapshot(setting));
        let worker = Worker::new(parts, vec![source], pool.clone(), end, snapshot);
        let mut director = Self { worker, board, setting, clock, ahead: 0, _mail: mail };
        director.settle()?;
        Ok(director)
    }

    /// Measures for `limit` CPU time, and checks that what should happen happened.
    pub(crate) fn run(&mut self, limit: Duration) -> Result<Sample> {
        Sample::take(limit / 10, || self.turn());
        let before = self.board.stats.read();
        let mut sample = Sample::take(limit, || self.turn());
        let after = self.board.stats.read();
        let seen = after.since(&before);
        assert_laws(&after);
        ensure!(seen.received > 0 && seen.received == sample.packets, "frames missing: {seen:?}");
        ensure!(seen.forwarded == seen.received && seen.sent == seen.received, "lost: {seen:?}");
        // A bucket pair that is full early: the table promises fewer than one in ten thousand.
        ensure!(seen.untracked <= seen.received / 10_000, "untracked: {seen:?}");
        self.check_entries(&seen, after.entries)?;
        sample.packets = seen.sent;
        Ok(sample)
    }

    fn check_entries(&self, seen: &LcoreTotals, alive: u64) -> Result<()> {
        let begun = seen.created + seen.untracked;
        // A timer comes up to 128 ms late, of 60 s; and one burst is under way.
        let (flows, slack) = match self.setting.load {
            Load::Hit(bits) => {
                ensure!(seen.created + seen.ended == 0, "a known flow was none: {seen:?}");
                (1_u64 << bits, (1 << bits) / 10_000)
            }
            Load::New(bits) => {
                ensure!(begun == seen.received, "a new flow was none: {seen:?}");
                (1 << bits, (1 << bits) / 256 + 64)
            }
        };
        ensure!(alive.abs_diff(flows) <= slack, "{alive} entries, not {flows}");
        ensure!(seen.created.abs_diff(seen.ended) <= 2 * slack, "not steady: {seen:?}");
        Ok(())
    }

    /// One turn; gives the packets it received.
    #[inline(always)]
    fn turn(&mut self) -> u64 {
        let received = &self.board.stats.received;
        let before = received.get();
        // The daemon reads the counter each turn, so that price is paid also where time is made up.
        let real = black_box(self.clock.now());
        let now = match self.setting.load {
            Load::Hit(_) => Ticks(real.0 + self.ahead),
            Load::New(bits) => Ticks((before * SYN_RECV_MS) >> bits),
        };
        self.worker.turn(now);
        self.board.stats.received.get() - before
    }

    /// Comes to the steady state.
    fn settle(&mut self) -> Result<()> {
        match self.setting.load {
            Load::Hit(bits) => {
                self.receive(2 << bits)?;
                // Entries were armed for half-open flows. Their visits are over before it begins.
                self.ahead = SYN_RECV_MS + 1000;
                while self.board.stats.rearmed.get() < self.board.stats.entries.get() {
                    ensure!(self.turn() > 0, "the source ran dry");
                    ensure!(self.board.stats.ended.get() == 0, "a flow ended early");
                }
                Ok(())
            }
            // Places that were never used are used up, too.
            Load::New(bits) => self.receive(u64::from(self.setting.capacity()) + (2 << bits)),
        }
    }

    fn receive(&mut self, packets: u64) -> Result<()> {
        while self.board.stats.received.get() < packets {
            ensure!(self.turn() > 0, "the source ran dry");
        }
        Ok(())
    }
}

fn server_addr(slot: u16) -> Addr {
    let [high, low] = slot.to_be_bytes();
    Addr::v4([198, 18, high, low])
}

fn live(servers: u16) -> LiveView {
    let live = LiveView::new(servers.into());
    (0..servers).for_each(|slot| live.set_weight(slot.into(), 100, 1));
    live
}

fn hops(servers: u16) -> HopTable {
    let hops = HopTable::new(servers.into());
    for slot in 0..servers {
        let [high, low] = slot.to_be_bytes();
        hops.set(HopId(slot.into()), 0, Some(Mac([2, 0, 0, 5, high, low])));
    }
    hops
}

fn snapshot(setting: Setting) -> Snapshot {
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
        stray: StrayPolicy::Reset,
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
        ports: [PortFacts { mac: TARGET.station, mtu: 1500 }].into(),
        locals: [Local { addr: vip, kind: LocalKind::Vip, ports: 1 }].into(),
        neighbours: [].into(),
        timeouts: Timeouts::default(),
        closed_port_reset: true,
    }
}
