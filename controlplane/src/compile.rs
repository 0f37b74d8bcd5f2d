//! The store as the lcores read it: one immutable [`Snapshot`].
//!
//! What a change did not touch is taken over from the last snapshot: services as they are, fallback
//! tables by their members. Next hops are allocated here, because a snapshot names them.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use config::check::Network;
use config::spec::MaglevHash;
use config::spec::Timeouts;
use config::{ServiceSpec, Settings};
use engine::addr::Addr;
use engine::backup::Backup;
use engine::sched::maglev::{Maglev, PUBLIC_KEY};
use engine::sched::{SchedFlags, Scheduler, SchedulerKind};
use engine::server::ServerLine;
use engine::service::{Pool, Rules, Service, ServiceId, ServiceTable};
use engine::snapshot::{Local, LocalKind, PortFacts, Snapshot};

use crate::hops::{Hops, NextHop};
use crate::slots::Slot;
use crate::store::{Entry, Store};

/// Makes snapshots, and remembers what the next one can re-use.
#[derive(Debug)]
pub struct Compiler {
    ports: Box<[PortFacts]>,
    /// Fixed hardware addresses of gateways.
    gateway_macs: HashMap<IpAddr, engine::addr::Mac>,
    own: Vec<(IpAddr, usize)>,
    lcores: u16,
    mh_key: Option<[u8; 16]>,
    flood_guard: u32,
    seed: u64,
    built: HashMap<ServiceId, Built>,
    fallbacks: HashMap<Vec<Place>, Weak<Maglev>>,
    /// The next hops of the snapshots in use.
    pub hops: Hops,
}

/// A service as it was built last.
#[derive(Debug)]
struct Built {
    of: Arc<Entry>,
    service: Arc<Service>,
    /// How long its Maglev table took.
    took: Duration,
}

/// What a fallback table depends on, server by server; see [`Pool::same_members`].
type Place = (Addr, u16, u32, u32);

impl Compiler {
    /// For a director with these ports; next hops get the numbers below `max_hops`.
    #[must_use]
    pub fn new(settings: &Settings, ports: &[PortFacts], max_hops: usize, seed: u64) -> Self {
        let gateways = settings.ports.iter();
        let numbered = settings.ports.iter().enumerate();
        let own = numbered.flat_map(|(i, p)| p.addresses.iter().map(move |a| (a.addr(), i)));
        Self {
            ports: ports.into(),
            gateway_macs: gateways.filter_map(|p| Some((p.gateway?, p.gateway_mac?))).collect(),
            own: own.collect(),
            lcores: u16::try_from(settings.director.lcores.len()).unwrap_or(u16::MAX),
            mh_key: settings.director.mh_key,
            flood_guard: settings.director.flood_guard,
            seed,
            built: HashMap::new(),
            fallbacks: HashMap::new(),
            hops: Hops::new(max_hops),
        }
    }

    /// The present state of the store.
    pub fn compile(&mut self, store: &Store) -> Arc<Snapshot> {
        self.fallbacks.retain(|_, table| table.strong_count() > 0);
        self.hops.begin();
        let services: Vec<Arc<Service>> =
            store.services().map(|e| self.service(e, store.timeouts())).collect();
        let alive: HashMap<ServiceId, ()> = services.iter().map(|s| (s.id, ())).collect();
        self.built.retain(|id, _| alive.contains_key(id));
        let servers = self.lines(store);
        self.hops.settle(store.version());
        let mut neighbours: Vec<_> =
            self.hops.in_use().map(|(_, hop, _)| (hop.port, hop.address.into())).collect();
        neighbours.sort_unstable();
        Arc::new(Snapshot {
            version: store.version(),
            services: ServiceTable::new(services.into_iter(), self.seed),
            limited: Snapshot::limited(&servers),
            servers,
            ports: self.ports.clone(),
            locals: self.locals(store),
            neighbours: neighbours.into(),
            timeouts: store.timeouts().into(),
            closed_port_reset: true,
            flood_guard: self.flood_guard,
        })
    }

    fn service(&mut self, entry: &Arc<Entry>, timeouts: Timeouts) -> Arc<Service> {
        let rules = rules(&entry.spec, timeouts);
        let last = self.built.get(&entry.id);
        if let Some(built) = last
            && Arc::ptr_eq(&built.of, entry)
            && built.service.rules == rules
        {
            return Arc::clone(&built.service);
        }
        let spec = &entry.spec;
        let flags = SchedFlags {
            lcores: self.lcores,
            sh_port: spec.flags.sh_port,
            sh_fallback: spec.flags.sh_fallback,
            mh_port: spec.flags.mh_port,
            mh_fallback: spec.flags.mh_fallback,
            mh_key: match spec.maglev_hash {
                MaglevHash::Keyed => Some(self.mh_key.unwrap_or(PUBLIC_KEY)),
                MaglevHash::Kernel => None,
            },
            mh_size: spec.maglev_size,
        };
        let (kind, key) = (spec.scheduler, spec.endpoint().key());
        // An index may have gone to another service.
        let last = last.filter(|last| last.service.key == key);
        let begun = Instant::now();
        let scheduler = rebuilt(last.map(|l| &l.service.scheduler), kind, &entry.pool, flags);
        let took = match (&scheduler, last.map(|last| (&last.service.scheduler, last.took))) {
            (Scheduler::Mh(new), Some((Scheduler::Mh(old), took))) if new.shares_table(old) => took,
            _ => begun.elapsed(),
        };
        let last = last.and_then(|last| last.service.backup.as_ref()).map(|b| &b.scheduler);
        let backup =
            (!entry.backups.servers.is_empty()).then(|| rebuilt(last, kind, &entry.backups, flags));
        let service = Arc::new(Service {
            id: entry.id,
            key,
            pool: entry.pool.clone(),
            scheduler,
            fallback: self.fallback(&entry.pool),
            backup: backup.map(|scheduler| {
                let pool = entry.backups.clone();
                Box::new(Backup { scheduler, fallback: self.fallback(&pool), pool })
            }),
            rules,
        });
        let built = Built { of: Arc::clone(entry), service: Arc::clone(&service), took };
        self.built.insert(entry.id, built);
        service
    }

    /// The Maglev table of a service, and how long it took to build.
    #[must_use]
    pub fn maglev(&self, service: ServiceId) -> Option<(&Maglev, Duration)> {
        let built = self.built.get(&service)?;
        match &built.service.scheduler {
            Scheduler::Mh(maglev) => Some((maglev, built.took)),
            _ => None,
        }
    }

    /// The table of a pool with these members, shared by all that have the same.
    fn fallback(&mut self, pool: &Pool) -> Arc<Maglev> {
        let places: Vec<Place> =
            pool.servers.iter().map(|s| (s.addr, s.port, s.weight, s.last_weight)).collect();
        if let Some(table) = self.fallbacks.get(&places).and_then(Weak::upgrade) {
            return table;
        }
        let table = Arc::new(Maglev::fallback(pool, self.mh_key));
        self.fallbacks.insert(places, Arc::downgrade(&table));
        table
    }

    fn lines(&mut self, store: &Store) -> Box<[ServerLine]> {
        let slots = store.slots().all();
        slots.iter().map(|slot| self.line(slot, store.network())).collect()
    }

    fn line(&mut self, slot: &Slot, network: &Network) -> ServerLine {
        let vacant = || ServerLine { orphans: slot.orphans, ..ServerLine::vacant(slot.generation) };
        self.resolved(slot, network).unwrap_or_else(vacant)
    }

    fn resolved(&mut self, slot: &Slot, network: &Network) -> Option<ServerLine> {
        let spec = slot.spec.as_ref()?;
        let route = network.route(spec.address)?;
        let source = network.source(route.port, route.next)?;
        let mac = if route.on_link { spec.mac } else { None };
        let hop = NextHop {
            port: u8::try_from(route.port).ok()?,
            address: route.next,
            mac: mac.or_else(|| self.gateway_macs.get(&route.next).copied()),
            source,
        };
        let facts = self.ports.get(route.port)?;
        Some(ServerLine {
            addr: spec.address.into(),
            tunnel_source: source.into(),
            hop: self.hops.want(hop)?,
            generation: slot.generation,
            service: slot.service,
            port: spec.port.unwrap_or_default(),
            mtu: spec.mtu.unwrap_or(facts.mtu).min(facts.mtu),
            thresholds: spec.thresholds(),
            forwarder: spec.forwarder(),
            orphans: slot.orphans,
            in_use: true,
        })
    }

    /// Own and virtual addresses, sorted; one that is both counts as virtual.
    fn locals(&self, store: &Store) -> Box<[Local]> {
        let mut locals: BTreeMap<Addr, Local> = BTreeMap::new();
        for (address, port) in &self.own {
            let addr = Addr::from(*address);
            let local = Local { addr, kind: LocalKind::Own, ports: 1 << port };
            locals.entry(addr).and_modify(|l| l.ports |= 1 << port).or_insert(local);
        }
        for entry in store.services() {
            let addr = Addr::from(entry.spec.address);
            let ports = store.network().answering(entry.spec.address, self.ports.len());
            let own = locals.get(&addr).map_or(0, |l| l.ports);
            locals.insert(addr, Local { addr, kind: LocalKind::Vip, ports: ports | own });
        }
        locals.into_values().collect()
    }
}

fn rebuilt(
    last: Option<&Scheduler>,
    kind: SchedulerKind,
    pool: &Pool,
    flags: SchedFlags,
) -> Scheduler {
    match last {
        Some(last) => last.rebuild(kind, pool, flags),
        None => Scheduler::build(kind, pool, flags),
    }
}

fn rules(spec: &ServiceSpec, timeouts: Timeouts) -> Rules {
    Rules {
        stray: spec.stray.into(),
        no_server: spec.no_server.into(),
        sloppy: spec.sloppy,
        one_packet: spec.one_packet,
        timeouts: spec.timeouts.map(|own| own.or(timeouts).into()),
        persistence: config::persistence::rules(spec),
    }
}

#[cfg(test)]
mod tests;
