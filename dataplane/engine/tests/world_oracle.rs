//! The histories recorded from a Linux kernel, packet by packet through a whole lcore: a SYN goes in,
//! and the hardware address it leaves with says who was picked.

mod world_lab;

use std::net::SocketAddr;

use engine::addr::{Addr, L4Proto};
use engine::sched::{SchedFlags, SchedulerKind};
use engine::service::{ServiceKey, StrayPolicy};
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::ticks::TickSpan;
use serde_json::Value;
use world_lab::packets::{Client, send, slots};
use world_lab::world;

/// The virtual address of the recordings.
const VIP: Addr = Addr::v4([192, 168, 1, 100]);

/// `-x` as LVS keeps it: connections, threshold, whether it was reached.
#[derive(Clone, Copy, Default)]
struct Limit {
    conns: u32,
    threshold: u32,
    reached: bool,
}

struct Director {
    w: World,
    /// By slot.
    limits: Vec<Limit>,
    opened: Vec<Client>,
}

impl Director {
    fn new(kind: &str, flags: &str) -> Self {
        let mut w = world(1, 4000, Timeouts::default());
        let key = ServiceKey { proto: L4Proto::Tcp, addr: VIP, port: 80 };
        w.add_service(key, kind.parse().unwrap(), parse(flags), StrayPolicy::Reset);
        Self { w, limits: vec![Limit::default(); 64], opened: Vec::new() }
    }

    fn change(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let option = |name| words.iter().position(|w| *w == name).and_then(|n| words.get(n + 1));
        let number = |name| option(name).map_or(0, |n| n.parse().unwrap());
        if words[0] == "-E" {
            let kind: SchedulerKind = option("-s").unwrap().parse().unwrap();
            self.w.reschedule(0, kind, parse(option("-b").unwrap_or(&"")));
            return self.w.publish();
        }
        let server: SocketAddr = option("-r").unwrap().parse().unwrap();
        let at = (Addr::from(server.ip()), server.port());
        let known = (0..).zip(&self.w.servers).find(|(_, s)| s.at == at).map(|(slot, _)| slot);
        let slot = match (words[0], known) {
            ("-a", _) => self.w.add_server(0, at, number("-w")),
            ("-e", Some(slot)) => {
                self.w.edit(slot, number("-w"));
                slot
            }
            ("-d", Some(slot)) => {
                self.w.remove(slot);
                slot
            }
            _ => panic!("{line}"),
        };
        let limit = &mut self.limits[slot as usize];
        let threshold = if words[0] == "-d" { limit.threshold } else { number("-x") };
        // LVS forgets an overload when the threshold is raised or dropped.
        limit.reached &= threshold > 0 && threshold <= limit.threshold;
        limit.threshold = threshold;
        self.w.set_eligible(slot, !limit.reached);
        self.w.publish();
    }

    fn open(&mut self, from: SocketAddr) -> String {
        let SocketAddr::V4(from) = from else { panic!("IPv4 only") };
        let (addr, port) = (from.ip().octets(), from.port());
        let client = Client { addr, port, vip: VIP, vip_port: 80, proto: L4Proto::Tcp };
        self.opened.push(client);
        let [slot] = self.packet(client, "S")[..] else { return "refused".to_owned() };
        let limit = &mut self.limits[slot as usize];
        limit.conns += 1;
        limit.reached |= limit.threshold > 0 && limit.conns >= limit.threshold;
        self.w.set_eligible(slot, !limit.reached);
        let (addr, port) = self.w.servers[slot as usize].at;
        format!("{}:{port}", std::net::Ipv4Addr::from(addr.low4()))
    }

    fn packet(&mut self, client: Client, flags: &str) -> Vec<u32> {
        send(&mut self.w, 0, &client.packet(flags, 0));
        self.w.turn();
        self.w.look();
        self.w.now = self.w.now + TickSpan(1);
        slots(&mut self.w)
    }
}

fn parse(flags: &str) -> SchedFlags {
    SchedFlags {
        sh_port: flags.contains("sh-port"),
        sh_fallback: flags.contains("sh-fallback"),
        mh_port: flags.contains("mh-port"),
        mh_fallback: flags.contains("mh-fallback"),
        ..SchedFlags::default()
    }
}

#[test]
fn recorded_histories_packet_by_packet() {
    let oracle: Value = serde_json::from_str(include_str!("data/ipvs_oracle.json")).unwrap();
    let drawn: Value = serde_json::from_str(include_str!("data/ipvs_histories.json")).unwrap();
    let (oracle, drawn) = (oracle["recorded"].as_array().unwrap(), drawn.as_array().unwrap());
    let (mut done, mut picks) = (0, 0);
    for case in oracle.iter().chain(drawn) {
        let steps = case["steps"].as_array().unwrap().iter().map(|s| s.as_str().unwrap());
        // IPv6 is not forwarded yet, and a service has one address.
        let ours = !case["any-destination"].as_bool().unwrap_or(false);
        if !ours || steps.clone().any(|s| s.contains('[')) {
            continue;
        }
        let flags = case["flags"].as_str().unwrap_or("");
        let mut director = Director::new(case["scheduler"].as_str().unwrap(), flags);
        for (n, step) in steps.enumerate() {
            match step.split_whitespace().collect::<Vec<_>>()[..] {
                ["open", client, kernel] => {
                    let ours = director.open(client.parse().unwrap());
                    assert_eq!(ours, kernel, "{} {flags}, step {n}: {step}", case["scheduler"]);
                    picks += 1;
                }
                ["close", n] => {
                    let client = director.opened[n.parse::<usize>().unwrap()];
                    director.packet(client, "FA");
                }
                _ => director.change(step),
            }
        }
        done += 1;
    }
    println!("{done} histories, {picks} picks");
    assert!(done > 100 && picks > 1000);
}
