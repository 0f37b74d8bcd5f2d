//! `sluiced`: the lcores and the control thread, wired together. Read `run` from top to bottom.

mod args;
mod boot;
mod budget;
mod idle;
mod lcores;
mod plan;
mod relay;
mod shutdown;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use args::Args;
use clap::Parser;
use config::Settings;
use config::text::many;
use controlplane::control::{Control, Setup};
use controlplane::socket::{self, Server};
use controlplane::views::PortCounters;
use dpdk::{Clock, Port};
use engine::neigh::HopTable;
use engine::snapshot::PortFacts;
use engine::templates::Templates;
use tracing::{error, info};

/// The config or the command line is wrong.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let level = ["info", "debug", "trace"][usize::from(args.verbose.min(2))];
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .init();
    let mut settings = match config::load(&args.config) {
        Ok(settings) => settings,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(WRONG);
        }
    };
    if args.check {
        for warning in settings.services.iter().filter_map(config::persistence::warning) {
            println!("{}: warning: {warning}", args.config.display());
        }
        println!("{}: right; {}", args.config.display(), summary(&settings));
        return ExitCode::SUCCESS;
    }
    if let Some(socket) = &args.socket {
        settings.director.socket.clone_from(socket);
    }
    match run(settings, &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            error!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

fn summary(settings: &Settings) -> String {
    let servers: usize = settings.services.iter().map(|s| s.servers.len()).sum();
    format!(
        "{}, {}, {} with {}",
        many(settings.ports.len() as u64, "port"),
        many(settings.director.lcores.len() as u64, "lcore"),
        many(settings.services.len() as u64, "service"),
        many(servers as u64, "server")
    )
}

fn run(settings: Settings, args: &Args) -> Result<()> {
    socket::clear_stale(&settings.director.socket)?;
    let signals = shutdown::Signals::catch()?;
    let size = boot::pool_size(&settings);
    let budget = budget::lines(&settings, size)?;
    for (what, bytes) in &budget {
        info!("memory: {:>10} {what}", budget::show(*bytes));
    }
    budget::check(&budget)?;
    let mut booted = boot::boot(&settings, args, size)?;
    // Not before: EAL notes which cores there are, for the message about one that is not there.
    keep_off(&settings.director.lcores);
    let hops = Arc::new(HopTable::new(budget::max_hops(&settings)));
    let capacity = usize::try_from(settings.director.templates).context("director.templates")?;
    let templates = Arc::new(Templates::new(capacity, boot::random_u64()?));
    let (seeds, links) = lcores::seeds(&settings, &mut booted, (&hops, &templates))?;
    let boards: Vec<_> = links.iter().map(|l| Arc::clone(&l.board)).collect();
    let clock = Clock::new(&booted.eal);
    let control = Control::new(Setup {
        file: args.config.clone(),
        lcores: links,
        hops,
        templates,
        ports: port_facts(&settings, &booted),
        port_counters: port_counters(&booted),
        clock: Box::new(move || clock.now().0),
        cycles_hz: clock.hz(),
        seed: boot::random_u64()?,
        connections_max: settings.director.connections,
        budget,
        settings: settings.clone(),
    })
    .map_err(|e| anyhow::anyhow!("{}", e.message))?;

    let stop = Arc::new(AtomicBool::new(false));
    let (jobs, inbox) = crossbeam::channel::bounded(1024);
    let server = Server::start(&settings.director.socket, jobs.clone())?;
    let first = Arc::clone(control.snapshot());
    let threads = seeds
        .into_iter()
        .map(|seed| lcores::start(&booted, seed, Arc::clone(&first), clock, &stop))
        .collect::<Result<Vec<_>>>();
    drop(first);
    let threads = match threads {
        Ok(threads) => threads,
        Err(e) => {
            stop.store(true, Ordering::Relaxed);
            return Err(e);
        }
    };
    let halt = Arc::clone(&stop);
    let control = std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || control.run(&inbox, &halt))
        .context("control thread")?;
    info!("ready: {}, socket {}", summary(&settings), settings.director.socket.display());

    let why = signals.wait(&boards, args.exit_when_idle, || {
        let lcore_ended = threads.iter().any(dpdk::Lcore::is_finished);
        // The control thread ends when a client says so, or in a panic.
        let control_ended = control.is_finished().then_some("the control thread has ended");
        if lcore_ended { Some("an lcore has ended") } else { control_ended }
    })?;
    info!("ending: {why}");
    drop(server);
    stop.store(true, Ordering::Relaxed);
    let mut clean = true;
    for thread in threads {
        clean &= thread.join().is_ok();
    }
    clean &= control.join().is_ok();
    info!("frames: {}", shutdown::summary(&boards));
    drop(jobs);
    drop(booted);
    anyhow::ensure!(clean, "a thread ended in a panic");
    Ok(())
}

/// Leaves the lcores' cores to the lcores: every thread that is not one runs elsewhere. Where the
/// lcores have all cores, everything shares.
fn keep_off(lcores: &[u16]) {
    let me = nix::unistd::Pid::from_raw(0);
    let Ok(mut mask) = nix::sched::sched_getaffinity(me) else { return };
    for core in lcores {
        let _ = mask.unset((*core).into());
    }
    let left = (0..nix::sched::CpuSet::count()).any(|c| mask.is_set(c).unwrap_or(false));
    if left && nix::sched::sched_setaffinity(me, &mask).is_ok() {
        return;
    }
    info!("the lcores have all cores: control threads share them");
}

fn port_facts(settings: &Settings, booted: &boot::Booted) -> Vec<PortFacts> {
    settings
        .ports
        .iter()
        .zip(&booted.ports)
        .map(|(s, open)| PortFacts { mac: open.port.facts().mac, mtu: s.mtu })
        .collect()
}

fn port_counters(booted: &boot::Booted) -> Box<dyn Fn(usize) -> PortCounters + Send> {
    let ports: Vec<Port> = booted.ports.iter().map(|p| p.port.clone()).collect();
    Box::new(move |n| {
        let port = &ports[n];
        let stats = port.stats().unwrap_or_default();
        let link = port.link().ok();
        PortCounters {
            link_up: link.is_some_and(|l| l.is_up),
            speed_mbps: link.and_then(|l| l.mbps).unwrap_or(0),
            rx_packets: stats.rx_frames,
            rx_bytes: stats.rx_bytes,
            tx_packets: stats.tx_frames,
            tx_bytes: stats.tx_bytes,
            imissed: stats.rx_missed,
            rx_nombuf: stats.rx_no_buffer,
            ierrors: stats.rx_errors,
            oerrors: stats.tx_errors,
            extended: port.xstats().unwrap_or_default().into_iter().collect(),
        }
    })
}

/// How often the main thread looks whether it is time to end.
const WATCH: Duration = Duration::from_millis(10);
