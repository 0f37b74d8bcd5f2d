//! A director without packets: the real control thread and the real socket, with lcores that take
//! snapshots and answer questions but poll nothing.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod ctl;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use controlplane::control::{Control, Job, LcoreLink, Setup};
use controlplane::socket::{Limits, Server};
use controlplane::views::PortCounters;
use crossbeam::channel::{Sender, unbounded};
use engine::addr::{Addr, L4Proto, Mac};
use engine::conn::tcp_state::ConnState;
use engine::live::LiveView;
use engine::mailbox::{ConnRow, Event, LcoreEnd, Order, Query, mailbox};
use engine::neigh::HopTable;
use engine::snapshot::{PortFacts, Snapshot};
use engine::stats::LcoreBoard;
use engine::templates::Templates;
use serde_json::{Value, json};

/// What every director here starts with.
pub const CONFIG: &str = r#"
[director]
name        = "lb1"
lcores      = [2, 3]
connections = "4M"

[[port]]
name      = "p0"
device    = "net_null0"
addresses = ["10.0.1.2/24"]
gateway   = "10.0.1.1"

[[service]]
name      = "web"
listen    = "tcp 192.0.2.10:80"
scheduler = "wlc"
servers = [
  { name = "web-1", address = "10.0.1.11", weight = 100 },
  { name = "web-2", address = "10.0.1.12", weight = 150 },
]
"#;

/// Connections that each lcore claims to have.
pub const ROWS: u32 = 120;

/// A running director; ends when dropped.
pub struct Director {
    pub socket: PathBuf,
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
    server: Option<Server>,
    threads: Vec<JoinHandle<()>>,
    jobs: Sender<Job>,
    /// As lcores share them.
    pub templates: Arc<Templates>,
}

impl Director {
    pub fn start() -> Self {
        Self::start_with(Limits::default())
    }

    pub fn start_with(limits: Limits) -> Self {
        let folder = fresh_folder();
        let socket = folder.join("control.sock");
        let stop = Arc::new(AtomicBool::new(false));
        let stuck = Arc::new(AtomicBool::new(false));
        let templates = Arc::new(Templates::new(1_000, 1));
        let (control, lcores) = control(folder.join("state"), &templates);
        let mut threads = Vec::new();
        for (place, (end, board)) in lcores.into_iter().enumerate() {
            let (first, stop) = (control.snapshot().clone(), Arc::clone(&stop));
            let stuck = if place == 1 { Arc::clone(&stuck) } else { Arc::default() };
            threads.push(std::thread::spawn(move || lcore(end, &board, first, &stop, &stuck)));
        }
        let (jobs, inbox) = unbounded();
        let stopped = Arc::clone(&stop);
        threads.push(std::thread::spawn(move || control.run(&inbox, &stopped)));
        let server = Server::start_with(&socket, jobs.clone(), limits).unwrap();
        Self { socket, folder, stop, stuck, server: Some(server), threads, jobs, templates }
    }

    pub fn connect(&self) -> Talk {
        Talk::new(&self.socket)
    }

    pub fn clients(&self) -> usize {
        self.server.as_ref().unwrap().clients()
    }

    /// The second lcore (core 3) stands still, or goes on.
    pub fn stick(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    pub fn jobs(&self) -> Sender<Job> {
        self.jobs.clone()
    }

    /// Waits for the control thread to end by itself.
    pub fn ended(&self) -> bool {
        within(Duration::from_secs(5), || self.threads.last().unwrap().is_finished())
    }

    /// Closes the socket but leaves the rest.
    pub fn close_socket(&mut self) {
        self.server = None;
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        self.server = None;
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a thread of the director panicked");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn control(
    state: PathBuf,
    templates: &Arc<Templates>,
) -> (Control, Vec<(LcoreEnd, Arc<LcoreBoard>)>) {
    let mut settings = config::parse(CONFIG, "sluice.toml").unwrap();
    settings.director.state = Some(state);
    let servers = settings.director.max_servers as usize;
    let services = settings.director.max_services.into();
    let (mut links, mut ends) = (Vec::new(), Vec::new());
    for core in &settings.director.lcores {
        let (end, lcore_end) = mailbox();
        let board = Arc::new(LcoreBoard::new(servers, services));
        let live = Arc::new(LiveView::new(servers));
        ends.push((lcore_end, Arc::clone(&board)));
        links.push(LcoreLink { core: *core, board, live, end });
    }
    let start = Instant::now();
    let setup = Setup {
        file: "/etc/sluice/sluice.toml".into(),
        lcores: links,
        hops: Arc::new(HopTable::new(controlplane::control::hop_capacity(&settings))),
        templates: Arc::clone(templates),
        ports: vec![PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), mtu: 1500 }],
        port_counters: Box::new(|_| PortCounters { link_up: true, ..PortCounters::default() }),
        clock: Box::new(move || u64::try_from(start.elapsed().as_millis()).unwrap()),
        cycles_hz: 1_000_000_000,
        seed: 7,
        connections_max: settings.director.connections,
        budget: vec![("connection tables".into(), 300 << 20)],
        settings,
    };
    (Control::new(setup).unwrap(), ends)
}

/// An lcore that polls nothing.
fn lcore(
    mut end: LcoreEnd,
    board: &LcoreBoard,
    first: Arc<Snapshot>,
    stop: &AtomicBool,
    stuck: &AtomicBool,
) {
    let mut current = first;
    board.stats.snapshot.set(current.version);
    while !stop.load(Ordering::Relaxed) {
        if stuck.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        board.stats.turns.add(1);
        match end.orders.pop() {
            Ok(Order::Snapshot(next)) => {
                board.stats.snapshot.set(next.version);
                let old = std::mem::replace(&mut current, next);
                end.events.push(Event::Retired(old)).unwrap();
            }
            Ok(Order::Query(query)) => rows(&mut end, &query, &current),
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// One connection a bucket, all of the first server.
fn rows(end: &mut LcoreEnd, query: &Query, snapshot: &Snapshot) {
    let slot = snapshot.servers.iter().position(|s| s.in_use);
    let to = ROWS.min(query.bucket + query.limit);
    for bucket in query.bucket..to {
        let Some(server) = slot else { break };
        let row = ConnRow {
            id: query.id,
            client: (Addr::v4([198, 51, 100, 7]), 1024 + u16::try_from(bucket).unwrap()),
            vip: (Addr::v4([192, 0, 2, 10]), 80),
            proto: L4Proto::Tcp,
            state: ConnState::Established,
            server: u32::try_from(server).unwrap(),
            generation: snapshot.servers[server].generation,
            expires_secs: 899,
        };
        end.events.push(Event::Conn(row)).unwrap();
    }
    let next = (to < ROWS).then_some(to);
    end.events.push(Event::QueryDone { id: query.id, next }).unwrap();
}

/// A client that says exactly what it is told to.
pub struct Talk {
    pub stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Talk {
    pub fn new(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { answers: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next answer; `None` when the director closed.
    pub fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    /// Sends a line and reads its answer.
    pub fn line(&mut self, line: &str) -> Value {
        self.send(format!("{line}\n").as_bytes());
        self.answer().expect("an answer")
    }

    /// Asks, and gives the result or the error.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut answer = self.line(&request.to_string());
        assert_eq!(answer["id"], 1);
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(error),
        }
    }
}

/// The stable code of an answer's error.
pub fn code(answer: &Value) -> &str {
    answer["error"]["data"]["code"].as_str().unwrap_or("none")
}

pub fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    done()
}

pub fn fresh_folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("sluice-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
