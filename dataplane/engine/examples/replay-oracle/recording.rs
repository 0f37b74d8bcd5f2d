//! Reads a recording, and believes nothing of it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use engine::sched::{SchedFlags, SchedulerKind};
use engine::testkit::world::SLOTS;
use serde::Deserialize;

/// The most connections of a case.
const MAX_CLIENTS: usize = 100_000;
/// The most virtual addresses of a case.
const MAX_VIPS: usize = 256;
/// In a case with changes, after so many connections comes the next one.
const BETWEEN_CHANGES: usize = 8;
/// The virtual address of cases that name none.
const VIP: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 100);

/// What is to be replayed.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) cases: Vec<Case>,
    /// Titles of cases whose scheduler chooses at random.
    pub(crate) random: Vec<String>,
}

/// One service, or several alike at different virtual addresses.
#[derive(Debug)]
pub(crate) struct Case {
    /// Where it stands and what it is, for people.
    pub(crate) title: String,
    pub(crate) kind: SchedulerKind,
    pub(crate) flags: SchedFlags,
    /// Each connection is closed before the next is opened.
    pub(crate) closes: bool,
    /// The servers at the beginning, in the order of adding.
    pub(crate) servers: Vec<(SocketAddrV4, u32)>,
    pub(crate) names: BTreeMap<SocketAddrV4, String>,
    pub(crate) opens: Vec<Open>,
    /// By connection: what was recorded.
    pub(crate) picks: Vec<String>,
}

/// One connection, and the changes before it.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) changes: Vec<Change>,
    pub(crate) client: SocketAddrV4,
    pub(crate) vip: SocketAddrV4,
}

/// What `ipvsadm` did to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Add(SocketAddrV4, u32),
    Edit(SocketAddrV4, u32),
    Delete(SocketAddrV4),
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    setup: Setup,
    #[serde(default)]
    facts: Vec<Fact>,
    #[serde(default)]
    change_facts: Vec<Fact>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Setup {
    Configs {
        configs: BTreeMap<String, String>,
    },
    #[default]
    #[serde(skip)]
    Absent,
    Other(serde::de::IgnoredAny),
}

/// A fact, or a change fact: that has a port and changes, and its servers by their `config`.
#[derive(Deserialize)]
struct Fact {
    scheduler: String,
    flags: Option<String>,
    config: Option<String>,
    servers: Option<Vec<Server>>,
    connections: Option<Connections>,
    port: Option<u16>,
    #[serde(default)]
    changes: Vec<Vec<String>>,
    clients: Vec<SocketAddrV4>,
    vips: Option<Vec<SocketAddrV4>>,
    picks: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Connections {
    AllStayOpen,
    CloseBeforeNext,
}

#[derive(Clone, Deserialize)]
struct Server {
    addr: SocketAddrV4,
    name: String,
    weight: u32,
}

/// Reads a recording.
///
/// # Errors
/// Where and why it cannot be read.
pub(crate) fn read(json: &[u8]) -> Result<Recording, String> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let file: File = serde_path_to_error::deserialize(&mut json)
        .map_err(|e| format!("{}: {}", e.path(), e.inner()))?;
    json.end().map_err(|e| e.to_string())?;
    let mut recording = Recording::default();
    let facts = file.facts.iter().map(|fact| ("facts", fact)).enumerate();
    let changes = file.change_facts.iter().map(|fact| ("change_facts", fact)).enumerate();
    for (n, (list, fact)) in facts.chain(changes) {
        let place = format!("{list}[{n}]");
        let case = case(list, &place, fact, &file).map_err(|why| format!("{place}.{why}"))?;
        if case.kind == SchedulerKind::Twos {
            recording.random.push(case.title);
        } else {
            recording.cases.push(case);
        }
    }
    if recording.cases.is_empty() && recording.random.is_empty() {
        return Err("facts, change_facts: there is nothing to replay".to_owned());
    }
    Ok(recording)
}

fn case(list: &str, place: &str, fact: &Fact, file: &File) -> Result<Case, String> {
    let kind: SchedulerKind = fact.scheduler.parse().map_err(|e| format!("scheduler: {e}"))?;
    if list == "facts" && (fact.connections.is_none() || fact.servers.is_none()) {
        return Err("connections, servers: a fact has both".to_owned());
    }
    let flags =
        flags(kind, fact.flags.as_deref().unwrap_or("")).map_err(|e| format!("flags: {e}"))?;
    let servers = servers(fact, file)?;
    if fact.picks.len() != fact.clients.len() {
        let (picks, clients) = (fact.picks.len(), fact.clients.len());
        return Err(format!("picks: there are {picks}, and {clients} clients"));
    }
    if fact.clients.len() > MAX_CLIENTS {
        return Err(format!("clients: more than {MAX_CLIENTS}"));
    }
    let opens = opens(fact, &servers)?;
    let mut names: BTreeMap<_, _> = servers.iter().map(|s| (s.addr, s.name.clone())).collect();
    for change in opens.iter().flat_map(|open| &open.changes) {
        if let Change::Add(addr, _) = change {
            names.entry(*addr).or_insert_with(|| name(*addr));
        }
    }
    if names.len() > SLOTS {
        return Err(format!("servers: more than {SLOTS}"));
    }
    let title = [Some(&fact.scheduler), fact.flags.as_ref(), fact.config.as_ref()];
    let title: Vec<_> = title.into_iter().flatten().map(String::as_str).collect();
    Ok(Case {
        title: format!("{place} {}", title.join(" ")),
        kind,
        flags,
        closes: fact.connections == Some(Connections::CloseBeforeNext),
        servers: servers.iter().map(|s| (s.addr, s.weight)).collect(),
        names,
        opens,
        picks: fact.picks.clone(),
    })
}

fn flags(kind: SchedulerKind, text: &str) -> Result<SchedFlags, String> {
    let mut flags = SchedFlags::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match (kind, word) {
            (SchedulerKind::Sh, "sh-port") => flags.sh_port = true,
            (SchedulerKind::Sh, "sh-fallback") => flags.sh_fallback = true,
            (SchedulerKind::Mh, "mh-port") => flags.mh_port = true,
            (SchedulerKind::Mh, "mh-fallback") => flags.mh_fallback = true,
            _ => return Err(format!("{word:?} is no flag of {kind}")),
        }
    }
    Ok(flags)
}

/// The servers that a fact lists, or those of its configuration at its port.
fn servers(fact: &Fact, file: &File) -> Result<Vec<Server>, String> {
    let servers = match &fact.servers {
        Some(servers) => servers.clone(),
        None => configured(fact, file)?,
    };
    for (n, server) in servers.iter().enumerate() {
        let at = format!("servers[{n}]");
        check_weight(server.weight).map_err(|e| format!("{at}.weight: {e}"))?;
        if servers[..n].iter().any(|other| other.addr == server.addr) {
            return Err(format!("{at}.addr: {} is there twice", server.addr));
        }
    }
    Ok(servers)
}

fn configured(fact: &Fact, file: &File) -> Result<Vec<Server>, String> {
    let config = fact.config.as_deref().ok_or("config: missing, and there are no servers")?;
    let port = fact.port.ok_or("port: missing, and there are no servers")?;
    let described = match &file.setup {
        Setup::Configs { configs } => described(config, configs, port),
        _ => None,
    };
    let listed = || file.facts.iter().find(|f| f.config == fact.config && f.servers.is_some());
    let at_port = |s: &Server| Server { addr: SocketAddrV4::new(*s.addr.ip(), port), ..s.clone() };
    let elsewhere = || Some(listed()?.servers.as_ref()?.iter().map(at_port).collect());
    described.or_else(elsewhere).ok_or_else(|| {
        format!(
            "config: {config:?} is neither in setup.configs (\"rs1 w1, rs2 w2 …\") nor in facts"
        )
    })
}

/// Reads `rs1 w1, rs2 w2 added in this order`, `same weights, added rs3, rs2, rs1` or
/// `all weight 1, added rs1, rs2, rs3`. Server rsN is 10.0.0.(10 + N).
fn described(config: &str, configs: &BTreeMap<String, String>, port: u16) -> Option<Vec<Server>> {
    let words = |text: &str| -> Vec<String> {
        let split = text.split(|c: char| !c.is_ascii_alphanumeric());
        split.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let number = |word: &str, letters| word.strip_prefix(letters)?.parse::<u32>().ok();
    let weights = |text: &str| -> BTreeMap<String, u32> {
        let pairs = words(text);
        let pairs = pairs.windows(2).filter(|pair| number(&pair[0], "rs").is_some());
        pairs.filter_map(|pair| Some((pair[0].clone(), number(&pair[1], "w")?))).collect()
    };
    let text = configs.get(config)?;
    let all = words(text);
    let mut known = weights(text);
    if let Some(at) = all.windows(2).position(|pair| pair == ["all", "weight"]) {
        let weight = all.get(at + 2)?.parse().ok()?;
        known.extend(all.iter().map(|word| (word.clone(), weight)));
    } else if all.windows(2).any(|pair| pair == ["same", "weights"]) {
        known.extend(configs.values().flat_map(|other| weights(other)));
    }
    let names: Vec<_> = all.iter().filter(|word| number(word, "rs").is_some()).collect();
    let server = |name: &&String| {
        let host = number(name, "rs")?.checked_add(10).and_then(|host| u8::try_from(host).ok())?;
        let addr = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), port);
        Some(Server { addr, name: (*name).clone(), weight: *known.get(*name)? })
    };
    let servers: Option<Vec<_>> = names.iter().map(server).collect();
    servers.filter(|servers| !servers.is_empty())
}

/// What a server is called that only a change names: as in the topology of the recordings.
fn name(addr: SocketAddrV4) -> String {
    match addr.ip().octets() {
        [10, 0, 0, host] if host > 10 => format!("rs{}", host - 10),
        _ => addr.to_string(),
    }
}

/// The connections with the changes before each. `present` are the servers at the beginning.
fn opens(fact: &Fact, servers: &[Server]) -> Result<Vec<Open>, String> {
    let port = fact.port.or_else(|| Some(servers.first()?.addr.port())).unwrap_or(80);
    let vips = fact.vips.clone().unwrap_or_else(|| vec![SocketAddrV4::new(VIP, port)]);
    if vips.is_empty() || vips.len() > MAX_VIPS {
        return Err(format!("vips: there are {}, not 1 to {MAX_VIPS}", vips.len()));
    }
    let mut present: Vec<_> = servers.iter().map(|s| s.addr).collect();
    let mut changes = Vec::new();
    for (k, lines) in fact.changes.iter().enumerate() {
        let mut these = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            let change = change(line, port, &mut present);
            these.push(change.map_err(|e| format!("changes[{k}][{n}]: {line:?}: {e}"))?);
        }
        changes.push(these);
    }
    let opens = fact.clients.iter().enumerate().map(|(n, client)| Open {
        changes: match n.checked_div(BETWEEN_CHANGES) {
            Some(k) if k > 0 && n % BETWEEN_CHANGES == 0 => changes.get(k - 1).cloned(),
            _ => None,
        }
        .unwrap_or_default(),
        client: *client,
        vip: vips[n % vips.len()],
    });
    Ok(opens.collect())
}

/// Reads a line of `ipvsadm`; only `-a`, `-e`, `-d`, `-r` and `-w` matter.
fn change(line: &str, port: u16, present: &mut Vec<SocketAddrV4>) -> Result<Change, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let value = |name| words.iter().position(|w| *w == name).and_then(|at| words.get(at + 1));
    let server = value("-r").ok_or("no -r SERVER")?;
    // Without a port it is the service's.
    let server = server.parse().or_else(|e| match server.parse() {
        Ok(addr) => Ok(SocketAddrV4::new(addr, port)),
        Err(_) => Err(format!("-r: {e}")),
    })?;
    let weight = match value("-w") {
        // ipvsadm's default, for an edit too.
        None => 1,
        Some(weight) => weight.parse().map_err(|e| format!("-w: {e}"))?,
    };
    check_weight(weight)?;
    let known = present.iter().position(|s| *s == server);
    let command = words.iter().find(|word| ["-a", "-e", "-d"].contains(word));
    match (command, known) {
        (Some(&"-a"), None) => {
            present.push(server);
            Ok(Change::Add(server, weight))
        }
        (Some(&"-e"), Some(_)) => Ok(Change::Edit(server, weight)),
        (Some(&"-d"), Some(at)) => {
            present.remove(at);
            Ok(Change::Delete(server))
        }
        (Some(&"-a"), Some(_)) => Err(format!("{server} is there already")),
        (Some(_), None) => Err(format!("{server} is not there")),
        _ => Err("neither -a, -e nor -d".to_owned()),
    }
}

fn check_weight(weight: u32) -> Result<(), String> {
    if i32::try_from(weight).is_ok() { Ok(()) } else { Err(format!("{weight} is above 2^31 - 1")) }
}

impl Case {
    /// What the recording calls a server.
    pub(crate) fn name(&self, addr: IpAddr, port: u16) -> String {
        let IpAddr::V4(addr) = addr else { return addr.to_string() };
        let addr = SocketAddrV4::new(addr, port);
        self.names.get(&addr).cloned().unwrap_or_else(|| addr.to_string())
    }
}
