//! The devices: started, their link awaited, the director found.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use dpdk::{
    Device, Eal, EalSettings, Hugepages, LogLevel, Mempool, PoolSize, Port, PortBuilder, RxHandle,
    Socket, Started, TxHandle,
};
use engine::addr::{Addr, Mac};
use engine::frame::{Frame, FramePool, FrameVec};
use engine::mailbox::ArpOrder;
use engine::queue::{RxQueue, TxQueue};
use engine::reply::arp;

use crate::args::Run;
use crate::bench::Wishes;

/// How long a peer may take to connect, and a director to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything of DPDK that a run needs.
pub(crate) struct Devices {
    pub(crate) eal: Eal,
    pub(crate) pool: Mempool,
    /// Where packets are sent; then, if it is another, where they come back.
    pub(crate) ports: Vec<Started>,
}

impl Devices {
    pub(crate) fn start(run: &Run, core: usize, wishes: &Wishes) -> Result<Self> {
        let mut names = vec![run.tx.as_str()];
        names.extend(run.rx.as_deref().filter(|rx| *rx != run.tx));
        let devices = names.iter().map(|d| Ok(Device::parse(d)?)).collect::<Result<Vec<_>>>()?;
        let eal = Eal::start(&EalSettings {
            main_core: Some(core),
            hugepages: if run.no_huge { Hugepages::No } else { Hugepages::Auto },
            memory_mb: 128,
            devices: devices.clone(),
            args: run.eal.clone(),
            log_level: LogLevel::Error,
            ..EalSettings::default()
        })?;
        let pool = Mempool::new(&eal, "traffic", PoolSize::default(), Socket(None))?;
        let open = |device| -> Result<Started> {
            let builder = PortBuilder::new(&eal, device)?.promiscuous(true);
            Ok(builder.start(&[&pool])?)
        };
        let ports = devices.iter().map(open).collect::<Result<Vec<_>>>()?;
        for started in &ports {
            wait_for_link(&started.port, wishes)?;
        }
        Ok(Self { eal, pool, ports })
    }
}

/// A memif comes up when its peer does.
fn wait_for_link(port: &Port, wishes: &Wishes) -> Result<()> {
    let start = Instant::now();
    while !port.link()?.is_up {
        let waited = start.elapsed();
        ensure!(!wishes.quit(), "interrupted");
        ensure!(waited < PATIENCE, "{}: no link within {PATIENCE:?}", port.facts().device);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The queues of a port, on the thread that polls.
pub(crate) struct Queues {
    pub(crate) rx: dpdk::RxQueue,
    pub(crate) tx: dpdk::TxQueue,
    pub(crate) mac: Mac,
}

impl Queues {
    pub(crate) fn new(rx: RxHandle, tx: TxHandle) -> Self {
        let mac = rx.port().facts().mac;
        Self { rx: rx.into_queue(), tx: tx.into_queue(), mac }
    }
}

/// Who answers for what: real servers and the gateway live at our end of the wire.
#[derive(Clone, Debug)]
pub(crate) struct Residents {
    servers: Vec<(Addr, Mac)>,
    gateway: Vec<Addr>,
}

impl Residents {
    pub(crate) fn new(run: &Run) -> Self {
        let known = |s: &traffic::servers::Server| Some((s.addr?, s.mac));
        let servers = run.servers.iter().filter_map(known).collect();
        let gateway = run.gateway.iter().copied().map(Addr::from).collect();
        Self { servers, gateway }
    }

    /// Turns a request for one of them into the answer; `None`: nobody of ours, or no request.
    pub(crate) fn answer<F: Frame>(&self, mut frame: F, port: Mac) -> Option<F> {
        let target = arp::parse_arp(&frame)?.target;
        let of_server = self.servers.iter().find(|(addr, _)| *addr == target).map(|s| s.1);
        let mac = of_server.or_else(|| self.gateway.contains(&target).then_some(port))?;
        arp::answer(&mut frame, mac).ok()?;
        Some(frame)
    }
}

/// Asks for the virtual address by ARP until the director answers (RFC 5227 probes, ten a second).
pub(crate) fn find_director(
    queues: &mut Queues,
    pool: &mut Mempool,
    (vip, residents): (Addr, &Residents),
    wishes: &Wishes,
) -> Result<Mac> {
    let (start, mut asked) = (Instant::now(), None::<Instant>);
    let order = ArpOrder { port: 0, sender: Addr::v4([0; 4]), target: vip, to: None };
    let mut frames = FrameVec::new();
    while start.elapsed() < PATIENCE {
        ensure!(!wishes.quit(), "interrupted");
        if asked.is_none_or(|at| at.elapsed() > Duration::from_millis(100)) {
            let mut frame = pool.alloc(arp::FRAME_LEN).context("no buffer for a request")?;
            ensure!(arp::write(&mut frame, &order, queues.mac).is_ok(), "a request did not fit");
            frames.push(frame);
            queues.tx.tx_burst(&mut frames);
            frames.clear();
            asked = Some(Instant::now());
        }
        queues.rx.rx_burst(&mut frames);
        for frame in frames.take() {
            match arp::parse_arp(&frame) {
                Some(heard) if heard.sender == order.target => return Ok(heard.sender_mac),
                _ => answer(queues, residents, frame),
            }
        }
        std::thread::yield_now();
    }
    bail!("nobody answers ARP for {vip}; is the director up? (--to MAC goes without)")
}

/// Answers a request at once.
pub(crate) fn answer(queues: &mut Queues, residents: &Residents, frame: dpdk::Mbuf) {
    if let Some(frame) = residents.answer(frame, queues.mac) {
        let mut answers = FrameVec::new();
        answers.push(frame);
        queues.tx.tx_burst(&mut answers);
    }
}
