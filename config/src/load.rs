//! TOML to checked settings.
//!
//! Everything that can be said about a file is said at once: each table is read key by key and
//! problems are gathered. Keys that only a later release knows are refused by name.

mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::check::{self, Network};
use crate::reader::{self as read, Problems, Reader};
use crate::report::{Problem, render};
use crate::settings::{Director, Dpdk, Port, Settings};
use crate::spec::{Timeouts, checked_name};
use crate::text;

/// What is wrong with a config, rendered for people: file, line, key, value, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

/// The longest idle time, in seconds: 31 days.
pub const MAX_TIMEOUT: u32 = 31 * 86_400;

const LATER_TOP: &[&str] = &["announce", "metrics", "sync", "guard", "portgroup", "web"];
const LATER_DIRECTOR: &[&str] = &["announce", "metrics", "peers", "sync", "user"];
const LATER_PORT: &[&str] = &["bond", "group", "vlan"];

/// Reads and checks a file.
///
/// # Errors
/// When it cannot be read, or says something that is not allowed.
pub fn load(path: &Path) -> Result<Settings, LoadError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| LoadError(format!("error: cannot read {name}: {e}")))?;
    parse(&text, &name)
}

/// Checks a config's text; `name` is the file's name for messages.
///
/// # Errors
/// When it says something that is not allowed.
pub fn parse(text: &str, name: &str) -> Result<Settings, LoadError> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let problems: Problems = errors
        .iter()
        .map(|e| Problem::new(e.span().unwrap_or(0..0), e.message()))
        .collect::<Vec<_>>()
        .into();
    // After a syntax error the rest of the file may be misread: say that alone.
    let settings = if errors.is_empty() { whole(&root, &problems) } else { Settings::default() };
    let problems = problems.into_inner();
    if problems.is_empty() { Ok(settings) } else { Err(render(problems, text, name)) }
}

fn whole(root: &Spanned<DeTable<'_>>, problems: &Problems) -> Settings {
    let top = Reader::new("the file", root.get_ref(), 0..0, problems);
    let ports = ports(&top, problems);
    let director = section(&top, "director", "[director]", problems, director);
    let network = Network::new(&ports);
    let settings = Settings {
        director: director.unwrap_or_default(),
        dpdk: section(&top, "dpdk", "[dpdk]", problems, dpdk).unwrap_or_default(),
        services: service::services(&top, &network, problems),
        ports,
    };
    top.finish(LATER_TOP);
    if top.value("director").is_none() {
        top.problem(Problem::new(0..0, "there is no [director]").help("[director] with `lcores`"));
    }
    limits(&settings, &top);
    settings
}

fn section<T>(
    top: &Reader<'_>,
    key: &'static str,
    name: &'static str,
    problems: &Problems,
    read: fn(&Reader<'_>) -> T,
) -> Option<T> {
    let value = top.value(key)?;
    Reader::of_value(name, value, problems).map(|r| read(&r))
}

fn director(r: &Reader<'_>) -> Director {
    let d = Director::default();
    let lcores = r.need("lcores", |v| match v {
        DeValue::Array(_) => Ok(()),
        _ => Err(format!("must be a list such as [2, 3], not {}", v.type_str())),
    });
    let lcores = lcores.and_then(|()| r.list("lcores", read::number(0..=1023_u16)));
    if let Some(list) = &lcores {
        let distinct: BTreeSet<_> = list.iter().collect();
        if list.is_empty() {
            r.problem(
                Problem::new(r.span_of("lcores"), "`lcores` is empty").help("one core or more"),
            );
        } else if distinct.len() < list.len() {
            r.problem(Problem::new(r.span_of("lcores"), "`lcores` names a core twice"));
        }
    }
    let director = Director {
        name: r.read("name", |v| checked_name(&read::text(v)?)).unwrap_or(d.name),
        lcores: lcores.unwrap_or_default(),
        connections: r
            .read("connections", read::scaled(text::count, 1_000..=1_000_000_000))
            .unwrap_or(d.connections),
        templates: r
            .read("templates", read::scaled(text::count, 1_000..=100_000_000))
            .unwrap_or(d.templates),
        timeouts: timeouts(r, d.timeouts),
        socket: r.read("socket", read::filled).map_or(d.socket, PathBuf::from),
        max_servers: r.read("max-servers", read::number(1..=1_000_000)).unwrap_or(d.max_servers),
        max_services: r.read("max-services", read::number(1..=65_535)).unwrap_or(d.max_services),
        mh_key: r.read("mh-key", |v| hex_key(&read::text(v)?)),
        idle: r.read("idle", read::parsed),
        flood_guard: r
            .read("flood-guard", read::scaled(text::count, 0..=100_000_000))
            .map_or(d.flood_guard, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        state: r.read("state", read::filled).map(PathBuf::from),
    };
    r.finish(LATER_DIRECTOR);
    director
}

/// `timeouts = { … }`; those not named are `d`'s.
fn timeouts(of: &Reader<'_>, d: Timeouts) -> Timeouts {
    let Some(value) = of.value("timeouts") else { return d };
    let problems = of.problems();
    let Some(r) = Reader::of_value("timeouts", value, problems) else { return d };
    let seconds = || read::number(1..=MAX_TIMEOUT);
    let timeouts = Timeouts {
        tcp: r.read("tcp", seconds()).unwrap_or(d.tcp),
        tcpfin: r.read("tcpfin", seconds()).unwrap_or(d.tcpfin),
        udp: r.read("udp", seconds()).unwrap_or(d.udp),
    };
    r.finish(&[]);
    timeouts
}

/// 16 bytes in hexadecimal.
fn hex_key(hex: &str) -> Result<[u8; 16], String> {
    let wrong = || "must be 32 hexadecimal digits, as from `openssl rand -hex 16`".to_owned();
    if hex.len() != 32 || !hex.is_ascii() {
        return Err(wrong());
    }
    let mut key = [0; 16];
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
    }
    Ok(key)
}

fn ports(top: &Reader<'_>, problems: &Problems) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for value in top.items("port").unwrap_or_default() {
        let Some(r) = Reader::of_value("[[port]]", value, problems) else { continue };
        let port = port(&r);
        for (key, taken) in [
            ("name", ports.iter().any(|p| p.name == port.name)),
            ("device", ports.iter().any(|p| p.device == port.device)),
        ] {
            if taken {
                r.problem(Problem::new(
                    r.span_of(key),
                    format!("`{key}`: two ports have the same"),
                ));
            }
        }
        if port.gateway.is_some() && ports.iter().any(|p| p.gateway.is_some()) {
            let message = "`gateway`: another port has one already";
            r.problem(Problem::new(r.span_of("gateway"), message).help("one gateway in all"));
        }
        ports.push(port);
    }
    if top.value("port").is_none() {
        top.problem(Problem::new(0..0, "there is no [[port]]").help("one [[port]] or more"));
    }
    ports
}

fn port(r: &Reader<'_>) -> Port {
    let name = r.need("name", |v| checked_name(&read::text(v)?)).unwrap_or_default();
    let device = r.need("device", read::device).unwrap_or_default();
    let d = Port::new(name, device);
    let port = Port {
        addresses: r.list("addresses", network).unwrap_or_default(),
        gateway: r.read("gateway", read::ip),
        gateway_mac: r.read("gateway-mac", read::parsed),
        garp: r.read("garp", read::boolean).unwrap_or(d.garp),
        idle: r.read("idle", read::parsed),
        mtu: r.read("mtu", read::number(check::MTU)).unwrap_or(d.mtu),
        promiscuous: r.read("promiscuous", read::boolean).unwrap_or(d.promiscuous),
        queues: r.read("queues", read::number(1..=1024)),
        ..d
    };
    r.finish(LATER_PORT);
    addresses_fit(&port, r);
    port
}

fn addresses_fit(port: &Port, r: &Reader<'_>) {
    for address in &port.addresses {
        if let Err(fault) = check::station("addresses", address.addr()) {
            r.problem(Problem::fault(r.span_of("addresses"), fault));
        }
    }
    if let Err(fault) = check::fixed_mac("gateway-mac", port.gateway_mac) {
        r.problem(Problem::fault(r.span_of("gateway-mac"), fault));
    }
    let Some(gateway) = port.gateway else {
        if port.gateway_mac.is_some() {
            let message = "`gateway-mac` without `gateway`";
            r.problem(Problem::new(r.span_of("gateway-mac"), message));
        }
        return;
    };
    let inside = port.addresses.iter().any(|net| net.contains(&gateway));
    if !inside || port.addresses.iter().any(|net| net.addr() == gateway) {
        let message = format!("`gateway`: {gateway} is not a neighbour on this port");
        let help = "an address in the subnet of one of the port's `addresses`, not our own";
        r.problem(Problem::new(r.span_of("gateway"), message).help(help));
    }
}

fn network(value: &DeValue<'_>) -> Result<ipnet::IpNet, String> {
    let text = read::text(value)?;
    text.parse().map_err(|_| format!("{text:?} is not an address with prefix such as 10.0.1.2/24"))
}

fn dpdk(r: &Reader<'_>) -> Dpdk {
    let dpdk = Dpdk {
        args: r.list("args", read::text).unwrap_or_default(),
        plugins: r.list("plugins", |v| read::filled(v).map(PathBuf::from)).unwrap_or_default(),
        hugepages: r.read("hugepages", read::boolean),
        memory: r.read("memory", read::scaled(text::bytes, 16 << 20..=1 << 40)),
    };
    r.finish(&[]);
    dpdk
}

fn limits(settings: &Settings, top: &Reader<'_>) {
    let director = &settings.director;
    let servers: usize = settings.services.iter().map(|s| s.servers.len()).sum();
    let counts = [
        (settings.services.len(), u64::from(director.max_services), "services", "max-services"),
        (servers, u64::from(director.max_servers), "servers", "max-servers"),
    ];
    for (count, max, what, key) in counts {
        if count as u64 > max {
            let message = format!("{count} {what}, but `{key}` is {max}");
            top.problem(Problem::new(top.span_of("director"), message));
        }
    }
    if settings.ports.len() > 64 {
        top.problem(Problem::new(top.span_of("port"), "more than 64 ports"));
    }
    let mut own = BTreeSet::new();
    let addresses = settings.ports.iter().flat_map(|p| &p.addresses);
    for address in addresses.map(ipnet::IpNet::addr) {
        if !own.insert(address) {
            let message = format!("{address} is given twice in `addresses`");
            top.problem(Problem::new(top.span_of("port"), message));
        }
    }
}
