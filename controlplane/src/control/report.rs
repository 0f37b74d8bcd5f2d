//! Views: what lists and statistics show, made from what the control thread knows. Nothing here
//! waits for an lcore.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use config::spec::{Forward, Timeouts};
use config::{ServiceRef, ServiceSpec, Settings, save};
use engine::service::ServiceId;
use engine::stats::LcoreTotals;
use engine::turns::Turns;
use engine::verdict::DropReason;

use super::Control;
use crate::change::Refusal;
use crate::document::Statistics;
use crate::states::Why;
use crate::store::{Entry, Member};
use crate::views::{
    DrainView, HeaderView, LcoreView, MemoryView, NeighbourView, PortCounters, PortView,
    ServerView, ServiceView, StatsView, TurnBucket, TurnsView,
};

/// Counters that say how much there is, not how much there was.
const GAUGES: [&str; 5] = ["queued", "waiting", "entries", "entries_peak", "snapshot"];
/// A sum of versions says nothing.
const NOT_SUMMED: [&str; 1] = ["snapshot"];

impl Control {
    /// The first line of every list.
    #[must_use]
    pub fn header(&self) -> HeaderView {
        let lcores = self.setup.lcores.len();
        let behind = self.collector.behind(self.store.version()).len();
        let busy = (0..lcores).map(|i| self.busy_percent(i));
        HeaderView {
            name: self.setup.settings.director.name.clone(),
            uptime_secs: (self.now_ms - self.started_ms) / 1000,
            config: self.store.version(),
            as_file: self.is_as_file(),
            file: self.setup.file.display().to_string(),
            by: self.last_change.by.clone(),
            changed_secs: (self.now_ms - self.last_change.at_ms) / 1000,
            lcores_current: lcores - behind,
            lcores,
            busiest_percent: busy.fold(0.0, f64::max),
            connections: self.collector.sum().entries,
            connections_max: self.setup.connections_max,
        }
    }

    /// All services, or one, with servers, counts and rates; in the order of addition.
    ///
    /// # Errors
    /// When there is no such service.
    pub fn services(&self, only: Option<&ServiceRef>) -> Result<Vec<ServiceView>, Refusal> {
        let mut slots: HashMap<ServiceId, Vec<u32>> = HashMap::new();
        for (slot, s) in (0_u32..).zip(self.store.slots().all()).filter(|(_, s)| !s.is_free()) {
            slots.entry(s.service).or_default().push(slot);
        }
        let view =
            |e: &Arc<Entry>| self.service_view(e, slots.get(&e.id).map_or(&[], Vec::as_slice));
        match only {
            Some(service) => Ok(vec![view(self.store.service(service)?)]),
            None => Ok(self.store.services().map(view).collect()),
        }
    }

    /// The director's own counters and rates.
    #[must_use]
    pub fn stats(&self) -> StatsView {
        let (since, now) = (self.collector.director(), self.collector.sum());
        let mut view = StatsView {
            totals: counters(&since, &now, is_summed),
            drops: drops(&since),
            address_conflicts: self.conflicts,
            ..StatsView::default()
        };
        for lcore in 0..self.setup.lcores.len() {
            let (lately, seconds) = self.collector.lcore_lately(lcore);
            let counted = lately.named().into_iter().filter(is_summed);
            for (name, count) in counted.filter(|(name, _)| !GAUGES.contains(name)) {
                *view.rates.entry(name.to_owned()).or_default() += per_second(count, seconds);
            }
            for (name, count) in drops(&lately) {
                *view.drop_rates.entry(name).or_default() += per_second(count, seconds);
            }
        }
        for port in 0..self.setup.ports.len() {
            let counters = self.counters_of(port);
            view.imissed += counters.imissed;
            view.rx_nombuf += counters.rx_nombuf;
        }
        view
    }

    /// Everything that is counted: of all services, or of one.
    ///
    /// # Errors
    /// There is no such service.
    pub fn statistics(&self, only: Option<&ServiceRef>) -> Result<Statistics, Refusal> {
        Ok(Statistics {
            director: self.header(),
            services: self.services(only)?,
            stats: self.stats(),
            memory: self.memory(),
            busy_percent: self.lcores().iter().map(|l| l.busy_percent).collect(),
        })
    }

    /// All lcores.
    #[must_use]
    pub fn lcores(&self) -> Vec<LcoreView> {
        (0..self.setup.lcores.len()).map(|i| self.lcore_view(i)).collect()
    }

    /// All ports.
    #[must_use]
    pub fn ports(&self) -> Vec<PortView> {
        let ports = self.setup.settings.ports.iter().zip(&self.setup.ports).enumerate();
        let view = |(i, (port, facts)): (usize, (&config::settings::Port, _))| {
            let facts: &engine::snapshot::PortFacts = facts;
            PortView {
                name: port.name.clone(),
                device: port.device.clone(),
                mac: facts.mac,
                mtu: facts.mtu,
                addresses: port.addresses.iter().map(ToString::to_string).collect(),
                gateway: port.gateway,
                counters: self.counters_of(i),
            }
        };
        ports.map(view).collect()
    }

    /// All next hops.
    #[must_use]
    pub fn neighbours(&self) -> Vec<NeighbourView> {
        let ports = &self.setup.settings.ports;
        let view = |n: crate::neighbours::Neighbour| NeighbourView {
            address: n.hop.address,
            port: ports.get(usize::from(n.hop.port)).map_or_else(String::new, |p| p.name.clone()),
            mac: n.mac,
            state: n.state.name().to_owned(),
            age_ms: n.confirmed_ms.map(|t| self.now_ms.saturating_sub(t)),
            asked: n.asked,
            servers: n.servers,
        };
        self.neighbours.list().into_iter().map(view).collect()
    }

    /// The idle times in force.
    #[must_use]
    pub const fn timeouts(&self) -> Timeouts {
        self.store.timeouts()
    }

    /// Occupancy and budget.
    #[must_use]
    pub fn memory(&self) -> MemoryView {
        let sum = self.collector.sum();
        let director = &self.setup.settings.director;
        MemoryView {
            connections: sum.entries,
            connections_max: self.setup.connections_max,
            connections_peak: sum.entries_peak,
            insert_failures: sum.insert_failures,
            flood_guarded: sum.flood_guarded,
            half_open_evicted: sum.half_open_evicted,
            template_failures: sum.template_failures,
            server_slots: self.store.slots().used() as u64,
            server_slots_max: director.max_servers.into(),
            templates: self.templates.living(),
            templates_max: director.templates,
            templates_peak: self.templates.peak(),
            services: self.store.services().len() as u64,
            services_max: director.max_services.into(),
            budget: self.setup.budget.iter().cloned().collect(),
        }
    }

    /// Settings and running services as the config file would say them.
    #[must_use]
    pub fn save(&self) -> String {
        let mut settings: Settings = self.setup.settings.clone();
        settings.director.timeouts = self.store.timeouts();
        settings.services = self.specs();
        save(&settings)
    }

    /// All services as an operator would say them.
    #[must_use]
    pub fn specs(&self) -> Vec<ServiceSpec> {
        self.store.services().map(|e| e.full_spec()).collect()
    }

    fn is_as_file(&self) -> bool {
        let file = &self.setup.settings;
        self.store.version() == 1
            || (file.director.timeouts == self.store.timeouts()
                && self.store.services().len() == file.services.len()
                && self.store.services().zip(&file.services).all(|(e, spec)| e.says(spec)))
    }

    fn service_view(&self, entry: &Entry, slots: &[u32]) -> ServiceView {
        let all = self.store.slots().all();
        let living = slots.iter().filter(|slot| all[**slot as usize].resolves());
        let counts =
            living.map(|slot| self.collector.counts(*slot, all[*slot as usize].generation));
        let (active, inactive) =
            counts.fold((0, 0), |(a, i), c| (a + u64::from(c.active), i + u64::from(c.inactive)));
        let (spec, stand) = (&entry.spec, self.states.stand(entry.id));
        ServiceView {
            name: spec.name.clone(),
            protocol: spec.protocol,
            address: spec.address,
            port: spec.port,
            scheduler: spec.scheduler,
            flags: spec.flags,
            forward: spec.forward,
            stray: spec.stray,
            sloppy: spec.sloppy,
            one_packet: spec.one_packet,
            on_remove: spec.on_remove,
            persistence: spec.persistence,
            persistence_netmask: spec.persistence_netmask,
            persistence_void: spec.persistence_void,
            timeouts: spec.timeouts,
            quorum: spec.quorum,
            hysteresis: spec.hysteresis,
            no_server_policy: spec.no_server,
            quorum_lost: stand.lost,
            acting: stand.acting,
            fail_open: stand.open,
            slow_start: spec.slow_start,
            active,
            inactive,
            totals: self.collector.service(entry.id, slots),
            rates: self.collector.service_rates(entry.id, slots),
            servers: entry.members.iter().map(|m| self.server_view(entry, m)).collect(),
        }
    }

    fn server_view(&self, entry: &Entry, member: &Member) -> ServerView {
        let slot = &self.store.slots().all()[member.slot as usize];
        let counts = self.collector.counts(member.slot, slot.generation);
        let spec = &member.spec;
        let state = self.states.of(member.slot);
        let limited = spec.thresholds().any();
        let full = limited && self.is_full(member.slot, slot.generation);
        let why = state.why.or_else(|| full.then_some(Why::Full));
        let ramp = self.states.ramps.of(member.slot);
        let weight = ramp.map_or(state.weight, |(part, _)| ramped(state.weight, part));
        let line = self.publisher.current().server(member.slot, slot.generation);
        ServerView {
            name: spec.name.clone(),
            address: spec.address,
            port: spec.port.unwrap_or_default(),
            forward: spec.forward.unwrap_or(Forward::Dr),
            tun_type: spec.tun_type,
            weight: spec.weight,
            effective_weight: if why.is_none() { weight } else { 0 },
            slow_start_left_ms: ramp.map(|(_, left_ms)| left_ms),
            why,
            admin: spec.admin,
            backup: spec.backup,
            drain: self.drains.of(entry.spec.endpoint(), member).map(|d| DrainView {
                left_ms: d.until_ms.saturating_sub(self.now_ms),
                then: d.then,
                by: d.by.clone(),
            }),
            health: state.health,
            health_secs: state.since_ms.map(|since| (self.now_ms - since) / 1000),
            reachable: line.is_some_and(|line| self.setup.hops.hop(line.hop).is_reachable()),
            mac: spec.mac,
            mtu: spec.mtu,
            u_threshold: spec.u_threshold,
            l_threshold: spec.l_threshold,
            active: counts.active.into(),
            inactive: counts.inactive.into(),
            totals: self.collector.server(member.slot),
            rates: self.collector.server_rates(member.slot),
        }
    }

    fn is_full(&self, slot: u32, generation: u16) -> bool {
        let live = self.lives.first();
        live.is_some_and(|live| !live.occupancies().is_eligible(slot, generation))
    }

    fn lcore_view(&self, lcore: usize) -> LcoreView {
        let (totals, now) = (self.collector.lcore(lcore), self.collector.lcore_now(lcore));
        let (lately, seconds) = self.collector.lcore_lately(lcore);
        LcoreView {
            lcore: self.setup.lcores[lcore].core,
            busy_percent: busy(&lately),
            snapshot: now.snapshot,
            current: now.snapshot >= self.store.version(),
            silent_ms: self.collector.silent_ms(lcore, self.now_ms),
            entries: now.entries,
            received_pps: per_second(lately.received, seconds),
            counters: counters(&totals, &now, |_| true),
            drops: drops(&totals),
            turns: turns(&self.collector.turns(lcore), self.setup.cycles_hz),
        }
    }

    fn busy_percent(&self, lcore: usize) -> f64 {
        busy(&self.collector.lcore_lately(lcore).0)
    }

    /// What a port counted since the start or the last `zero`.
    fn counters_of(&self, port: usize) -> PortCounters {
        let mut now = (self.setup.port_counters)(port);
        let base = &self.port_base[port];
        for (value, base) in [
            (&mut now.rx_packets, base.rx_packets),
            (&mut now.rx_bytes, base.rx_bytes),
            (&mut now.tx_packets, base.tx_packets),
            (&mut now.tx_bytes, base.tx_bytes),
            (&mut now.imissed, base.imissed),
            (&mut now.rx_nombuf, base.rx_nombuf),
            (&mut now.ierrors, base.ierrors),
            (&mut now.oerrors, base.oerrors),
        ] {
            *value = value.saturating_sub(base);
        }
        for (name, value) in &mut now.extended {
            *value = value.saturating_sub(base.extended.get(name).copied().unwrap_or(0));
        }
        now
    }
}

/// Names and values: what was counted `since`, but gauges as they are `now`.
fn counters(
    since: &LcoreTotals,
    now: &LcoreTotals,
    wanted: fn(&(&str, u64)) -> bool,
) -> BTreeMap<String, u64> {
    let both = since.named().into_iter().zip(now.named()).filter(|(since, _)| wanted(since));
    let value = |((name, since), (_, now))| {
        (str::to_owned(name), if GAUGES.contains(&name) { now } else { since })
    };
    both.map(value).collect()
}

/// A part of a weight, 1 at least.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a u32")]
fn ramped(weight: u32, part: f64) -> u32 {
    ((f64::from(weight) * part).round() as u32).max(1)
}

#[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
fn turns(turns: &Turns, hz: u64) -> TurnsView {
    let us = |cycles: u64| cycles as f64 * 1e6 / hz as f64;
    let mut buckets: Vec<_> =
        turns.buckets().map(|(edge, count)| TurnBucket { to_us: us(edge), count }).collect();
    buckets.truncate(buckets.iter().rposition(|b| b.count > 0).map_or(0, |last| last + 1));
    let empty = buckets.iter().take_while(|b| b.count == 0).count();
    TurnsView {
        p50_us: us(turns.quantile(500)),
        p99_us: us(turns.quantile(990)),
        p999_us: us(turns.quantile(999)),
        max_us: us(turns.quantile(1000)),
        buckets: buckets.split_off(empty),
    }
}

fn is_summed((name, _): &(&str, u64)) -> bool {
    !NOT_SUMMED.contains(name)
}

fn drops(totals: &LcoreTotals) -> BTreeMap<String, u64> {
    let all = DropReason::ALL.iter().zip(totals.drops);
    all.map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

#[allow(clippy::cast_precision_loss, reason = "rates are shown with few digits")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[allow(clippy::cast_precision_loss, reason = "a percentage")]
fn busy(lately: &LcoreTotals) -> f64 {
    match lately.total_cycles {
        0 => 0.0,
        total => 100.0 * lately.busy_cycles as f64 / total as f64,
    }
}
