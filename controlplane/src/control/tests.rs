//! The control thread with lcores that do what the test says.

use std::net::IpAddr;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;

use config::settings::Port;
use config::spec::{Admin, ServerRef, Timeouts};
use config::{Endpoint, ServerSpec, ServiceSpec};
use engine::addr::{Addr, L4Proto, Mac};
use engine::conn::tcp_state::ConnState;
use engine::mailbox::{ConnRow, LcoreEnd, mailbox};

use super::*;
use crate::change::ServerEdit;
use crate::views::ConnCursor;

/// An lcore that takes its mail, notes what it is to send, and has some connections, one a bucket.
struct Lcore {
    end: LcoreEnd,
    board: Arc<LcoreBoard>,
    live: Arc<LiveView>,
    current: Arc<Snapshot>,
    sent: Vec<ArpOrder>,
    conns: Vec<ConnRow>,
    thinned: Vec<engine::mailbox::Thin>,
}

impl Lcore {
    fn turn(&mut self) {
        let mut query = None;
        self.board.stats.turns.add(1);
        self.board.stats.snapshot.set(self.current.version);
        while let Ok(order) = self.end.orders.pop() {
            match order {
                Order::Thin(order) => self.thinned.push(order),
                Order::Snapshot(new) => {
                    self.board.stats.snapshot.set(new.version);
                    let old = std::mem::replace(&mut self.current, new);
                    self.end.events.push(Event::Retired(old)).unwrap();
                }
                Order::Arp(arp) => self.sent.push(arp),
                // A question displaces the one before.
                Order::Query(q) => query = Some(q),
            }
        }
        query.into_iter().for_each(|q| self.answer(q));
    }

    fn answer(&mut self, q: engine::mailbox::Query) {
        let (mut next, mut rows) = (q.bucket, 0);
        for conn in self.conns.iter().skip(q.bucket as usize) {
            next += 1;
            if q.server.is_none_or(|s| s == conn.server) {
                rows += 1;
                self.end.events.push(Event::Conn(ConnRow { id: q.id, ..*conn })).unwrap();
            }
            if rows >= q.limit {
                break;
            }
        }
        let next = ((next as usize) < self.conns.len()).then_some(next);
        self.end.events.push(Event::QueryDone { id: q.id, next }).unwrap();
    }
}

mod rules;
mod slow_start;
mod states;
mod templates;

/// What survives a restart, in files of one test alone.
struct State(PathBuf);

impl State {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-control-{}-{number}.state", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for file in [self.0.clone(), self.0.with_extension("health")] {
            let _ = std::fs::remove_file(file);
        }
    }
}

struct Rig {
    control: Control,
    lcores: Vec<Lcore>,
    now: u64,
    _state: Option<State>,
}

const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn settings() -> Settings {
    let mut port = Port::new("p0", "net_null0");
    port.addresses = vec!["10.0.0.1/24".parse().unwrap()];
    let mut settings = Settings { ports: vec![port], ..Settings::default() };
    settings.director.lcores = vec![4, 5];
    settings.director.max_servers = 2_048;
    settings.director.max_services = 2_048;
    let mut web = ServiceSpec::new(web());
    web.name = "web".to_owned();
    web.servers = [11, 12].map(|a| ServerSpec::new(IpAddr::from([10, 0, 0, a]))).into();
    settings.services = vec![web.resolved()];
    settings
}

fn web() -> Endpoint {
    "tcp 192.0.2.10:80".parse().unwrap()
}

fn rig() -> Rig {
    rig_of(settings())
}

fn rig_of(mut settings: Settings) -> Rig {
    let state = settings.director.state.is_none().then(State::new);
    settings.director.state = settings.director.state.or(state.as_ref().map(|s| s.0.clone()));
    let (servers, services) = (2_048, 2_048);
    let hops = Arc::new(HopTable::new(hop_capacity(&settings)));
    let (mut links, mut parts) = (Vec::new(), Vec::new());
    for core in [4, 5] {
        let (end, lcore_end) = mailbox();
        let board = Arc::new(LcoreBoard::new(servers, services));
        let live = Arc::new(LiveView::new(servers));
        parts.push((lcore_end, Arc::clone(&board), Arc::clone(&live)));
        links.push(LcoreLink { core, board, live, end });
    }
    let counters = |_| PortCounters { imissed: 3, ..PortCounters::default() };
    let control = Control::new(Setup {
        settings,
        file: "sluice.toml".into(),
        lcores: links,
        hops,
        templates: Arc::new(Templates::new(1_000, 1)),
        ports: vec![PortFacts { mac: OUR_MAC, mtu: 1500 }],
        port_counters: Box::new(counters),
        clock: Box::new(|| 0),
        cycles_hz: 1_000_000_000,
        seed: 1,
        connections_max: 1000,
        budget: vec![("tables".to_owned(), 4096)],
    })
    .unwrap();
    let lcore = |(end, board, live)| Lcore {
        end,
        board,
        live,
        current: Arc::clone(control.snapshot()),
        sent: Vec::new(),
        conns: Vec::new(),
        thinned: Vec::new(),
    };
    let lcores = parts.into_iter().map(lcore).collect();
    Rig { control, lcores, now: 0, _state: state }
}

impl Rig {
    /// One tick, then one turn of these lcores, then what they said.
    fn step(&mut self, ms: u64, turning: &[usize]) {
        self.now += ms;
        self.control.tick(self.now);
        turning.iter().for_each(|i| self.lcores[*i].turn());
    }

    fn settle(&mut self) {
        for _ in 0..60 {
            self.step(2, &[0, 1]);
        }
    }

    fn apply(&mut self, change: Change) -> mpsc::Receiver<Result<Applied, Refusal>> {
        let (done, answer) = mpsc::channel();
        self.control.apply(&[change], "alice", Box::new(move |r| drop(done.send(r))));
        answer
    }

    fn list(&mut self, filter: &ConnFilter) -> mpsc::Receiver<Result<ConnPage, Refusal>> {
        let (done, answer) = mpsc::channel();
        self.control.connections(filter, Box::new(move |r| drop(done.send(r))));
        answer
    }
}

fn server(last: u8) -> ServerRef {
    ServerRef::Address(IpAddr::from([10, 0, 0, last]), None)
}

fn edit(last: u8, edit: ServerEdit) -> Change {
    Change::EditServer { service: web().into(), server: server(last), edit }
}

#[test]
fn a_write_is_answered_when_every_lcore_uses_it() {
    let mut rig = rig();
    rig.settle();
    let answer = rig.apply(edit(11, ServerEdit { weight: Some(9), ..ServerEdit::default() }));
    rig.step(1, &[0]);
    rig.step(1, &[]);
    assert!(answer.try_recv().is_err(), "lcore 5 has not turned");
    rig.step(1, &[1]);
    rig.step(1, &[]);
    let applied = answer.try_recv().unwrap().unwrap();
    assert_eq!((applied.config, applied.snapshot, applied.lcores), (2, 2, 2));
    let header = rig.control.header();
    assert_eq!((header.config, header.as_file, header.by.as_str()), (2, false, "alice"));
    let back = rig.apply(edit(11, ServerEdit { weight: Some(1), ..ServerEdit::default() }));
    rig.settle();
    assert!(back.try_recv().unwrap().is_ok());
    assert!(rig.control.header().as_file, "back to what the file says");
}

#[test]
fn a_write_names_the_lcores_that_did_not_take_it_in_a_second() {
    let mut rig = rig();
    rig.settle();
    let answer = rig.apply(Change::Flush);
    for _ in 0..99 {
        rig.step(10, &[0]);
    }
    assert!(answer.try_recv().is_err());
    rig.step(10, &[0]);
    let refusal = answer.try_recv().unwrap().unwrap_err();
    assert_eq!((refusal.code, refusal.lcores), (RefusalCode::NotYetApplied, vec![5]));
    // Its last turn was seen one tick later.
    assert!(rig.control.lcores()[1].silent_ms >= 990);
    assert!(!rig.control.lcores()[1].current);
}

#[test]
fn each_lcore_is_told_what_the_others_hold() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].board.change(0, 0, 0, 3, 1);
    rig.lcores[1].board.change(0, 0, 0, 2, 0);
    rig.step(1, &[]);
    let view = |i: usize| engine::live::LoadView::new(&rig.lcores[i].live, &rig.lcores[i].board);
    for i in [0, 1] {
        let counts = view(i).counts(0);
        assert_eq!((counts.active, counts.inactive), (5, 1), "others and own make the whole");
    }
    let web = &rig.control.services(None).unwrap()[0];
    assert_eq!((web.active, web.inactive, web.servers[0].active), (5, 1, 5));
}

#[test]
fn a_drained_server_keeps_its_weight_and_is_not_eligible() {
    let mut rig = rig();
    rig.settle();
    assert_eq!(rig.lcores[1].live.weight(0), 1);
    let drain = ServerEdit { admin: Some(Admin::Drain), ..ServerEdit::default() };
    let _ = rig.apply(edit(11, drain));
    rig.settle();
    assert_eq!(rig.lcores[1].live.weight(0), 0);
    let view = &rig.control.services(None).unwrap()[0].servers[0];
    assert_eq!((view.weight, view.effective_weight), (1, 0));
}

#[test]
fn counters_stay_with_their_server_and_totals_with_the_service() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].board.servers[0].conns.add(7);
    rig.lcores[0].board.change(0, 0, 0, 1, 0);
    rig.lcores[1].board.services[0].stray.add(2);
    let del = Change::DelServer { service: web().into(), server: server(11), then: None };
    let _ = rig.apply(del);
    rig.settle();
    let memory = rig.control.memory();
    assert_eq!(memory.server_slots, 2, "a connection lives");
    assert_eq!(rig.control.neighbours().len(), 2, "and needs its next hop");
    rig.lcores[0].board.change(0, 0, 0, -1, 0);
    rig.settle();
    assert_eq!(rig.control.memory().server_slots, 1);
    assert_eq!(rig.control.neighbours().len(), 1);
    let spec = ServerSpec::new(IpAddr::from([10, 0, 0, 13]));
    let _ = rig.apply(Change::AddServer { service: web().into(), server: spec });
    rig.settle();
    let view = &rig.control.services(None).unwrap()[0];
    assert_eq!(view.servers[1].totals.conns, 0, "the slot's new server starts from 0");
    assert_eq!((view.totals.conns, view.totals.stray_packets), (7, 2));
    rig.lcores[1].board.servers[0].conns.add(4);
    let view = &rig.control.services(None).unwrap()[0];
    assert_eq!((view.servers[1].totals.conns, view.totals.conns), (4, 11));
    rig.control.zero(Some(&"web".parse().unwrap())).unwrap();
    let view = &rig.control.services(None).unwrap()[0];
    assert_eq!((view.totals.conns, view.totals.stray_packets), (0, 0));
}

#[test]
fn rates_are_means_of_two_seconds() {
    let mut rig = rig();
    for _ in 0..300 {
        rig.lcores[0].board.servers[1].in_packets.add(10);
        rig.lcores[0].board.servers[1].in_bytes.add(1000);
        rig.lcores[0].board.stats.received.add(10);
        rig.lcores[0].board.stats.busy_cycles.add(30);
        rig.lcores[0].board.stats.total_cycles.add(100);
        rig.step(10, &[0, 1]);
    }
    let view = &rig.control.services(None).unwrap()[0];
    assert!((view.rates.in_pps - 1000.0).abs() < 1.0, "{:?}", view.rates);
    assert!((view.servers[1].rates.in_bits - 800_000.0).abs() < 800.0);
    let stats = rig.control.stats();
    assert!((stats.rates["received"] - 1000.0).abs() < 1.0);
    assert_eq!((stats.totals["received"], stats.imissed), (3000, 3));
    assert!((rig.control.header().busiest_percent - 30.0).abs() < 0.1);
    rig.control.zero(None).unwrap();
    let stats = rig.control.stats();
    assert_eq!((stats.totals["received"], stats.imissed), (0, 0));
}

#[test]
fn zero_is_for_lcores_too_but_not_for_what_there_is() {
    let mut rig = rig();
    let board = Arc::clone(&rig.lcores[1].board);
    board.stats.received.add(7);
    board.stats.entries.set(5);
    (0..999).for_each(|_| board.turns.record(1000));
    board.turns.record(1_000_000);
    rig.step(1, &[0, 1]);
    let view = &rig.control.lcores()[1];
    assert_eq!((view.counters["received"], view.counters["entries"], view.entries), (7, 5, 5));
    // At 1 GHz 1,024 cycles are the edge of the bucket.
    let turns = &view.turns;
    let shown = [turns.p50_us, turns.p99_us, turns.p999_us, turns.max_us];
    assert_eq!(shown, [1.024, 1.024, 1.024, 1_048.576]);
    assert_eq!(turns.buckets.iter().map(|b| b.count).sum::<u64>(), 1000);
    assert_eq!((turns.buckets[0].count, turns.buckets[0].to_us), (999, 1.024));
    rig.control.zero(None).unwrap();
    board.turns.record(300);
    let view = &rig.control.lcores()[1];
    assert_eq!((view.counters["received"], view.counters["entries"], view.entries), (0, 5, 5));
    assert_eq!((view.snapshot, view.counters["snapshot"]), (1, 1));
    assert!(view.current);
    assert_eq!((view.turns.max_us, view.turns.buckets.len()), (0.32, 1));
}

#[test]
fn servers_are_asked_for_and_addresses_announced() {
    let mut rig = rig();
    rig.step(1, &[0]);
    let sent = std::mem::take(&mut rig.lcores[0].sent);
    let asked: Vec<_> = sent.iter().filter(|o| o.sender != o.target).map(|o| o.target).collect();
    let own = Addr::v4([10, 0, 0, 1]);
    assert_eq!(asked.len(), 2);
    assert!(asked.contains(&Addr::v4([10, 0, 0, 11])));
    let announced: Vec<_> = sent.iter().filter(|o| o.sender == o.target).collect();
    assert_eq!(announced.len(), 2, "our own address and the virtual one");
    assert!(sent.iter().all(|o| o.sender == own || o.sender == Addr::v4([192, 0, 2, 10])));
    let mac = Mac([2, 0, 0, 0, 1, 1]);
    let heard = ArpHeard { port: 0, addr: Addr::v4([10, 0, 0, 11]), mac, reply: true };
    rig.lcores[1].end.events.push(Event::Arp(heard)).unwrap();
    let claim = ArpHeard { addr: Addr::v4([192, 0, 2, 10]), ..heard };
    rig.lcores[1].end.events.push(Event::Arp(claim)).unwrap();
    rig.lcores[1].end.events.push(Event::Arp(ArpHeard { mac: OUR_MAC, ..claim })).unwrap();
    rig.step(1, &[]);
    let hop = rig.lcores[0].current.servers[0].hop;
    assert_eq!(rig.control.setup.hops.hop(hop).mac(), mac);
    let neighbours = rig.control.neighbours();
    assert_eq!((neighbours[0].state.as_str(), neighbours[0].mac), ("reachable", Some(mac)));
    assert_eq!(neighbours[1].state, "incomplete");
    assert_eq!(rig.control.stats().address_conflicts, 1, "somebody else has our address");
    let said = std::mem::take(&mut rig.lcores[0].sent);
    rig.step(1, &[0]);
    let defence = &rig.lcores[0].sent;
    assert_eq!((said.len(), defence[0].sender, defence[0].target), (0, claim.addr, claim.addr));
}

fn conn(client: u8, server: u32) -> ConnRow {
    ConnRow {
        id: 0,
        client: (Addr::v4([198, 51, 100, client]), 1000),
        vip: (Addr::v4([192, 0, 2, 10]), 80),
        proto: L4Proto::Tcp,
        state: ConnState::Established,
        server,
        generation: 0,
        expires_secs: 900,
    }
}

#[test]
fn connections_come_in_pages_over_all_lcores() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].conns = (0..5).map(|c| conn(c, u32::from(c) % 2)).collect();
    rig.lcores[1].conns = (5..9).map(|c| conn(c, u32::from(c) % 2)).collect();
    let mut filter = ConnFilter { limit: 3, ..ConnFilter::default() };
    let mut seen = Vec::new();
    loop {
        let answer = rig.list(&filter);
        rig.settle();
        let page = answer.try_recv().unwrap().unwrap();
        assert!(page.incomplete.is_empty());
        assert!(page.connections.len() <= 3);
        seen.extend(page.connections.iter().map(|c| (c.client, c.lcore, c.server)));
        filter.cursor = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 9);
    assert_eq!(seen[8].1, 5);
    assert_eq!(seen[1].2, Some(IpAddr::from([10, 0, 0, 12])));
    let only = ConnFilter { server: Some(server(11)), ..ConnFilter::default() };
    let answer = rig.list(&only);
    rig.settle();
    assert_eq!(answer.try_recv().unwrap().unwrap().connections.len(), 5);
    let cursor = Some(ConnCursor { lcore: 7, bucket: 0 });
    let answer = rig.list(&ConnFilter { cursor, ..ConnFilter::default() });
    assert_eq!(answer.try_recv().unwrap().unwrap_err().code, RefusalCode::BadValue);
}

#[test]
fn lists_at_the_same_time_take_turns_and_are_all_complete() {
    let mut rig = rig();
    for (lcore, n) in [(0, 40), (1, 60)] {
        rig.lcores[lcore].conns = (0..n).map(|c| conn(c, 0)).collect();
    }
    let answers: Vec<_> = (0..16).map(|_| rig.list(&ConnFilter::default())).collect();
    let began = rig.now;
    for _ in 0..40 {
        rig.step(2, &[0, 1]);
    }
    assert!(rig.now - began < 1000, "nobody is given up");
    for answer in answers {
        let page = answer.try_recv().expect("an answer").unwrap();
        assert_eq!((page.connections.len(), page.next), (100, None));
        assert_eq!(page.incomplete, [0; 0]);
    }
}

#[test]
fn a_silent_lcore_makes_a_list_incomplete_and_no_later_answer_disturbs() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].conns = vec![conn(1, 0)];
    rig.lcores[1].conns = vec![conn(2, 0)];
    let answer = rig.list(&ConnFilter::default());
    for _ in 0..110 {
        rig.step(10, &[1]);
    }
    let page = answer.try_recv().unwrap().unwrap();
    assert_eq!((page.connections.len(), page.incomplete), (1, vec![4]));
    rig.settle();
    let answer = rig.list(&ConnFilter::default());
    rig.settle();
    assert_eq!(answer.try_recv().unwrap().unwrap().connections.len(), 2);
}

#[test]
fn what_is_saved_is_what_runs() {
    let mut rig = rig();
    let mut dns = ServiceSpec::new("udp 192.0.2.10:53".parse().unwrap());
    dns.servers = vec![ServerSpec::new(IpAddr::from([10, 0, 0, 13]))];
    let _ = rig.apply(Change::AddService(dns));
    let _ = rig.apply(Change::SetTimeouts(Timeouts { tcp: 7, tcpfin: 0, udp: 0 }));
    rig.settle();
    let saved = config::parse(&rig.control.save(), "saved").unwrap();
    assert_eq!(saved.services, rig.control.specs());
    assert_eq!(saved.director.timeouts.tcp, 7);
}

/// Real threads: two lcores that turn, a writer that adds, edits and deletes a thousand services,
/// in one batch and one by one. Every write is confirmed, every snapshot comes home.
#[test]
fn a_thousand_services_come_and_go_while_lcores_turn() {
    let Rig { mut control, lcores, .. } = rig();
    // Ten times slower than others: a busy machine is no lcore that does not answer for 1 s.
    let start = std::time::Instant::now();
    control.setup.clock =
        Box::new(move || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX) / 10);
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicBool::new(false));
    let (jobs, inbox) = crossbeam::channel::bounded::<Job>(64);
    let turning: Vec<_> = lcores
        .into_iter()
        .map(|mut lcore| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    lcore.turn();
                    std::thread::yield_now();
                }
                lcore
            })
        })
        .collect();
    let flag = Arc::clone(&ended);
    let thread = std::thread::spawn(move || control.run(&inbox, &flag));
    let write = |changes: Vec<Change>| {
        let (done, answer) = mpsc::channel();
        let done: Done<Applied> = Box::new(move |r| drop(done.send(r)));
        jobs.send(Box::new(move |c: &mut Control| c.apply(&changes, "test", done))).unwrap();
        answer.recv().unwrap().unwrap()
    };
    let spec = |port: u16| {
        let mut spec = ServiceSpec::new(Endpoint { port, ..web() });
        spec.servers = vec![ServerSpec::new(IpAddr::from([10, 0, 0, 11]))];
        spec
    };
    write((1000..2000).map(|p| Change::AddService(spec(p))).collect());
    let by_port = |port| Endpoint { port, ..web() }.into();
    for port in 1000..1100 {
        let edit = ServerEdit { weight: Some(5), ..ServerEdit::default() };
        write(vec![Change::EditServer { service: by_port(port), server: server(11), edit }]);
        write(vec![Change::DelService { service: by_port(port) }]);
    }
    let (tell, told) = mpsc::channel();
    jobs.send(Box::new(move |c: &mut Control| {
        let found = (c.services(None).unwrap().len(), c.publisher.outstanding());
        tell.send(found).unwrap();
    }))
    .unwrap();
    let (services, outstanding) = told.recv().unwrap();
    assert_eq!(services, 901);
    assert!(outstanding <= 2, "{outstanding} snapshots are out");
    jobs.send(Box::new(Control::stop)).unwrap();
    thread.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    for lcore in turning {
        assert_eq!(lcore.join().unwrap().current.services.iter().count(), 901);
    }
}
