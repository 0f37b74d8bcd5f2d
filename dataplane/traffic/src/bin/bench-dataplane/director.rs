//! The daemon's own worker between a source and a sink.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use dpdk::{Clock, Mempool, Touch, zeroed_huge};
use engine::conn::table::ConnTable;
use engine::flow::FlowHasher;
use engine::lcore::LcoreParts;
use engine::mailbox::{ControlEnd, mailbox};
use engine::out::Outlet;
use engine::owner::Peers;
use engine::sched::Who;
use engine::stats::{LcoreBoard, LcoreTotals, assert_laws};
use engine::templates::Templates;
use engine::ticks::Ticks;
use engine::worker::Worker;
use traffic::cost::Sample;
use traffic::sink::Sink;
use traffic::source::{Others, Source};
use traffic::template::Target;

use crate::setup::{self, Load, Setting, TARGET};

/// Milliseconds for which an entry lives that never saw more than a SYN.
pub(crate) const SYN_RECV_MS: u64 = 60_000;

/// A worker, and the time it lives in.
pub(crate) struct Director {
    worker: Worker<Source, Sink, Mempool>,
    pub(crate) board: Arc<LcoreBoard>,
    pub(crate) setting: Setting,
    pub(crate) others: Others,
    clock: Clock,
    /// Milliseconds added to the clock's.
    ahead: u64,
    _mail: ControlEnd,
}

impl Director {
    /// A director in its steady state: flows established, or as many expiring as beginning.
    pub(crate) fn new(pool: &Mempool, clock: Clock, setting: Setting) -> Result<Self> {
        let to = Target { ports: setting.services, ..TARGET };
        let others = Others::default();
        let source = match setting.load {
            Load::Hit(bits) | Load::Expire(bits) => {
                Source::of_known_flows(pool.clone(), to, bits, &others)
            }
            Load::New(_) => Source::of_new_flows(pool.clone(), to),
        };
        let (capacity, servers) = (setting.capacity(), usize::from(setting.servers));
        let memory = zeroed_huge(ConnTable::bytes(capacity), Touch::Now).context("a table")?;
        let table = ConnTable::new(memory.bytes, capacity).map_err(|e| anyhow!("table: {e:?}"))?;
        let board = Arc::new(LcoreBoard::new(servers, setting.services.into()));
        let (mail, end) = mailbox();
        let parts = LcoreParts {
            who: Who::ALONE,
            hasher: FlowHasher::new(1),
            table,
            board: Arc::clone(&board),
            live: Arc::new(setup::live(setting.servers)),
            hops: Arc::new(setup::hops(setting.servers)),
            templates: Arc::new(Templates::new(1, 1)),
            peers: Peers::connect(1).remove(0),
            outlets: vec![Outlet::new(Sink)],
        };
        let snapshot = Arc::new(setup::snapshot(setting));
        let worker = Worker::new(parts, vec![source], pool.clone(), end, snapshot);
        let mut director = Self { worker, board, setting, others, clock, ahead: 0, _mail: mail };
        director.settle()?;
        Ok(director)
    }

    /// Measures for `limit` CPU time, and checks that what should happen happened.
    pub(crate) fn run(&mut self, limit: Duration) -> Result<Sample> {
        Sample::take(limit / 10, || self.turn());
        let (sample, seen) = self.watch(|director| Sample::take(limit, || director.turn()))?;
        self.check_entries(&seen)?;
        Ok(sample)
    }

    /// A measurement, of which every frame has gone the whole way, and what was counted meanwhile.
    pub(crate) fn watch(
        &mut self,
        measure: impl FnOnce(&mut Self) -> Sample,
    ) -> Result<(Sample, LcoreTotals)> {
        let before = self.board.stats.read();
        let sample = measure(self);
        let after = self.board.stats.read();
        let seen = after.since(&before);
        assert_laws(&after);
        ensure!(seen.received > 0 && seen.received == sample.packets, "frames missing: {seen:?}");
        ensure!(seen.forwarded == seen.received && seen.sent == seen.received, "lost: {seen:?}");
        // A bucket pair that is full early: the table promises fewer than one in ten thousand.
        ensure!(seen.untracked <= seen.received / 10_000, "untracked: {seen:?}");
        Ok((sample, seen))
    }

    fn check_entries(&self, seen: &LcoreTotals) -> Result<()> {
        let (alive, begun) = (self.board.stats.entries.get(), seen.created + seen.untracked);
        // A timer comes up to 128 ms late, of 60 s; and one burst is under way.
        let (flows, slack) = match self.setting.load {
            Load::Hit(bits) | Load::Expire(bits) => {
                ensure!(seen.created + seen.ended == 0, "a known flow was none: {seen:?}");
                (1_u64 << bits, (1 << bits) / 10_000)
            }
            Load::New(bits) => {
                ensure!(begun == seen.received, "a new flow was none: {seen:?}");
                (1 << bits, (1 << bits) / 256 + 64)
            }
        };
        ensure!(alive.abs_diff(flows) <= slack, "{alive} entries, not {flows}");
        ensure!(seen.created.abs_diff(seen.ended) <= 2 * slack, "not steady: {seen:?}");
        Ok(())
    }

    /// One turn; gives the packets it received.
    #[inline(always)]
    fn turn(&mut self) -> u64 {
        let (received, ahead) = (self.board.stats.received.get(), self.ahead);
        match self.setting.load {
            Load::Hit(_) | Load::Expire(_) => self.turn_at(|real| real.0 + ahead),
            Load::New(bits) => self.turn_at(|_| (received * SYN_RECV_MS) >> bits),
        }
    }

    /// One turn at a time that may follow from the clock's. The daemon reads the counter each turn,
    /// so that price is paid also where time is made up.
    #[inline(always)]
    pub(crate) fn turn_at(&mut self, now: impl Fn(Ticks) -> u64) -> u64 {
        let before = self.board.stats.received.get();
        let real = black_box(self.clock.now());
        self.worker.turn(Ticks(now(real)));
        self.board.stats.received.get() - before
    }

    /// Comes to the steady state.
    fn settle(&mut self) -> Result<()> {
        match self.setting.load {
            Load::Hit(bits) | Load::Expire(bits) => {
                self.receive(2 << bits)?;
                // Entries were armed for half-open flows. Their visits are over before it begins.
                self.ahead = SYN_RECV_MS + 1000;
                while self.board.stats.rearmed.get() < self.board.stats.entries.get() {
                    ensure!(self.turn() > 0, "the source ran dry");
                    ensure!(self.board.stats.ended.get() == 0, "a flow ended early");
                }
                Ok(())
            }
            // Places that were never used are used up, too.
            Load::New(bits) => self.receive(u64::from(self.setting.capacity()) + (2 << bits)),
        }
    }

    fn receive(&mut self, packets: u64) -> Result<()> {
        while self.board.stats.received.get() < packets {
            ensure!(self.turn() > 0, "the source ran dry");
        }
        Ok(())
    }

    /// The time that it lives in when no other is made up.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().0 + self.ahead
    }
}
