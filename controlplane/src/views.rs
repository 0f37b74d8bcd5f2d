//! What lists and statistics show: plain values, made by the control thread, printed by others.
//!
//! The names of the fields are the keys of the JSON documents: they may be added, never renamed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use config::persistence::PersistenceVoid;
use config::spec::SlowStart;
use config::spec::{
    Admin, Endpoint, Flags, Forward, MaglevHash, NoServer, OnRemove, Stray, Timeouts, TunType,
};
use engine::addr::{L4Proto, Mac};
use engine::sched::SchedulerKind;
use serde::{Deserialize, Serialize};

use crate::states::{Acting, Health, Why};

/// The first line of every list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderView {
    /// The director's name.
    pub name: String,
    /// Since the start, in seconds.
    pub uptime_secs: u64,
    /// The number of the running configuration; 1 is the file as it was at the start.
    pub config: u64,
    /// Whether the running state equals the file as it was loaded.
    pub as_file: bool,
    /// The file.
    pub file: String,
    /// Who made the last change; empty before the first.
    pub by: String,
    /// When, in seconds before now.
    pub changed_secs: u64,
    /// Lcores that use the newest snapshot.
    pub lcores_current: usize,
    /// Lcores.
    pub lcores: usize,
    /// The busiest lcore's share of cycles in turns with work, in percent.
    pub busiest_percent: f64,
    /// Entries in all connection tables.
    pub connections: u64,
    /// How many there may be.
    pub connections_max: u64,
}

/// A service and its servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its handle.
    pub name: String,
    /// `tcp` or `udp`.
    #[serde(with = "config::text")]
    pub protocol: L4Proto,
    /// The virtual address.
    pub address: IpAddr,
    /// The virtual port.
    pub port: u16,
    /// How a new connection picks its server.
    #[serde(with = "config::text")]
    pub scheduler: SchedulerKind,
    /// The scheduler's flags.
    pub flags: Flags,
    /// For servers that do not say it themselves.
    pub forward: Forward,
    /// Packets that belong to nothing.
    pub stray: Stray,
    /// Whether a segment of an unknown connection begins one.
    #[serde(default)]
    pub sloppy: bool,
    /// Whether every datagram is scheduled by itself.
    #[serde(default)]
    pub one_packet: bool,
    /// What becomes of a removed server's connections.
    #[serde(default)]
    pub on_remove: OnRemove,
    /// For how long its clients keep their servers, in seconds; absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<u32>,
    /// The length of the prefix that counts as one client; absent: the whole address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence_netmask: Option<u8>,
    /// From when on a server's persistent clients are scheduled anew.
    #[serde(default, with = "config::text")]
    pub persistence_void: PersistenceVoid,
    /// Its own idle times; one of 0 is the director's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// With fewer servers up its backups stand in for them.
    #[serde(default)]
    pub quorum: u32,
    /// By how many more or fewer that changes.
    #[serde(default)]
    pub hysteresis: u32,
    /// New connections when nobody is left.
    #[serde(default)]
    pub no_server_policy: NoServer,
    /// Whether it has lost its quorum.
    #[serde(default)]
    pub quorum_lost: bool,
    /// Who takes its new connections: servers, backups, nobody.
    #[serde(with = "config::text")]
    pub acting: Acting,
    /// Whether they take them although they are down.
    #[serde(default)]
    pub fail_open: bool,
    /// How servers that join get their share; at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
    /// ActiveConn of all its servers, removed ones included.
    pub active: u64,
    /// InActConn of all its servers, removed ones included.
    pub inactive: u64,
    /// What was counted since the start or the last `zero`, removed servers included.
    #[serde(flatten)]
    pub totals: ServiceTotals,
    /// The same per second, mean of the last 2 s.
    pub rates: ServiceRates,
    /// Its servers, in the order in which they were added.
    pub servers: Vec<ServerView>,
}

/// The Maglev table of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaglevView {
    /// The service.
    pub service: String,
    /// How it hashes.
    pub hash: MaglevHash,
    /// Whether the key is the config's `mh-key`; else it is public.
    pub own_key: bool,
    /// Places.
    pub places: u32,
    /// Memory, in bytes.
    pub bytes: usize,
    /// How long building took, in microseconds.
    pub build_us: u64,
    /// By how much the fullest server exceeds its share, in percent of it.
    pub imbalance_percent: f64,
    /// What the last change of the table moved; absent for a first table.
    pub disruption: Option<DisruptionView>,
    /// By server.
    pub servers: Vec<MaglevServerView>,
}

/// What a change of a Maglev table moved, in percent of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DisruptionView {
    /// Moved.
    pub moved_percent: f64,
    /// Had to move.
    pub least_percent: f64,
}

/// A server's part of a Maglev table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaglevServerView {
    /// Its handle.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The weight that the table goes by: the last one above 0.
    pub weight: u32,
    /// Its places.
    pub places: u32,
}

/// What is counted for a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTotals {
    /// Connections scheduled.
    pub conns: u64,
    /// Packets towards servers.
    pub in_packets: u64,
    /// Bytes towards servers: IP lengths.
    pub in_bytes: u64,
    /// SYNs seen again before the connection was established.
    pub syn_retransmits: u64,
    /// New flows forwarded without an entry.
    pub untracked: u64,
    /// Packets that belonged to nothing.
    pub stray_packets: u64,
    /// New flows for which no server was eligible.
    pub no_server: u64,
}

/// A service's rates, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceRates {
    /// Connections/s.
    pub cps: f64,
    /// Packets/s towards servers.
    pub in_pps: f64,
    /// bit/s towards servers.
    pub in_bits: f64,
    /// SYNs/s seen again.
    pub syn_retransmits: f64,
    /// New flows/s without an entry.
    pub untracked: f64,
    /// Packets/s that belonged to nothing.
    pub stray: f64,
    /// New flows/s for which no server was eligible.
    pub no_server: f64,
}

/// A real server of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    /// Its handle.
    pub name: String,
    /// Where it is.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// How packets reach it.
    pub forward: Forward,
    /// What its tunnel is made of.
    pub tun_type: TunType,
    /// The configured weight.
    pub weight: u32,
    /// The weight that counts now.
    pub effective_weight: u32,
    /// Why that is 0.
    #[serde(default, with = "config::text::option", skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// While it starts slowly: how long its weight still grows, in ms. 0: it is not level yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start_left_ms: Option<u64>,
    /// The operator's word on it.
    pub admin: Admin,
    /// Whether it only stands in for others.
    #[serde(default)]
    pub backup: bool,
    /// Until when it drains, if there is a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// A check's word on it, or an operator's.
    #[serde(with = "config::text")]
    pub health: Health,
    /// Since when, in seconds before now; absent if nobody ever said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_secs: Option<u64>,
    /// Whether the hardware address of its next hop is known. Without it nothing reaches the server.
    #[serde(default)]
    pub reachable: bool,
    /// Its fixed hardware address.
    #[serde(default, with = "config::text::option", skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Its own largest IP packet, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// The most connections it may have; 0 for any number.
    #[serde(default)]
    pub u_threshold: u32,
    /// Once full, it takes new ones again below this; 0 for three quarters of `u_threshold`.
    #[serde(default)]
    pub l_threshold: u32,
    /// ActiveConn.
    pub active: u64,
    /// InActConn.
    pub inactive: u64,
    /// What was counted since it was added or the last `zero`.
    #[serde(flatten)]
    pub totals: ServerTotals,
    /// The same per second, mean of the last 2 s.
    pub rates: ServerRates,
}

/// The deadline of a draining server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainView {
    /// Time left, in ms.
    pub left_ms: u64,
    /// What becomes of its connections then.
    pub then: OnRemove,
    /// Who asked for it.
    pub by: String,
}

/// What is counted for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTotals {
    /// Connections scheduled.
    pub conns: u64,
    /// Packets towards it.
    pub in_packets: u64,
    /// Bytes towards it: IP lengths.
    pub in_bytes: u64,
    /// SYNs seen again before the connection was established.
    pub syn_retransmits: u64,
}

/// A server's rates, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRates {
    /// Connections/s.
    pub cps: f64,
    /// Packets/s towards it.
    pub in_pps: f64,
    /// bit/s towards it.
    pub in_bits: f64,
    /// SYNs/s seen again.
    pub syn_retransmits: f64,
}

/// The director's own counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatsView {
    /// By name, summed over lcores, since the start or the last `zero`; gauges as they are.
    pub totals: BTreeMap<String, u64>,
    /// Drops by reason.
    pub drops: BTreeMap<String, u64>,
    /// Per second, mean of the last 2 s, by name.
    pub rates: BTreeMap<String, f64>,
    /// Drops per second by reason.
    pub drop_rates: BTreeMap<String, f64>,
    /// Frames that devices missed, summed over ports, since the start or the last `zero`.
    pub imissed: u64,
    /// Frames lost because there was no buffer, summed over ports.
    pub rx_nombuf: u64,
    /// Replies and announcements that claimed an address of ours.
    pub address_conflicts: u64,
}

/// One lcore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LcoreView {
    /// The core it is pinned to.
    pub lcore: u16,
    /// Share of cycles in turns with work, mean of the last 2 s, in percent.
    pub busy_percent: f64,
    /// The version of the snapshot it uses.
    pub snapshot: u64,
    /// Whether that is the newest.
    pub current: bool,
    /// How long it has not turned, in ms; 0 while it turns.
    pub silent_ms: u64,
    /// Entries in its connection table.
    pub entries: u64,
    /// Packets/s received.
    pub received_pps: f64,
    /// All its counters by name, since the start or the last `zero`; gauges as they are.
    pub counters: BTreeMap<String, u64>,
    /// Its drops by reason, since the start or the last `zero`.
    pub drops: BTreeMap<String, u64>,
    /// How long its turns took, since the start or the last `zero`.
    #[serde(default)]
    pub turns: TurnsView,
}

/// How long turns with work took, in µs of the time-stamp counter: time for which the kernel gave
/// the core to another thread is in it. Each value is the upper edge of a bucket, at most a quarter
/// above the exact one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnsView {
    /// Half of the turns took no longer.
    pub p50_us: f64,
    /// 99 in 100.
    pub p99_us: f64,
    /// 999 in 1,000.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Four buckets an octave, without empty ones before the first and after the last.
    pub buckets: Vec<TurnBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnBucket {
    /// Turns in it took at most so long, and longer than the bucket before says.
    pub to_us: f64,
    /// How many.
    pub count: u64,
}

/// What a device counts, as the daemon reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Whether there is a link.
    pub link_up: bool,
    /// Its speed in Mbit/s; 0 if unknown.
    pub speed_mbps: u32,
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames missed because a queue was full.
    pub imissed: u64,
    /// Frames lost because there was no buffer.
    pub rx_nombuf: u64,
    /// Frames received with errors.
    pub ierrors: u64,
    /// Frames that could not be sent.
    pub oerrors: u64,
    /// Further counters of the driver, by name.
    #[serde(default)]
    pub extended: BTreeMap<String, u64>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortView {
    /// Its handle.
    pub name: String,
    /// The device string.
    pub device: String,
    /// Its hardware address.
    #[serde(with = "config::text")]
    pub mac: Mac,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// The director's addresses on it, with prefix length.
    pub addresses: Vec<String>,
    /// The way to everything else.
    pub gateway: Option<IpAddr>,
    /// What the device counts, since the start or the last `zero`.
    #[serde(flatten)]
    pub counters: PortCounters,
}

/// One next hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourView {
    /// Its address.
    pub address: IpAddr,
    /// The port it is behind.
    pub port: String,
    /// Its hardware address, if known.
    #[serde(default, with = "config::text::option")]
    pub mac: Option<Mac>,
    /// `incomplete`, `reachable`, `stale`, `probe`, `failed`, `permanent`.
    pub state: String,
    /// Since it was last confirmed, in ms.
    pub age_ms: Option<u64>,
    /// Questions sent since then.
    pub asked: u32,
    /// How many servers are reached by it.
    pub servers: usize,
}

/// Tables, pools and what they hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryView {
    /// Entries in all connection tables.
    pub connections: u64,
    /// How many there may be.
    pub connections_max: u64,
    /// Most there ever were, summed over lcores.
    pub connections_peak: u64,
    /// New flows that found the table full.
    #[serde(default)]
    pub insert_failures: u64,
    /// New flows that the flood guard kept out of the table.
    #[serde(default)]
    pub flood_guarded: u64,
    /// Half-open entries that made room for others.
    #[serde(default)]
    pub half_open_evicted: u64,
    /// Server slots in use or still with connections.
    pub server_slots: u64,
    /// How many there may be.
    pub server_slots_max: u64,
    /// Persistence templates that live.
    #[serde(default)]
    pub templates: u64,
    /// How many there is room for.
    #[serde(default)]
    pub templates_max: u64,
    /// Most there ever were.
    #[serde(default)]
    pub templates_peak: u64,
    /// New clients that found no room for one, since the start.
    #[serde(default)]
    pub template_failures: u64,
    /// Services.
    pub services: u64,
    /// How many there may be.
    pub services_max: u64,
    /// Bytes by what they are for, as budgeted at the start.
    pub budget: BTreeMap<String, u64>,
}

/// Which connections to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnFilter {
    /// Only of this service.
    pub service: Option<config::ServiceRef>,
    /// Only of this server.
    pub server: Option<config::ServerRef>,
    /// Only from this client address.
    pub client: Option<IpAddr>,
    /// Go on here: a page's `next`.
    pub cursor: Option<ConnCursor>,
    /// About how many rows a page has; 0 means 1,000.
    pub limit: u32,
    /// Persistence templates instead of connections.
    pub templates: bool,
}

/// A page of persistence templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplatePage {
    /// The rows.
    pub templates: Vec<TemplateView>,
    /// Where the next page starts; absent at the end.
    pub next: Option<ConnCursor>,
}

/// One persistence template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemplateView {
    /// The service.
    pub service: String,
    /// `tcp` or `udp`.
    #[serde(with = "config::text")]
    pub protocol: L4Proto,
    /// The client's address, or the first of its network.
    pub client: IpAddr,
    /// The length of the prefix that counts as one client.
    pub client_prefix: u8,
    /// The virtual address.
    pub virtual_address: IpAddr,
    /// The virtual port; 0 for any.
    pub virtual_port: u16,
    /// Where the client's connections go.
    pub server: IpAddr,
    /// The server's port.
    pub server_port: u16,
    /// `ASSURED`; `VOID` when the client's next connection is scheduled anew.
    pub state: String,
    /// Seconds until it ends if no connection comes.
    pub expires_secs: u32,
}

/// Where a list of connections goes on. Unchanged by what comes and goes in between: an entry that
/// lives throughout appears exactly once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnCursor {
    /// The lcore, by position.
    pub lcore: u16,
    /// Its bucket.
    pub bucket: u32,
}

/// A page of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnPage {
    /// The rows.
    pub connections: Vec<ConnView>,
    /// Where the next page starts; absent at the end.
    pub next: Option<ConnCursor>,
    /// Lcores that did not answer within 1 s: their rows are missing.
    pub incomplete: Vec<u16>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnView {
    /// `tcp` or `udp`.
    #[serde(with = "config::text")]
    pub protocol: L4Proto,
    /// Client address.
    pub client: IpAddr,
    /// Client port.
    pub client_port: u16,
    /// What the client addressed.
    pub virtual_address: IpAddr,
    /// Its port.
    pub virtual_port: u16,
    /// Server address; absent if the server is gone.
    pub server: Option<IpAddr>,
    /// Server port.
    pub server_port: Option<u16>,
    /// The client half's state.
    pub state: String,
    /// Seconds until it ends if nothing comes.
    pub expires_secs: u32,
    /// The lcore it lives on.
    pub lcore: u16,
}

impl ServiceView {
    /// What clients address.
    #[must_use]
    pub const fn endpoint(&self) -> Endpoint {
        Endpoint { protocol: self.protocol, address: self.address, port: self.port }
    }
}
