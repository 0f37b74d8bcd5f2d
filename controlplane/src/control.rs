//! The control thread: owns the store, feeds the lcores, answers requests. Being built; the
//! signatures stand.
//!
//! Other threads reach it by [`Job`]s: closures that run on it between two ticks. A job must not
//! wait; what takes time (a write's acknowledgement, a list of connections) takes a [`Done`] and
//! answers later.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::spec::Timeouts;
use config::{ServiceRef, Settings};
use crossbeam::channel::{Receiver, RecvTimeoutError};
use engine::live::LiveView;
use engine::mailbox::ControlEnd;
use engine::neigh::HopTable;
use engine::snapshot::{PortFacts, Snapshot};
use engine::stats::LcoreBoard;

use crate::change::{Applied, Change, Refusal};
use crate::store::Store;
use crate::views::{
    ConnFilter, ConnPage, HeaderView, LcoreView, MemoryView, NeighbourView, PortCounters, PortView,
    ServiceView, StatsView,
};

/// Something to do on the control thread; must not wait.
pub type Job = Box<dyn FnOnce(&mut Control) + Send>;

/// Takes an answer, at once or later, on the control thread; must not wait.
pub type Done<T> = Box<dyn FnOnce(Result<T, Refusal>) + Send>;

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
    /// Next hops, shared with all lcores; should hold at least `max-servers` + ports.
    pub hops: Arc<HopTable>,
    /// The ports as they came up, in the order of the config.
    pub ports: Vec<PortFacts>,
    /// What the device of a port counts now.
    pub port_counters: Box<dyn Fn(usize) -> PortCounters + Send>,
    /// A monotonic clock, in ms.
    pub clock: Box<dyn Fn() -> u64 + Send>,
    /// Keeps strangers from aiming at one chain of the service table; random.
    pub seed: u64,
    /// Connections that all tables hold together.
    pub connections_max: u64,
    /// Bytes by what they are for.
    pub budget: Vec<(String, u64)>,
}

/// The control thread's whole state.
pub struct Control {
    setup: Setup,
    store: Store,
    stop: bool,
}

impl Control {
    /// Compiles the config; the first snapshot is ready for the lcores.
    ///
    /// # Errors
    /// When the config does not fit the limits or the ports.
    pub fn new(setup: Setup) -> Result<Self, Refusal> {
        Ok(Self { setup, store: Store::default(), stop: false })
    }

    /// The newest snapshot: what a worker starts with.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        None
    }

    /// Runs until stopped: by [`Control::stop`], by the flag, or when nobody can send jobs.
    pub fn run(mut self, jobs: &Receiver<Job>, stop: &AtomicBool) {
        while !self.stop && !stop.load(Ordering::Relaxed) {
            match jobs.recv_timeout(Duration::from_millis(1)) {
                Ok(job) => job(&mut self),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tick((self.setup.clock)());
        }
    }

    /// One turn, about every millisecond.
    pub fn tick(&mut self, now_ms: u64) {
        let _ = now_ms;
    }

    /// Applies changes as a whole or not at all; answers when all lcores use them, at most 1 s
    /// later. `by` is who asked, for headers.
    pub fn apply(&mut self, changes: &[Change], by: &str, done: Done<Applied>) {
        let _ = by;
        done(self.store.apply(changes));
    }

    /// Lists connections; answers when the lcores have, at most 1 s after each one's silence.
    pub fn connections(&mut self, filter: &ConnFilter, done: Done<ConnPage>) {
        let _ = filter;
        done(Ok(ConnPage::default()));
    }

    /// Counts start again from 0: of one service and its servers, or of everything.
    ///
    /// # Errors
    /// When there is no such service.
    pub fn zero(&mut self, service: Option<&ServiceRef>) -> Result<(), Refusal> {
        let _ = service;
        Ok(())
    }

    /// Ends [`Control::run`]; the daemon then ends in order.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// The first line of every list.
    #[must_use]
    pub fn header(&self) -> HeaderView {
        HeaderView::default()
    }

    /// All services, or one, with servers, counts and rates; in the order of addition.
    ///
    /// # Errors
    /// When there is no such service.
    pub fn services(&self, only: Option<&ServiceRef>) -> Result<Vec<ServiceView>, Refusal> {
        let _ = only;
        Ok(Vec::new())
    }

    /// The director's own counters and rates.
    #[must_use]
    pub fn stats(&self) -> StatsView {
        StatsView::default()
    }

    /// All lcores.
    #[must_use]
    pub fn lcores(&self) -> Vec<LcoreView> {
        Vec::new()
    }

    /// All ports.
    #[must_use]
    pub fn ports(&self) -> Vec<PortView> {
        Vec::new()
    }

    /// All next hops.
    #[must_use]
    pub fn neighbours(&self) -> Vec<NeighbourView> {
        Vec::new()
    }

    /// The idle times in force.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        Timeouts::default()
    }

    /// Occupancy and budget.
    #[must_use]
    pub fn memory(&self) -> MemoryView {
        MemoryView::default()
    }

    /// Settings and running services as the config file would say them.
    #[must_use]
    pub fn save(&self) -> String {
        config::save(&self.setup.settings)
    }
}
