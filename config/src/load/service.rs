//! `[[service]]` and its servers.

use engine::sched::maglev::SIZES;
use engine::thresholds::Thresholds;
use toml::Spanned;
use toml::de::DeValue;

use super::{MAX_TIMEOUT, timeouts};
use crate::check::{self, Fault, Network};
use crate::persistence;
use crate::reader::{self as read, Problems, Reader};
use crate::report::Problem;
use crate::slow_start::{DEFAULT_FLOOR, SlowStart};
use crate::spec::{
    Admin, Endpoint, Flags, MAX_WEIGHT, ServerSpec, ServiceSpec, Timeouts, default_scheduler,
    server_address,
};

const LATER_SERVICE: &[&str] = &["check", "guard", "limit", "syn-proxy"];
const LATER_SERVER: &[&str] = &["check", "slow-start", "tun-port"];

pub(super) fn services(
    top: &Reader<'_>,
    network: &Network,
    problems: &Problems,
) -> Vec<ServiceSpec> {
    let mut services: Vec<ServiceSpec> = Vec::new();
    for value in top.items("service").unwrap_or_default() {
        let Some(r) = Reader::of_value("[[service]]", value, problems) else { continue };
        let Some(service) = service(&r, network, problems) else { continue };
        if let Some(other) = services.iter().find(|s| s.endpoint() == service.endpoint()) {
            let message = format!("`listen`: service {} has this already", other.name);
            r.problem(Problem::new(r.span_of("listen"), message));
        }
        if services.iter().any(|s| s.name == service.name) {
            let message = format!("`name`: another service is called {}", service.name);
            r.problem(Problem::new(r.span_of("name"), message));
        }
        services.push(service);
    }
    vips_apart(&services, top);
    services
}

/// A server may not hold the VIP of another service as its own address: it would be the director.
fn vips_apart(services: &[ServiceSpec], top: &Reader<'_>) {
    for server in services.iter().flat_map(|s| &s.servers) {
        if services.iter().any(|s| s.address == server.address) {
            let message = format!("server {} has the address of a service", server.name);
            top.problem(Problem::new(top.span_of("service"), message));
        }
    }
}

fn service(r: &Reader<'_>, network: &Network, problems: &Problems) -> Option<ServiceSpec> {
    let listen: Option<Endpoint> = r.need("listen", read::parsed);
    let flags = r.list("flags", read::text).unwrap_or_default();
    let flags = Flags::try_from(flags).unwrap_or_else(|why| {
        r.problem(Problem::new(r.span_of("flags"), format!("`flags`: {why}")));
        Flags::default()
    });
    let name = r.read("name", read::text).unwrap_or_default();
    let scheduler = r.read("scheduler", read::parsed).unwrap_or_else(default_scheduler);
    let forward = r.read("forward", read::parsed).unwrap_or_default();
    let stray = r.read("stray", read::parsed).unwrap_or_default();
    let maglev_hash = r.read("maglev-hash", read::parsed).unwrap_or_default();
    let maglev_size = r.read("maglev-size", read::number(SIZES));
    let sloppy = r.read("sloppy", read::boolean).unwrap_or_default();
    let one_packet = r.read("one-packet", read::boolean).unwrap_or_default();
    let on_remove = r.read("on-remove", read::parsed).unwrap_or_default();
    let own = |_: &Spanned<DeValue<'_>>| timeouts(r, Timeouts { tcp: 0, tcpfin: 0, udp: 0 });
    let timeouts = r.value("timeouts").map(own);
    let quorum = r.read("quorum", read::number(check::QUORUM)).unwrap_or(1);
    let hysteresis = r.read("hysteresis", read::number(0..=*check::QUORUM.end())).unwrap_or(0);
    let no_server = r.read("no-server", read::parsed).unwrap_or_default();
    let persistence = r.read("persistence", read::number(1..=MAX_TIMEOUT));
    let persistence_netmask = r.read("persistence-netmask", |v| match v.as_str() {
        Some(text) => persistence::netmask(text),
        None => read::number(1..=128)(v),
    });
    let persistence_void = r.read("persistence-void", read::parsed).unwrap_or_default();
    let slow_start = slow_start(r);
    let servers = r.items("servers").unwrap_or_default();
    r.finish(LATER_SERVICE);
    let base = ServiceSpec {
        name,
        scheduler,
        flags,
        forward,
        stray,
        maglev_hash,
        maglev_size,
        sloppy,
        one_packet,
        on_remove,
        persistence,
        persistence_netmask,
        persistence_void,
        timeouts,
        quorum,
        hysteresis,
        no_server,
        slow_start,
        ..ServiceSpec::new(listen?)
    };
    let mut service = base.resolved();
    if let Err(fault) = check::service(&service, network) {
        r.problem(Problem::fault(r.span_of(fault.key), fault));
    }
    for value in servers {
        if let Some(server) = server(value, &service, network, problems) {
            service.servers.push(server);
        }
    }
    Some(service)
}

/// The keys of a ramp; those beside its length say nothing without it.
fn slow_start(r: &Reader<'_>) -> Option<SlowStart> {
    let secs = r.read("slow-start", read::seconds);
    let floor = r.read("slow-start-floor", read::number(1..=100));
    let exponent = r.read("slow-start-exponent", read::decimal);
    let beside =
        [("slow-start-floor", floor.is_some()), ("slow-start-exponent", exponent.is_some())];
    let Some(secs) = secs else {
        for (key, _) in beside.iter().filter(|(_, given)| *given) {
            let message = format!("`{key}` is for a service with `slow-start`");
            r.problem(Problem::new(r.span_of(key), message));
        }
        return None;
    };
    let floor = floor.unwrap_or(DEFAULT_FLOOR);
    Some(SlowStart { secs, floor, exponent: exponent.unwrap_or_default() })
}

fn server(
    value: &Spanned<DeValue<'_>>,
    service: &ServiceSpec,
    network: &Network,
    problems: &Problems,
) -> Option<ServerSpec> {
    let r = Reader::of_value("a server", value, problems)?;
    let address = r.need("address", |v| server_address(&read::text(v)?));
    let given = r.read("port", read::number(0..=65_535_u16));
    let name = r.read("name", read::text).unwrap_or_default();
    let forward = r.read("forward", read::parsed);
    let tun_type = r.read("tun-type", read::parsed).unwrap_or_default();
    let weight = r.read("weight", read::number(0..=MAX_WEIGHT)).unwrap_or(1);
    let mac = r.read("mac", read::parsed);
    let mtu = r.read("mtu", read::number(check::MTU));
    let u_threshold = r.read("u-threshold", read::number(0..=Thresholds::MAX)).unwrap_or(0);
    let l_threshold = r.read("l-threshold", read::number(0..=Thresholds::MAX)).unwrap_or(0);
    let admin = r.read("admin", read::parsed).unwrap_or(Admin::Enabled);
    let backup = r.read("backup", read::boolean).unwrap_or_default();
    r.finish(LATER_SERVER);
    let (address, port) = address?;
    if given.is_some() && port.is_some() && given != port {
        r.problem(Problem::new(r.span_of("port"), "`port`: `address` says another"));
    }
    let port = port.or(given);
    let spec = ServerSpec {
        name,
        address,
        port,
        forward,
        tun_type,
        weight,
        mac,
        mtu,
        u_threshold,
        l_threshold,
        admin,
        backup,
    };
    let spec = spec.resolved(service);
    let checked = check::server(&spec, service, network)
        .and_then(|()| check::fixed_mac("mac", spec.mac))
        .and_then(|()| unlike_others(&spec, service));
    if let Err(fault) = checked {
        r.problem(Problem::fault(r.span_of(fault.key), fault));
    }
    Some(spec)
}

fn unlike_others(spec: &ServerSpec, service: &ServiceSpec) -> Result<(), Fault> {
    let same = |s: &&ServerSpec| (s.address, s.port) == (spec.address, spec.port);
    let fault = |key, message| Fault { key, message, hint: None, unsupported: false };
    if let Some(other) = service.servers.iter().find(same) {
        let message = format!("server {} has this address already", other.name);
        return Err(fault("address", message));
    }
    if service.servers.iter().any(|s| s.name == spec.name) {
        let message = format!("another server of the service is called {}", spec.name);
        return Err(fault("name", message));
    }
    Ok(())
}
