//! Rules on services and servers that hold for file and socket alike.

use engine::addr::L4Proto;
use std::net::IpAddr;

use engine::sched::SchedulerKind;
use engine::sched::maglev::{KERNEL_SIZES, SIZES, is_size};
use engine::thresholds::Thresholds;
use ipnet::IpNet;

use crate::load::MAX_TIMEOUT;
use crate::persistence;
use crate::settings::Port;
use crate::slow_start::{MAX_SECS, is_ramped};
use crate::spec::{Forward, MAX_WEIGHT, MaglevHash, ServerSpec, ServiceSpec, checked_name};

/// The smallest and largest `mtu` that may be given, in bytes.
pub const MTU: std::ops::RangeInclusive<u16> = 576..=9600;

/// What a quorum may be: how many servers a service can have.
pub const QUORUM: std::ops::RangeInclusive<u32> = 1..=65_000;

/// A rule that is broken, by the key that breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key as the file has it.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be allowed.
    pub hint: Option<String>,
    /// Whether it is a feature that this release does not have.
    pub unsupported: bool,
}

impl Fault {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into(), hint: None, unsupported: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Out of this port, by its place in the config.
    pub port: usize,
    /// To this address: the destination itself, or a gateway.
    pub next: IpAddr,
    /// Whether the destination is in the port's subnet.
    pub on_link: bool,
}

/// The networks that the ports are in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    subnets: Vec<(usize, IpNet)>,
    gateway: Option<(usize, IpAddr)>,
}

impl Network {
    /// From the ports of the config.
    #[must_use]
    pub fn new(ports: &[Port]) -> Self {
        let subnets = ports.iter().enumerate();
        let subnets = subnets.flat_map(|(i, p)| p.addresses.iter().map(move |a| (i, *a)));
        let gateway = ports.iter().enumerate().find_map(|(i, p)| Some((i, p.gateway?)));
        Self { subnets: subnets.collect(), gateway }
    }

    /// The way to an address: the longest subnet that contains it, else the gateway.
    #[must_use]
    pub fn route(&self, to: IpAddr) -> Option<Route> {
        let on_link = self.subnets.iter().filter(|(_, net)| net.contains(&to));
        if let Some((port, _)) = on_link.max_by_key(|(_, net)| net.prefix_len()) {
            return Some(Route { port: *port, next: to, on_link: true });
        }
        let (port, next) = self.gateway.filter(|(_, g)| g.is_ipv4() == to.is_ipv4())?;
        Some(Route { port, next, on_link: false })
    }

    /// Whether an address is one of the director's own.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|(_, net)| net.addr() == address)
    }

    /// The director's own address on a port, for packets to `next`.
    #[must_use]
    pub fn source(&self, port: usize, next: IpAddr) -> Option<IpAddr> {
        let mut own = self.subnets.iter().filter(|(p, _)| *p == port).map(|(_, net)| net);
        let near = own.clone().find(|net| net.contains(&next));
        near.or_else(|| own.find(|net| net.addr().is_ipv4() == next.is_ipv4())).map(IpNet::addr)
    }

    /// The ports on which a virtual address is answered for, a bit each: those whose subnet contains
    /// it, all if none does.
    #[must_use]
    pub fn answering(&self, address: IpAddr, ports: usize) -> u64 {
        let inside = self.subnets.iter().filter(|(_, net)| net.contains(&address));
        match inside.fold(0, |mask, (port, _)| mask | 1 << port) {
            0 if ports >= 64 => u64::MAX,
            0 => (1 << ports) - 1,
            mask => mask,
        }
    }

    /// Whether an address is the first or last of a subnet, which no station has.
    fn is_edge(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|(_, net)| {
            net.prefix_len() + 1 < net.max_prefix_len()
                && (net.network() == address || net.broadcast() == address)
        })
    }
}

/// Whether an address can be one of ours or a server's.
///
/// # Errors
/// IPv6 (not yet), and addresses that no station has.
pub fn station(key: &'static str, address: IpAddr) -> Result<(), Fault> {
    let IpAddr::V4(v4) = address else {
        let fault = Fault::new(key, format!("{address} is an IPv6 address: not supported yet"));
        return Err(Fault { unsupported: true, ..fault.hint("an IPv4 address") });
    };
    if v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.octets()[0] >= 240 {
        return Err(Fault::new(key, format!("{address} is not the address of a single station")));
    }
    Ok(())
}

/// Checks a service by itself, without its servers.
///
/// # Errors
/// The first broken rule.
pub fn service(spec: &ServiceSpec, network: &Network) -> Result<(), Fault> {
    if spec.one_packet && spec.protocol != L4Proto::Udp {
        return Err(Fault::new("one-packet", "is for UDP: a TCP connection needs its entry"));
    }
    if !QUORUM.contains(&spec.quorum) {
        let fault = Fault::new("quorum", format!("{} is no number of servers", spec.quorum));
        return Err(fault.hint(format!("{} to {}", QUORUM.start(), QUORUM.end())));
    }
    if spec.hysteresis >= spec.quorum {
        let message = format!("{} is not below the quorum, {}", spec.hysteresis, spec.quorum);
        return Err(Fault::new("hysteresis", message).hint(format!("0 to {}", spec.quorum - 1)));
    }
    if spec.timeouts.is_some_and(|t| [t.tcp, t.tcpfin, t.udp].iter().any(|s| *s > MAX_TIMEOUT)) {
        let fault = Fault::new("timeouts", "too long an idle time".to_owned());
        return Err(fault.hint(format!("1 to {MAX_TIMEOUT} s, 0 for the director's")));
    }
    slow_start(spec)?;
    if !spec.name.is_empty() {
        checked_name(&spec.name).map_err(|m| Fault::new("name", m))?;
    }
    station("listen", spec.address)?;
    if network.is_edge(spec.address) {
        return Err(Fault::new("listen", format!("{} is the edge of a subnet", spec.address)));
    }
    if let Some((flag, owner)) = spec.flags.misfit(spec.scheduler) {
        let message = format!("{flag} is for scheduler {owner}, not for {}", spec.scheduler);
        let hint = format!("scheduler = \"{owner}\", or no such flag");
        return Err(Fault::new("flags", message).hint(hint));
    }
    persistence::check(spec)?;
    maglev(spec)
}

/// Checks how servers of a service are to start.
fn slow_start(spec: &ServiceSpec) -> Result<(), Fault> {
    let Some(ramp) = spec.slow_start else { return Ok(()) };
    if !is_ramped(spec.scheduler) {
        let message = format!("slow-start is not for scheduler {}", spec.scheduler);
        return Err(Fault::new("slow-start", message).hint("rr wrr lc wlc lblc lblcr sed nq twos"));
    }
    if ramp.secs > MAX_SECS {
        let message = format!("{} s is too long a start", ramp.secs);
        return Err(Fault::new("slow-start", message).hint(format!("at most {MAX_SECS} s")));
    }
    if !(1..=100).contains(&ramp.floor) {
        let message = format!("{} percent of a weight is no start", ramp.floor);
        return Err(Fault::new("slow-start-floor", message).hint("1 to 100"));
    }
    Ok(())
}

/// Checks what a service says about its Maglev table.
fn maglev(spec: &ServiceSpec) -> Result<(), Fault> {
    let kernel = spec.maglev_hash == MaglevHash::Kernel;
    if spec.scheduler != SchedulerKind::Mh && (kernel || spec.maglev_size.is_some()) {
        let key = if kernel { "maglev-hash" } else { "maglev-size" };
        let message = format!("{key} is for scheduler mh, not for {}", spec.scheduler);
        return Err(Fault::new(key, message).hint("scheduler = \"mh\", or no such key"));
    }
    let Some(size) = spec.maglev_size else { return Ok(()) };
    if !is_size(size) {
        let next = (size..=*SIZES.end()).find(|n| is_size(*n)).unwrap_or(*SIZES.end());
        let range = format!("{} to {}", SIZES.start(), SIZES.end());
        let message = format!("{size} is not a prime from {range}");
        return Err(Fault::new("maglev-size", message).hint(format!("for example {next}")));
    }
    if kernel && !KERNEL_SIZES.contains(&size) {
        let message = format!("Linux has no table of {size} places to agree with");
        let sizes = KERNEL_SIZES.map(|n| n.to_string()).join(", ");
        return Err(Fault::new("maglev-size", message).hint(format!("one of {sizes}")));
    }
    Ok(())
}

/// Checks a resolved server of a service.
///
/// # Errors
/// The first broken rule.
pub fn server(spec: &ServerSpec, service: &ServiceSpec, network: &Network) -> Result<(), Fault> {
    checked_name(&spec.name).map_err(|m| Fault::new("name", m))?;
    station("address", spec.address)?;
    if network.is_own(spec.address) || spec.address == service.address {
        let message = format!("{} is an address of the director itself", spec.address);
        return Err(Fault::new("address", message).hint("the server's own address"));
    }
    if network.is_edge(spec.address) {
        return Err(Fault::new("address", format!("{} is the edge of a subnet", spec.address)));
    }
    if spec.weight > MAX_WEIGHT {
        let message = format!("{} is too great a weight", spec.weight);
        return Err(Fault::new("weight", message).hint(format!("0 to {MAX_WEIGHT}")));
    }
    if spec.mtu.is_some_and(|m| !MTU.contains(&m)) {
        let hint = format!("{} to {} bytes", MTU.start(), MTU.end());
        return Err(Fault::new("mtu", "not an MTU that works").hint(hint));
    }
    thresholds(spec.thresholds())?;
    ports_agree(spec, service)?;
    reachable(spec, network)
}

fn thresholds(given: Thresholds) -> Result<(), Fault> {
    let Thresholds { upper, lower } = given;
    let hint = || format!("0 to {}", Thresholds::MAX);
    for (key, value) in [("u-threshold", upper), ("l-threshold", lower)] {
        if value > Thresholds::MAX {
            return Err(Fault::new(key, format!("{value} is too great")).hint(hint()));
        }
    }
    if lower > upper {
        let message = format!("{lower} is above the upper threshold, {upper}");
        return Err(Fault::new("l-threshold", message).hint(format!("0 to {upper}")));
    }
    Ok(())
}

/// Direct routing and tunnels leave the client's packet as it is, its port too.
fn ports_agree(spec: &ServerSpec, service: &ServiceSpec) -> Result<(), Fault> {
    match spec.port {
        Some(port) if port != service.port => {
            let way = spec.forward.unwrap_or_default();
            let message = format!("{way} cannot translate port {} to {port}", service.port);
            Err(Fault::new("port", message).hint(format!("no port, or {}", service.port)))
        }
        _ => Ok(()),
    }
}

fn reachable(spec: &ServerSpec, network: &Network) -> Result<(), Fault> {
    let Some(route) = network.route(spec.address) else {
        let message = format!("{} is in no port's subnet, and there is no gateway", spec.address);
        return Err(Fault::new("address", message)
            .hint("an address in a port's subnet, or `gateway` on a port"));
    };
    if route.on_link {
        return Ok(());
    }
    if spec.forward.unwrap_or_default() == Forward::Dr {
        let message = format!("dr needs {} in a port's subnet", spec.address);
        return Err(Fault::new("forward", message).hint("forward = \"tunnel\""));
    }
    if spec.mac.is_some() {
        let message = format!("{} is behind the gateway {}", spec.address, route.next);
        return Err(Fault::new("mac", message).hint("`gateway-mac` on the port"));
    }
    Ok(())
}

/// Checks a MAC that is given instead of asked for.
///
/// # Errors
/// Group addresses and zero.
pub fn fixed_mac(key: &'static str, mac: Option<engine::addr::Mac>) -> Result<(), Fault> {
    match mac {
        Some(mac) if !mac.is_station() => {
            Err(Fault::new(key, format!("{mac} is not the address of a single station")))
        }
        _ => Ok(()),
    }
}
