//! Random histories of persistent services, asked of a real Linux kernel and of a director in
//! memory: every client goes to the same server.
//!
//! Skipped with a message where `scripts/ask-ipvs` finds no user-mode-linux. `SLUICE_HISTORIES` is
//! how many of each scheduler (default 4), `SLUICE_SEED` another draw.

mod sched_lab;
mod world_lab;

use std::net::{IpAddr, SocketAddr};

use engine::addr::{Addr, L4Proto};
use engine::sched::{SchedFlags, SchedulerKind};
use engine::service::{Persistence, ServiceKey, StrayPolicy};
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::thresholds::Thresholds;
use engine::ticks::TickSpan;
use sched_lab::history::{History, ask};
use world_lab::dice::Dice;
use world_lab::packets::{Client, send, slots};
use world_lab::{settle, world};

const VIP: Addr = Addr::v4([192, 168, 1, 100]);
/// Those whose picks follow from what came before, and not from the kernel's own clock.
const KINDS: [SchedulerKind; 5] = [
    SchedulerKind::Rr,
    SchedulerKind::Wrr,
    SchedulerKind::Lc,
    SchedulerKind::Wlc,
    SchedulerKind::Sh,
];

/// A service of up to six servers, twelve clients. With thresholds no server leaves: LVS lets one
/// more in where one is set below what is there.
fn history(dice: &mut Dice, kind: SchedulerKind, port: u16) -> History {
    let limits = dice.once_in(3);
    let limit = |n: usize| {
        if limits && n.is_multiple_of(2) { format!(" -x {}", 1 + n % 3) } else { String::new() }
    };
    let server = |n: usize| format!("10.0.0.{}:{port}", 11 + n);
    let first = 2 + dice.below(3);
    let add = |n: usize, weight| format!("-a -r {} -w {weight}{}", server(n), limit(n));
    let mut steps: Vec<_> = (0..first).map(|n| add(n, 1 + n % 3)).collect();
    let mut present: Vec<_> = (0..first).collect();
    for opened in 0..40 + dice.below(40) {
        match dice.below(12) {
            0 => {
                let n = *dice.pick(&present);
                let weight = dice.below(4);
                steps.push(format!("-e -r {} -w {weight}{}", server(n), limit(n)));
            }
            1 if !limits && present.len() > 1 => {
                let n = present.remove(dice.below(present.len()));
                steps.push(format!("-d -r {}", server(n)));
            }
            2 => {
                let n = dice.below(6);
                if !present.contains(&n) {
                    present.push(n);
                    steps.push(add(n, 1 + dice.below(3)));
                }
            }
            _ => {
                let client = 10 + dice.below(12);
                steps.push(format!("open 192.168.1.{client}:{} ?", 20_000 + opened));
            }
        }
    }
    let persistent = if dice.once_in(2) { "300" } else { "300 -M 255.255.255.252" };
    History {
        scheduler: kind.to_string(),
        flags: None,
        port,
        any_destination: false,
        persistent: Some(persistent.to_owned()),
        steps,
    }
}

/// The same on one lcore, whose turns of `rr` and `wrr` are the kernel's.
struct Ours {
    w: World,
    service: u16,
    port: u16,
}

impl Ours {
    fn new(of: &History) -> Self {
        let mut w = world(1, 1000, Timeouts::default());
        let key = ServiceKey { proto: L4Proto::Tcp, addr: VIP, port: of.port };
        let kind = of.scheduler.parse().expect("ours");
        let service = w.add_service(key, kind, SchedFlags::default(), StrayPolicy::Reset);
        let masked = of.persistent.as_ref().is_some_and(|p| p.contains("-M"));
        let bits = if masked { 96 + 30 } else { 128 };
        let life = TickSpan::from_secs(300);
        w.services[usize::from(service)].rules.persistence = Some(Persistence { life, bits });
        Self { w, service, port: of.port }
    }

    fn slot(&self, server: SocketAddr) -> u32 {
        let at = (Addr::from(server.ip()), server.port());
        let found = self.w.servers.iter().position(|s| s.at == at);
        u32::try_from(found.expect("it was added")).unwrap()
    }

    fn change(&mut self, words: &[&str]) {
        let option = |name| words.iter().position(|w| *w == name).map(|at| words[at + 1]);
        let number = |name| option(name).map_or(0, |n: &str| n.parse().expect("a number"));
        let server: SocketAddr = option("-r").expect("a server").parse().expect("an address");
        let slot = match words[0] {
            "-a" => {
                let at = (Addr::from(server.ip()), server.port());
                self.w.add_server(self.service, at, number("-w"))
            }
            "-e" => {
                self.w.edit(self.slot(server), number("-w"));
                self.slot(server)
            }
            _ => {
                self.w.remove(self.slot(server));
                self.slot(server)
            }
        };
        if words[0] != "-d" {
            self.w.limit(slot, Thresholds { upper: number("-x"), lower: 0 });
        }
        // LVS's default: a server of weight 0 keeps its clients, a removed one does not.
        self.w.set_keeps(slot, words[0] != "-d");
        self.w.publish();
        settle(&mut self.w);
    }

    /// Where a client's connection goes; it is then held open.
    fn open(&mut self, client: SocketAddr) -> String {
        let IpAddr::V4(addr) = client.ip() else { panic!("IPv4 alone") };
        let vip_port = self.port;
        let proto = L4Proto::Tcp;
        let client = Client { addr: addr.octets(), port: client.port(), vip: VIP, vip_port, proto };
        let mut went = Vec::new();
        for flags in ["S", "A"] {
            send(&mut self.w, 0, &client.packet(flags, 0));
            self.w.turn();
            self.w.look();
            went.extend(slots(&mut self.w));
        }
        let server = went.first().map(|slot| self.w.servers[*slot as usize].at);
        server.map_or("refused".to_owned(), |(addr, port)| {
            SocketAddr::new(addr.into(), port).to_string()
        })
    }

    fn replay(of: &History) -> Result<(), String> {
        let mut ours = Self::new(of);
        for (n, step) in of.steps.iter().enumerate() {
            let words: Vec<_> = step.split_whitespace().collect();
            match words[..] {
                ["open", client, kernel] => {
                    let got = ours.open(client.parse().expect("an address"));
                    if got != kernel {
                        let title = format!("{} {:?}", of.scheduler, of.persistent);
                        return Err(format!(
                            "{title} {:#?}: {got}, kernel {kernel}",
                            &of.steps[..=n]
                        ));
                    }
                }
                _ => ours.change(&words),
            }
        }
        Ok(())
    }
}

#[test]
fn persistent_services_agree_with_a_real_kernel() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
    };
    let each = number("SLUICE_HISTORIES", 4);
    let mut dice = Dice::new(number("SLUICE_SEED", 1));
    let kinds = KINDS.into_iter().flat_map(|kind| (0..each).map(move |_| kind));
    let all: Vec<_> = kinds.zip(10_000..).map(|(k, port)| history(&mut dice, k, port)).collect();
    let Some(answers) = ask(&all) else { return };
    let wrong: Vec<_> = answers.iter().filter_map(|a| Ours::replay(a).err()).collect();
    println!("{} of {} histories the same", answers.len() - wrong.len(), answers.len());
    assert!(wrong.is_empty(), "{} differ; the first: {}", wrong.len(), wrong[0]);
}
