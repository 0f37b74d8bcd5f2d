//! What may be asked of the running state, and how it is refused.
//!
//! A [`Change`] is a request of the protocol as it stands on the line: `method` and `params`.

use std::fmt;

use config::persistence::PersistenceVoid;
use config::slow_start::{Exponent, SlowStart};
use config::spec::{
    Admin, Flags, Forward, MaglevHash, NoServer, OnRemove, ServerRef, ServerSpec, ServiceRef,
    ServiceSpec, Stray, Timeouts, TunType,
};
use engine::addr::Mac;
use engine::sched::SchedulerKind;
use serde::{Deserialize, Serialize};

/// One change of the running state. A batch of them is applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
pub enum Change {
    /// A new service, with its servers.
    #[serde(rename = "service.add")]
    AddService(ServiceSpec),
    /// Another scheduler, flag or policy for a service; connections stay.
    #[serde(rename = "service.edit")]
    EditService {
        /// Which.
        service: ServiceRef,
        /// What is new.
        edit: ServiceEdit,
    },
    /// A service ends, and its connections with it.
    #[serde(rename = "service.delete")]
    DelService {
        /// Which.
        service: ServiceRef,
    },
    /// All services end.
    #[serde(rename = "service.flush")]
    Flush,
    /// A new server; one that was removed while its connections lived takes them back.
    #[serde(rename = "server.add")]
    AddServer {
        /// Of which service.
        service: ServiceRef,
        /// The server.
        server: ServerSpec,
    },
    /// Another weight, state or way for a server; connections stay.
    #[serde(rename = "server.edit")]
    EditServer {
        /// Of which service.
        service: ServiceRef,
        /// Which.
        server: ServerRef,
        /// What is new.
        edit: ServerEdit,
    },
    /// A server takes no new connections; what becomes of its present ones, the service says or
    /// the request.
    #[serde(rename = "server.delete")]
    DelServer {
        /// Of which service.
        service: ServiceRef,
        /// Which.
        server: ServerRef,
        /// What becomes of its connections; as the service says if absent.
        #[serde(default)]
        then: Option<OnRemove>,
    },
    /// A server takes no new connections, in all its services.
    #[serde(rename = "server.drain")]
    DrainServer {
        /// Which.
        server: ServerRef,
        /// After so many seconds its connections end.
        #[serde(default)]
        deadline: Option<u32>,
        /// How they end then.
        #[serde(default)]
        then: Option<OnRemove>,
    },
    /// A server takes new connections again, in all its services; a deadline is void.
    #[serde(rename = "server.enable")]
    EnableServer {
        /// Which.
        server: ServerRef,
    },
    /// A server's connections end; it stays as it is.
    #[serde(rename = "server.end")]
    EndConnections {
        /// Of which service.
        service: ServiceRef,
        /// Which.
        server: ServerRef,
        /// How.
        then: OnRemove,
    },
    /// Idle times; 0 keeps a value.
    #[serde(rename = "timeouts.set")]
    SetTimeouts(Timeouts),
    /// Replaces everything. Servers that stay keep their connections.
    #[serde(rename = "restore")]
    Restore(Wanted),
}

/// A whole running state, for [`Change::Restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// All services.
    #[serde(default)]
    pub services: Vec<ServiceSpec>,
    /// Idle times; kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
}

/// What is new of a service; absent means unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ServiceEdit {
    /// Its handle.
    pub name: Option<String>,
    /// How a new connection picks its server.
    #[serde(with = "config::text::option")]
    pub scheduler: Option<SchedulerKind>,
    /// The scheduler's flags.
    pub flags: Option<Flags>,
    /// For servers added later that do not say it themselves.
    pub forward: Option<Forward>,
    /// Packets that belong to nothing.
    pub stray: Option<Stray>,
    /// How `mh` hashes.
    pub maglev_hash: Option<MaglevHash>,
    /// Places in the table of `mh`.
    pub maglev_size: Option<u32>,
    /// Whether a segment of an unknown connection begins one.
    pub sloppy: Option<bool>,
    /// Whether every datagram is scheduled by itself.
    pub one_packet: Option<bool>,
    /// What becomes of a removed server's connections.
    pub on_remove: Option<OnRemove>,
    /// For how long its clients keep their servers, in seconds; 0: not at all.
    pub persistence: Option<u32>,
    /// The length of the prefix that counts as one client.
    pub persistence_netmask: Option<u8>,
    /// From when on a server's persistent clients are scheduled anew.
    #[serde(with = "config::text::option")]
    pub persistence_void: Option<PersistenceVoid>,
    /// Its own idle times; one of 0 is the director's.
    pub timeouts: Option<Timeouts>,
    /// With fewer servers up its backups stand in for them.
    pub quorum: Option<u32>,
    /// By how many more or fewer that changes.
    pub hysteresis: Option<u32>,
    /// New connections when nobody is left.
    pub no_server: Option<NoServer>,
    /// How long a server that joins takes to its share, in seconds; 0 is off.
    pub slow_start: Option<u32>,
    /// Percent of its weight to begin with.
    pub slow_start_floor: Option<u32>,
    /// How its weight grows.
    #[serde(with = "config::text::option")]
    pub slow_start_exponent: Option<Exponent>,
}

impl ServiceEdit {
    /// The ramp of a service that had `old`.
    ///
    /// # Errors
    /// When the shape of a ramp is given and there is none.
    pub fn slow_start(&self, old: Option<SlowStart>) -> Result<Option<SlowStart>, Refusal> {
        let shaped = self.slow_start_floor.is_some() || self.slow_start_exponent.is_some();
        let Some(secs) = self.slow_start.or_else(|| Some(old?.secs)) else {
            let refusal = Refusal::new(RefusalCode::BadValue, "the service has no slow start");
            return if shaped { Err(refusal.hint("--slow-start 30s")) } else { Ok(None) };
        };
        let old = old.unwrap_or_else(|| SlowStart::new(secs));
        let floor = self.slow_start_floor.unwrap_or(old.floor);
        Ok(Some(SlowStart {
            secs,
            floor,
            exponent: self.slow_start_exponent.unwrap_or(old.exponent),
        }))
    }
}

/// What is new of a server; absent means unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct ServerEdit {
    /// Its handle.
    pub name: Option<String>,
    /// Its share of new connections.
    pub weight: Option<u32>,
    /// How packets reach it.
    pub forward: Option<Forward>,
    /// What the tunnel is made of.
    pub tun_type: Option<TunType>,
    /// Its hardware address.
    #[serde(with = "config::text::option")]
    pub mac: Option<Mac>,
    /// The largest IP packet towards it, in bytes.
    pub mtu: Option<u16>,
    /// The most connections it may have; 0 for any number.
    pub u_threshold: Option<u32>,
    /// Below how many it takes new ones again; 0 for three quarters.
    pub l_threshold: Option<u32>,
    /// The operator's word on it.
    pub admin: Option<Admin>,
    /// Whether it only stands in for others.
    pub backup: Option<bool>,
}

engine::registry! {
    /// Why a request was refused. Scripts rely on these names.
    pub enum RefusalCode {
        /// There is no such service.
        NoSuchService = "no_such_service",
        /// There is such a service already.
        ServiceExists = "service_exists",
        /// The service has no such server.
        NoSuchServer = "no_such_server",
        /// The service has such a server already.
        ServerExists = "server_exists",
        /// A name that another one has.
        NameTaken = "name_taken",
        /// A name that more than one server of the service has.
        Ambiguous = "ambiguous",
        /// A value that is not allowed.
        BadValue = "bad_value",
        /// A limit of the config is reached.
        LimitReached = "limit_reached",
        /// A feature that this release does not have.
        Unsupported = "unsupported",
        /// The change is made, but some lcores have not yet taken it.
        NotYetApplied = "not_yet_applied",
        /// The control thread is ending.
        Stopping = "stopping",
    }
}

/// A refused request: nothing was changed (but see [`RefusalCode::NotYetApplied`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The stable name.
    #[serde(with = "config::text")]
    pub code: RefusalCode,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The change of a batch that was refused, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
    /// The lcores that have not yet taken a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lcores: Vec<u16>,
}

impl Refusal {
    /// A refusal without a hint.
    #[must_use]
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, change: None, lcores: Vec::new() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The number of the running configuration after it.
    pub config: u64,
    /// The version of the snapshot that carries it.
    pub snapshot: u64,
    /// How many lcores use it.
    pub lcores: usize,
    /// What is now right, but may not do what was meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
