//! What one packet of a known connection costs: whole turns of a worker, on queues that do nothing
//! but give and take frames. `cargo bench -p engine --bench turn`, optimised in full: without it the
//! queues alone cost three times as much.
//!
//! Prints, for each forwarder and number of flows, the best of many runs, with the cost of the
//! queues alone beside it. Frames are on the heap: a device's frames move 8 bytes, these 40.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::addr::{Addr, L4Proto, Mac};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::forward::ForwarderKind;
use engine::frame::{BURST, Frame, FrameVec};
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::mailbox;
use engine::neigh::{HopId, HopTable};
use engine::out::Outlet;
use engine::owner::Peers;
use engine::queue::{RxQueue, TxQueue};
use engine::sched::maglev::Maglev;
use engine::sched::{SchedFlags, Scheduler, SchedulerKind, Who};
use engine::server::ServerLine;
use engine::service::{Pool, PoolServer, Service, ServiceKey, ServiceTable, StrayPolicy};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot, Timeouts};
use engine::stats::LcoreBoard;
use engine::testkit::{HeapFrame, HeapPool, craft, table_memory};
use engine::ticks::Ticks;
use engine::worker::Worker;

const VIP: Addr = Addr::v4([192, 0, 2, 10]);
const SERVER: Addr = Addr::v4([192, 0, 2, 21]);
const LEN: usize = 54;
const NOW: Ticks = Ticks(1_000_000);
/// Packets of one timed run, and runs of which the best counts.
const RUN: usize = 1 << 16;
const RUNS: usize = 100;

/// A cable whose ends meet: frames that were sent come back as the packets of the next flows.
#[derive(Clone)]
struct Cable(Rc<RefCell<State>>);

struct State {
    idle: Vec<HeapFrame>,
    packets: Vec<[u8; LEN]>,
    next: usize,
}

impl RxQueue for Cable {
    type F = HeapFrame;

    fn rx_burst(&mut self, into: &mut FrameVec<HeapFrame>) {
        let state = &mut *self.0.borrow_mut();
        while !into.is_full() {
            let Some(mut frame) = state.idle.pop() else { return };
            frame.bytes_mut().copy_from_slice(&state.packets[state.next]);
            state.next = (state.next + 1) % state.packets.len();
            into.push(frame);
        }
    }
}

impl TxQueue for Cable {
    type F = HeapFrame;

    fn tx_burst(&mut self, frames: &mut FrameVec<HeapFrame>) {
        for mut frame in frames.drain(..) {
            frame.trim_front(frame.bytes().len() - LEN);
            self.0.borrow_mut().idle.push(frame);
        }
    }
}

/// One packet of each flow, in an order that no prefetcher guesses.
fn packets(flows: usize, flags: &str) -> Vec<[u8; LEN]> {
    let packet = |n: usize| {
        let [a, b, c, d] = u32::try_from(n).expect("few flows").to_be_bytes();
        let client = (Addr::v4([10, a, b, c]), 1024 + u16::from(d));
        let bytes = craft::tcp(client, (VIP, 80)).flags(flags).bytes();
        bytes.try_into().expect("no options, no data")
    };
    // An odd factor makes every flow come once, as long as their number is a power of two.
    (0..flows).map(|n| packet(n.wrapping_mul(0x9e37_79b1) % flows)).collect()
}

fn snapshot(forwarder: ForwarderKind) -> Snapshot {
    let mut pool = Pool::default();
    pool.add(PoolServer::new(0, 1, 1, SERVER, 80));
    let service = Service {
        id: 0,
        key: ServiceKey { proto: L4Proto::Tcp, addr: VIP, port: 80 },
        scheduler: Scheduler::build(SchedulerKind::ALL[0], &pool, SchedFlags::default()),
        fallback: Arc::new(Maglev::fallback(&pool, None)),
        stray: StrayPolicy::Reset,
        pool,
    };
    let line = ServerLine {
        addr: SERVER,
        tunnel_source: VIP,
        mtu: 1500,
        forwarder,
        in_use: true,
        ..ServerLine::vacant(0)
    };
    Snapshot {
        version: 1,
        services: ServiceTable::new(vec![Arc::new(service)].into_iter(), 5),
        servers: [line].into(),
        ports: [PortFacts { mac: craft::STATION, mtu: 1500 }].into(),
        locals: [Local { addr: VIP, kind: LocalKind::Vip, ports: 1 }].into(),
        neighbours: Box::default(),
        timeouts: Timeouts::default(),
        closed_port_reset: false,
    }
}

/// Nanoseconds per packet of the best run.
fn best(mut burst: impl FnMut()) -> f64 {
    let run = |()| {
        let start = Instant::now();
        (0..RUN / BURST).for_each(|_| burst());
        start.elapsed().as_secs_f64() * 1e9 / RUN as f64
    };
    std::iter::repeat_n((), RUNS).map(run).fold(f64::MAX, f64::min)
}

fn measure(flows: usize, forwarder: ForwarderKind) {
    let idle = (0..2 * BURST).map(|_| HeapFrame::new(&[0; LEN])).collect();
    let cable = Cable(Rc::new(RefCell::new(State { idle, packets: packets(flows, "S"), next: 0 })));
    let (live, hops) = (Arc::new(LiveView::new(1)), Arc::new(HopTable::new(1)));
    live.set_weight(0, 1, 0);
    hops.set(HopId(0), 0, Some(Mac([2, 0, 0, 0, 1, 0])));
    let capacity = u32::try_from(flows * 2).expect("few flows");
    let memory = table_memory(ConnTable::bytes(capacity));
    let board = Arc::new(LcoreBoard::new(1, 1));
    let parts = LcoreParts {
        who: Who::ALONE,
        hasher: FlowHasher::new(7),
        table: ConnTable::new(memory, capacity).expect("fresh memory"),
        board: Arc::clone(&board),
        live,
        hops,
        peers: Peers::connect(1).remove(0),
        outlets: vec![Outlet::new(cable.clone())],
    };
    let (_control, mail) = mailbox();
    let snapshot = Arc::new(snapshot(forwarder));
    let mut worker =
        Worker::new(parts, vec![cable.clone()], HeapPool::new(1), mail, Arc::clone(&snapshot));
    (0..flows.div_ceil(BURST)).for_each(|_| _ = worker.turn(NOW));
    assert_eq!(board.stats.created.get(), flows as u64, "every flow has its entry");

    cable.0.borrow_mut().packets = packets(flows, "A");
    let turn = best(|| _ = worker.turn(NOW));
    assert_eq!(board.stats.forwarded.get(), board.stats.received.get(), "all were hits");
    let (mut rx, mut tx, mut burst) = (cable.clone(), cable.clone(), FrameVec::new());
    let queues = best(|| {
        rx.rx_burst(&mut burst);
        tx.tx_burst(black_box(&mut burst));
    });
    println!("{forwarder:>5} {flows:>8} flows: {turn:6.1} ns a packet, queues alone {queues:4.1}");
}

fn main() {
    for forwarder in ForwarderKind::ALL {
        for flows in [1 << 10, 1 << 16, 1 << 20] {
            measure(flows, *forwarder);
        }
    }
}
