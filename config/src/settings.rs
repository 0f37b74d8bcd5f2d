//! What the file says besides the services: director, ports, DPDK. A change needs a restart.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use engine::addr::Mac;
use ipnet::IpNet;

use crate::spec::{ServiceSpec, Timeouts};

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/sluice/control.sock";
/// Where the daemon looks for its config unless told otherwise.
pub const DEFAULT_FILE: &str = "/etc/sluice/sluice.toml";

/// The whole file, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `[director]`.
    pub director: Director,
    /// `[[port]]`, in the order of the file: the index is the engine's port number.
    pub ports: Vec<Port>,
    /// `[dpdk]`.
    pub dpdk: Dpdk,
    /// `[[service]]`, resolved.
    pub services: Vec<ServiceSpec>,
}

/// `[director]`: who we are, and how much there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Director {
    /// Shown in lists and metrics.
    pub name: String,
    /// The cores that poll; everything else stays off them.
    pub lcores: Vec<u16>,
    /// Connections of the whole director.
    pub connections: u64,
    /// Clients of persistent services whose server is remembered at a time.
    pub templates: u64,
    /// Idle times.
    pub timeouts: Timeouts,
    /// The control socket.
    pub socket: PathBuf,
    /// Server slots: servers of all services, and removed ones whose connections live on.
    pub max_servers: u32,
    /// Virtual services.
    pub max_services: u16,
    /// Key of the consistent hashes, the same on every director that must agree; without it they
    /// hash as the Linux kernel does.
    pub mh_key: Option<[u8; 16]>,
    /// What an lcore does when there is nothing to do; a port may say otherwise.
    pub idle: Option<Idle>,
    /// New entries per second and lcore; above, flows are forwarded without one. 0: no limit.
    pub flood_guard: u32,
    /// Where deadlines survive a restart of the daemon; beside the socket if absent.
    pub state: Option<PathBuf>,
}

impl Director {
    /// The file in which deadlines survive a restart of the daemon.
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.socket.with_extension("state"))
    }
}

impl Default for Director {
    fn default() -> Self {
        Self {
            name: "sluice".to_owned(),
            lcores: Vec::new(),
            connections: 1_000_000,
            templates: 64_000,
            timeouts: Timeouts::default(),
            socket: DEFAULT_SOCKET.into(),
            max_servers: 16_384,
            max_services: 4_096,
            mh_key: None,
            idle: None,
            flood_guard: 0,
            state: None,
        }
    }
}

/// What an lcore does when its queues are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Asks again at once: the least delay, a whole core.
    Poll,
    /// Gives the core away after 1,000 empty turns.
    Yield,
    /// Sleeps for moments: for shared machines and labs.
    Sleep,
}

impl Idle {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Yield => "yield",
            Self::Sleep => "sleep",
        }
    }
}

impl FromStr for Idle {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let all = [Self::Poll, Self::Yield, Self::Sleep];
        let unknown = || format!("{s:?} is unknown; allowed: poll, yield, sleep");
        all.into_iter().find(|i| i.name() == s).ok_or_else(unknown)
    }
}

/// `[[port]]`: one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its handle.
    pub name: String,
    /// A PCI address or a vdev string.
    pub device: String,
    /// The director's own addresses on it, with their subnets.
    pub addresses: Vec<IpNet>,
    /// The way to everything that is in no port's subnet.
    pub gateway: Option<IpAddr>,
    /// The gateway's hardware address, if it is not to be asked for.
    pub gateway_mac: Option<Mac>,
    /// Whether virtual addresses are announced on it.
    pub garp: bool,
    /// What its lcores do when there is nothing to do; by the kind of device if absent.
    pub idle: Option<Idle>,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether it takes frames for other stations too.
    pub promiscuous: bool,
    /// Receive queues; one per lcore, as far as the device has them, if absent.
    pub queues: Option<u16>,
}

impl Port {
    /// A port with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, device: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            device: device.into(),
            addresses: Vec::new(),
            gateway: None,
            gateway_mac: None,
            garp: true,
            idle: None,
            mtu: 1500,
            promiscuous: false,
            queues: None,
        }
    }
}

/// `[dpdk]`: what goes to EAL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dpdk {
    /// More EAL arguments, as they are.
    pub args: Vec<String>,
    /// Driver plug-ins to load (`-d`).
    pub plugins: Vec<PathBuf>,
    /// `true`: hugepages or no start; `false`: never; absent: where they are mounted.
    pub hugepages: Option<bool>,
    /// Memory for EAL, in bytes; computed from the tables and pools if absent.
    pub memory: Option<u64>,
}
