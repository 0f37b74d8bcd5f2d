//! What the methods return: views with the header that every list begins with.
//!
//! `sluicectl --json` prints these with `"version": 1` added.
//!
//! | method | parameters | result |
//! |---|---|---|
//! | `hello` | – | [`Hello`] |
//! | `service.list` | `service`? | [`Services`] |
//! | `stats` | `service`? | [`Statistics`] |
//! | `connections` | [`ConnFilter`](crate::views::ConnFilter) | [`Connections`] |
//! | the same with `templates: true` | | [`Templates`] |
//! | `timeouts.show` | – | [`IdleTimes`] |
//! | `neighbours` | – | [`Neighbours`] |
//! | `service.maglev` | `service` | [`MaglevTable`] |
//! | `server.health` | `server`, `health` | [`Marked`](crate::control::health::Marked) |
//! | `ports` | – | [`Ports`] |
//! | `lcores` | – | [`Lcores`] |
//! | `zero` | `service`? | null |
//! | `save` | – | [`Saved`] |
//! | `director.show` | – | [`Director`] |
//! | `director.stop` | – | null |
//! | each [`Change`](crate::change::Change) | as it says | [`Applied`](crate::change::Applied) |
//! | `batch` | `changes`: array of changes | [`Applied`](crate::change::Applied) |
//! | `batch.begin`, `batch.chunk`, `batch.commit`, `batch.abort` | see [`crate::session`] | |

use config::spec::Timeouts;
use serde::{Deserialize, Serialize};

use crate::views::{
    ConnPage, HeaderView, LcoreView, MaglevView, MemoryView, NeighbourView, PortView, ServiceView,
    StatsView, TemplatePage,
};

/// Answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::protocol::VERSION`] of the director.
    pub protocol: u32,
    /// `sluiced`.
    pub program: String,
    /// The program's version.
    pub program_version: String,
    /// The director's name.
    pub name: String,
}

/// Answer to `service.list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Services {
    /// The first line.
    pub director: HeaderView,
    /// The services with their servers.
    pub services: Vec<ServiceView>,
}

/// Answer to `stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The first line.
    pub director: HeaderView,
    /// The services with their servers.
    pub services: Vec<ServiceView>,
    /// The director's own counters.
    pub stats: StatsView,
    /// The connection tables.
    #[serde(default)]
    pub memory: MemoryView,
    /// How busy each lcore is, in percent, in the order of the config.
    pub busy_percent: Vec<f64>,
}

/// Answer to `connections`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// The first line.
    pub director: HeaderView,
    /// The rows and how to go on.
    #[serde(flatten)]
    pub page: ConnPage,
    /// How full the tables are.
    #[serde(default)]
    pub memory: MemoryView,
}

/// Answer to `connections` with `templates: true`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Templates {
    /// The first line.
    pub director: HeaderView,
    /// The rows and how to go on.
    #[serde(flatten)]
    pub page: TemplatePage,
    /// How full the tables are.
    #[serde(default)]
    pub memory: MemoryView,
}

/// Answer to `timeouts.show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleTimes {
    /// In seconds.
    pub timeouts: Timeouts,
}

/// Answer to `neighbours`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    /// The first line.
    pub director: HeaderView,
    /// Next hops.
    pub neighbours: Vec<NeighbourView>,
}

/// Answer to `service.maglev`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaglevTable {
    /// The first line.
    pub director: HeaderView,
    /// The table.
    pub maglev: MaglevView,
}

/// Answer to `ports`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ports {
    /// The first line.
    pub director: HeaderView,
    /// In the order of the config.
    pub ports: Vec<PortView>,
}

/// Answer to `lcores`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lcores {
    /// The first line.
    pub director: HeaderView,
    /// In the order of the config.
    pub lcores: Vec<LcoreView>,
}

/// Answer to `director.show`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Director {
    /// The first line.
    pub director: HeaderView,
    /// Occupancy and budget.
    pub memory: MemoryView,
}

/// Answer to `save`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The text of a config file.
    pub config: String,
}
