//! Settings and services to TOML, in the shape of the file: what [`crate::parse`] reads back as
//! the same. Values that are the defaults are left out.

use std::fmt::{Display, Write};
use std::path::Path;

use toml::Value;

use crate::persistence::PersistenceVoid;
use crate::settings::{Director, Dpdk, Port, Settings};
use crate::slow_start::{DEFAULT_FLOOR, Exponent};
use crate::spec::{Admin, MaglevHash, NoServer, OnRemove, ServerSpec, ServiceSpec, Stray};
use crate::text::{show_bytes, show_count};

/// The text that [`crate::parse`] reads back as the same settings.
#[must_use]
pub fn save(settings: &Settings) -> String {
    let mut out = String::new();
    director(&mut out, &settings.director);
    for p in &settings.ports {
        port(&mut out, p);
    }
    if settings.dpdk != Dpdk::default() {
        dpdk(&mut out, &settings.dpdk);
    }
    for s in &settings.services {
        service(&mut out, s);
    }
    out
}

fn director(out: &mut String, d: &Director) {
    let defaults = Director::default();
    out.push_str("[director]\n");
    key(out, "name", quoted(&d.name));
    key(out, "lcores", list(&d.lcores));
    key(out, "connections", quoted(show_count(d.connections)));
    if d.templates != defaults.templates {
        key(out, "templates", quoted(show_count(d.templates)));
    }
    let t = d.timeouts;
    let timeouts = format!("{{ tcp = {}, tcpfin = {}, udp = {} }}", t.tcp, t.tcpfin, t.udp);
    key(out, "timeouts", timeouts);
    if d.socket != defaults.socket {
        key(out, "socket", path(&d.socket));
    }
    if d.max_servers != defaults.max_servers {
        key(out, "max-servers", d.max_servers);
    }
    if d.max_services != defaults.max_services {
        key(out, "max-services", d.max_services);
    }
    if let Some(secret) = d.mh_key {
        let hex = secret.iter().map(|b| format!("{b:02x}")).collect::<String>();
        key(out, "mh-key", quoted(hex));
    }
    if let Some(idle) = d.idle {
        key(out, "idle", quoted(idle.name()));
    }
    if d.flood_guard != defaults.flood_guard {
        key(out, "flood-guard", d.flood_guard);
    }
    if let Some(state) = &d.state {
        key(out, "state", path(state));
    }
}

fn port(out: &mut String, p: &Port) {
    out.push_str("\n[[port]]\n");
    key(out, "name", quoted(&p.name));
    key(out, "device", quoted(&p.device));
    key(out, "addresses", list(p.addresses.iter().map(quoted)));
    if let Some(gateway) = p.gateway {
        key(out, "gateway", quoted(gateway));
    }
    if let Some(mac) = p.gateway_mac {
        key(out, "gateway-mac", quoted(mac));
    }
    if !p.garp {
        key(out, "garp", false);
    }
    if let Some(idle) = p.idle {
        key(out, "idle", quoted(idle.name()));
    }
    if p.mtu != 1500 {
        key(out, "mtu", p.mtu);
    }
    if p.promiscuous {
        key(out, "promiscuous", true);
    }
    if let Some(queues) = p.queues {
        key(out, "queues", queues);
    }
}

fn dpdk(out: &mut String, d: &Dpdk) {
    out.push_str("\n[dpdk]\n");
    if !d.args.is_empty() {
        key(out, "args", list(d.args.iter().map(quoted)));
    }
    if !d.plugins.is_empty() {
        key(out, "plugins", list(d.plugins.iter().map(|p| path(p))));
    }
    if let Some(hugepages) = d.hugepages {
        key(out, "hugepages", hugepages);
    }
    if let Some(memory) = d.memory {
        key(out, "memory", quoted(show_bytes(memory)));
    }
}

fn service(out: &mut String, s: &ServiceSpec) {
    out.push_str("\n[[service]]\n");
    key(out, "name", quoted(&s.name));
    key(out, "listen", quoted(s.endpoint()));
    key(out, "scheduler", quoted(s.scheduler));
    if !s.flags.names().is_empty() {
        key(out, "flags", list(s.flags.names().into_iter().map(quoted)));
    }
    key(out, "forward", quoted(s.forward));
    if s.stray != Stray::default() {
        key(out, "stray", quoted(s.stray));
    }
    if s.maglev_hash != MaglevHash::default() {
        key(out, "maglev-hash", quoted(s.maglev_hash));
    }
    if let Some(size) = s.maglev_size {
        key(out, "maglev-size", size);
    }
    if s.sloppy {
        key(out, "sloppy", true);
    }
    if s.one_packet {
        key(out, "one-packet", true);
    }
    if s.on_remove != OnRemove::default() {
        key(out, "on-remove", quoted(s.on_remove));
    }
    if let Some(seconds) = s.persistence {
        key(out, "persistence", seconds);
    }
    if let Some(length) = s.persistence_netmask {
        key(out, "persistence-netmask", length);
    }
    if s.persistence_void != PersistenceVoid::default() {
        key(out, "persistence-void", quoted(s.persistence_void));
    }
    if let Some(t) = s.timeouts {
        let all = [("tcp", t.tcp), ("tcpfin", t.tcpfin), ("udp", t.udp)];
        let set = all.into_iter().filter(|(_, secs)| *secs != 0);
        let set: Vec<String> = set.map(|(name, secs)| format!("{name} = {secs}")).collect();
        key(out, "timeouts", format!("{{ {} }}", set.join(", ")));
    }
    if s.quorum != 1 {
        key(out, "quorum", s.quorum);
    }
    if s.hysteresis != 0 {
        key(out, "hysteresis", s.hysteresis);
    }
    if s.no_server != NoServer::default() {
        key(out, "no-server", quoted(s.no_server));
    }
    if let Some(ramp) = s.slow_start {
        key(out, "slow-start", quoted(format!("{}s", ramp.secs)));
        if ramp.floor != DEFAULT_FLOOR {
            key(out, "slow-start-floor", ramp.floor);
        }
        if ramp.exponent != Exponent::default() {
            key(out, "slow-start-exponent", ramp.exponent);
        }
    }
    if s.servers.is_empty() {
        return;
    }
    out.push_str("servers = [\n");
    for server in &s.servers {
        let _ = writeln!(out, "  {{ {} }},", server_keys(server, s).join(", "));
    }
    out.push_str("]\n");
}

fn server_keys(server: &ServerSpec, service: &ServiceSpec) -> Vec<String> {
    let mut keys = vec![
        format!("name = {}", quoted(&server.name)),
        format!("address = {}", quoted(server.address)),
    ];
    if let Some(port) = server.port.filter(|p| *p != service.port) {
        keys.push(format!("port = {port}"));
    }
    keys.push(format!("weight = {}", server.weight));
    if let Some(forward) = server.forward.filter(|f| *f != service.forward) {
        keys.push(format!("forward = {}", quoted(forward)));
    }
    if let Some(mac) = server.mac {
        keys.push(format!("mac = {}", quoted(mac)));
    }
    if let Some(mtu) = server.mtu {
        keys.push(format!("mtu = {mtu}"));
    }
    if server.u_threshold > 0 {
        keys.push(format!("u-threshold = {}", server.u_threshold));
    }
    if server.l_threshold > 0 {
        keys.push(format!("l-threshold = {}", server.l_threshold));
    }
    if server.admin != Admin::default() {
        keys.push(format!("admin = {}", quoted(server.admin)));
    }
    if server.backup {
        keys.push("backup = true".to_owned());
    }
    keys
}

fn key(out: &mut String, name: &str, value: impl Display) {
    let _ = writeln!(out, "{name} = {value}");
}

/// A TOML string: the library knows what must be escaped.
fn quoted(value: impl Display) -> String {
    Value::String(value.to_string()).to_string()
}

fn path(path: &Path) -> String {
    quoted(path.display())
}

fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    format!("[{}]", items.join(", "))
}
