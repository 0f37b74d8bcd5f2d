//! Services and servers in the operator's words; used by the file and the socket alike.
//!
//! A service is named by its endpoint (`tcp 192.0.2.10:80`) or its name, a server by its address
//! (`10.0.0.11`, `10.0.0.11:80`) or its name; see [`ServiceRef`] and [`ServerRef`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use engine::addr::{L4Proto, Mac};
use engine::forward::ForwarderKind;
use engine::sched::SchedulerKind;
use engine::server::Orphans;
use engine::service::{NoServerPolicy, ServiceKey, StrayPolicy};
use engine::snapshot;
use engine::thresholds::Thresholds;
use serde::{Deserialize, Serialize};

pub use crate::flags::Flags;
use crate::persistence::PersistenceVoid;
pub use crate::slow_start::SlowStart;
use crate::text;

/// The greatest weight: 2³¹ − 1, as in LVS.
pub const MAX_WEIGHT: u32 = 0x7fff_ffff;

/// What clients address: `tcp 192.0.2.10:80`, IPv6 in brackets. Port 0 is any port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// `tcp` or `udp`.
    #[serde(with = "text")]
    pub protocol: L4Proto,
    /// The virtual address.
    pub address: IpAddr,
    /// The virtual port; 0 for any.
    pub port: u16,
}

impl Endpoint {
    /// As the engine names it.
    #[must_use]
    pub fn key(&self) -> ServiceKey {
        ServiceKey { proto: self.protocol, addr: self.address.into(), port: self.port }
    }
}

impl From<ServiceKey> for Endpoint {
    fn from(key: ServiceKey) -> Self {
        Self { protocol: key.proto, address: key.addr.into(), port: key.port }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol, SocketAddr::new(self.address, self.port))
    }
}

impl FromStr for Endpoint {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let wrong = || format!("{s:?} is not an endpoint such as \"tcp 192.0.2.10:80\"");
        let (protocol, address) = s.trim().split_once(' ').ok_or_else(wrong)?;
        let protocol = protocol.parse()?;
        let address: SocketAddr = address.trim().parse().map_err(|_| wrong())?;
        Ok(Self { protocol, address: address.ip(), port: address.port() })
    }
}

/// A service in a command: its endpoint, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceRef {
    /// By what clients address.
    Endpoint(Endpoint),
    /// By name.
    Name(String),
}

impl fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(e) => e.fmt(f),
            Self::Name(n) => f.write_str(n),
        }
    }
}

impl FromStr for ServiceRef {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s.parse() {
            Ok(endpoint) => Ok(Self::Endpoint(endpoint)),
            Err(why) if s.contains(' ') => Err(why),
            Err(_) => Ok(Self::Name(checked_name(s)?)),
        }
    }
}

impl From<Endpoint> for ServiceRef {
    fn from(endpoint: Endpoint) -> Self {
        Self::Endpoint(endpoint)
    }
}

/// A server in a command: `10.0.0.11`, `10.0.0.11:80`, `[2001:db8::1]:80`, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRef {
    /// By address; without a port it is the service's.
    Address(IpAddr, Option<u16>),
    /// By name.
    Name(String),
}

impl fmt::Display for ServerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(a, Some(port)) => SocketAddr::new(*a, *port).fmt(f),
            Self::Address(a, None) => a.fmt(f),
            Self::Name(n) => f.write_str(n),
        }
    }
}

impl FromStr for ServerRef {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match server_address(s) {
            Ok((address, port)) => Ok(Self::Address(address, port)),
            Err(_) => Ok(Self::Name(checked_name(s)?)),
        }
    }
}

/// Reads `10.0.0.11`, `10.0.0.11:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
///
/// # Errors
/// In words, with an example.
pub fn server_address(s: &str) -> Result<(IpAddr, Option<u16>), String> {
    if let Ok(address) = s.parse::<IpAddr>() {
        return Ok((address, None));
    }
    if let Ok(address) = s.parse::<SocketAddr>() {
        return Ok((address.ip(), Some(address.port())));
    }
    let bare = s.strip_prefix('[').and_then(|s| s.strip_suffix(']'));
    bare.and_then(|b| b.parse::<IpAddr>().ok())
        .map(|address| (address, None))
        .ok_or_else(|| format!("{s:?} is not an address such as 10.0.0.11 or 10.0.0.11:80"))
}

/// A name as services, servers and ports may have it.
///
/// # Errors
/// In words that say what is allowed.
pub fn checked_name(s: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&s.len())
        && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]".contains(c));
    if fits {
        Ok(s.to_owned())
    } else {
        Err(format!("{s:?} is not a name: 1 to 64 letters, digits, '-', '_', '.'"))
    }
}

macro_rules! as_text {
    ($($ty:ty),*) => { $(
        impl Serialize for $ty {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                text::serialize(self, to)
            }
        }
        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                text::deserialize(from)
            }
        }
    )* };
}
as_text!(ServiceRef, ServerRef);

/// How packets reach a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Forward {
    /// Direct routing (`-g`): the server is in a port's subnet and answers the client itself.
    #[default]
    Dr,
    /// A tunnel (`-i`), of the server's `tun-type`.
    Tunnel,
}

impl Forward {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dr => "dr",
            Self::Tunnel => "tunnel",
        }
    }
}

/// What a tunnel is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum TunType {
    /// IP in IP (RFC 2003).
    #[default]
    Ipip,
}

impl TunType {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipip => "ipip",
        }
    }
}

/// What happens to a packet that belongs to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Stray {
    /// It is answered with a reset.
    #[default]
    Reset,
    /// It is dropped.
    Drop,
}

impl Stray {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Drop => "drop",
        }
    }
}

/// How `mh` hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum MaglevHash {
    /// Whole addresses under the key of the config, shares exact.
    #[default]
    Keyed,
    /// As Linux does, to agree with directors that run it.
    Kernel,
}

impl MaglevHash {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Kernel => "kernel",
        }
    }
}

/// What becomes of a server's connections when it is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum OnRemove {
    /// They live on until they end by themselves.
    #[default]
    Drain,
    /// They end; the client's next segment is answered by a reset.
    Reset,
    /// They end; what the client sends next belongs to nothing.
    Forget,
    /// The client's next packet brings them to another server.
    Reschedule,
}

impl OnRemove {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Reset => "reset",
            Self::Forget => "forget",
            Self::Reschedule => "reschedule",
        }
    }

    /// As the engine says it; `None`: they live on.
    #[must_use]
    pub const fn orphans(self) -> Option<Orphans> {
        match self {
            Self::Drain => None,
            Self::Reset => Some(Orphans::Reset),
            Self::Forget => Some(Orphans::Forget),
            Self::Reschedule => Some(Orphans::Reschedule),
        }
    }
}

/// What happens to new connections of a service that has no server for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum NoServer {
    /// ICMP port unreachable, as in LVS: the client sees "connection refused".
    #[default]
    Unreachable,
    /// A TCP reset; datagrams as above.
    Reset,
    /// Nothing.
    Drop,
    /// Servers that are down are taken to be up.
    FailOpen,
    /// Backups are taken to be up.
    Backup,
}

impl NoServer {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::Drop => "drop",
            Self::FailOpen => "fail-open",
            Self::Backup => "backup",
        }
    }
}

impl From<NoServer> for NoServerPolicy {
    /// What is left for lcores to do: whom to take for up is settled before.
    fn from(policy: NoServer) -> Self {
        match policy {
            NoServer::Unreachable | NoServer::FailOpen | NoServer::Backup => Self::Unreachable,
            NoServer::Reset => Self::Reset,
            NoServer::Drop => Self::Drop,
        }
    }
}

impl From<Stray> for StrayPolicy {
    fn from(stray: Stray) -> Self {
        match stray {
            Stray::Reset => Self::Reset,
            Stray::Drop => Self::Drop,
        }
    }
}

/// An operator's word on a server; never touches the weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Admin {
    /// Takes new connections.
    #[default]
    Enabled,
    /// Keeps its connections, takes no new ones.
    Drain,
    /// Takes nothing new; meant to stay so.
    Disabled,
}

impl Admin {
    /// The name in file and socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Drain => "drain",
            Self::Disabled => "disabled",
        }
    }
}

macro_rules! named {
    ($ty:ident: $($name:literal $(| $alias:literal)* => $value:ident),*; later: $($later:literal),*) => {
        impl FromStr for $ty {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                let allowed = [$($name),*].join(", ");
                match s {
                    $($name $(| $alias)* => Ok(Self::$value),)*
                    $($later => Err(format!("{s:?} is not supported yet; allowed: {allowed}")),)*
                    _ => Err(format!("{s:?} is unknown; allowed: {allowed}")),
                }
            }
        }
        impl TryFrom<String> for $ty {
            type Error = String;
            fn try_from(s: String) -> Result<Self, String> {
                s.parse()
            }
        }
        impl From<$ty> for &'static str {
            fn from(v: $ty) -> Self {
                v.name()
            }
        }
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
named!(Forward: "dr" | "gatewaying" => Dr, "tunnel" | "ipip" => Tunnel; later: "nat", "masquerading");
named!(TunType: "ipip" => Ipip; later: "gre", "gue");
named!(OnRemove: "drain" => Drain, "reset" => Reset, "forget" => Forget, "reschedule" => Reschedule; later:);
named!(Stray: "reset" => Reset, "drop" => Drop; later:);
named!(NoServer: "unreachable" => Unreachable, "reset" => Reset, "drop" => Drop, "fail-open" => FailOpen, "backup" => Backup; later:);
named!(MaglevHash: "keyed" => Keyed, "kernel" => Kernel; later:);
named!(Admin: "enabled" => Enabled, "drain" => Drain, "disabled" => Disabled; later:);

/// A virtual service as an operator says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServiceSpec {
    /// Its handle; the endpoint's address and port if empty.
    #[serde(default)]
    pub name: String,
    /// `tcp` or `udp`.
    #[serde(with = "text")]
    pub protocol: L4Proto,
    /// The virtual address.
    pub address: IpAddr,
    /// The virtual port; 0 for any.
    pub port: u16,
    /// How a new connection picks its server.
    #[serde(default = "default_scheduler", with = "text")]
    pub scheduler: SchedulerKind,
    /// The scheduler's flags.
    #[serde(default)]
    pub flags: Flags,
    /// For servers that do not say it themselves.
    #[serde(default)]
    pub forward: Forward,
    /// Packets that belong to nothing.
    #[serde(default)]
    pub stray: Stray,
    /// How `mh` hashes.
    #[serde(default)]
    pub maglev_hash: MaglevHash,
    /// Places in the table of `mh`, a prime; 4,093 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maglev_size: Option<u32>,
    /// Whether a segment of an unknown connection begins one (LVS's `sloppy_tcp`).
    #[serde(default)]
    pub sloppy: bool,
    /// UDP: whether every datagram is scheduled by itself (LVS's `--ops`).
    #[serde(default)]
    pub one_packet: bool,
    /// What becomes of a removed server's connections.
    #[serde(default)]
    pub on_remove: OnRemove,
    /// For so many seconds after its last new connection a client's new ones go to its server; not
    /// at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<u32>,
    /// Clients in one network of this prefix length count as one; each address if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence_netmask: Option<u8>,
    /// From when on a server's persistent clients are scheduled anew.
    #[serde(default, with = "text")]
    pub persistence_void: PersistenceVoid,
    /// Its own idle times; one of 0, or all if absent, are the director's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// With fewer servers up its backups stand in for them; at least 1.
    #[serde(default = "default_quorum")]
    pub quorum: u32,
    /// By how many more or fewer that changes; below `quorum`.
    #[serde(default)]
    pub hysteresis: u32,
    /// New connections when nobody is left.
    #[serde(default)]
    pub no_server: NoServer,
    /// How servers that join get their share; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
    /// Its servers, in the order in which they were added.
    #[serde(default)]
    pub servers: Vec<ServerSpec>,
}

/// The scheduler of a service that names none: `wlc`, as in LVS.
#[must_use]
pub const fn default_scheduler() -> SchedulerKind {
    SchedulerKind::Wlc
}

const fn default_quorum() -> u32 {
    1
}

impl ServiceSpec {
    /// A service with LVS's defaults and no servers.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            name: String::new(),
            protocol: endpoint.protocol,
            address: endpoint.address,
            port: endpoint.port,
            scheduler: default_scheduler(),
            flags: Flags::default(),
            forward: Forward::default(),
            stray: Stray::default(),
            maglev_hash: MaglevHash::default(),
            maglev_size: None,
            sloppy: false,
            one_packet: false,
            on_remove: OnRemove::default(),
            persistence: None,
            persistence_netmask: None,
            persistence_void: PersistenceVoid::default(),
            timeouts: None,
            quorum: default_quorum(),
            hysteresis: 0,
            no_server: NoServer::default(),
            slow_start: None,
            servers: Vec::new(),
        }
    }

    /// What clients address.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        Endpoint { protocol: self.protocol, address: self.address, port: self.port }
    }

    /// Fills in what was left to defaults: names, and the servers' ports and forwarding.
    #[must_use]
    pub fn resolved(mut self) -> Self {
        if self.name.is_empty() {
            self.name = self.endpoint().to_string().replace(' ', ":");
        }
        self.timeouts = self.timeouts.filter(|t| (t.tcp, t.tcpfin, t.udp) != (0, 0, 0));
        self.slow_start = self.slow_start.filter(|s| s.secs > 0);
        let servers = std::mem::take(&mut self.servers);
        self.servers = servers.into_iter().map(|s| s.resolved(&self)).collect();
        self
    }
}

/// A real server as an operator says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServerSpec {
    /// Its handle; the address if empty.
    #[serde(default)]
    pub name: String,
    /// Where it is.
    pub address: IpAddr,
    /// Its port; the service's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How packets reach it; as the service says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
    /// What the tunnel is made of.
    #[serde(default)]
    pub tun_type: TunType,
    /// Its share of new connections, 0 … [`MAX_WEIGHT`].
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Its hardware address, if it is not to be asked for.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// The largest IP packet towards it, in bytes; the port's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// The most connections it may have; 0 for any number.
    #[serde(default)]
    pub u_threshold: u32,
    /// Once it has had so many, it takes new ones again below this; 0 for three quarters.
    #[serde(default)]
    pub l_threshold: u32,
    /// The operator's word on it.
    #[serde(default)]
    pub admin: Admin,
    /// Whether it only stands in for others.
    #[serde(default)]
    pub backup: bool,
}

const fn default_weight() -> u32 {
    1
}

impl ServerSpec {
    /// A server with LVS's defaults.
    #[must_use]
    pub const fn new(address: IpAddr) -> Self {
        Self {
            name: String::new(),
            address,
            port: None,
            forward: None,
            tun_type: TunType::Ipip,
            weight: 1,
            mac: None,
            mtu: None,
            u_threshold: 0,
            l_threshold: 0,
            admin: Admin::Enabled,
            backup: false,
        }
    }

    /// Fills in what was left to defaults.
    #[must_use]
    pub fn resolved(mut self, service: &ServiceSpec) -> Self {
        if self.name.is_empty() {
            self.name = self.address.to_string();
        }
        self.port.get_or_insert(service.port);
        self.forward.get_or_insert(service.forward);
        self
    }

    /// How many connections it may have.
    #[must_use]
    pub const fn thresholds(&self) -> Thresholds {
        Thresholds { upper: self.u_threshold, lower: self.l_threshold }
    }

    /// The engine's name for how packets reach it.
    #[must_use]
    pub fn forwarder(&self) -> ForwarderKind {
        match (self.forward.unwrap_or_default(), self.tun_type) {
            (Forward::Dr, _) => ForwarderKind::Dr,
            (Forward::Tunnel, TunType::Ipip) => ForwarderKind::Ipip,
        }
    }
}

/// Idle times after which a connection ends, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Established TCP.
    pub tcp: u32,
    /// TCP after a FIN.
    pub tcpfin: u32,
    /// UDP.
    pub udp: u32,
}

impl Timeouts {
    /// These, with `others` for those that are 0.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let or = |own, other| if own == 0 { other } else { own };
        Self {
            tcp: or(self.tcp, others.tcp),
            tcpfin: or(self.tcpfin, others.tcpfin),
            udp: or(self.udp, others.udp),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        snapshot::Timeouts::default().into()
    }
}

impl From<snapshot::Timeouts> for Timeouts {
    fn from(t: snapshot::Timeouts) -> Self {
        Self { tcp: t.tcp, tcpfin: t.tcp_fin, udp: t.udp }
    }
}

impl From<Timeouts> for snapshot::Timeouts {
    fn from(t: Timeouts) -> Self {
        Self { tcp: t.tcp, tcp_fin: t.tcpfin, udp: t.udp }
    }
}
