//! A director in process: the daemon's worker, and the daemon's control thread with people at it.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use controlplane::control::{Control, Job, LcoreLink, Setup, hop_capacity};
use controlplane::views::{ConnFilter, ConnPage, PortCounters};
use crossbeam::channel::{Sender, bounded};
use dpdk::{Clock, Mbuf, Mempool, Touch, zeroed_huge};
use engine::addr::Mac;
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::frame::FrameVec;
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::{LcoreEnd, mailbox};
use engine::neigh::HopTable;
use engine::out::Outlet;
use engine::owner::Peers;
use engine::queue::RxQueue;
use engine::sched::Who;
use engine::snapshot::{PortFacts, Snapshot};
use engine::stats::LcoreBoard;
use engine::templates::Templates;
use engine::ticks::Ticks;
use engine::worker::Worker;
use traffic::sink::Sink;
use traffic::source::Source;
use traffic::template::Target;

/// Entries that the table has room for.
pub(crate) const CAPACITY: u32 = (1 << 20) / 4 * 5;
/// An entry that never saw more than a SYN has ended after so long, in ms.
pub(crate) const HALF_OPEN_MS: u64 = 61_000;
const STATION: Mac = Mac([2, 0, 0, 0, 0x0d, 1]);
pub(crate) const TARGET: Target =
    Target { station: STATION, vip: [192, 0, 2, 10], port: 80, ports: 1 };
const CONFIG: &str = r#"
[director]
lcores       = [1]
connections  = "2M"
max-servers  = 64
max-services = 16

[[port]]
name      = "p0"
device    = "net_null0"
addresses = ["198.18.0.1/16"]

[[port]]
name      = "p1"
device    = "net_null1"
addresses = ["198.19.0.1/16"]

[[service]]
name      = "web"
listen    = "tcp 192.0.2.10:80"
scheduler = "wlc"
"#;
const SERVERS: u8 = 8;

/// A source that can be shut.
pub(crate) struct Gate(Source, Rc<Cell<bool>>);

impl RxQueue for Gate {
    type F = Mbuf;

    #[inline]
    fn rx_burst(&mut self, into: &mut FrameVec<Mbuf>) {
        if self.1.get() {
            self.0.rx_burst(into);
        }
    }
}

/// What people at the director got, and whether they are there.
#[derive(Default)]
pub(crate) struct People {
    pub(crate) there: AtomicBool,
    pub(crate) rows: AtomicU64,
    pub(crate) statistics: AtomicU64,
    pub(crate) incomplete: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// What the lcore's thread needs; the rest is the control thread's.
pub(crate) struct Seed {
    mail: LcoreEnd,
    live: Arc<LiveView>,
    hops: Arc<HopTable>,
    templates: Arc<Templates>,
    first: Arc<Snapshot>,
    board: Arc<LcoreBoard>,
}

/// The control thread and people who ask it without a pause, when they are there.
pub(crate) struct Office {
    pub(crate) people: Arc<People>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts the control side, on the caller's cores.
pub(crate) fn open(clock: Clock) -> Result<(Seed, Office)> {
    let servers = (1..=SERVERS)
        .map(|n| format!("{{ address = \"198.18.1.{n}\", mac = \"02:00:00:05:01:{n:02x}\" }}, "));
    let config = format!("{CONFIG}servers = [{}]\n", servers.collect::<String>());
    let settings = config::parse(&config, "bench-turns").map_err(|e| anyhow!("{e:?}"))?;
    let director = &settings.director;
    let board =
        Arc::new(LcoreBoard::new(director.max_servers as usize, director.max_services.into()));
    let live = Arc::new(LiveView::new(director.max_servers as usize));
    let hops = Arc::new(HopTable::new(hop_capacity(&settings)));
    let templates = Arc::new(Templates::new(1, 1));
    let (end, mail) = mailbox();
    let link = LcoreLink { core: 1, board: Arc::clone(&board), live: Arc::clone(&live), end };
    let began = Instant::now();
    let control = Control::new(Setup {
        file: "bench-turns".into(),
        lcores: vec![link],
        hops: Arc::clone(&hops),
        templates: Arc::clone(&templates),
        ports: vec![PortFacts { mac: STATION, mtu: 1500 }; 2],
        port_counters: Box::new(|_| PortCounters::default()),
        clock: Box::new(move || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
        cycles_hz: clock.hz(),
        seed: 1,
        connections_max: CAPACITY.into(),
        budget: Vec::new(),
        settings: settings.clone(),
    })
    .map_err(|e| anyhow!("{}", e.message))?;
    let first = Arc::clone(control.snapshot());
    let people = Arc::new(People::default());
    let (jobs, inbox) = bounded::<Job>(1024);
    let stop = Arc::clone(&people.stop);
    let mut threads = vec![std::thread::spawn(move || control.run(&inbox, &stop))];
    for ask in [list as fn(&People, &Sender<Job>), statistics] {
        let (people, jobs) = (Arc::clone(&people), jobs.clone());
        threads.push(std::thread::spawn(move || {
            while !people.stop.load(Ordering::Relaxed) {
                if people.there.load(Ordering::Relaxed) {
                    ask(&people, &jobs);
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }));
    }
    Ok((Seed { mail, live, hops, templates, first, board }, Office { people, threads }))
}

impl Office {
    pub(crate) fn close(self) {
        self.people.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| _ = t.join());
    }
}

/// `sluicectl connections --all`: page after page, until nobody is there.
fn list(people: &People, jobs: &Sender<Job>) {
    let mut filter = ConnFilter { limit: 10_000, ..ConnFilter::default() };
    while people.there.load(Ordering::Relaxed) && !people.stop.load(Ordering::Relaxed) {
        let (to_us, answer) = bounded::<ConnPage>(1);
        let question = filter.clone();
        let job: Job = Box::new(move |control| {
            let done = Box::new(move |page: Result<_, _>| _ = page.map(|p| to_us.try_send(p)));
            control.connections(&question, done);
        });
        let Ok(page) = jobs.send(job).map_err(drop).and_then(|()| answer.recv().map_err(drop))
        else {
            return;
        };
        people.rows.fetch_add(page.connections.len() as u64, Ordering::Relaxed);
        people.incomplete.fetch_add(page.incomplete.len() as u64, Ordering::Relaxed);
        filter.cursor = page.next;
    }
}

/// `sluicectl stats`, which takes a millisecond to start and end.
fn statistics(people: &People, jobs: &Sender<Job>) {
    let (to_us, answer) = bounded(1);
    let job: Job = Box::new(move |control| {
        let _ = to_us.try_send(control.statistics(None));
    });
    if jobs.send(job).is_ok()
        && answer.recv().is_ok_and(|s| s.is_ok_and(|s| !s.services.is_empty()))
    {
        people.statistics.fetch_add(1, Ordering::Relaxed);
    }
    std::thread::sleep(Duration::from_millis(1));
}

/// The worker between two sources that can be shut and a sink.
pub(crate) struct Director {
    worker: Worker<Gate, Sink, Mempool>,
    pub(crate) board: Arc<LcoreBoard>,
    pub(crate) gates: [Rc<Cell<bool>>; 2],
    clock: Clock,
    /// Milliseconds added to the clock's.
    pub(crate) ahead: u64,
}

impl Director {
    pub(crate) fn new(
        seed: Seed,
        pool: &Mempool,
        clock: Clock,
        sources: [Source; 2],
    ) -> Result<Self> {
        let memory = zeroed_huge(ConnTable::bytes(CAPACITY), Touch::Now).context("a table")?;
        let parts = LcoreParts {
            who: Who::ALONE,
            hasher: FlowHasher::new(1),
            table: ConnTable::new(memory.bytes, CAPACITY).map_err(|e| anyhow!("table: {e:?}"))?,
            board: Arc::clone(&seed.board),
            live: seed.live,
            hops: seed.hops,
            templates: seed.templates,
            peers: Peers::connect(1).remove(0),
            outlets: vec![Outlet::new(Sink), Outlet::new(Sink)],
        };
        let gates: [Rc<Cell<bool>>; 2] = std::array::from_fn(|_| Rc::default());
        let inlets = sources.into_iter().zip(&gates).map(|(s, g)| Gate(s, Rc::clone(g))).collect();
        let worker = Worker::new(parts, inlets, pool.clone(), seed.mail, seed.first);
        Ok(Self { worker, board: seed.board, gates, clock, ahead: 0 })
    }

    /// Opens or shuts the sources.
    pub(crate) fn let_in(&self, first: bool, second: bool) {
        self.gates[0].set(first);
        self.gates[1].set(second);
    }

    /// One turn; gives the packets it received.
    #[inline(always)]
    pub(crate) fn turn(&mut self) -> u64 {
        let received = &self.board.stats.received;
        let before = received.get();
        let now = Ticks(black_box(self.clock.now()).0 + self.ahead);
        self.worker.turn(now);
        self.board.stats.received.get() - before
    }

    /// Turns until so many packets more have come.
    pub(crate) fn receive(&mut self, packets: u64) -> Result<()> {
        let end = self.board.stats.received.get() + packets;
        while self.board.stats.received.get() < end {
            ensure!(self.turn() > 0, "the source ran dry");
        }
        Ok(())
    }
}
