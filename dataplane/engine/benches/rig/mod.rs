//! What the benchmarks share: a worker whose frames go round, a snapshot of one service.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use engine::addr::{Addr, L4Proto, Mac};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::forward::ForwarderKind;
use engine::frame::{BURST, Frame, FrameVec};
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::{ControlEnd, mailbox};
use engine::neigh::{HopId, HopTable};
use engine::out::Outlet;
use engine::owner::Peers;
use engine::queue::{RxQueue, TxQueue};
use engine::sched::maglev::Maglev;
use engine::sched::{SchedFlags, Scheduler, SchedulerKind, Who};
use engine::server::ServerLine;
use engine::service::{Pool, PoolServer, Rules, Service, ServiceKey, ServiceTable, StrayPolicy};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use engine::stats::LcoreBoard;
use engine::templates::Templates;
use engine::testkit::{HeapFrame, HeapPool, craft, table_memory};
use engine::ticks::Ticks;
use engine::worker::Worker;

/// The service's address; its port is 80.
pub(crate) const VIP: Addr = Addr::v4([192, 0, 2, 10]);
/// When it begins.
pub(crate) const NOW: Ticks = Ticks(1_000_000);
/// Bytes of a frame: Ethernet, IPv4 and TCP without options.
pub(crate) const LEN: usize = 54;
const SERVERS: u8 = 8;

/// A cable whose ends meet: frames that were sent come back as the packets of the next flows.
#[derive(Clone)]
pub(crate) struct Cable(Rc<RefCell<State>>);

struct State {
    idle: Vec<HeapFrame>,
    packets: Vec<[u8; LEN]>,
    next: usize,
    aside: bool,
}

impl State {
    fn give(&mut self, into: &mut FrameVec<HeapFrame>) {
        while !into.is_full() && !self.packets.is_empty() {
            // Frames that were dropped do not come back.
            let mut frame = self.idle.pop().unwrap_or_else(|| HeapFrame::new(&[0; LEN]));
            frame.bytes_mut().copy_from_slice(&self.packets[self.next]);
            self.next = (self.next + 1) % self.packets.len();
            into.push(frame);
        }
    }

    fn take(&mut self, frames: &mut FrameVec<HeapFrame>) {
        for mut frame in frames.drain(..) {
            frame.trim_front(frame.bytes().len() - LEN);
            self.idle.push(frame);
        }
    }
}

impl Cable {
    fn new() -> Self {
        let idle = (0..2 * BURST).map(|_| HeapFrame::new(&[0; LEN])).collect();
        Self(Rc::new(RefCell::new(State { idle, packets: Vec::new(), next: 0, aside: false })))
    }

    /// From now on these packets come, over and over; without any, nothing comes.
    pub(crate) fn play(&self, packets: Vec<[u8; LEN]>) {
        let mut state = self.0.borrow_mut();
        (state.packets, state.next) = (packets, 0);
    }

    /// From now on its own work is not counted.
    pub(crate) fn step_aside(&self) {
        self.0.borrow_mut().aside = true;
    }
}

impl RxQueue for Cable {
    type F = HeapFrame;

    #[inline]
    fn rx_burst(&mut self, into: &mut FrameVec<HeapFrame>) {
        let state = &mut *self.0.borrow_mut();
        if state.aside { aside(|| state.give(into)) } else { state.give(into) }
    }
}

impl TxQueue for Cable {
    type F = HeapFrame;

    #[inline]
    fn tx_burst(&mut self, frames: &mut FrameVec<HeapFrame>) {
        let state = &mut *self.0.borrow_mut();
        if state.aside { aside(|| state.take(frames)) } else { state.take(frames) }
    }
}

/// The frame within which callgrind does not count: it finds it by this name.
#[inline(never)]
fn aside(work: impl FnOnce()) {
    work();
    black_box(());
}

/// One packet of each flow, in an order that no prefetcher guesses; `flows` is a power of two.
pub(crate) fn packets(flows: usize, flags: &str) -> Vec<[u8; LEN]> {
    let packet = |n: usize| {
        let [a, b, c, d] = u32::try_from(n).expect("few flows").to_be_bytes();
        let client = (Addr::v4([10, a, b, c]), 1024 + u16::from(d));
        let bytes = craft::tcp(client, (VIP, 80)).flags(flags).bytes();
        bytes.try_into().expect("no options, no data")
    };
    // An odd factor makes every flow come once.
    (0..flows).map(|n| packet(n.wrapping_mul(0x9e37_79b1) % flows)).collect()
}

/// A worker on one cable, alone, all eight servers' next hops known.
pub(crate) struct Rig {
    pub(crate) worker: Worker<Cable, Cable, HeapPool>,
    pub(crate) cable: Cable,
    pub(crate) board: Arc<LcoreBoard>,
    pub(crate) control: ControlEnd,
}

impl Rig {
    /// With a table for `capacity` connections.
    pub(crate) fn new(forwarder: ForwarderKind, capacity: usize) -> Self {
        Self::beside(forwarder, capacity, Who::ALONE, Peers::connect(1).remove(0))
    }

    /// One of several lcores, with its rings to the others.
    pub(crate) fn beside(
        forwarder: ForwarderKind,
        capacity: usize,
        who: Who,
        peers: Peers<HeapFrame>,
    ) -> Self {
        let capacity = u32::try_from(capacity).expect("few flows");
        let (cable, board) = (Cable::new(), Arc::new(LcoreBoard::new(SERVERS.into(), 1)));
        let hops = HopTable::new(SERVERS.into());
        (0..SERVERS).for_each(|n| hops.set(HopId(n.into()), 0, Some(Mac([2, 0, 0, 0, 1, n]))));
        let parts = LcoreParts {
            who,
            hasher: FlowHasher::new(7),
            table: ConnTable::new(table_memory(ConnTable::bytes(capacity)), capacity)
                .expect("fresh memory"),
            board: Arc::clone(&board),
            live: Arc::new(live(SERVERS.into())),
            hops: Arc::new(hops),
            templates: Arc::new(Templates::new(capacity as usize, 7)),
            peers,
            outlets: vec![Outlet::new(cable.clone())],
        };
        let (control, mail) = mailbox();
        let snapshot = Arc::new(snapshot(forwarder));
        let worker = Worker::new(parts, vec![cable.clone()], HeapPool::new(1), mail, snapshot);
        Self { worker, cable, board, control }
    }

    /// Opens `flows` connections, whose segments come from then on.
    pub(crate) fn open(&mut self, flows: usize) {
        self.cable.play(packets(flows, "S"));
        (0..flows.div_ceil(BURST)).for_each(|_| _ = self.worker.turn(NOW));
        assert_eq!(self.board.stats.created.get(), flows as u64, "every flow has its entry");
        self.cable.play(packets(flows, "A"));
    }
}

/// All servers may be picked.
pub(crate) fn live(servers: u16) -> LiveView {
    let live = LiveView::new(servers.into());
    (0..servers).for_each(|slot| live.set_weight(slot.into(), 100, 1));
    live
}

/// So many servers of one weight.
pub(crate) fn pool(servers: u16) -> Pool {
    let mut pool = Pool::default();
    for slot in 0..servers {
        pool.add(PoolServer::new(slot.into(), 1 + u64::from(slot), 100, server(slot), 80));
    }
    pool
}

fn server(slot: u16) -> Addr {
    let [high, low] = slot.to_be_bytes();
    Addr::v4([198, 18, high, low])
}

/// One service by `wlc`, over eight servers.
pub(crate) fn snapshot(forwarder: ForwarderKind) -> Snapshot {
    snapshot_with(forwarder, Rules { stray: StrayPolicy::Drop, ..Rules::default() })
}

/// The same with rules of its own.
pub(crate) fn snapshot_with(forwarder: ForwarderKind, rules: Rules) -> Snapshot {
    let pool = pool(SERVERS.into());
    let service = Service {
        id: 0,
        key: ServiceKey { proto: L4Proto::Tcp, addr: VIP, port: 80 },
        scheduler: Scheduler::build(SchedulerKind::Wlc, &pool, SchedFlags::default()),
        fallback: Arc::new(Maglev::fallback(&pool, None)),
        backup: None,
        rules,
        pool,
    };
    let line = |slot: u8| ServerLine {
        addr: server(slot.into()),
        tunnel_source: VIP,
        hop: HopId(slot.into()),
        mtu: 1500,
        forwarder,
        in_use: true,
        ..ServerLine::vacant(1)
    };
    Snapshot {
        version: 1,
        services: ServiceTable::new([Arc::new(service)].into_iter(), 5),
        servers: (0..SERVERS).map(line).collect(),
        limited: Box::default(),
        ports: [PortFacts { mac: craft::STATION, mtu: 1500 }].into(),
        locals: [Local { addr: VIP, kind: LocalKind::Vip, ports: 1 }].into(),
        neighbours: Box::default(),
        timeouts: Timeouts::default(),
        closed_port_reset: false,
        flood_guard: 0,
    }
}
