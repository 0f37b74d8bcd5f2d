//! The lcores: what each is made of, and the loop around its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use config::Settings;
use controlplane::control::LcoreLink;
use dpdk::{Clock, Lcore, Mempool, RxHandle, Touch, TxHandle, cycles, spawn_lcore, zeroed_huge};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::lcore::LcoreParts;
use engine::live::LiveView;
use engine::mailbox::{LcoreEnd, mailbox};
use engine::neigh::HopTable;
use engine::out::Outlet;
use engine::owner::Peers;
use engine::queue::RxQueue;
use engine::sched::Who;
use engine::snapshot::Snapshot;
use engine::stats::LcoreBoard;
use engine::templates::Templates;
use engine::thresholds::Occupancies;
use engine::worker::Worker;
use tracing::info;

use crate::boot::{self, Booted, OpenPort};
use crate::budget;
use crate::idle::{self, Rest};
use crate::plan::PortPlan;
use crate::relay::{DEPTH, Way};

/// One lcore before it starts: all of it may still move to its thread.
pub(crate) struct Seed {
    core: u16,
    who: Who,
    hasher: FlowHasher,
    table: ConnTable,
    board: Arc<LcoreBoard>,
    live: Arc<LiveView>,
    hops: Arc<HopTable>,
    templates: Arc<Templates>,
    peers: Peers<dpdk::Mbuf>,
    mail: LcoreEnd,
    inlets: Vec<Option<RxHandle>>,
    outlets: Vec<Outway>,
    pool: Mempool,
    rest: idle::Rest,
}

/// A way out before it is on its thread.
enum Outway {
    Queue(TxHandle, Vec<rtrb::Consumer<dpdk::Mbuf>>),
    Relay(rtrb::Producer<dpdk::Mbuf>),
}

/// A port on which this lcore has a queue, or not: then its flows come by hand-over.
struct Inlet(Option<dpdk::RxQueue>);

impl RxQueue for Inlet {
    type F = dpdk::Mbuf;

    #[inline(always)]
    fn rx_burst(&mut self, into: &mut engine::frame::FrameVec<dpdk::Mbuf>) {
        if let Some(queue) = &mut self.0 {
            queue.rx_burst(into);
        }
    }

    #[inline(always)]
    fn take_unusable(&mut self) -> u64 {
        self.0.as_mut().map_or(0, RxQueue::take_unusable)
    }
}

/// Makes all lcores of a config, and the control thread's ends of them.
pub(crate) fn seeds(
    settings: &Settings,
    booted: &mut Booted,
    (hops, templates): (&Arc<HopTable>, &Arc<Templates>),
) -> Result<(Vec<Seed>, Vec<LcoreLink>)> {
    let lcores = boot::lcores(settings);
    let hasher = FlowHasher::new(boot::random_u64()?);
    let policy = policy(settings, booted);
    let mut outways = outways(&mut booted.ports, lcores);
    let (mut seeds, mut links) = (Vec::new(), Vec::new());
    let peers = Peers::connect(lcores);
    let occupancies = Arc::new(Occupancies::new(settings.director.max_servers as usize));
    for ((lcore, core), peers) in (0..).zip(&settings.director.lcores).zip(peers) {
        let director = &settings.director;
        let (servers, services) = (director.max_servers as usize, director.max_services.into());
        let board = Arc::new(LcoreBoard::new(servers, services));
        let live = Arc::new(LiveView::sharing(servers, &occupancies));
        let (control_end, mail) = mailbox();
        links.push(LcoreLink {
            core: *core,
            board: Arc::clone(&board),
            live: Arc::clone(&live),
            end: control_end,
        });
        let inlets = booted.ports.iter_mut().map(|p| take(&mut p.rx, lcore)).collect();
        seeds.push(Seed {
            core: *core,
            who: Who { lcore, lcores },
            hasher: hasher.clone(),
            table: table(settings, *core)?,
            board,
            live,
            hops: Arc::clone(hops),
            templates: Arc::clone(templates),
            peers,
            mail,
            inlets,
            outlets: outways.remove(0),
            pool: booted.pool.clone(),
            rest: Rest::new(policy),
        });
    }
    Ok((seeds, links))
}

fn policy(settings: &Settings, booted: &Booted) -> config::settings::Idle {
    let ports: Vec<_> = settings.ports.iter().map(|p| p.idle).collect();
    let all_hardware = booted.ports.iter().all(|p| p.is_hardware);
    let policy = idle::policy(settings.director.idle, &ports, all_hardware);
    info!("idle lcores {}", policy.name());
    policy
}

fn table(settings: &Settings, core: u16) -> Result<ConnTable> {
    let capacity = budget::per_lcore(settings)?;
    let memory = zeroed_huge(ConnTable::bytes(capacity), Touch::Later)?;
    info!("lcore {core}: table of {capacity} connections on {}", memory.pages);
    ConnTable::new(memory.bytes, capacity)
        .map_err(|e| anyhow::anyhow!("connection table of lcore {core}: {e:?}"))
}

/// The handle of queue `lcore`, if there is one. Handles are taken from the front, in order.
fn take(handles: &mut Vec<RxHandle>, lcore: u16) -> Option<RxHandle> {
    let at = handles.iter().position(|h| h.number() == lcore)?;
    Some(handles.remove(at))
}

/// By lcore, by port.
fn outways(ports: &mut [OpenPort], lcores: u16) -> Vec<Vec<Outway>> {
    let mut by_lcore: Vec<Vec<Outway>> = (0..lcores).map(|_| Vec::new()).collect();
    for port in ports {
        let PortPlan { tx, .. } = port.plan;
        let mut relays: Vec<Vec<_>> = (0..tx).map(|_| Vec::new()).collect();
        for lcore in tx..lcores {
            let (producer, consumer) = rtrb::RingBuffer::new(DEPTH);
            relays[usize::from(port.plan.sender(lcore))].push(consumer);
            by_lcore[usize::from(lcore)].push(Outway::Relay(producer));
        }
        for (lcore, (handle, relays)) in port.tx.drain(..).zip(relays).enumerate() {
            by_lcore[lcore].push(Outway::Queue(handle, relays));
        }
    }
    by_lcore
}

/// Starts an lcore's thread.
pub(crate) fn start(
    booted: &Booted,
    seed: Seed,
    first: Arc<Snapshot>,
    clock: Clock,
    stop: &Arc<AtomicBool>,
) -> Result<Lcore<()>> {
    let (core, stop) = (seed.core, Arc::clone(stop));
    spawn_lcore(&booted.eal, core.into(), &format!("lcore-{core}"), move || {
        run(seed, first, clock, &stop);
    })
    .with_context(|| format!("lcore on core {core}"))
}

fn run(seed: Seed, first: Arc<Snapshot>, clock: Clock, stop: &AtomicBool) {
    let board = Arc::clone(&seed.board);
    let outlets = seed.outlets.into_iter().map(Outway::on_this_thread).map(Outlet::new).collect();
    let inlets =
        seed.inlets.into_iter().map(|h| Inlet(h.map(RxHandle::into_queue))).collect::<Vec<_>>();
    let parts = LcoreParts {
        who: seed.who,
        hasher: seed.hasher,
        table: seed.table,
        board: seed.board,
        live: seed.live,
        hops: seed.hops,
        templates: seed.templates,
        peers: seed.peers,
        outlets,
    };
    let mut worker = Worker::new(parts, inlets, seed.pool, seed.mail, first);
    let mut rest = seed.rest;
    let began = cycles();
    let mut turn_began = began;
    while !stop.load(Ordering::Relaxed) {
        let busy = worker.turn(clock.at(turn_began));
        let ended = cycles();
        if busy {
            let took = ended.wrapping_sub(turn_began);
            board.stats.busy_cycles.add(took);
            board.turns.record(took);
        }
        board.stats.total_cycles.set(ended.wrapping_sub(began));
        rest.after(busy);
        turn_began = if busy { ended } else { cycles() };
    }
}

impl Outway {
    fn on_this_thread(self) -> Way {
        match self {
            Self::Queue(handle, relays) => {
                Way::Queue { queue: handle.into_queue(), relays, taken: Box::default() }
            }
            Self::Relay(ring) => Way::Relay(ring),
        }
    }
}
