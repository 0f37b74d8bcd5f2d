//! From settings to started ports: EAL, one pool of buffers, queues for the lcores.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use config::Settings;
use config::settings::Port as PortSettings;
use dpdk::{
    Device, Eal, EalSettings, Hugepages, LogLevel, Memory, Mempool, PoolSize, Port, PortBuilder,
    RxHandle, Socket, TxHandle,
};
use tracing::{info, warn};

use crate::args::Args;
use crate::plan::{self, PortPlan};

/// A started port and its queues.
pub(crate) struct OpenPort {
    /// For counters and facts.
    pub(crate) port: Port,
    /// Its queues.
    pub(crate) plan: PortPlan,
    /// Whether it is a device of its own, not one that lives on this machine's cores.
    pub(crate) is_hardware: bool,
    /// One per receive queue.
    pub(crate) rx: Vec<RxHandle>,
    /// One per transmit queue.
    pub(crate) tx: Vec<TxHandle>,
}

/// DPDK, running.
pub(crate) struct Booted {
    /// Keeps EAL alive.
    pub(crate) eal: Eal,
    /// Buffers for all ports and lcores.
    pub(crate) pool: Mempool,
    /// In the order of the config.
    pub(crate) ports: Vec<OpenPort>,
}

/// The pool that a config needs, before any device has said how many queues it has: as many as it
/// may use.
pub(crate) fn pool_size(settings: &Settings) -> PoolSize {
    let lcores = lcores(settings);
    let plans: Vec<_> = settings
        .ports
        .iter()
        .map(|p| PortPlan::new(lcores, u16::MAX, u16::MAX, p.queues))
        .collect();
    // A frame on the wire and its tunnel headers, which lie in the headroom.
    let longest = settings.ports.iter().map(|p| p.mtu).max().unwrap_or(1500) + 18;
    let frame_len = longest.max(2048).next_multiple_of(64);
    PoolSize { frames: plan::frames(lcores, &plans), cache: plan::CACHE, frame_len }
}

/// How many lcores the config asks for.
pub(crate) fn lcores(settings: &Settings) -> u16 {
    u16::try_from(settings.director.lcores.len()).expect("the config limits the number of lcores")
}

/// Starts EAL and all ports.
pub(crate) fn boot(settings: &Settings, args: &Args, size: PoolSize) -> Result<Booted> {
    let devices = settings.ports.iter().map(|p| device(settings, p)).collect::<Result<Vec<_>>>()?;
    let eal = start_eal(settings, args, &devices, size)?;
    let builders = settings
        .ports
        .iter()
        .zip(&devices)
        .map(|(p, d)| PortBuilder::new(&eal, d).with_context(|| format!("port {}", p.name)))
        .collect::<Result<Vec<_>>>()?;
    let socket = builders.first().map_or(Socket(None), |b| b.facts().socket);
    let pool = Mempool::new(&eal, "sluice", size, socket).context("packet buffers")?;
    let mut ports = Vec::new();
    for ((p, builder), device) in settings.ports.iter().zip(builders).zip(&devices) {
        let open = open(settings, p, builder, device, &pool);
        ports.push(open.with_context(|| format!("port {}", p.name))?);
    }
    Ok(Booted { eal, pool, ports })
}

fn device(settings: &Settings, port: &PortSettings) -> Result<Device> {
    let device = Device::parse(&port.device).with_context(|| format!("port {}", port.name))?;
    let wanted = port.queues.unwrap_or(device.unasked_queues());
    Ok(device.with_queues(lcores(settings).min(wanted)).with_usual())
}

fn start_eal(settings: &Settings, args: &Args, devices: &[Device], size: PoolSize) -> Result<Eal> {
    let dpdk = &settings.dpdk;
    let hugepages =
        if args.no_huge || dpdk.hugepages == Some(false) { Hugepages::No } else { Hugepages::Auto };
    let wanted = dpdk.memory.unwrap_or(size.bytes() + size.bytes() / 8 + (32 << 20));
    let eal = Eal::start(&EalSettings {
        main_core: main_core(&settings.director.lcores),
        hugepages,
        memory_mb: u32::try_from(wanted >> 20).context("dpdk.memory")?.max(64),
        devices: devices.to_vec(),
        file_prefix: file_prefix(&settings.director.socket),
        plugins: dpdk.plugins.iter().chain(&args.plugins).cloned().collect(),
        args: dpdk.args.iter().chain(&args.eal_args).cloned().collect(),
        log_level: match args.verbose {
            0 => LogLevel::Warning,
            1 => LogLevel::Info,
            _ => LogLevel::Debug,
        },
        ..EalSettings::default()
    })?;
    match eal.memory() {
        Memory::Plain { reason } if dpdk.hugepages == Some(true) && !args.no_huge => {
            bail!("dpdk.hugepages = true, but there are none: {reason}")
        }
        Memory::Plain { reason } => {
            warn!("running without hugepages, at about half the speed: {reason}")
        }
        memory => info!("{memory}"),
    }
    info!("{}", eal.version());
    Ok(eal)
}

/// EAL's name on this machine. By the control socket, which only one director can have: so a
/// director that was killed leaves nothing that its successor does not find and use.
fn file_prefix(socket: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    socket.hash(&mut hasher);
    format!("sluice-{:016x}", hasher.finish())
}

/// A core for everything that does not poll: the first that the process may use and no lcore has.
/// `None` when the lcores have them all, then EAL's threads share one.
pub(crate) fn main_core(lcores: &[u16]) -> Option<usize> {
    let mask = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok()?;
    (0..nix::sched::CpuSet::count())
        .filter(|c| mask.is_set(*c).unwrap_or(false))
        .find(|c| !lcores.iter().any(|l| usize::from(*l) == *c))
}

fn open(
    settings: &Settings,
    port: &PortSettings,
    builder: PortBuilder,
    device: &Device,
    pool: &Mempool,
) -> Result<OpenPort> {
    let facts = builder.facts().clone();
    let plan =
        PortPlan::new(lcores(settings), facts.max_rx_queues, facts.max_tx_queues, port.queues);
    let mut key = vec![0; facts.rss_key_len];
    random(&mut key)?;
    let started = builder
        .queues(plan.rx, plan.tx)
        .descriptors(plan::DESCRIPTORS, plan::DESCRIPTORS)
        .rss_key(&key)
        .promiscuous(port.promiscuous)
        .mtu(port.mtu)
        .start(&[pool])?;
    info!(
        "port {}: {} ({}), MAC {}, MTU {}, {} receive and {} transmit queues",
        port.name, port.device, facts.driver, facts.mac, port.mtu, plan.rx, plan.tx
    );
    let is_hardware = device.is_hardware();
    Ok(OpenPort { port: started.port, plan, is_hardware, rx: started.rx, tx: started.tx })
}

/// Fills `bytes` from the system's random source.
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(bytes)).context("/dev/urandom")
}

/// A random number.
pub(crate) fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
