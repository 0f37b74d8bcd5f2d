//! The lcore's loop: receive and verify, make and send, never wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use dpdk::{Mbuf, Mempool, cycles};
use engine::frame::{BURST, Frame, FrameVec};
use engine::queue::{RxQueue, TxQueue};
use traffic::packet::{Wire, Writer};
use traffic::plan::{Flows, Plan};
use traffic::servers::Servers;
use traffic::tally::{Latency, Tally};
use traffic::verify::Verifier;

use crate::args::Run;
use crate::device::{self, Queues, Residents};

/// A second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// How long stragglers are awaited after the last that came (RFC 2544 23), and at most.
const DRAIN: u64 = 2 * SECOND;
const DRAIN_MOST: u64 = 10 * SECOND;
/// Packets that may be made up for when the machine was elsewhere: more at once would fill a ring.
const CREDIT: f64 = 256.0;
/// Empty turns before the core is given away: a virtual device's peer may need it.
const IDLE: u32 = 1000;

/// What the other threads may want of the loop.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// End the load.
    pub(crate) stop: AtomicBool,
    /// End the program: set once, by a signal.
    pub(crate) quit: AtomicBool,
    /// Packets per second from now on; 0: as the load says.
    pub(crate) rate: AtomicU64,
}

impl Wishes {
    pub(crate) fn quit(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Packets per second; infinite: line rate.
    pub(crate) rate: f64,
    /// Nanoseconds.
    pub(crate) lasts: u64,
    /// At most so many packets.
    pub(crate) packets: u64,
    /// Goes on until all flows are open, whatever the other limits say.
    pub(crate) opens: bool,
}

/// A second of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    /// Its end, in seconds since the load began.
    pub(crate) at: f64,
    /// Its length, in seconds.
    pub(crate) lasted: f64,
    /// Packets sent in it.
    pub(crate) sent: u64,
    /// Packets received in it.
    pub(crate) received: u64,
    /// Half of its packets took at most this, in nanoseconds.
    pub(crate) p50: u64,
    /// Of hundred, 99.
    pub(crate) p99: u64,
    /// Faults so far.
    pub(crate) faults: u64,
}

/// Devices, flows and what is known of them.
pub(crate) struct Bench<'a> {
    ports: Vec<Queues>,
    pool: Mempool,
    residents: Residents,
    plan: Plan,
    writer: Writer,
    verifier: Verifier,
    named: Vec<traffic::servers::Server>,
    hz: u64,
    origin: u64,
    wishes: &'a Wishes,
}

impl<'a> Bench<'a> {
    /// Finds the director; nothing is sent yet.
    pub(crate) fn new(
        run: &Run,
        mut ports: Vec<Queues>,
        mut pool: Mempool,
        hz: u64,
        wishes: &'a Wishes,
    ) -> Result<Self> {
        let residents = Residents::new(run);
        let to = match run.to {
            Some(mac) => mac,
            None => {
                device::find_director(&mut ports[0], &mut pool, (run.vip(), &residents), wishes)?
            }
        };
        let wire = Wire {
            from: ports[0].mac,
            to,
            transport: run.transport(),
            vip: run.vip(),
            port: run.vip.port(),
            sizes: run.sizes(),
            life: run.life(),
            migrating: run.migrate,
            // Packets of an earlier run are no fault of this one.
            seed: run.seed ^ cycles(),
        };
        let writer = Writer::new(wire);
        ensure!(writer.longest() <= pool.frame_len().into(), "frames longer than a buffer");
        let (plan, named) = (Plan::new(run.plan()), run.servers.clone());
        let verifier = Verifier::new(writer.clone(), Servers::new(&named), run.flows);
        let origin = cycles();
        Ok(Self { ports, pool, residents, plan, writer, verifier, named, hz, origin, wishes })
    }

    /// Other flows from now on, which are not open yet; numbers of old ones are not known again.
    pub(crate) fn renew(&mut self, flows: Flows) {
        let mut wire = self.writer.wire().clone();
        (wire.life, wire.seed) = (flows.life, wire.seed.wrapping_add(1));
        self.writer = Writer::new(wire);
        self.plan = Plan::new(flows);
        let servers = Servers::new(&self.named);
        self.verifier = Verifier::new(self.writer.clone(), servers, flows.count);
    }

    /// Names of the servers, by number.
    pub(crate) fn servers(&self) -> &[String] {
        self.verifier.servers().names()
    }

    /// Flows that each has now.
    pub(crate) fn living(&self) -> Vec<u64> {
        self.verifier.living()
    }

    /// TTL lost on the way, least and most.
    pub(crate) fn hops(&self) -> Option<(u8, u8)> {
        self.verifier.hops
    }

    /// Whether the end of all loads is wanted.
    pub(crate) fn is_stopped(&self) -> bool {
        self.wishes.stop.load(Ordering::Relaxed) || self.wishes.quit()
    }

    /// Sends a load and waits for stragglers.
    pub(crate) fn play(&mut self, load: Load, mut each: impl FnMut(Second)) -> Tally {
        self.verifier.tally = Tally::default();
        let (begun, start) = (self.plan.begun(), self.now());
        let mut stage = Stage::new(start, load);
        while !stage.is_over(self) {
            self.turn(&mut stage);
            if stage.now >= stage.second_began + SECOND {
                each(stage.second(&mut self.verifier.tally));
            }
        }
        self.verifier.tally.lasted = stage.now - start;
        // What the device has not taken was never sent.
        stage.pending.clear();
        self.drain(&mut stage);
        let mut last = stage.second(&mut self.verifier.tally);
        if last.lasted > 0.2 || last.sent > 0 {
            // Stragglers take no part in the length of the last second.
            last.lasted = (last.lasted - stage.drained()).max(1e-3);
            last.at -= stage.drained();
            each(last);
        }
        let mut tally = std::mem::take(&mut self.verifier.tally);
        tally.latency = stage.latency;
        tally.counts.begun = self.plan.begun() - begun;
        tally
    }

    fn drain(&mut self, stage: &mut Stage) {
        (stage.load.rate, stage.credit, stage.ended) = (0.0, 0.0, Some(stage.now));
        let (began, mut last, mut lost) = (stage.now, stage.now, u64::MAX);
        while stage.now < (last + DRAIN).min(began + DRAIN_MOST) && lost > 0 {
            self.turn(stage);
            let left = self.verifier.tally.counts.lost();
            if left < lost {
                (last, lost) = (stage.now, left);
            }
        }
    }

    fn turn(&mut self, stage: &mut Stage) {
        stage.now = self.now();
        let heard = self.receive(stage.now);
        if stage.pending.is_empty() && stage.ended.is_none() {
            self.fill(stage);
        }
        let sent = self.send(&mut stage.pending);
        stage.rest(heard + sent > 0);
    }

    fn receive(&mut self, now: u64) -> usize {
        let mut heard = 0;
        let mut frames = FrameVec::new();
        for n in 0..self.ports.len() {
            self.ports[n].rx.rx_burst(&mut frames);
            heard += frames.len();
            frames.iter().for_each(|frame| self.verifier.take(frame.bytes(), now));
            if self.verifier.tally.counts.arp > 0 {
                self.verifier.tally.counts.arp = 0;
                frames.take().into_iter().for_each(|f| {
                    device::answer(&mut self.ports[n], &self.residents, f);
                });
            }
            Mbuf::free_bulk(&mut frames);
        }
        heard
    }

    /// Makes the packets that are due.
    fn fill(&mut self, stage: &mut Stage) {
        // The warm-up keeps its share.
        let asked = if stage.load.opens { 0 } else { self.wishes.rate.load(Ordering::Relaxed) };
        let count = stage.due(asked).min(stage.load.packets - stage.made) as usize;
        let longest = self.writer.longest();
        let pending = &mut stage.pending;
        if count == 0 || !self.pool.alloc_bulk(pending, count, longest) {
            return;
        }
        let mut filled = 0;
        for frame in pending.iter_mut() {
            let Some(segment) = self.plan.next(stage.now) else { break };
            frame.truncate(self.writer.len(segment));
            self.writer.write(segment, stage.now, frame.bytes_mut());
            filled += 1;
        }
        pending.truncate(filled);
        stage.made += filled as u64;
        stage.credit -= filled as f64;
    }

    fn send(&mut self, pending: &mut FrameVec<Mbuf>) -> usize {
        let weigh = |frames: &FrameVec<Mbuf>| frames.iter().map(|f| f.bytes().len()).sum::<usize>();
        if pending.is_empty() {
            return 0;
        }
        let (count, bytes) = (pending.len(), weigh(pending));
        self.ports[0].tx.tx_burst(pending);
        let sent = count - pending.len();
        let counts = &mut self.verifier.tally.counts;
        counts.sent += sent as u64;
        counts.sent_bytes += (bytes - weigh(pending)) as u64;
        sent
    }

    /// Nanoseconds since the bench was made.
    fn now(&self) -> u64 {
        let cycles = u128::from(cycles().saturating_sub(self.origin));
        (cycles * u128::from(SECOND) / u128::from(self.hz)) as u64
    }
}

/// Where a load is.
struct Stage {
    load: Load,
    now: u64,
    start: u64,
    /// Packets made.
    made: u64,
    /// Made and not yet taken by the device.
    pending: FrameVec<Mbuf>,
    /// Packets due.
    credit: f64,
    credited: u64,
    second_began: u64,
    /// Sent and received before this second.
    before: (u64, u64),
    /// Latencies of all seconds so far.
    latency: Latency,
    empty: u32,
    /// Set when only stragglers are awaited.
    ended: Option<u64>,
}

impl Stage {
    fn new(start: u64, load: Load) -> Self {
        Self {
            load,
            now: start,
            start,
            made: 0,
            pending: FrameVec::new(),
            credit: 0.0,
            credited: start,
            second_began: start,
            before: (0, 0),
            latency: Latency::default(),
            empty: 0,
            ended: None,
        }
    }

    fn is_over(&self, bench: &Bench) -> bool {
        let opening = self.load.opens && bench.plan.is_opening();
        let done = self.now - self.start >= self.load.lasts
            || self.made >= self.load.packets && self.pending.is_empty();
        bench.is_stopped() || done && !opening
    }

    /// How many packets to make now.
    fn due(&mut self, asked: u64) -> u64 {
        let rate = if asked > 0 { asked as f64 } else { self.load.rate };
        if rate.is_infinite() {
            return BURST as u64;
        }
        let passed = (self.now - self.credited) as f64 / SECOND as f64;
        self.credited = self.now;
        self.credit = (self.credit + passed * rate).min(CREDIT);
        (self.credit as u64).min(BURST as u64)
    }

    fn second(&mut self, tally: &mut Tally) -> Second {
        let (counts, (sent, received)) = (&tally.counts, self.before);
        let second = Second {
            at: (self.now - self.start) as f64 / SECOND as f64,
            lasted: (self.now - self.second_began) as f64 / SECOND as f64,
            sent: counts.sent - sent,
            received: counts.received - received,
            p50: tally.latency.at(0.5),
            p99: tally.latency.at(0.99),
            faults: counts.faults(),
        };
        self.before = (counts.sent, counts.received);
        self.second_began = self.now;
        self.latency.merge(&tally.latency);
        tally.latency.clear();
        second
    }

    fn drained(&self) -> f64 {
        self.ended.map_or(0.0, |end| (self.now - end) as f64 / SECOND as f64)
    }

    fn rest(&mut self, is_busy: bool) {
        self.empty = if is_busy { 0 } else { self.empty + 1 };
        if self.empty >= IDLE {
            self.empty = 0;
            std::thread::yield_now();
        }
    }
}
