//! Sums over lcores, baselines, rates.
//!
//! Lcores count upwards for ever; nothing is ever reset there. `zero`, and a slot or service index
//! that means something new, are baselines kept here. A slot that becomes free is settled: what it
//! counted goes to its service's account, so totals of a service survive its servers, and the next
//! server of the slot starts from 0.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use engine::service::ServiceId;
use engine::stats::{ConnCounts, LcoreBoard, LcoreTotals};
use engine::turns::Turns;

use crate::store::Freed;
use crate::views::{ServerRates, ServerTotals, ServiceRates, ServiceTotals};

/// Time between two samples, in ms.
const SAMPLE_MS: u64 = 500;
/// Samples kept: rates are means over the time between the first and the last, 2 s.
const SAMPLES: usize = 5;

/// What is counted for a service by itself, not by its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Own {
    untracked: u64,
    stray: u64,
    no_server: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
struct Sample {
    at_ms: u64,
    lcores: Vec<LcoreTotals>,
    servers: Vec<ServerTotals>,
    services: Vec<Own>,
}

/// When an lcore turned last.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    turns: u64,
    since_ms: u64,
}

/// The collector.
#[derive(Debug)]
pub struct Collector {
    boards: Vec<Arc<LcoreBoard>>,
    samples: VecDeque<Sample>,
    pulses: Vec<Pulse>,
    base_servers: Vec<ServerTotals>,
    base_services: Vec<Own>,
    settled: HashMap<ServiceId, ServerTotals>,
    base_lcores: Vec<(LcoreTotals, Turns)>,
}

impl Collector {
    /// For these lcores, none of which has turned yet.
    #[must_use]
    pub fn new(boards: Vec<Arc<LcoreBoard>>, now_ms: u64) -> Self {
        let servers = boards.first().map_or(0, |b| b.servers.len());
        let services = boards.first().map_or(0, |b| b.services.len());
        Self {
            pulses: vec![Pulse { turns: 0, since_ms: now_ms }; boards.len()],
            base_lcores: vec![Default::default(); boards.len()],
            boards,
            samples: VecDeque::new(),
            base_servers: vec![ServerTotals::default(); servers],
            base_services: vec![Own::default(); services],
            settled: HashMap::new(),
        }
    }

    /// Looks at the lcores' pulses, and takes a sample when one is due.
    pub fn tick(&mut self, slots: usize, services: usize, now_ms: u64) {
        for (pulse, board) in self.pulses.iter_mut().zip(&self.boards) {
            let turns = board.stats.turns.get();
            if turns != pulse.turns {
                *pulse = Pulse { turns, since_ms: now_ms };
            }
        }
        if self.samples.back().is_some_and(|s| now_ms < s.at_ms + SAMPLE_MS) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        let sample = Sample {
            at_ms: now_ms,
            lcores: self.boards.iter().map(|b| b.stats.read()).collect(),
            servers: (0..slots).map(|s| self.raw_server(s)).collect(),
            services: (0..services).map(|s| self.raw_service(s)).collect(),
        };
        self.samples.push_back(sample);
    }

    /// ActiveConn and InActConn of a slot over all lcores.
    #[must_use]
    pub fn counts(&self, slot: u32, generation: u16) -> ConnCounts {
        let each = self.boards.iter().map(|b| b.servers[slot as usize].counts(generation));
        each.fold(ConnCounts::default(), |sum, c| ConnCounts {
            active: sum.active.saturating_add(c.active),
            inactive: sum.inactive.saturating_add(c.inactive),
        })
    }

    /// The oldest snapshot that an lcore uses; `newest` when there is no lcore.
    #[must_use]
    pub fn applied(&self, newest: u64) -> u64 {
        self.boards.iter().map(|b| b.stats.snapshot.get()).min().unwrap_or(newest)
    }

    /// The lcores, by position, that use an older snapshot than `version`.
    #[must_use]
    pub fn behind(&self, version: u64) -> Vec<usize> {
        let behind = |i: &usize| self.boards[*i].stats.snapshot.get() < version;
        (0..self.boards.len()).filter(behind).collect()
    }

    /// For how long an lcore has not turned, in ms.
    #[must_use]
    pub fn silent_ms(&self, lcore: usize, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.pulses[lcore].since_ms)
    }

    /// What a slot counted in its present life, or since `zero`.
    #[must_use]
    pub fn server(&self, slot: u32) -> ServerTotals {
        let at = slot as usize;
        minus(self.raw_server(at), self.base_servers[at])
    }

    /// A slot's rates.
    #[must_use]
    pub fn server_rates(&self, slot: u32) -> ServerRates {
        let now = |s: &Sample| s.servers.get(slot as usize).copied().unwrap_or_default();
        let (count, seconds) = self.span(|new, old| minus(now(new), now(old)));
        rates_of(count, seconds)
    }

    /// What a service counted: `slots` are those of its servers, of now and before.
    #[must_use]
    pub fn service(&self, id: ServiceId, slots: &[u32]) -> ServiceTotals {
        let of_service = slots.iter().map(|slot| self.server(*slot));
        let settled = self.settled.get(&id).copied().unwrap_or_default();
        let sum = of_service.fold(settled, plus);
        let own = own_minus(self.raw_service(usize::from(id)), self.base_services[usize::from(id)]);
        ServiceTotals {
            conns: sum.conns,
            in_packets: sum.in_packets,
            in_bytes: sum.in_bytes,
            syn_retransmits: sum.syn_retransmits,
            untracked: own.untracked,
            stray_packets: own.stray,
            no_server: own.no_server,
        }
    }

    /// A service's rates: `slots` are those of its servers, of now and before.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "rates are shown with few digits")]
    pub fn service_rates(&self, id: ServiceId, slots: &[u32]) -> ServiceRates {
        let mut rates = ServiceRates::default();
        for slot in slots {
            let server = self.server_rates(*slot);
            rates.cps += server.cps;
            rates.in_pps += server.in_pps;
            rates.in_bits += server.in_bits;
            rates.syn_retransmits += server.syn_retransmits;
        }
        let now = |s: &Sample| s.services.get(usize::from(id)).copied().unwrap_or_default();
        let (own, seconds) = self.span(|new, old| own_minus(now(new), now(old)));
        rates.untracked = own.untracked as f64 / seconds;
        rates.stray = own.stray as f64 / seconds;
        rates.no_server = own.no_server as f64 / seconds;
        rates
    }

    /// The sum over lcores since `zero`; gauges count from 0 too and are for the caller to replace.
    #[must_use]
    pub fn director(&self) -> LcoreTotals {
        let mut sum = LcoreTotals::default();
        (0..self.boards.len()).for_each(|i| sum.add(&self.lcore(i)));
        sum
    }

    /// The sum over lcores since the start.
    #[must_use]
    pub fn sum(&self) -> LcoreTotals {
        let mut sum = LcoreTotals::default();
        self.boards.iter().for_each(|b| sum.add(&b.stats.read()));
        sum
    }

    /// One lcore since `zero`; gauges count from 0 too, see [`Collector::lcore_now`].
    #[must_use]
    pub fn lcore(&self, lcore: usize) -> LcoreTotals {
        self.lcore_now(lcore).since(&self.base_lcores[lcore].0)
    }

    /// One lcore since the start, with its gauges as they are.
    #[must_use]
    pub fn lcore_now(&self, lcore: usize) -> LcoreTotals {
        self.boards[lcore].stats.read()
    }

    /// How long one lcore's turns took since `zero`.
    #[must_use]
    pub fn turns(&self, lcore: usize) -> Turns {
        self.boards[lcore].turns.read().since(&self.base_lcores[lcore].1)
    }

    /// What one lcore counted in the last 2 s, and how many seconds these are.
    #[must_use]
    pub fn lcore_lately(&self, lcore: usize) -> (LcoreTotals, f64) {
        let now = |s: &Sample| s.lcores.get(lcore).cloned().unwrap_or_default();
        self.span(|new, old| now(new).since(&now(old)))
    }

    /// Becomes 0 for some slots and services: what became free is settled first.
    pub fn settle(&mut self, freed: &Freed) {
        for (slot, service) in &freed.slots {
            let account = self.settled.get(service).copied().unwrap_or_default();
            self.settled.insert(*service, plus(account, self.server(*slot)));
            self.zero_slot(*slot);
        }
        for service in &freed.services {
            self.zero_service(*service);
        }
    }

    /// A slot counts from 0.
    pub fn zero_slot(&mut self, slot: u32) {
        self.base_servers[slot as usize] = self.raw_server(slot as usize);
    }

    /// A service counts from 0, apart from its slots.
    pub fn zero_service(&mut self, id: ServiceId) {
        self.settled.remove(&id);
        self.base_services[usize::from(id)] = self.raw_service(usize::from(id));
    }

    /// The lcores count from 0.
    pub fn zero_lcores(&mut self) {
        let now = |b: &Arc<LcoreBoard>| (b.stats.read(), b.turns.read());
        self.base_lcores = self.boards.iter().map(now).collect();
    }

    fn raw_server(&self, slot: usize) -> ServerTotals {
        let read = |b: &Arc<LcoreBoard>| {
            let s = &b.servers[slot];
            ServerTotals {
                conns: s.conns.get(),
                in_packets: s.in_packets.get(),
                in_bytes: s.in_bytes.get(),
                syn_retransmits: s.syn_retransmits.get(),
            }
        };
        self.boards.iter().map(read).fold(ServerTotals::default(), plus)
    }

    fn raw_service(&self, id: usize) -> Own {
        self.boards.iter().fold(Own::default(), |sum, b| {
            let s = &b.services[id];
            Own {
                untracked: sum.untracked + s.untracked.get(),
                stray: sum.stray + s.stray.get(),
                no_server: sum.no_server + s.no_server.get(),
            }
        })
    }

    /// What `between` makes of the newest and the oldest sample, and the seconds between them.
    #[allow(clippy::cast_precision_loss, reason = "a few seconds in ms")]
    fn span<T: Default>(&self, between: impl Fn(&Sample, &Sample) -> T) -> (T, f64) {
        match (self.samples.back(), self.samples.front()) {
            (Some(new), Some(old)) if new.at_ms > old.at_ms => {
                (between(new, old), (new.at_ms - old.at_ms) as f64 / 1000.0)
            }
            _ => (T::default(), 1.0),
        }
    }
}

fn plus(a: ServerTotals, b: ServerTotals) -> ServerTotals {
    ServerTotals {
        conns: a.conns.wrapping_add(b.conns),
        in_packets: a.in_packets.wrapping_add(b.in_packets),
        in_bytes: a.in_bytes.wrapping_add(b.in_bytes),
        syn_retransmits: a.syn_retransmits.wrapping_add(b.syn_retransmits),
    }
}

fn minus(a: ServerTotals, b: ServerTotals) -> ServerTotals {
    ServerTotals {
        conns: a.conns.wrapping_sub(b.conns),
        in_packets: a.in_packets.wrapping_sub(b.in_packets),
        in_bytes: a.in_bytes.wrapping_sub(b.in_bytes),
        syn_retransmits: a.syn_retransmits.wrapping_sub(b.syn_retransmits),
    }
}

fn own_minus(a: Own, b: Own) -> Own {
    Own {
        untracked: a.untracked.wrapping_sub(b.untracked),
        stray: a.stray.wrapping_sub(b.stray),
        no_server: a.no_server.wrapping_sub(b.no_server),
    }
}

#[allow(clippy::cast_precision_loss, reason = "rates are shown with few digits")]
fn rates_of(count: ServerTotals, seconds: f64) -> ServerRates {
    ServerRates {
        cps: count.conns as f64 / seconds,
        in_pps: count.in_packets as f64 / seconds,
        in_bits: count.in_bytes as f64 * 8.0 / seconds,
        syn_retransmits: count.syn_retransmits as f64 / seconds,
    }
}
