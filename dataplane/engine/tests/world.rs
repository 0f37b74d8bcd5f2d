//! A director of one or more lcores under clients who do everything, and the laws that hold.
//!
//! `SEEDS=100 cargo test -p engine --test world` tries more; a failure names its seed, and
//! `SEED=n` runs that one alone.

mod world_lab;

use engine::addr::{Addr, L4Proto};
use engine::conn::tcp_state::ConnState;
use engine::forward::ForwarderKind;
use engine::frame::Frame;
use engine::sched::SchedulerKind;
use engine::snapshot::Timeouts;
use engine::testkit::{World, craft};
use engine::ticks::TickSpan;
use world_lab::dice::Dice;
use world_lab::laws::Laws;
use world_lab::packets::{Client, send, send_bytes};
use world_lab::{service, settle, tcp_service, world};

const SHORT: Timeouts = Timeouts { tcp: 20, tcp_fin: 4, udp: 8 };
const STEPS: usize = 1500;
const CLIENTS: usize = 160;

struct Chaos {
    w: World,
    laws: Laws,
    dice: Dice,
    sent: u64,
    clients: Vec<(Client, ConnState)>,
}

impl Chaos {
    fn new(seed: u64, lcores: u16) -> Self {
        let mut dice = Dice::new(seed);
        // From far too small to ample; 160 clients share it.
        let capacity = *dice.pick(&[8, 48, 400]);
        let mut w = world(lcores, capacity, SHORT);
        let kinds = SchedulerKind::ALL;
        tcp_service(&mut w, *dice.pick(kinds), 80, &[1, 2, 3]);
        service(&mut w, L4Proto::Udp, *dice.pick(kinds), 53, &[5, 5]);
        let far = (Addr::v4([10, 1, 0, 1]), 80);
        w.add_server_by(0, far, 2, ForwarderKind::Ipip);
        w.add_backup(0, (Addr::v4([10, 3, 0, 1]), 80), 1, ForwarderKind::Ipip);
        w.add_backup(1, (Addr::v4([10, 3, 0, 2]), 53), 1, ForwarderKind::Dr);
        w.publish();
        let proto = |n| if n % 4 == 0 { (53, L4Proto::Udp) } else { (80, L4Proto::Tcp) };
        let client = |n| (Client::nth(n, proto(n).0, proto(n).1), ConnState::None);
        let clients = (0..CLIENTS).map(client).collect();
        Self { w, laws: Laws::default(), dice, sent: 0, clients }
    }

    fn step(&mut self) {
        for _ in 0..self.dice.below(24) {
            if self.dice.once_in(12) { self.noise() } else { self.client() }
        }
        if self.dice.once_in(25) {
            self.change();
        }
        if self.dice.once_in(3) {
            self.w.look();
        }
        self.w.now = self.w.now + TickSpan(*self.dice.pick(&[0, 0, 1, 1, 2, 5, 60]));
        self.laws.turn(&mut self.w, self.sent);
    }

    /// Any client does what it may do next, and sometimes what it may not.
    fn client(&mut self) {
        let n = self.dice.below(self.clients.len());
        let (client, state) = self.clients[n];
        let flags = match state {
            ConnState::None | ConnState::Close => *self.dice.pick(&["S", "S", "S", "S", "A", "R"]),
            ConnState::SynRecv => *self.dice.pick(&["S", "A", "A", "A", "R"]),
            ConnState::Established => *self.dice.pick(&["A", "A", "PA", "A", "S", "FA", "R"]),
            _ => *self.dice.pick(&["A", "FA", "S", "S"]),
        };
        self.clients[n].1 = match flags {
            "S" => ConnState::SynRecv,
            "FA" => ConnState::FinWait,
            "R" => ConnState::Close,
            _ => ConnState::Established,
        };
        self.laws.note(client.key(), flags);
        let packet = client.packet(flags, self.sent);
        self.sent += 1;
        // A client's packets come by one queue, which need not be its owner's.
        let queue = n % self.w.sites.len();
        send(&mut self.w, queue, &packet);
    }

    /// What belongs to no client: sound, spoilt, or no packet at all.
    fn noise(&mut self) {
        let lcore = self.dice.below(self.w.sites.len());
        let port = u16::try_from(1000 + self.dice.below(50_000)).unwrap();
        let from = (Addr::v4([198, 18, 0, 1]), port);
        let mut bytes = match self.dice.below(7) {
            0 => craft::arp_request(craft::PEER, "192.0.2.3", "192.0.2.10"),
            1 => craft::icmp("198.51.100.1", "192.0.2.10", 8, 0).payload(b"ping").build(),
            2 => craft::tcp(from, "192.0.2.10:80").flags("SA").build(),
            3 => craft::tcp(from, "192.0.2.10:81").flags("S").build(),
            4 => craft::tcp(from, "192.0.2.10:80").flags("S").ttl(1).build(),
            5 => craft::udp(from, "192.0.2.99:80").build(),
            _ => craft::tcp(from, "192.0.2.10:80").flags("A").build(),
        }
        .bytes()
        .to_vec();
        if self.dice.once_in(3) {
            let at = 12 + self.dice.below(bytes.len() - 12);
            bytes[at] ^= self.dice.bytes(1)[0];
            bytes.truncate(14 + self.dice.below(60));
        }
        if self.dice.once_in(10) {
            let len = self.dice.below(120);
            bytes = self.dice.bytes(len);
        }
        send_bytes(&mut self.w, lcore, &bytes);
    }

    /// An operator, a health check, a neighbour or a device does something.
    fn change(&mut self) {
        let slot = u32::try_from(self.dice.below(self.w.servers.len())).unwrap();
        let server = self.w.servers[slot as usize];
        let weight = u32::try_from(self.dice.below(5)).unwrap();
        match self.dice.below(9) {
            0 if server.present => self.w.edit(slot, weight),
            1 if server.present => self.w.remove(slot),
            2 | 3 if !server.present => {
                self.w.add_server(server.service, server.at, weight.max(1));
            }
            4 if self.w.servers.len() < 14 => {
                let at = Addr::v4([10, 2, 0, u8::try_from(self.w.servers.len()).unwrap()]);
                let at = (at, server.at.1);
                if self.dice.once_in(3) {
                    self.w.add_backup(server.service, at, weight, ForwarderKind::Dr);
                } else {
                    self.w.add_server(server.service, at, weight);
                }
            }
            5 => self.w.purge(slot),
            6 => self.w.set_eligible(slot, !server.eligible),
            7 => self.w.set_known(slot, self.dice.once_in(2)),
            8 => {
                let lcore = self.dice.below(self.w.sites.len());
                let most = *self.dice.pick(&[0, 1, 7, usize::MAX, usize::MAX]);
                self.w.sites[lcore].wire_out.take_at_most(most);
            }
            _ => {}
        }
        self.w.publish();
    }

    fn finish(mut self) {
        for site in &self.w.sites {
            site.wire_out.take_at_most(usize::MAX);
        }
        settle(&mut self.w);
        world_lab::packets::drain(&mut self.w);
        assert_eq!(self.w.pool.live(), 0, "all frames have ended");
        assert!(self.laws.went > STEPS, "a lively world, {} packets", self.laws.went);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn chaos(lcores: u16) {
    let seeds = number("SEED").map_or(0..number("SEEDS").unwrap_or(3), |one| one..one + 1);
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut chaos = Chaos::new(seed, lcores);
            (0..STEPS).for_each(|_| chaos.step());
            chaos.finish();
        });
        if let Err(fault) = std::panic::catch_unwind(run) {
            eprintln!("SEED={seed} with {lcores} lcores");
            std::panic::resume_unwind(fault);
        }
    }
}

#[test]
fn laws_hold_on_one_lcore() {
    chaos(1);
}

#[test]
fn laws_hold_on_two_lcores() {
    chaos(2);
}

#[test]
fn laws_hold_on_eight_lcores() {
    chaos(8);
}
