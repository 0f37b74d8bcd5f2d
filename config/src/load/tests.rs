//! What a config may say, what not, and that what is saved is what is read.

use std::net::{IpAddr, Ipv4Addr};

use engine::sched::SchedulerKind;
use proptest::prelude::*;

use crate::persistence::PersistenceVoid;
use crate::settings::{Director, Dpdk, Idle, Port, Settings};
use crate::spec::{
    Admin, Endpoint, Flags, Forward, MaglevHash, OnRemove, ServerSpec, ServiceSpec, SlowStart,
    Stray, Timeouts,
};
use crate::{parse, save};

const HEAD: &str = "[director]\nlcores = [1]\n[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
                    addresses = [\"10.0.1.2/24\"]\n";

fn with(rest: &str) -> Result<Settings, String> {
    parse(&format!("{HEAD}{rest}"), "sluice.toml").map_err(|e| e.0)
}

fn refused(rest: &str, words: &[&str]) {
    let error = with(rest).expect_err(rest);
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in\n{error}");
    }
}

#[test]
fn examples_load_and_survive_a_save() {
    for example in ["minimal", "direct", "ipip", "lab"] {
        let path = format!("{}/examples/{example}.toml", env!("CARGO_MANIFEST_DIR"));
        let settings = crate::load(path.as_ref()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!settings.services.is_empty());
        assert_eq!(parse(&save(&settings), "saved"), Ok(settings));
    }
}

#[test]
fn the_direct_example_means_what_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/direct.toml");
    let s = crate::load(path.as_ref()).unwrap();
    assert_eq!(s.director.connections, 4_000_000);
    assert_eq!(s.director.timeouts, Timeouts { tcp: 7200, tcpfin: 60, udp: 300 });
    let web = &s.services[0];
    assert_eq!((web.servers[1].weight, web.servers[1].port), (150, Some(80)));
    assert_eq!(web.servers[3].forward, Some(Forward::Tunnel));
    assert_eq!(web.servers[0].forward, Some(Forward::Dr));
}

#[test]
fn unknown_and_later_keys_are_refused_by_name_all_at_once() {
    let service = "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nsyn-proxy = true\ncolour = 1\n\
                   check = { http = \"/\" }\nscheduler = \"fastest\"\n";
    refused(
        service,
        &[
            "sluice.toml:9",
            "`syn-proxy` in [[service]] is not supported yet",
            "`colour` is unknown in [[service]]",
            "`check` in [[service]] is not supported yet",
            "\"fastest\" is unknown; allowed: rr, wrr, lc, wlc, ",
            "allowed: flags, forward, hysteresis, listen, maglev-hash, maglev-size, name, \
             no-server, on-remove, one-packet, persistence, persistence-netmask, persistence-void, \
             quorum, scheduler, servers, sloppy, slow-start, slow-start-exponent, \
             slow-start-floor, stray, timeouts",
        ],
    );
    refused("[metrics]\nport = 1\n", &["`metrics` in the file is not supported yet"]);
}

#[test]
fn persistence_is_for_some_time_and_for_some_prefix() {
    let service = |rest: &str| format!("[[service]]\nlisten = \"tcp 192.0.2.1:80\"\n{rest}\n");
    let read = |rest: &str| {
        let service = with(&service(rest)).unwrap().services.remove(0);
        (service.persistence, service.persistence_netmask)
    };
    assert_eq!(read("persistence = 3600"), (Some(3600), None));
    let mask = "persistence = 300\npersistence-netmask";
    for text in ["\"255.255.255.0\"", "\"24\"", "24"] {
        assert_eq!(read(&format!("{mask} = {text}")), (Some(300), Some(24)));
    }
    for (rest, words) in [
        ("persistence = 0", &["`persistence`", "1 to 2678400"][..]),
        ("persistence = \"5m\"", &["must be a number"]),
        (&format!("{mask} = 33"), &["33 bits", "1 to 32"]),
        (&format!("{mask} = \"255.0.255.0\""), &["no netmask such as"]),
        ("persistence-netmask = 24", &["is for services with `persistence`"]),
        ("persistence-void = \"down\"", &["is for services with `persistence`"]),
        ("persistence = 9\npersistence-void = \"up\"", &["allowed: down, drain, weight-0"]),
    ] {
        refused(&service(rest), words);
    }
}

#[test]
fn persistence_warns_where_connections_are_balanced() {
    let warnings = |scheduler: &str, rest: &str| {
        let service = format!(
            "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nscheduler = \"{scheduler}\"\n{rest}\n"
        );
        crate::persistence::warning(&with(&service).unwrap().services[0])
    };
    for (scheduler, warns) in [("wlc", true), ("nq", true), ("rr", false), ("sh", false)] {
        assert_eq!(warnings(scheduler, "persistence = 300").is_some(), warns, "{scheduler}");
        assert_eq!(warnings(scheduler, ""), None);
    }
    assert!(warnings("wlc", "persistence = 300").unwrap().contains("shares follow clients"));
}

#[test]
fn contradictions_are_refused_where_they_stand() {
    let service = |servers: &str| {
        format!("[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nservers = [{servers}]\n")
    };
    let cases = [
        ("{ address = \"10.0.1.5\", port = 81 }", "dr cannot translate port 80 to 81"),
        ("{ address = \"10.0.1.5:81\", port = 82 }", "`address` says another"),
        ("{ address = \"10.0.1.5\" }, { address = \"10.0.1.5\", name = \"b\" }", "already"),
        ("{ address = \"10.0.1.5\" }, { address = \"10.0.1.6\", name = \"10.0.1.5\" }", "called"),
        ("{ address = \"10.9.1.5\" }", "in no port's subnet, and there is no gateway"),
        ("{ address = \"10.0.1.2\" }", "an address of the director itself"),
        ("{ address = \"10.0.1.255\" }", "the edge of a subnet"),
        ("{ address = \"192.0.2.1\" }", "an address of the director itself"),
        ("{ address = \"2001:db8::1\" }", "IPv6 address: not supported yet"),
        ("{ address = \"10.0.1.5\", weight = 2147483648 }", "not in 0 to 2147483647"),
        ("{ address = \"10.0.1.5\", weight = -1 }", "-1 is not in"),
        ("{ address = \"10.0.1.5\", mac = \"02:00\" }", "not a MAC address"),
        ("{ address = \"10.0.1.5\", mac = \"01:00:00:00:00:00\" }", "single station"),
        ("{ address = \"10.0.1.5\", forward = \"nat\" }", "\"nat\" is not supported yet"),
        ("{ address = \"10.0.1.5\", tun-type = \"gue\" }", "\"gue\" is not supported yet"),
        ("{ address = \"10.0.1.5\", u-threshold = 1073741824 }", "not in 0 to 1073741823"),
        ("{ address = \"10.0.1.5\", l-threshold = 1 }", "above the upper threshold, 0"),
        ("{ address = \"10.0.1.5\", u-threshold = 9, l-threshold = 10 }", "upper threshold, 9"),
        ("{ address = \"224.0.0.5\" }", "not the address of a single station"),
        ("{ weight = 5 }", "a server lacks `address`"),
    ];
    for (servers, words) in cases {
        refused(&service(servers), &["sluice.toml:9", words]);
    }
    let twice = "[[service]]\nname = \"a\"\nlisten = \"tcp 192.0.2.1:80\"\n".repeat(2);
    refused(&twice, &["service a has this already", "another service is called a"]);
    let flags = "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nflags = [\"mh-port\"]\n";
    refused(flags, &["mh-port is for scheduler mh, not for wlc"]);
    let flags =
        "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nscheduler = \"mh\"\nflags = [\"sh-port\"]\n";
    refused(flags, &["sh-port is for scheduler sh, not for mh"]);
    let quorum = "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nquorum = 2\nhysteresis = 2\n";
    refused(quorum, &["2 is not below the quorum, 2", "0 to 1"]);
    let policy = "[[service]]\nlisten = \"tcp 192.0.2.1:80\"\nquorum = 0\nno-server = \"pray\"\n";
    let allowed = "allowed: unreachable, reset, drop, fail-open, backup";
    refused(policy, &["0 is not in 1 to 65000", "\"pray\" is unknown", allowed]);
    let maglev = |keys: &str| format!("[[service]]\nlisten = \"tcp 192.0.2.1:80\"\n{keys}");
    let mh = "scheduler = \"mh\"\nmaglev-size = ";
    refused(&maglev("maglev-size = 4093\n"), &["maglev-size is for scheduler mh, not for wlc"]);
    refused(&maglev(&format!("{mh}65536\n")), &["65536 is not a prime from 251", "example 65537"]);
    for (keys, words) in [
        ("slow-start = \"30s\"\nscheduler = \"mh\"", "slow-start is not for scheduler mh"),
        ("slow-start = \"fast\"", "\"fast\" is no time such as 300s"),
        ("slow-start = \"2h\"", "7200 s is too long a start"),
        ("slow-start-floor = 5", "is for a service with `slow-start`"),
        ("slow-start = 30\nslow-start-floor = 0", "0 is not in 1 to 100"),
        ("slow-start = 30\nslow-start-exponent = 0", "\"0\" is not a number from 0.1 to 10"),
        ("slow-start = 30\nslow-start-exponent = \"2\"", "must be a number, not string"),
    ] {
        refused(&maglev(keys), &[words]);
    }
    let kernel = format!("{mh}655373\nmaglev-hash = \"kernel\"\n");
    refused(&maglev(&kernel), &["Linux has no table of 655373 places", "one of 251, 509"]);
}

#[test]
fn direct_routing_needs_the_same_segment_and_tunnels_do_not() {
    let file = |forward: &str| {
        HEAD.to_owned()
            + "gateway = \"10.0.1.1\"\n[[service]]\nlisten = \"tcp 192.0.2.1:80\"\n"
            + &format!("forward = \"{forward}\"\nservers = [{{ address = \"203.0.113.1\" }}]\n")
    };
    let error = parse(&file("dr"), "f").unwrap_err().0;
    assert!(error.contains("dr needs 203.0.113.1 in a port's subnet"), "{error}");
    assert!(parse(&file("tunnel"), "f").is_ok());
}

#[test]
fn the_director_and_its_ports_are_checked() {
    let port = "[[port]]\nname = \"p\"\ndevice = \"net_null0\"\n";
    let cases = [
        ("[director]\nlcores = []\n".to_owned() + port, "`lcores` is empty"),
        ("[director]\nlcores = [1, 1]\n".to_owned() + port, "names a core twice"),
        ("[director]\n".to_owned() + port, "[director] lacks `lcores`"),
        (port.to_owned(), "there is no [director]"),
        ("[director]\nlcores = [1]\n".to_owned(), "there is no [[port]]"),
        (format!("[director]\nlcores = [1]\n{port}{port}"), "`name`: two ports have the same"),
        (
            "[director]\nlcores = [1]\n[[port]]\nname = \"p\"\ndevice = \"\"\n".into(),
            "not be empty",
        ),
        (
            "[director]\nlcores = [1]\n[[port]]\nname = \"p\"\ndevice = \"eth0\"\n".into(),
            "write net_af_packet0,iface=eth0",
        ),
        (format!("[director]\nlcores = [1]\n{port}gateway = \"10.0.0.1\"\n"), "not a neighbour"),
        (format!("[director]\nlcores = [1]\n{port}addresses = [\"::1/64\"]\n"), "IPv6"),
        ("[director]\nlcores = [1\n".to_owned(), "f:"),
        (format!("[director]\nlcores = [1]\nmh-key = \"12\"\n{port}"), "32 hexadecimal digits"),
        (format!("[director]\nlcores = [1]\nconnections = \"4Q\"\n{port}"), "\"4Q\" is not"),
    ];
    for (file, words) in cases {
        let error = parse(&file, "f").expect_err(&file).0;
        assert!(error.contains(words), "{words:?} is missing in\n{error}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,8}"
}

fn servers(tunnel_only: bool) -> impl Strategy<Value = Vec<ServerSpec>> {
    let one = (any::<bool>(), 0..=crate::spec::MAX_WEIGHT, any::<Option<[u8; 5]>>(), 0..3_u8);
    prop::collection::vec((one, prop::option::of(576..9000_u16)), 0..6).prop_map(move |all| {
        let server = |(i, ((tunnel, weight, mac, admin), mtu)): (usize, (_, Option<u16>))| {
            let host = u8::try_from(i).unwrap() + 10;
            let mut s = ServerSpec::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, host)));
            s.name = format!("s{i}");
            s.weight = weight;
            s.mtu = mtu;
            s.u_threshold = weight % 50;
            s.l_threshold = s.u_threshold * u32::from(admin) / 3;
            s.backup = mtu.is_some();
            s.admin = [Admin::Enabled, Admin::Drain, Admin::Disabled][usize::from(admin)];
            s.forward = (tunnel || tunnel_only).then_some(Forward::Tunnel);
            let mac: Option<[u8; 5]> = mac;
            s.mac = mac.map(|m| engine::addr::Mac([2, m[0], m[1], m[2], m[3], m[4]]));
            s
        };
        all.into_iter().enumerate().map(server).collect()
    })
}

fn services() -> impl Strategy<Value = Vec<ServiceSpec>> {
    let kinds = prop::sample::select(SchedulerKind::ALL);
    let one = (kinds, any::<[bool; 5]>(), any::<bool>().prop_flat_map(servers));
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let service = |(i, (scheduler, b, servers)): (usize, (SchedulerKind, [bool; 5], _))| {
            let port = u16::try_from(i).unwrap();
            let protocol = if b[0] { "tcp" } else { "udp" }.parse().unwrap();
            let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
            let mut s = ServiceSpec::new(Endpoint { protocol, address, port });
            s.scheduler = scheduler;
            let names = ["port", "fallback"].map(|flag| format!("{scheduler}-{flag}"));
            let set = names.into_iter().zip([b[1], b[2]]).filter(|(_, set)| *set);
            s.flags =
                Flags::try_from(set.map(|(name, _)| name).collect::<Vec<_>>()).unwrap_or_default();
            s.forward = if b[3] { Forward::Dr } else { Forward::Tunnel };
            if scheduler == SchedulerKind::Mh && b[2] {
                (s.maglev_hash, s.maglev_size) = (MaglevHash::Kernel, b[1].then_some(65_521));
            }
            s.stray = if b[4] { Stray::Reset } else { Stray::Drop };
            (s.sloppy, s.one_packet) = (b[1], !b[0] && b[2]);
            s.on_remove = if b[3] { OnRemove::Drain } else { OnRemove::Reschedule };
            s.quorum = 1 + u32::from(port);
            s.hysteresis = if b[0] { s.quorum - 1 } else { 0 };
            let policies = ["unreachable", "reset", "drop", "fail-open", "backup"];
            s.no_server = policies[i].parse().unwrap();
            s.persistence = b[3].then_some(300 + u32::from(port));
            s.persistence_netmask = (b[3] && b[4]).then_some(24);
            s.persistence_void = PersistenceVoid::ALL[if b[3] { i % 3 } else { 1 }];
            s.timeouts = b[4].then_some(Timeouts { tcp: 30, tcpfin: 0, udp: 5 });
            if crate::slow_start::is_ramped(scheduler) && b[1] {
                let exponent = ["1", "0.75"][usize::from(b[2])].parse().unwrap();
                let floor = if b[3] { 5 } else { 20 };
                s.slow_start = Some(SlowStart { secs: 30, floor, exponent });
            }
            s.servers = servers;
            s.resolved()
        };
        all.into_iter().enumerate().map(service).collect()
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let director = (name(), 1_000..9_000_000_u64, 1..9_000_u32, any::<Option<[u8; 16]>>());
    let port = (any::<[bool; 4]>(), 576..9000_u16, "[ -~]{1,20}");
    let dpdk = (prop::collection::vec("[ -~]{0,9}", 0..3), any::<Option<bool>>(), 20..99_u64);
    (director, port, dpdk, services()).prop_map(|(d, p, e, services)| {
        let mut port = Port::new("p0", format!("net_{}", p.2));
        port.addresses = vec!["10.0.1.2/24".parse().unwrap()];
        port.garp = p.0[0];
        port.promiscuous = p.0[1];
        port.gateway = p.0[2].then(|| "10.0.1.1".parse().unwrap());
        port.idle = p.0[3].then_some(Idle::Sleep);
        port.mtu = p.1;
        let director = Director {
            name: d.0,
            lcores: vec![3, 1],
            connections: d.1,
            timeouts: Timeouts { tcp: d.2, tcpfin: 60, udp: 30 },
            mh_key: d.3,
            flood_guard: if e.1.is_some() { 50_000 } else { 0 },
            state: e.1.map(|_| "/run/s.state".into()),
            ..Director::default()
        };
        let dpdk = Dpdk { args: e.0, plugins: vec![], hugepages: e.1, memory: Some(e.2 << 20) };
        Settings { director, ports: vec![port], dpdk, services }
    })
}

proptest! {
    #[test]
    fn what_is_saved_is_what_is_read(settings in settings()) {
        let text = save(&settings);
        prop_assert_eq!(parse(&text, "saved").map_err(|e| e.0), Ok(settings), "{}", text);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]a-z=\"0-9., \n{}-]{0,80}") {
        let _ = parse(&text, "f");
        let _ = with(&text);
    }
}
