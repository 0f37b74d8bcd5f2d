//! Arguments that several commands share: services, servers, ways of forwarding, schedulers.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use config::persistence::{PersistenceVoid, netmask};
use config::slow_start::Exponent;
use config::spec::{
    Flags, Forward, MaglevHash, NoServer, OnRemove, ServerRef, ServiceRef, Stray, Timeouts,
};
use engine::sched::SchedulerKind;

use crate::change::ServiceEdit;
use crate::ctl::Failed;

/// Parameters of methods that concern one service, or all.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneOrAll {
    /// Which; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
}

impl OneOrAll {
    /// From words on the command line; none for all.
    ///
    /// # Errors
    /// When they name no service.
    pub fn of(words: &[String]) -> Result<Self, Failed> {
        let service = if words.is_empty() { None } else { Some(service(words)?) };
        Ok(Self { service })
    }
}

/// A service in one word (its name) or two (`tcp 192.0.2.10:80`).
///
/// # Errors
/// When the words are not that.
pub fn service(words: &[String]) -> Result<ServiceRef, Failed> {
    match service_and_more(words)? {
        (service, []) => Ok(service),
        (_, [_, ..]) => Err(Failed::Usage(format!(
            "{:?} is no service: its name alone, or tcp or udp and ADDRESS:PORT",
            words.join(" ")
        ))),
    }
}

/// A service and one server of it: two words or three.
///
/// # Errors
/// When the words are not that.
pub fn service_and_server(
    first: String,
    rest: Vec<String>,
) -> Result<(ServiceRef, ServerRef), Failed> {
    let words: Vec<String> = std::iter::once(first).chain(rest).collect();
    match service_and_more(&words)? {
        (service, [server]) => Ok((service, server.parse().map_err(Failed::Usage)?)),
        (service, []) => Err(Failed::Usage(format!("which server of {service}?"))),
        (_, [_, more, ..]) => Err(Failed::Usage(format!("{more:?} is one word too many"))),
    }
}

/// A service, and the words after it.
///
/// # Errors
/// When the words do not begin with a service.
pub fn service_and_more(words: &[String]) -> Result<(ServiceRef, &[String]), Failed> {
    let of_protocol = |w: &String| w.eq_ignore_ascii_case("tcp") || w.eq_ignore_ascii_case("udp");
    match words {
        [protocol, address, more @ ..] if of_protocol(protocol) => {
            let text = format!("{} {address}", protocol.to_ascii_lowercase());
            Ok((text.parse().map_err(Failed::Usage)?, more))
        }
        [name, more @ ..] if !of_protocol(name) => Ok((name.parse().map_err(Failed::Usage)?, more)),
        _ => {
            Err(Failed::Usage("which service? tcp ADDRESS:PORT, udp ADDRESS:PORT or a name".into()))
        }
    }
}

/// How a service treats its flows.
#[derive(Debug, Default, clap::Args)]
pub struct RuleArgs {
    /// Packets that belong to no connection: reset or drop
    #[arg(long, value_name = "POLICY")]
    pub stray: Option<Stray>,
    /// Accept TCP connections in their middle, as LVS's `sloppy_tcp`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub sloppy: Option<bool>,
    /// UDP: schedule every datagram by itself and keep no entry
    #[arg(short = 'o', long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub ops: Option<bool>,
    /// What becomes of a removed server's connections: drain, reset, forget or reschedule
    #[arg(long, value_name = "POLICY")]
    pub on_remove: Option<OnRemove>,
    /// Its own idle times in seconds: TCP,TCPFIN,UDP; 0 for the director's
    #[arg(long, value_name = "T,F,U", value_parser = timeouts)]
    pub timeouts: Option<Timeouts>,
}

/// What happens when servers are short.
#[derive(Debug, Default, clap::Args)]
pub struct QuorumArgs {
    /// With fewer servers up its backups stand in for them; at first 1
    #[arg(long, value_name = "SERVERS")]
    pub quorum: Option<u32>,
    /// By how many more or fewer that changes; at first 0
    #[arg(long, value_name = "SERVERS")]
    pub hysteresis: Option<u32>,
    /// New connections when nobody is left: unreachable, reset, drop, fail-open or backup
    #[arg(long, value_name = "POLICY")]
    pub no_server: Option<NoServer>,
}

/// Client persistence.
#[derive(Debug, Default, clap::Args)]
pub struct PersistenceArgs {
    /// A client's new connections go to its server, until it begins none for so many seconds; 0 for
    /// never
    #[arg(short = 'p', long = "persistent", value_name = "SECONDS", num_args = 0..=1)]
    #[arg(default_missing_value = "300")]
    pub persistence: Option<u32>,
    /// What counts as one client: a netmask, or the length of a prefix
    #[arg(short = 'M', long = "netmask", value_name = "MASK", value_parser = netmask)]
    pub persistence_netmask: Option<u8>,
    /// From when on a server's persistent clients are scheduled anew: down, drain or weight-0
    #[arg(long, value_name = "WHEN")]
    pub persistence_void: Option<PersistenceVoid>,
}

/// How servers that join a serving pool get their share.
#[derive(Debug, Default, clap::Args)]
pub struct SlowStartArgs {
    /// A server that joins takes this time to its share: 30s, 5m; 0 for at once
    #[arg(long, value_name = "TIME", value_parser = config::text::seconds)]
    pub slow_start: Option<u32>,
    /// Percent of its weight to begin with, 5 if not said
    #[arg(long, value_name = "PERCENT")]
    pub slow_start_floor: Option<u32>,
    /// How its weight grows: 1 steadily, more begins more gently
    #[arg(long, value_name = "NUMBER")]
    pub slow_start_exponent: Option<Exponent>,
}

impl SlowStartArgs {
    /// What they change of a service.
    #[must_use]
    pub fn edit(self) -> ServiceEdit {
        ServiceEdit {
            slow_start: self.slow_start,
            slow_start_floor: self.slow_start_floor,
            slow_start_exponent: self.slow_start_exponent,
            ..ServiceEdit::default()
        }
    }
}

/// The table of scheduler `mh`.
#[derive(Debug, Default, clap::Args)]
pub struct MaglevArgs {
    /// How mh hashes: keyed, by the director's mh-key; or kernel, to agree with Linux directors
    #[arg(long, value_name = "HASH")]
    pub maglev_hash: Option<MaglevHash>,
    /// Places in the table of mh: a prime, 100 for each server or more
    #[arg(long, value_name = "PLACES")]
    pub maglev_size: Option<u32>,
}

fn timeouts(text: &str) -> Result<Timeouts, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok([tcp, tcpfin, udp]) => Ok(Timeouts { tcp: *tcp, tcpfin: *tcpfin, udp: *udp }),
        _ => Err("three numbers of seconds such as 900,120,300; 0 for the director's".into()),
    }
}

/// How packets reach a server: ipvsadm's letters and long names, or by name.
#[derive(Debug, Default, clap::Args)]
#[group(id = "forwarding", multiple = false)]
pub struct ForwardArgs {
    /// Direct routing: as --forward dr
    #[arg(short = 'g', long)]
    gatewaying: bool,
    /// IP-in-IP tunnel: as --forward tunnel
    #[arg(short = 'i', long)]
    ipip: bool,
    /// NAT, which this release does not have
    #[arg(short = 'm', long, hide = true)]
    masquerading: bool,
    /// How packets reach the server: dr or tunnel
    #[arg(long, value_name = "HOW")]
    forward: Option<Forward>,
}

impl ForwardArgs {
    /// What was asked for, if anything.
    ///
    /// # Errors
    /// When this release does not have it.
    pub fn forward(&self) -> Result<Option<Forward>, Failed> {
        match self {
            Self { gatewaying: true, .. } => Ok(Some(Forward::Dr)),
            Self { ipip: true, .. } => Ok(Some(Forward::Tunnel)),
            Self { masquerading: true, .. } => {
                Err(Failed::Usage("-m (NAT) is not supported yet; use -g or -i".into()))
            }
            Self { forward, .. } => Ok(*forward),
        }
    }
}

/// How lists name a way of forwarding: as ipvsadm does.
#[must_use]
pub const fn forward_word(forward: Forward) -> &'static str {
    match forward {
        Forward::Dr => "Route",
        Forward::Tunnel => "Tunnel",
    }
}

/// Reads a whole number from 0 to `most`.
pub fn number(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let within = text.parse().ok().filter(|n| *n <= most);
        within.ok_or_else(|| format!("not a whole number from 0 to {most}"))
    }
}

/// Reads a scheduler's name; help and completions list them all.
pub fn scheduler() -> impl TypedValueParser<Value = SchedulerKind> {
    let values = SchedulerKind::ALL.iter().map(|k| PossibleValue::new(k.name()).help(k.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<SchedulerKind>())
}

/// Reads `mh-port,mh-fallback`.
///
/// # Errors
/// When there is no such flag.
pub fn flags(text: &str) -> Result<Flags, String> {
    let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
    Flags::try_from(names.map(str::to_owned).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn both(text: &str) -> Result<(ServiceRef, ServerRef), Failed> {
        let words = words(text);
        service_and_server(words[0].clone(), words[1..].to_vec())
    }

    #[test]
    fn services_take_one_word_or_two() {
        for (text, service_text, server_text) in [
            ("tcp 192.0.2.10:80 10.0.0.11", "tcp 192.0.2.10:80", "10.0.0.11"),
            ("UDP [2001:db8::1]:53 [2001:db8::2]:54", "udp [2001:db8::1]:53", "[2001:db8::2]:54"),
            ("web web-1", "web", "web-1"),
        ] {
            let (service, server) = both(text).unwrap();
            assert_eq!(
                (service.to_string(), server.to_string()),
                (service_text.into(), server_text.into())
            );
        }
        for text in
            ["tcp", "web", "tcp 192.0.2.10:80", "tcp web-1 x", "web a b", "w/b a", "web a/b"]
        {
            assert!(both(text).is_err(), "{text}");
        }
        assert!(service(&words("web more")).is_err());
    }
}
