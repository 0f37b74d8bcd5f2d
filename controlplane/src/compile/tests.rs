//! What a snapshot says, and what it shares with the one before.

use std::net::IpAddr;

use config::settings::Port;
use config::spec::{Admin, Forward, ServerRef};
use config::{ServerSpec, ServiceSpec};
use engine::addr::Mac;
use engine::forward::ForwarderKind;
use engine::neigh::HopId;
use engine::sched::SchedulerKind;

use super::*;
use crate::change::{Change, ServerEdit};

const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn settings() -> Settings {
    let mut inner = Port::new("p0", "net_null0");
    inner.addresses = vec!["10.0.0.1/24".parse().unwrap()];
    inner.gateway = Some("10.0.0.254".parse().unwrap());
    inner.gateway_mac = Some(GATEWAY_MAC);
    let mut outer = Port::new("p1", "net_null1");
    outer.addresses = vec!["192.0.2.1/24".parse().unwrap()];
    Settings { ports: vec![inner, outer], ..Settings::default() }
}

fn service(listen: &str, servers: &[&str]) -> ServiceSpec {
    let server = |a: &&str| ServerSpec::new(a.parse().unwrap());
    let servers = servers.iter().map(server).collect();
    ServiceSpec { servers, ..ServiceSpec::new(listen.parse().unwrap()) }
}

fn rig(services: &[ServiceSpec]) -> (Store, Compiler) {
    let settings = settings();
    let facts = [1500, 1400].map(|mtu| PortFacts { mac: Mac([2, 0, 0, 0, 0, 1]), mtu });
    let mut store = Store::new(&settings).unwrap();
    let adds: Vec<Change> = services.iter().cloned().map(Change::AddService).collect();
    store.apply(&adds).unwrap();
    (store, Compiler::new(&settings, &facts, 16, 7))
}

fn find<'a>(snapshot: &'a Snapshot, listen: &str) -> &'a Arc<Service> {
    let endpoint: config::Endpoint = listen.parse().unwrap();
    snapshot.service(endpoint.key()).unwrap()
}

const WEB: &str = "tcp 192.0.2.10:80";
const DNS: &str = "udp 203.0.113.5:53";

#[test]
fn lines_say_where_servers_are() {
    let mut web = service(WEB, &["10.0.0.11", "198.51.100.1"]);
    web.servers[1].forward = Some(Forward::Tunnel);
    web.servers[1].mtu = Some(1400);
    let (store, mut compiler) = rig(&[web]);
    let snapshot = compiler.compile(&store);
    let [near, far] = &snapshot.servers[..] else { panic!("two slots") };
    assert_eq!((near.addr, near.forwarder), (Addr::v4([10, 0, 0, 11]), ForwarderKind::Dr));
    assert_eq!((near.mtu, near.port, near.in_use), (1500, 80, true));
    assert_eq!((far.forwarder, far.mtu), (ForwarderKind::Ipip, 1400));
    assert_eq!(far.tunnel_source, Addr::v4([10, 0, 0, 1]));
    let hops: HashMap<HopId, NextHop> =
        compiler.hops.in_use().map(|(id, hop, _)| (id, hop)).collect();
    assert_eq!(hops[&near.hop].address, IpAddr::from([10, 0, 0, 11]));
    assert_eq!((hops[&near.hop].mac, hops[&near.hop].port), (None, 0));
    assert_eq!(hops[&far.hop].address, IpAddr::from([10, 0, 0, 254]));
    assert_eq!(hops[&far.hop].mac, Some(GATEWAY_MAC));
    let heeded = |a: [u8; 4], port| snapshot.heeds(Addr::v4(a), port);
    assert!(heeded([10, 0, 0, 11], 0) && heeded([10, 0, 0, 254], 0), "next hops");
    assert!(heeded([192, 0, 2, 10], 0) && heeded([10, 0, 0, 1], 1), "our own, on any port");
    assert!(!heeded([10, 0, 0, 11], 1) && !heeded([10, 0, 0, 12], 0) && !heeded([0; 4], 0));
}

#[test]
fn addresses_are_answered_for_where_they_belong() {
    let (store, mut compiler) =
        rig(&[service(WEB, &[]), service(DNS, &[]), service("tcp 192.0.2.10:443", &[])]);
    let snapshot = compiler.compile(&store);
    let ports = |a: [u8; 4]| snapshot.local(Addr::v4(a)).map(|l| (l.kind, l.ports));
    assert_eq!(ports([192, 0, 2, 10]), Some((LocalKind::Vip, 0b10)));
    assert_eq!(ports([203, 0, 113, 5]), Some((LocalKind::Vip, 0b11)), "in no subnet: everywhere");
    assert_eq!(ports([10, 0, 0, 1]), Some((LocalKind::Own, 0b01)));
    assert_eq!(ports([192, 0, 2, 11]), None);
    assert!(snapshot.locals.is_sorted_by_key(|l| l.addr));
}

#[test]
fn what_did_not_change_is_the_same() {
    let servers = ["10.0.0.11", "10.0.0.12"];
    let (mut store, mut compiler) = rig(&[service(WEB, &servers), service(DNS, &servers)]);
    let before = compiler.compile(&store);
    let edit = ServerEdit { weight: Some(5), ..ServerEdit::default() };
    let endpoint: config::Endpoint = WEB.parse().unwrap();
    let server = ServerRef::Address("10.0.0.11".parse().unwrap(), None);
    store.apply(&[Change::EditServer { service: endpoint.into(), server, edit }]).unwrap();
    let after = compiler.compile(&store);
    assert!(after.version > before.version);
    assert!(Arc::ptr_eq(find(&before, DNS), find(&after, DNS)));
    assert!(!Arc::ptr_eq(find(&before, WEB), find(&after, WEB)));
    assert_eq!(before.servers[0].hop, after.servers[0].hop);
}

#[test]
fn a_maglev_table_is_keyed_unless_it_must_agree_with_the_kernel() {
    let servers = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
    let mh = |listen, hash| ServiceSpec {
        scheduler: SchedulerKind::Mh,
        maglev_hash: hash,
        maglev_size: Some(251),
        ..service(listen, &servers)
    };
    let (mut store, mut compiler) =
        rig(&[mh(WEB, MaglevHash::Keyed), mh("udp 192.0.2.10:80", MaglevHash::Kernel)]);
    compiler.compile(&store);
    let ids: Vec<_> = store.services().map(|entry| entry.id).collect();
    let maglev = |compiler: &Compiler, n: usize| compiler.maglev(ids[n]).unwrap().0.clone();
    let (keyed, kernel) = (maglev(&compiler, 0), maglev(&compiler, 1));
    // The kernel's rounds give the first of the walk the rest; shares of keyed tables are even too.
    assert_eq!((keyed.size(), keyed.shares().iter().sum::<u32>()), (251, 251));
    assert_eq!(kernel.shares(), [84, 84, 83]);
    let alike = Scheduler::build(
        SchedulerKind::Mh,
        &store.services().next().unwrap().pool,
        SchedFlags { mh_key: None, mh_size: Some(251), ..SchedFlags::default() },
    );
    let Scheduler::Mh(alike) = alike else { panic!("mh was asked for") };
    assert!(kernel.agrees(&alike) && !keyed.agrees(&alike));

    let endpoint: config::Endpoint = WEB.parse().unwrap();
    let server = ServerRef::Address("10.0.0.11".parse().unwrap(), None);
    let mut edit = |edit: ServerEdit| {
        let (service, server) = (endpoint.into(), server.clone());
        store.apply(&[Change::EditServer { service, server, edit }]).unwrap();
        compiler.compile(&store);
        maglev(&compiler, 0)
    };
    let drain = edit(ServerEdit { admin: Some(Admin::Drain), ..ServerEdit::default() });
    assert!(drain.shares_table(&keyed), "its pool did not change");
    let heavier = edit(ServerEdit { weight: Some(2), ..ServerEdit::default() });
    assert!(!heavier.shares_table(&keyed));
    let gained = heavier.shares()[2] - keyed.shares()[2];
    assert_eq!(heavier.disruption().unwrap().least, gained);
    assert!((40..=42).contains(&gained), "from a third to a half: {gained}");
}

#[test]
fn equal_pools_share_a_fallback_table() {
    let servers = ["10.0.0.11", "10.0.0.12"];
    // The same servers on the same port; only the protocol differs.
    let (store, mut compiler) = rig(&[
        service("tcp 192.0.2.10:53", &servers),
        service("udp 192.0.2.10:53", &servers),
        service("udp 192.0.2.11:53", &servers[..1]),
    ]);
    let snapshot = compiler.compile(&store);
    let tables: Vec<_> = ["tcp 192.0.2.10:53", "udp 192.0.2.10:53", "udp 192.0.2.11:53"]
        .map(|listen| Arc::clone(&find(&snapshot, listen).fallback))
        .into();
    assert!(Arc::ptr_eq(&tables[0], &tables[1]));
    assert!(!Arc::ptr_eq(&tables[0], &tables[2]));
}

#[test]
fn a_removed_server_is_out_of_the_pool_and_still_resolves() {
    let (mut store, mut compiler) = rig(&[service(WEB, &["10.0.0.11", "10.0.0.12"])]);
    let first = compiler.compile(&store);
    let endpoint: config::Endpoint = WEB.parse().unwrap();
    let del = |purge, last: u8| Change::DelServer {
        service: endpoint.into(),
        server: ServerRef::Address(IpAddr::from([10, 0, 0, last]), None),
        then: if purge { Some(config::spec::OnRemove::Reset) } else { None },
    };
    store.apply(&[del(false, 11), del(true, 12)]).unwrap();
    let snapshot = compiler.compile(&store);
    assert!(find(&snapshot, WEB).pool.servers.is_empty());
    let left = first.servers[0];
    assert!(snapshot.server(0, left.generation).is_some(), "it left: connections go on");
    assert!(snapshot.server(1, first.servers[1].generation).is_none(), "purged: none does");
    store.reclaim(store.version(), |_, _| true);
    let snapshot = compiler.compile(&store);
    assert!(snapshot.servers.iter().all(|line| !line.in_use));
    compiler.hops.reclaim(store.version());
    assert_eq!(compiler.hops.in_use().count(), 0);
}

#[test]
fn backups_are_a_pool_of_their_own() {
    let mut web = service(WEB, &["10.0.0.11", "10.0.0.12", "198.51.100.1"]);
    web.servers[2].forward = Some(Forward::Tunnel);
    (web.servers[2].backup, web.servers[2].weight) = (true, 5);
    web.no_server = config::spec::NoServer::Reset;
    let (mut store, mut compiler) = rig(&[web]);
    let snapshot = compiler.compile(&store);
    let built = find(&snapshot, WEB);
    let backup = built.backup.as_ref().unwrap();
    assert_eq!((built.pool.servers.len(), backup.pool.servers.len()), (2, 1));
    assert_eq!((backup.pool.servers[0].weight, backup.scheduler.kind()), (5, SchedulerKind::Wlc));
    assert_eq!(snapshot.services.place(backup.pool.servers[0].slot), 2, "behind the pool");
    assert_eq!(built.rules.no_server, engine::service::NoServerPolicy::Reset);
    let edit = ServerEdit { backup: Some(false), ..ServerEdit::default() };
    let server = ServerRef::Address("198.51.100.1".parse().unwrap(), None);
    let service = WEB.parse::<config::Endpoint>().unwrap().into();
    store.apply(&[Change::EditServer { service, server, edit }]).unwrap();
    let snapshot = compiler.compile(&store);
    let built = find(&snapshot, WEB);
    assert!(built.backup.is_none());
    assert_eq!(built.pool.servers[0].weight, 5, "it is the newest of the pool now");
}
