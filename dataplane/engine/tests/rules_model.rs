//! A whole lcore against a model that is slow and obvious: random packets, idle times, and servers
//! that come, go, drain, end their connections in every way and come back.
//!
//! The model knows the rules of the table in ARCHITECTURE.md and no more: which server is picked
//! for a new connection it takes from the lcore, if that server may be picked.
//! `SEEDS=100 cargo test -p engine --test rules_model` tries more; a failure names its seed.

mod world_lab;

use std::collections::{HashMap, HashSet};

use engine::addr::{Addr, L4Proto};
use engine::conn::tcp_state::{ConnState, TcpEvent};
use engine::flow::FlowKey;
use engine::sched::SchedulerKind;
use engine::server::Orphans;
use engine::service::StrayPolicy;
use engine::snapshot::Timeouts;
use engine::stats::ConnCounts;
use engine::testkit::World;
use engine::ticks::TickSpan;
use world_lab::dice::Dice;
use world_lab::packets::{Client, Out, drain, send};
use world_lab::{service, tcp_service, world};

const STEPS: usize = 4000;
const CLIENTS: usize = 60;
const SERVERS: usize = 7;
/// An entry ends at most a slot of the wheel after its time.
const SLOT_MS: u64 = 128;
/// Turns that a walk through the whole table takes, with more than enough to spare.
const WALK: usize = 60;

#[derive(Clone, Copy, Debug)]
struct Entry {
    service: usize,
    slot: u32,
    generation: u16,
    state: ConnState,
    last_seen: u64,
}

/// What is to come of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    To(u32),
    Scheduled,
    Reset,
    Unreachable,
    Nothing,
}

struct Model {
    w: World,
    dice: Dice,
    entries: HashMap<FlowKey, Entry>,
    clients: Vec<Client>,
    kinds: HashSet<String>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut w = world(1, 2000, Timeouts { tcp: 20, tcp_fin: 4, udp: 8 });
        tcp_service(&mut w, *dice.pick(SchedulerKind::ALL), 80, &[1, 2]);
        service(&mut w, L4Proto::Udp, *dice.pick(SchedulerKind::ALL), 53, &[1, 1]);
        let proto = |n| if n % 4 == 0 { (53, L4Proto::Udp) } else { (80, L4Proto::Tcp) };
        let clients = (0..CLIENTS).map(|n| Client::nth(n, proto(n).0, proto(n).1)).collect();
        let (entries, kinds) = (HashMap::new(), HashSet::new());
        let mut model = Self { w, dice, entries, clients, kinds };
        model.publish();
        model
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0 => self.change(),
            1 => self.thin(),
            2 | 3 => self.pass(),
            _ => self.packet(),
        }
        self.compare();
    }

    fn publish(&mut self) {
        self.w.publish();
        for _ in 0..WALK {
            self.w.turn();
            self.w.look();
        }
    }

    /// An operator does something.
    fn change(&mut self) {
        let slot = u32::try_from(self.dice.below(self.w.servers.len())).unwrap();
        let server = self.w.servers[slot as usize];
        let weight = u32::try_from(self.dice.below(3)).unwrap();
        let id = self.dice.below(2);
        let bit = self.dice.once_in(2);
        let secs = 3 + u32::try_from(self.dice.below(30)).unwrap();
        let times = Timeouts { tcp: secs, tcp_fin: 1 + secs / 4, udp: 1 + secs / 2 };
        match self.dice.below(11) {
            0 if server.present => self.w.edit(slot, weight),
            1 | 2 if server.present => self.w.remove(slot),
            3..=5 if !server.present => {
                self.w.add_server(server.service, server.at, weight.max(1));
            }
            3 if self.w.servers.len() < SERVERS => {
                let at = Addr::v4([10, 2, 0, u8::try_from(self.w.servers.len()).unwrap()]);
                self.w.add_server(server.service, (at, server.at.1), weight);
            }
            6 => {
                let all = [Orphans::Reset, Orphans::Forget, Orphans::Reschedule];
                self.w.servers[slot as usize].orphans = *self.dice.pick(&all);
                self.w.purge(slot);
            }
            7 => self.w.set_eligible(slot, !server.eligible),
            8 => self.w.timeouts = times,
            9 => self.w.services[id].rules.timeouts = bit.then_some(times),
            10 => {
                let stray = if bit { StrayPolicy::Reset } else { StrayPolicy::Drop };
                self.w.services[0].rules.stray = stray;
                self.w.services[0].rules.sloppy = self.dice.once_in(2);
                self.w.services[1].rules.one_packet = self.dice.once_in(3);
            }
            _ => {}
        }
        self.publish();
        // What is over at once by shorter idle times ends with the wheel's next slot.
        self.w.now = self.w.now + TickSpan(SLOT_MS);
        self.end_idle();
    }

    /// Time goes by, so much that it is clear of each entry whether it has ended.
    fn pass(&mut self) {
        let step = 1 + self.dice.below(4000) as u64;
        self.w.now = self.w.now + TickSpan(step);
        self.end_idle();
        (0..WALK).for_each(|_| self.w.turn());
    }

    /// The model's timers. Moves time on where an entry may have ended or not.
    fn end_idle(&mut self) {
        let due = |w: &World, e: &Entry| {
            let own = w.services[e.service].rules.timeouts.unwrap_or(w.timeouts);
            e.last_seen + u64::from(e.state.timeout(&own)) * 1000
        };
        let unclear = |w: &World, e: &Entry| (due(w, e)..due(w, e) + SLOT_MS).contains(&w.now.0);
        while self.entries.values().any(|e| unclear(&self.w, e)) {
            self.w.now = self.w.now + TickSpan(SLOT_MS);
        }
        (0..WALK).for_each(|_| self.w.turn());
        self.entries.retain(|_, e| due(&self.w, e) > self.w.now.0);
    }

    /// Some connections of a server are given up; which, only the lcore knows.
    fn thin(&mut self) {
        let slot = u32::try_from(self.dice.below(self.w.servers.len())).unwrap();
        let wanted = self.dice.below(4);
        self.w.thin(0, slot, u32::try_from(wanted).unwrap());
        (0..WALK).for_each(|_| self.w.turn());
        let held = walk(&self.w);
        let (mut open, mut given) = (0, 0);
        let generation = self.w.servers[slot as usize].generation;
        for (key, e) in &mut self.entries {
            let here =
                (e.slot, e.generation, e.state) == (slot, generation, ConnState::Established);
            open += usize::from(here);
            if here && held[key].2 == ConnState::Reset {
                e.state = ConnState::Reset;
                given += 1;
            }
        }
        assert_eq!(given, open.min(wanted), "of {open} open connections");
    }

    fn packet(&mut self) {
        let n = self.dice.below(self.clients.len());
        let client = self.clients[n];
        let tcp = client.proto == L4Proto::Tcp;
        let flags = if tcp {
            *self.dice.pick(&["S", "S", "A", "A", "PA", "A", "FA", "R", "RA", "SA", "SF"])
        } else {
            ""
        };
        send(&mut self.w, 0, &client.packet(flags, 0));
        let fate = self.fate(&client, flags);
        self.w.turn();
        let out: Vec<Out> = drain(&mut self.w).into_iter().map(|(_, out)| out).collect();
        self.judge(&client, flags, &fate, &out);
        let kind = if let Fate::To(_) = fate { "To".to_owned() } else { format!("{fate:?}") };
        self.kinds.insert(kind);
    }

    /// The rules, and what they make of the entry; a scheduled flow gets one in [`Model::judge`].
    fn fate(&mut self, client: &Client, flags: &str) -> Fate {
        let has = |flag: char| flags.contains(flag);
        let mut orphan = None;
        if let Some(e) = self.entries.get(&client.key()).copied() {
            let server = self.w.servers[e.slot as usize];
            let takes_new = server.present && server.eligible && server.weight > 0;
            let anew = flags == "S" && !(e.state.is_active() && takes_new);
            if server.generation != e.generation {
                orphan = Some(server.orphans);
            } else if e.state == ConnState::Reset && !has('S') {
                orphan = Some(Orphans::Reset);
            } else if !anew {
                let e = self.entries.get_mut(&client.key()).unwrap();
                (e.last_seen, e.state) = (self.w.now.0, e.state.after(event(flags)));
                return Fate::To(e.slot);
            }
            self.entries.remove(&client.key());
        }
        let rules = self.w.services[usize::from(client.proto == L4Proto::Udp)].rules;
        if client.proto == L4Proto::Tcp && flags != "S" {
            let moves = (has('A') || has('F')) && !has('S') && !has('R');
            let joins = rules.sloppy || orphan == Some(Orphans::Reschedule);
            if has('S') && has('A') || has('R') {
                return Fate::Nothing;
            } else if orphan == Some(Orphans::Reset) {
                return Fate::Reset;
            } else if !(moves && joins) {
                let resets = rules.stray == StrayPolicy::Reset;
                return if resets { Fate::Reset } else { Fate::Nothing };
            }
        }
        if self.eligible(client).is_empty() { Fate::Unreachable } else { Fate::Scheduled }
    }

    fn eligible(&self, client: &Client) -> Vec<u32> {
        let service = u16::from(client.proto == L4Proto::Udp);
        let servers = (0..).zip(&self.w.servers);
        let may = servers
            .filter(|(_, s)| s.service == service && s.present && s.eligible && s.weight > 0);
        may.map(|(slot, _)| slot).collect()
    }

    fn judge(&mut self, client: &Client, flags: &str, fate: &Fate, out: &[Out]) {
        let went = match out {
            [Out::Forwarded { slot, .. }] => Some(*slot),
            _ => None,
        };
        let right = match fate {
            Fate::To(slot) => went == Some(*slot),
            Fate::Scheduled => went.is_some_and(|slot| self.eligible(client).contains(&slot)),
            Fate::Reset => matches!(out, [Out::Reset { .. }]),
            Fate::Unreachable => went.is_none() || hashes(&self.w, client),
            Fate::Nothing => out.is_empty(),
        };
        // Hashing schedulers refuse clients whose server takes nothing.
        let refused = *fate == Fate::Scheduled && went.is_none() && hashes(&self.w, client);
        assert!(right || refused, "{client:?} {flags}: {fate:?}, but {out:?}");
        let service = usize::from(client.proto == L4Proto::Udp);
        if let (Fate::Scheduled, Some(slot)) = (fate, went)
            && !(service == 1 && self.w.services[1].rules.one_packet)
        {
            let generation = self.w.servers[slot as usize].generation;
            let state = match client.proto {
                L4Proto::Udp => ConnState::Udp,
                L4Proto::Tcp => ConnState::None.after(event(flags)),
            };
            let last_seen = self.w.now.0;
            let entry = Entry { service, slot, generation, state, last_seen };
            self.entries.insert(client.key(), entry);
        }
    }

    /// Living entries and counts are the model's.
    fn compare(&self) {
        let alive = |slot: u32, g: u16| self.w.servers[slot as usize].generation == g;
        let held = walk(&self.w).into_iter().filter(|(_, (s, g, _))| alive(*s, *g));
        let held: HashMap<_, _> = held.collect();
        let own = self.entries.iter().filter(|(_, e)| alive(e.slot, e.generation));
        let own: HashMap<_, _> =
            own.map(|(key, e)| (*key, (e.slot, e.generation, e.state))).collect();
        for key in held.keys().chain(own.keys()) {
            assert_eq!(held.get(key), own.get(key), "{key:?}");
        }
        for slot in 0..u32::try_from(self.w.servers.len()).unwrap() {
            let here =
                |active| own.values().filter(move |e| e.0 == slot && e.2.is_active() == active);
            let number = |active| u32::try_from(here(active).count()).unwrap();
            let counts = ConnCounts { active: number(true), inactive: number(false) };
            assert_eq!(self.w.counts(slot), counts, "slot {slot}");
        }
    }
}

fn event(flags: &str) -> TcpEvent {
    let bit = |(flag, bit)| if flags.contains(flag) { bit } else { 0 };
    TcpEvent::from_flags([('F', 1), ('S', 2), ('R', 4), ('A', 16)].into_iter().map(bit).sum())
}

/// Whether the service's scheduler may refuse a client though a server is eligible.
fn hashes(w: &World, client: &Client) -> bool {
    let key = engine::service::ServiceKey {
        proto: client.proto,
        addr: client.vip,
        port: client.vip_port,
    };
    let name = w.snapshot.service(key).map(|s| s.scheduler.kind());
    use SchedulerKind::{Dh, Mh, Ovf, Sh};
    matches!(name, Some(Dh | Mh | Ovf | Sh))
}

fn walk(w: &World) -> HashMap<FlowKey, (u32, u16, ConnState)> {
    let table = w.sites[0].worker.table();
    let conns = (0..).map_while(|at| table.bucket(at)).flatten();
    conns.map(|c| (c.key, (c.server, c.generation, c.state()))).collect()
}

#[test]
fn an_lcore_does_what_the_rules_say() {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let seeds = number("SEED").map_or(0..number("SEEDS").unwrap_or(6), |one| one..one + 1);
    let mut kinds = HashSet::new();
    for seed in seeds {
        println!("SEED={seed}");
        let mut model = Model::new(seed);
        (0..STEPS).for_each(|_| model.step());
        kinds.extend(model.kinds);
    }
    assert_eq!(kinds.len(), 5, "every fate was met: {kinds:?}");
}
