//! The control thread: owns the store, feeds the lcores, answers requests.
//!
//! Other threads reach it by [`Job`]s: closures that run on it between two ticks. A job must not
//! wait; what takes time (a write's acknowledgement, a list of connections) takes a [`Done`] and
//! answers later. Time comes from the clock in [`Setup`], so tests drive it.

mod drains;
pub mod health;
mod maglev;
mod query;
mod ramps;
pub mod rebalance;
mod remembered;
mod report;
mod state_file;
mod templates;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::{ServerRef, ServiceRef, Settings};
use crossbeam::channel::{Receiver, TryRecvError};
use engine::live::LiveView;
use engine::mailbox::{ArpHeard, ArpOrder, ControlEnd, Event, Order};
use engine::neigh::HopTable;
use engine::snapshot::{PortFacts, Snapshot};
use engine::stats::LcoreBoard;
use engine::templates::Templates;

use crate::change::{Applied, Change, Refusal, RefusalCode};
use crate::collect::Collector;
use crate::compile::Compiler;
use crate::feed::Feeder;
use crate::neighbours::{Announcer, Neighbours};
use crate::publish::Publisher;
use crate::slots::Use;
use crate::states::{Health, Stand};
use crate::store::{Member, Store};
use crate::views::{ConnFilter, ConnPage, PortCounters};
use drains::Drains;
use health::{Marked, States};
use query::Queries;
use rebalance::{Part, Plan, Rebalance, excess};
use remembered::Remembered;
use templates::Census;

/// Something to do on the control thread; must not wait.
pub type Job = Box<dyn FnOnce(&mut Control) + Send>;

/// Takes an answer, at once or later, on the control thread; must not wait.
pub type Done<T> = Box<dyn FnOnce(Result<T, Refusal>) + Send>;

/// How long a write waits for the lcores, in ms.
pub const APPLY_MS: u64 = 1_000;
/// How often slots and hops are looked over for what is no longer needed, in ms.
const RECLAIM_MS: u64 = 50;
/// Jobs between two ticks.
const JOBS: usize = 256;
/// Time between two turns.
const TICK: Duration = Duration::from_millis(1);
/// Events of one lcore between two ticks.
const EVENTS: usize = 4_096;

/// The control thread's side of one lcore.
pub struct LcoreLink {
    /// The core it is pinned to.
    pub core: u16,
    /// What it counts.
    pub board: Arc<LcoreBoard>,
    /// What it reads about loads.
    pub live: Arc<LiveView>,
    /// The rings.
    pub end: ControlEnd,
}

/// What the control thread starts from.
pub struct Setup {
    /// The checked config.
    pub settings: Settings,
    /// Its file, for headers.
    pub file: PathBuf,
    /// All lcores, in the order of the config.
    pub lcores: Vec<LcoreLink>,
    /// Next hops, shared with all lcores: [`hop_capacity`] of them.
    pub hops: Arc<HopTable>,
    /// The servers of persistent services' clients, shared with all lcores.
    pub templates: Arc<Templates>,
    /// The ports as they came up, in the order of the config.
    pub ports: Vec<PortFacts>,
    /// What the device of a port counts now.
    pub port_counters: Box<dyn Fn(usize) -> PortCounters + Send>,
    /// A monotonic clock, in ms.
    pub clock: Box<dyn Fn() -> u64 + Send>,
    /// Cycles per second of the counter that lcores measure their turns by.
    pub cycles_hz: u64,
    /// Keeps strangers from aiming at one chain of the service table; random.
    pub seed: u64,
    /// Connections that all tables hold together.
    pub connections_max: u64,
    /// Bytes by what they are for.
    pub budget: Vec<(String, u64)>,
}

/// How many next hops a director needs at most: one per server, and as many again while lcores
/// still use a snapshot from before all of them were replaced.
#[must_use]
pub const fn hop_capacity(settings: &Settings) -> usize {
    2 * settings.director.max_servers as usize + 64
}

/// A write that waits for the lcores.
struct Unconfirmed {
    version: u64,
    deadline_ms: u64,
    warnings: Vec<String>,
    done: Done<Applied>,
}

/// Who changed the running state last, and when.
#[derive(Debug, Default)]
struct LastChange {
    by: String,
    at_ms: u64,
}

/// The control thread's whole state.
pub struct Control {
    setup: Setup,
    lives: Vec<Arc<LiveView>>,
    store: Store,
    compiler: Compiler,
    publisher: Publisher,
    collector: Collector,
    feeder: Feeder,
    neighbours: Neighbours,
    announcer: Announcer,
    queries: Queries,
    drains: Drains,
    states: States,
    remembered: Remembered,
    rebalances: Vec<Rebalance>,
    templates: Census,
    /// What was said of services that may do what nobody expects.
    warned: BTreeSet<String>,
    unconfirmed: Vec<Unconfirmed>,
    last_change: LastChange,
    port_base: Vec<PortCounters>,
    conflicts: u64,
    started_ms: u64,
    now_ms: u64,
    reclaimed_ms: u64,
    stop: bool,
}

impl Control {
    /// Compiles the config: [`Control::snapshot`] is what every worker must start with.
    ///
    /// # Errors
    /// When the config does not fit the limits or the ports.
    pub fn new(setup: Setup) -> Result<Self, Refusal> {
        let mut store = Store::new(&setup.settings)?;
        let now_ms = (setup.clock)();
        let drains = Drains::load(&setup.settings, &mut store, now_ms);
        let mut states = States::default();
        let remembered = Remembered::load(&setup.settings, &store, &mut states, now_ms);
        let mut compiler =
            Compiler::new(&setup.settings, &setup.ports, setup.hops.len(), setup.seed);
        let publisher = Publisher::new(compiler.compile(&store), setup.lcores.len());
        let boards = setup.lcores.iter().map(|l| Arc::clone(&l.board)).collect();
        let views = setup.lcores.iter().map(|l| (Arc::clone(&l.board), Arc::clone(&l.live)));
        let feeder = Feeder::new(views);
        let mut control = Self {
            lives: setup.lcores.iter().map(|l| Arc::clone(&l.live)).collect(),
            port_base: vec![PortCounters::default(); setup.ports.len()],
            setup,
            store,
            compiler,
            publisher,
            collector: Collector::new(boards, now_ms),
            feeder,
            neighbours: Neighbours::default(),
            announcer: Announcer::default(),
            queries: Queries::default(),
            drains,
            states,
            remembered,
            rebalances: Vec::new(),
            templates: Census::default(),
            warned: BTreeSet::new(),
            unconfirmed: Vec::new(),
            last_change: LastChange { by: String::new(), at_ms: now_ms },
            conflicts: 0,
            started_ms: now_ms,
            now_ms,
            reclaimed_ms: now_ms,
            stop: false,
        };
        control.follow();
        control.warn();
        Ok(control)
    }

    /// The newest snapshot. Every worker starts with the one that is here after [`Control::new`]:
    /// it counts as given to all of them.
    #[must_use]
    pub const fn snapshot(&self) -> &Arc<Snapshot> {
        self.publisher.current()
    }

    /// Runs until stopped: by [`Control::stop`], by the flag, or when nobody can send jobs.
    pub fn run(mut self, jobs: &Receiver<Job>, stop: &AtomicBool) {
        while !self.stop && !stop.load(Ordering::Relaxed) {
            for _ in 0..JOBS {
                match jobs.try_recv() {
                    Ok(job) => job(&mut self),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        self.stop = true;
                        break;
                    }
                }
            }
            let now_ms = (self.setup.clock)();
            self.tick(now_ms);
            // The channel's own wait spins and yields before it sleeps: two thirds of this
            // thread's CPU time.
            std::thread::sleep(TICK);
        }
        self.remembered.save(&self.store, &self.states);
        let end = || Refusal::new(RefusalCode::Stopping, "the director stops");
        self.unconfirmed.drain(..).for_each(|u| (u.done)(Err(end())));
        self.queries.end(&end());
    }

    /// One turn, about every millisecond.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.take_events();
        let services = usize::from(self.setup.settings.director.max_services);
        self.collector.tick(self.store.slots().all().len(), services, now_ms);
        self.feeder.tick(self.store.version(), self.store.slots().all());
        self.states.tick(&self.store, &self.collector, &self.lives, now_ms);
        if now_ms >= self.reclaimed_ms + RECLAIM_MS {
            self.reclaim();
        }
        self.templates.tick(&self.setup.templates, &self.store, now_ms);
        for (change, by) in self.drains.tick(&self.store, now_ms) {
            self.apply(&[change], &by, Box::new(|_| {}));
        }
        self.remembered.tick(&self.store, &self.states, now_ms);
        for (service, Stand { lost, acting, open }) in self.states.news(&self.store, now_ms) {
            if lost {
                tracing::warn!(%service, new_connections = %acting, fail_open = open, "quorum lost");
            } else {
                tracing::info!(%service, new_connections = %acting, "quorum held");
            }
        }
        self.rebalances.retain_mut(|r| r.tick(&mut self.setup.lcores, now_ms));
        if self.publisher.current().version != self.store.version() {
            self.publisher.publish(self.compiler.compile(&self.store));
            self.follow();
        }
        for (lcore, link) in self.setup.lcores.iter_mut().enumerate() {
            self.publisher.give(lcore, &mut link.end);
        }
        let asked = self.neighbours.tick(&self.setup.hops, now_ms);
        let announced = self.announcer.tick(now_ms);
        asked.into_iter().chain(announced).for_each(|order| self.send(order));
        self.confirm();
        self.queries.tick(&mut self.setup.lcores, now_ms);
    }

    /// Applies changes as a whole or not at all; answers when all lcores use them, at most
    /// [`APPLY_MS`] later. `by` is who asked, for headers.
    pub fn apply(&mut self, changes: &[Change], by: &str, done: Done<Applied>) {
        let before = self.store.version();
        match self.store.apply(changes) {
            Err(refusal) => done(Err(refusal)),
            Ok(version) => {
                if version != before {
                    self.last_change = LastChange { by: by.to_owned(), at_ms: self.now_ms };
                }
                for change in changes {
                    self.drains.note(change, &self.store, by, self.now_ms);
                }
                let (deadline_ms, warnings) = (self.now_ms + APPLY_MS, self.warn());
                self.unconfirmed.push(Unconfirmed { version, deadline_ms, warnings, done });
            }
        }
    }

    /// Writes to the log, once, what operators should know of services; gives what is new.
    fn warn(&mut self) -> Vec<String> {
        let warnings = self.store.services().filter_map(|e| config::persistence::warning(&e.spec));
        let all: BTreeSet<String> = warnings.collect();
        let new: Vec<String> = all.difference(&self.warned).cloned().collect();
        self.warned = all;
        new.iter().for_each(|warning| tracing::warn!("{warning}"));
        new
    }

    /// Has the fullest servers of a service give up connections, `rate` per second; 0 stops it.
    ///
    /// # Errors
    /// When there is no such service.
    pub fn rebalance(&mut self, service: &ServiceRef, rate: u32) -> Result<Plan, Refusal> {
        let entry = self.store.service(service)?;
        let lines = self.store.slots().all();
        let of_member = |m: &Member| {
            let generation = lines[m.slot as usize].generation;
            let weight = self.states.of(m.slot).weight;
            let active = self.collector.counts(m.slot, generation).active;
            ((m.slot, generation), (u64::from(active), weight))
        };
        let (places, loads): (Vec<_>, Vec<_>) = entry.members.iter().map(of_member).unzip();
        let parts = places.into_iter().zip(excess(&loads)).filter(|(_, left)| *left > 0);
        let part = |((server, generation), left)| Part { server, generation, left };
        let parts = parts.map(part).collect();
        let parts = if rate == 0 { Vec::new() } else { parts };
        let (id, rebalance) = (entry.id, Rebalance::new(entry.id, rate, parts, self.now_ms));
        let plan = rebalance.plan();
        self.rebalances.retain(|r| r.service != id);
        if plan.connections > 0 {
            self.rebalances.push(rebalance);
        }
        Ok(plan)
    }

    /// Sets a server's health in all its services, on all lcores at once.
    ///
    /// # Errors
    /// When no service has such a server.
    pub fn set_health(&mut self, server: &ServerRef, health: Health) -> Result<Marked, Refusal> {
        self.states.mark(server, health, &self.store, &self.lives, self.now_ms)
    }

    /// Lists connections; answers when the lcores have, without those that are silent for 1 s.
    pub fn connections(&mut self, filter: &ConnFilter, done: Done<ConnPage>) {
        self.queries.begin(filter, &self.store, self.setup.lcores.len(), self.now_ms, done);
    }

    /// Counts start again from 0: of one service and its servers, or of everything.
    ///
    /// # Errors
    /// When there is no such service.
    pub fn zero(&mut self, service: Option<&ServiceRef>) -> Result<(), Refusal> {
        let only = service.map(|s| self.store.service(s).map(|e| e.id)).transpose()?;
        for (slot, s) in (0_u32..).zip(self.store.slots().all()) {
            if s.usage != Use::Free && only.is_none_or(|id| s.service == id) {
                self.collector.zero_slot(slot);
            }
        }
        for entry in self.store.services().filter(|e| only.is_none_or(|id| e.id == id)) {
            self.collector.zero_service(entry.id);
        }
        if only.is_none() {
            self.collector.zero_lcores();
            self.port_base = (0..self.port_base.len()).map(&self.setup.port_counters).collect();
            self.conflicts = 0;
        }
        Ok(())
    }

    /// Ends [`Control::run`]; the daemon then ends in order.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// Takes over what the newest snapshot names: weights first, so that no lcore meets a slot
    /// without one; then next hops and addresses.
    fn follow(&mut self) {
        self.states.follow(&self.store, &self.lives, self.now_ms);
        self.neighbours.follow(self.compiler.hops.in_use(), &self.setup.hops, self.now_ms);
        let mut announced = BTreeSet::new();
        let ports = self.setup.settings.ports.iter().enumerate().filter(|(_, p)| p.garp);
        for (port, _) in ports.take(64) {
            let locals = &self.publisher.current().locals;
            let here = locals.iter().filter(|l| l.ports >> port & 1 == 1);
            let port = u8::try_from(port).unwrap_or(u8::MAX);
            announced.extend(here.map(|l| (l.addr.into(), port)));
        }
        self.announcer.follow(announced, self.now_ms);
    }

    fn take_events(&mut self) {
        for lcore in 0..self.setup.lcores.len() {
            for _ in 0..EVENTS {
                let Ok(event) = self.setup.lcores[lcore].end.events.pop() else { break };
                self.event(lcore, event);
            }
        }
    }

    fn event(&mut self, lcore: usize, event: Event) {
        match event {
            Event::Retired(snapshot) => self.publisher.home(&snapshot),
            Event::Arp(heard) => self.heard(heard),
            Event::HopWanted(id) => self.neighbours.wanted(id),
            Event::Conn(row) => {
                let from = (lcore, self.setup.lcores[lcore].core);
                self.queries.row(from, &row, &self.store, self.now_ms);
            }
            Event::Declined(thin) => self.rebalances.iter_mut().for_each(|r| r.declined(thin)),
            Event::QueryDone { id, next } => self.queries.answered(lcore, id, next, self.now_ms),
        }
    }

    fn heard(&mut self, heard: ArpHeard) {
        if self.publisher.current().local(heard.addr).is_none() {
            self.neighbours.heard(heard, &self.setup.hops, self.now_ms);
        } else if !self.setup.ports.iter().any(|p| p.mac == heard.mac) {
            self.conflicts += 1;
            self.announcer.defend((heard.addr.into(), heard.port), self.now_ms);
        }
    }

    /// By the first lcore that turns and has room; a question or announcement that finds none is
    /// repeated anyway.
    fn send(&mut self, order: ArpOrder) {
        let silent = |i: usize| self.collector.silent_ms(i, self.now_ms) > 100;
        let mut lcores: Vec<usize> = (0..self.setup.lcores.len()).collect();
        lcores.sort_by_key(|i| silent(*i));
        for lcore in lcores {
            if self.setup.lcores[lcore].end.orders.push(Order::Arp(order)).is_ok() {
                return;
            }
        }
    }

    fn reclaim(&mut self) {
        self.reclaimed_ms = self.now_ms;
        let applied = self.collector.applied(self.store.version());
        let collector = &self.collector;
        let idle = |slot, generation| collector.counts(slot, generation) == Default::default();
        let freed = self.store.reclaim(applied, idle);
        self.collector.settle(&freed);
        let lines = &self.publisher.current().servers;
        let gone = freed.slots.iter().filter_map(|(slot, _)| lines.get(*slot as usize));
        gone.filter(|line| line.in_use).for_each(|line| self.compiler.hops.release(line.hop));
        if !freed.slots.is_empty() {
            // Nobody is asked for whom no server needs; the number waits for the next snapshot.
            self.neighbours.follow(self.compiler.hops.in_use(), &self.setup.hops, self.now_ms);
        }
        self.compiler.hops.reclaim(applied);
    }

    /// Answers the writes that all lcores use, and those that have waited long enough.
    fn confirm(&mut self) {
        for write in std::mem::take(&mut self.unconfirmed) {
            let behind = self.collector.behind(write.version);
            if behind.is_empty() {
                let lcores = self.setup.lcores.len();
                let (config, snapshot) = (write.version, self.publisher.current().version);
                let warnings = write.warnings;
                (write.done)(Ok(Applied { config, snapshot, lcores, warnings }));
            } else if self.now_ms >= write.deadline_ms {
                (write.done)(Err(self.not_yet(&behind)));
            } else {
                self.unconfirmed.push(write);
            }
        }
    }

    fn not_yet(&self, behind: &[usize]) -> Refusal {
        let lcores: Vec<u16> = behind.iter().map(|i| self.setup.lcores[*i].core).collect();
        let message = format!("the change is made, but lcores {lcores:?} do not use it yet");
        let refusal = Refusal::new(RefusalCode::NotYetApplied, message);
        Refusal { lcores, ..refusal.hint("sluicectl lcores: they take it as soon as they turn") }
    }
}
