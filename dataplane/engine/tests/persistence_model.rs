//! Persistent services under random events, against a map from client to server.
//!
//! The map knows from when to when a template may end: not before its time is over and the last
//! connection under it has ended, and not more than a minute (and what visits and rounding add)
//! after both. In between it accepts what it sees.

mod world_lab;

use std::collections::HashMap;

use engine::addr::{Addr, L4Proto};
use engine::sched::SchedulerKind;
use engine::service::Persistence;
use engine::snapshot::Timeouts;
use engine::templates::{Holder, Place};
use engine::testkit::World;
use engine::ticks::{TickSpan, Ticks};
use world_lab::dice::Dice;
use world_lab::packets::{Client, send, slots};
use world_lab::{VIP, settle, tcp_service, world};

const LCORES: u16 = 3;
/// A connection that is never established lives so long.
const HALF_OPEN_MS: u64 = 60_000;
/// A template is kept so long for a connection, with what visits and rounding add.
const LATE_MS: u64 = 62_000;
/// Seconds and bits of each service.
const SERVICES: [(u64, u8); 3] = [(5, 128), (45, 96 + 30), (300, 96 + 28)];

#[derive(Clone, Copy, Debug)]
struct Known {
    slot: u32,
    generation: u16,
    /// When a client's last connection began.
    begun_ms: u64,
    /// The last end of the connections to this server.
    ends_ms: u64,
}

struct Model {
    w: World,
    dice: Dice,
    known: HashMap<(usize, Addr), Known>,
    keeps: HashMap<u32, bool>,
    opened: u16,
    /// Connections that met a template, and that met none.
    met: (usize, usize),
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut w = world(LCORES, 4_000, Timeouts::default());
        for (port, (life, bits)) in (80..).zip(SERVICES) {
            let id = tcp_service(&mut w, SchedulerKind::Rr, port, &[1, 1, 1, 1]);
            let life = TickSpan::from_secs(life);
            w.services[usize::from(id)].rules.persistence = Some(Persistence { life, bits });
        }
        w.publish();
        settle(&mut w);
        let dice = Dice::new(seed);
        Self { w, dice, known: HashMap::new(), keeps: HashMap::new(), opened: 0, met: (0, 0) }
    }

    fn serves(&self, known: &Known) -> bool {
        let server = &self.w.servers[known.slot as usize];
        let picked = server.eligible && server.weight > 0;
        let keeps = self.keeps.get(&known.slot).copied().unwrap_or(false);
        server.generation == known.generation && server.present && (picked || keeps)
    }

    fn is_listed(&self, (service, client): (usize, Addr)) -> bool {
        let owner = |place: Place| {
            let line = self.w.snapshot.server(place.slot, place.generation);
            line.map(|line| line.service)
        };
        let buckets = 0..self.w.templates.n_buckets();
        let mut rows = buckets.flat_map(|b| self.w.templates.rows(b, self.w.now, owner));
        let service = u16::try_from(service).unwrap();
        rows.any(|row| row.holder == Holder { service, client })
    }

    fn publish(&mut self) {
        self.w.publish();
        settle(&mut self.w);
    }

    fn wait(&mut self, ms: u64) {
        let then = self.w.now.0 + ms;
        while self.w.now.0 < then {
            self.w.now = Ticks((self.w.now.0 + 200).min(then));
            self.w.turn();
            self.w.look();
        }
    }

    fn open(&mut self) {
        let (service, host) = (self.dice.below(SERVICES.len()), self.dice.below(40));
        self.opened += 1;
        let client = Client {
            addr: [198, 51, 100, u8::try_from(host).unwrap()],
            port: 1024 + self.opened,
            vip: VIP,
            vip_port: 80 + u16::try_from(service).unwrap(),
            proto: L4Proto::Tcp,
        };
        let (owner, now) = (client.owner(&self.w), self.w.now.0);
        let (life, bits) = SERVICES[service];
        let who = (service, Addr::v4(client.addr).masked(bits));
        let old = self.known.get(&who).copied().filter(|known| self.serves(known));
        let earliest = old.map_or(0, |k| (k.begun_ms + life * 1000).max(k.ends_ms));
        let latest = old.map_or(0, |k| (k.begun_ms + life * 1000 + 128).max(k.ends_ms + LATE_MS));
        let over = old.is_some() && now >= latest;
        assert!(!(over && self.is_listed(who)), "{who:?} outlived {latest}: {old:?} at {now}");
        send(&mut self.w, owner, &client.packet("S", 0));
        self.w.turn();
        self.w.look();
        let got = slots(&mut self.w).first().copied();
        let Some(slot) = got else {
            assert!(now >= earliest, "{who:?} was refused, once {old:?}");
            return;
        };
        let server = &self.w.servers[slot as usize];
        let stays = old.filter(|known| known.slot == slot);
        if now < earliest {
            assert!(stays.is_some(), "{who:?} at {now}: {slot}, once {old:?}");
        }
        assert_eq!(usize::from(server.service), service, "another service's server");
        if stays.is_none() {
            assert!(server.eligible && server.weight > 0 && server.present, "{slot} takes nobody");
        }
        let met = stays.is_some() && now < latest;
        *if met { &mut self.met.0 } else { &mut self.met.1 } += 1;
        let ends_ms = now + HALF_OPEN_MS;
        let generation = server.generation;
        self.known.insert(who, Known { slot, generation, begun_ms: now, ends_ms });
    }

    fn step(&mut self) {
        let slot = u32::try_from(self.dice.below(self.w.servers.len())).unwrap();
        let (service, at, weight) = {
            let server = &self.w.servers[slot as usize];
            (server.service, server.at, server.weight)
        };
        match self.dice.below(30) {
            0 => {
                let ms = [500, 3_000, 20_000, 100_000][self.dice.below(4)];
                self.wait(ms);
            }
            1 if self.w.servers[slot as usize].present => {
                let (keeps, eligible) = (self.dice.once_in(2), self.dice.once_in(2));
                self.keeps.insert(slot, keeps);
                self.w.set_keeps(slot, keeps);
                self.w.set_eligible(slot, eligible);
            }
            2 if self.dice.once_in(3) => {
                self.w.purge(slot);
                self.publish();
            }
            3 if self.w.servers[slot as usize].present => {
                self.keeps.insert(slot, false);
                self.w.set_keeps(slot, false);
                self.w.remove(slot);
                self.publish();
            }
            4 | 5 if !self.w.servers[slot as usize].present => {
                assert_eq!(self.w.add_server(service, at, weight), slot);
                self.publish();
            }
            _ => self.open(),
        }
    }
}

#[test]
fn clients_go_where_the_map_says() {
    let mut met = (0, 0);
    for seed in 0..12 {
        let mut model = Model::new(seed);
        (0..700).for_each(|_| model.step());
        met = (met.0 + model.met.0, met.1 + model.met.1);
        let all = model.w.totals();
        assert_eq!(all.template_failures, 0);
        assert!(all.templates_made as usize <= model.met.1 + model.met.0, "{all:?}");
    }
    assert!(met.0 > 2_000 && met.1 > 1_000, "both ways were gone: {met:?}");
}
