//! Persistent services: one client, one server, on whatever lcore its connections land, for as long
//! as LVS's rule says.

mod world_lab;

use std::collections::BTreeSet;

use engine::addr::{Addr, L4Proto};
use engine::sched::SchedulerKind;
use engine::service::{Persistence, Rules};
use engine::snapshot::Timeouts;
use engine::templates::{Holder, TemplateRow};
use engine::testkit::World;
use engine::ticks::{TickSpan, Ticks};
use world_lab::packets::{Client, send, slots};
use world_lab::{VIP, service, settle, tcp_service, world};

const ROOMY: u32 = 4000;
/// IPv4 addresses as they are.
const HOST: u8 = 128;

const fn secs(n: u64) -> TickSpan {
    TickSpan::from_secs(n)
}

const fn persistent(life: u64, bits: u8) -> Option<Persistence> {
    Some(Persistence { life: secs(life), bits })
}

/// A round-robin service of three servers on two lcores, persistent for so long.
fn trio(life: u64, bits: u8) -> World {
    let mut w = world(2, ROOMY, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Rr, 80, &[1, 1, 1]);
    w.services[0].rules.persistence = persistent(life, bits);
    w.publish();
    settle(&mut w);
    w
}

fn client(last: u8, port: u16) -> Client {
    Client { addr: [198, 51, 100, last], port, vip: VIP, vip_port: 80, proto: L4Proto::Tcp }
}

/// The server that a packet goes to, on the lcore that owns it.
fn to(w: &mut World, client: &Client, flags: &str) -> Option<u32> {
    let owner = client.owner(w);
    send(w, owner, &client.packet(flags, 0));
    w.turn();
    w.look();
    slots(w).first().copied()
}

/// A connection of a client, from port to port until both lcores have had one; all its servers.
fn on_both_lcores(w: &mut World, last: u8, from: u16) -> BTreeSet<u32> {
    let (mut owners, mut servers) = (BTreeSet::new(), BTreeSet::new());
    for port in from.. {
        let client = client(last, port);
        owners.insert(client.owner(w));
        servers.insert(to(w, &client, "S").expect("forwarded"));
        if owners.len() == 2 {
            return servers;
        }
    }
    unreachable!("flows spread over lcores")
}

fn rows(w: &World) -> Vec<TemplateRow> {
    let service = |place: engine::templates::Place| {
        w.snapshot.server(place.slot, place.generation).map(|line| line.service)
    };
    (0..w.templates.n_buckets()).flat_map(|b| w.templates.rows(b, w.now, service)).collect()
}

/// Turns often enough for every timer that is due by `then`.
fn wait(w: &mut World, span: TickSpan) {
    let then = w.now + span;
    while w.now < then {
        w.now = Ticks((w.now.0 + 100).min(then.0));
        w.turn();
        w.look();
    }
}

#[test]
fn one_client_has_one_server_on_all_lcores() {
    let mut w = trio(300, HOST);
    let servers: Vec<_> = (1..=30).map(|n| on_both_lcores(&mut w, n, 1000)).collect();
    assert!(servers.iter().all(|s| s.len() == 1), "{servers:?}");
    let used: BTreeSet<_> = servers.into_iter().flatten().collect();
    assert_eq!(used.len(), 3, "clients are scheduled, not all sent to one");
    assert_eq!(rows(&w).len(), 30);
    assert_eq!((w.totals().templates_made, w.totals().template_failures), (30, 0));
}

#[test]
fn without_persistence_nothing_is_remembered() {
    let mut w = trio(300, HOST);
    w.services[0].rules.persistence = None;
    w.publish();
    settle(&mut w);
    let servers: BTreeSet<_> = (0..3).map(|p| to(&mut w, &client(1, 1000 + p), "S")).collect();
    assert_eq!((servers.len() > 1, rows(&w)), (true, vec![]));
}

/// Both lcores see a client's first packets in one turn, before either has told the other anything.
#[test]
fn first_packets_at_once_agree() {
    let mut w = trio(300, HOST);
    for last in 1..=100 {
        for port in 0..8 {
            let client = client(last, 2000 + port);
            let owner = client.owner(&w);
            send(&mut w, owner, &client.packet("S", 0));
        }
        w.turn();
        let all: BTreeSet<_> = slots(&mut w).into_iter().collect();
        assert_eq!(all.len(), 1, "client {last}");
    }
}

#[test]
fn a_netmask_makes_many_clients_one() {
    let mut w = trio(300, 96 + 24);
    let servers: BTreeSet<_> = (1..=20).flat_map(|n| on_both_lcores(&mut w, n, 1000)).collect();
    assert_eq!(servers.len(), 1);
    let holders: Vec<_> = rows(&w).into_iter().map(|row| row.holder).collect();
    assert_eq!(holders, [Holder { service: 0, client: Addr::v4([198, 51, 100, 0]) }]);
}

#[test]
fn prefixes_of_both_families() {
    let v4 = Addr::v4([198, 51, 100, 77]);
    for (bits, text) in [(96 + 32, "198.51.100.77"), (96 + 25, "198.51.100.0"), (96, "0.0.0.0")] {
        assert_eq!(v4.masked(bits).to_string(), text);
    }
    let v6: Addr = "2001:db8:1:2:3:4:5:6".parse::<std::net::IpAddr>().unwrap().into();
    for (bits, text) in [
        (128, "2001:db8:1:2:3:4:5:6"),
        (64, "2001:db8:1:2::"),
        (33, "2001:db8::"),
        (1, "::"),
        (0, "::"),
    ] {
        assert_eq!(v6.masked(bits).to_string(), text);
    }
}

/// The client's entry ends long before: only its new connections count.
#[test]
fn the_time_runs_from_the_last_new_connection() {
    let mut w = trio(300, HOST);
    let first = to(&mut w, &client(1, 1000), "S");
    for port in 1001..1004 {
        wait(&mut w, secs(299));
        assert_eq!(to(&mut w, &client(1, port), "S"), first);
    }
    let left = rows(&w)[0].left.0;
    assert!((300_000..=300_128).contains(&left), "{left}");
    wait(&mut w, secs(301));
    assert_eq!((rows(&w), w.totals().entries), (vec![], 0));
    let other = to(&mut w, &client(1, 1100), "S");
    assert!(other.is_some() && other != first, "round robin went on");
}

/// As in LVS: while a connection lives, its template does, and a minute more at most.
#[test]
fn a_template_outlives_its_connections() {
    let mut w = trio(10, HOST);
    let old = client(1, 1000);
    let first = to(&mut w, &old, "S");
    assert_eq!(to(&mut w, &old, "A"), first);
    for port in 1001..1010 {
        wait(&mut w, secs(95));
        assert_eq!(to(&mut w, &old, "A"), first, "the connection is alive");
        assert_eq!(rows(&w).len(), 1, "port {port}");
    }
    // Another connection of the client still finds it.
    assert_eq!(to(&mut w, &client(1, 2000), "S"), first);
    assert_eq!(to(&mut w, &client(1, 2000), "R"), first);
    // FIN_WAIT is 120 s, then 60 at most.
    assert_eq!(to(&mut w, &old, "FA"), first);
    wait(&mut w, secs(119));
    assert_eq!(rows(&w).len(), 1);
    wait(&mut w, secs(63));
    assert_eq!((rows(&w), w.totals().entries), (vec![], 0));
}

#[test]
fn a_server_of_weight_0_keeps_its_clients_only_where_the_service_says_so() {
    for keeps in [true, false] {
        let mut w = trio(300, HOST);
        let first = to(&mut w, &client(1, 1000), "S").expect("forwarded");
        w.set_keeps(first, keeps);
        w.set_eligible(first, false);
        let again = on_both_lcores(&mut w, 1, 1001);
        assert_eq!(again.len(), 1, "all lcores say the same");
        assert_eq!(again.contains(&first), keeps);
        assert!(!on_both_lcores(&mut w, 2, 1000).contains(&first), "strangers go elsewhere");
        w.set_eligible(first, true);
        assert_eq!(on_both_lcores(&mut w, 1, 1100), again, "what was picked then stays");
    }
}

#[test]
fn a_removed_server_gives_its_clients_up() {
    let mut w = trio(300, HOST);
    let first = to(&mut w, &client(1, 1000), "S").expect("forwarded");
    w.remove(first);
    w.publish();
    settle(&mut w);
    let again = on_both_lcores(&mut w, 1, 1001);
    assert!(again.len() == 1 && !again.contains(&first), "{again:?}, once {first}");
    assert_eq!(to(&mut w, &client(1, 1000), "A"), Some(first), "an open connection stays");
}

/// Purged and added again, it is another server: nobody knows it from before.
#[test]
fn a_purged_server_is_unknown_to_its_clients() {
    let mut w = trio(300, HOST);
    let first = to(&mut w, &client(1, 1000), "S").expect("forwarded");
    w.purge(first);
    w.publish();
    settle(&mut w);
    assert_eq!(rows(&w), []);
    let again = on_both_lcores(&mut w, 1, 1001);
    assert_eq!((again.len(), rows(&w).len()), (1, 1));
    assert!(!again.contains(&first), "round robin went on");
}

/// The control thread's sweep frees what nobody can use.
#[test]
fn a_sweep_ends_templates_of_servers_that_are_gone() {
    let mut w = trio(300, HOST);
    let servers: Vec<_> = (1..=30).map(|n| to(&mut w, &client(n, 1000), "S")).collect();
    let gone = servers.iter().filter(|s| **s == Some(0)).count();
    let sweep = |w: &World, slot: u32| -> usize {
        let sweep = |b| w.templates.sweep(b, w.now, |place| place.slot == slot);
        (0..w.templates.n_buckets()).map(sweep).sum()
    };
    assert_eq!((sweep(&w, 99), sweep(&w, 0)), (30, 30 - gone));
    assert!(gone > 5 && rows(&w).iter().all(|row| row.place.slot != 0));
}

/// More clients than templates: they stay with their servers all the same, by the hash.
#[test]
fn where_there_is_no_room_clients_stay_by_the_hash() {
    let mut w = trio(300, HOST);
    let holder = |n: u32| Holder { service: 9, client: Addr::v4(n.to_be_bytes()) };
    let place = engine::templates::Place { slot: 0, generation: 0 };
    let span = engine::templates::Span { now: w.now, life: secs(300) };
    let refused =
        (0..100_000).filter(|n| w.templates.settle(&holder(*n), place, span, |_| true).is_none());
    assert!(refused.count() > 60_000, "the table is full");
    let servers: Vec<_> = (1..=60).map(|n| on_both_lcores(&mut w, n, 1000)).collect();
    assert!(servers.iter().all(|s| s.len() == 1), "{servers:?}");
    assert_eq!(servers.into_iter().flatten().collect::<BTreeSet<_>>().len(), 3);
    let all = w.totals();
    assert!(all.template_failures >= 120 && all.untracked == 0, "{all:?}");
    wait(&mut w, secs(301));
    on_both_lcores(&mut w, 1, 5000);
    assert_eq!(rows(&w).len(), 1, "there is room again");
}

/// No room for connections: their packets follow the client's template.
#[test]
fn flows_without_entries_follow_the_template() {
    let mut w = world(2, 8, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Rr, 80, &[1, 1, 1]);
    w.services[0].rules = Rules { persistence: persistent(300, HOST), ..Rules::default() };
    w.publish();
    settle(&mut w);
    for last in 1..=20 {
        let flows: Vec<_> = (1000..1010).map(|port| client(last, port)).collect();
        let begun: BTreeSet<_> = flows.iter().map(|c| to(&mut w, c, "S")).collect();
        let went: BTreeSet<_> = flows.iter().map(|c| to(&mut w, c, "A")).collect();
        assert!(begun.len() == 1 && went == begun, "client {last}: {begun:?}, then {went:?}");
    }
    assert!(w.totals().untracked > 200);
}

#[test]
fn any_port_sticks_as_one_service() {
    let mut w = world(2, ROOMY, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Rr, 0, &[1, 1, 1]);
    w.services[0].rules.persistence = persistent(300, HOST);
    w.publish();
    settle(&mut w);
    for last in 1..=10 {
        let to_port = |vip_port| Client { vip_port, ..client(last, 1000 + vip_port) };
        let servers: BTreeSet<_> =
            [80, 443, 21, 30_000].map(|port| to(&mut w, &to_port(port), "S")).into();
        assert_eq!(servers.len(), 1);
    }
}

/// Services do not share templates, and datagrams without entries have them too.
#[test]
fn every_datagram_follows_the_template() {
    let mut w = trio(300, HOST);
    let udp = service(&mut w, L4Proto::Udp, SchedulerKind::Rr, 53, &[1, 1, 1]);
    w.services[usize::from(udp)].rules =
        Rules { one_packet: true, persistence: persistent(300, HOST), ..Rules::default() };
    w.publish();
    settle(&mut w);
    let datagram = |n: u8, port| Client { vip_port: 53, proto: L4Proto::Udp, ..client(n, port) };
    for n in 1..=9 {
        to(&mut w, &client(n, 1000), "S");
        let servers: BTreeSet<_> = (0..5).map(|p| to(&mut w, &datagram(n, 1000 + p), "")).collect();
        assert!(servers.len() == 1 && servers.first() >= Some(&Some(3)), "{servers:?}");
    }
    assert_eq!((w.totals().created, rows(&w).len()), (9, 18));
}
