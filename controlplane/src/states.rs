//! Which servers take new connections, and with which weight.
//!
//! Two states of a server are never mixed: *admin* is an operator's word and belongs to the
//! configuration, *health* is a check's and does not. Neither touches the configured weight; both
//! decide about the *effective* one, which lcores pick by.

use config::ServerSpec;
use config::spec::Admin;

engine::registry! {
    /// Whether a server answers, as a check or an operator says.
    pub enum Health {
        /// It answers.
        Up = "up",
        /// It does not: no new connections.
        Down = "down",
        /// Nobody has said; it is taken to be up.
        Unknown = "unknown",
    }
}

#[allow(clippy::derivable_impls, reason = "variants of a registry have no attributes")]
impl Default for Health {
    fn default() -> Self {
        Self::Unknown
    }
}

engine::registry! {
    /// Why a server gets no new connections.
    pub enum Why {
        /// Its configured weight is 0.
        Weight = "weight",
        /// It drains.
        Drain = "drain",
        /// It is disabled.
        Disabled = "disabled",
        /// It is down.
        Down = "down",
        /// It has as many connections as it may.
        Full = "full",
    }
}

/// What keeps a server from new connections; `None` if it takes some.
#[must_use]
pub fn obstacle(spec: &ServerSpec, health: Health) -> Option<Why> {
    match (spec.admin, health) {
        (Admin::Disabled, _) => Some(Why::Disabled),
        (Admin::Drain, _) => Some(Why::Drain),
        (Admin::Enabled, Health::Down) => Some(Why::Down),
        (Admin::Enabled, _) if spec.weight == 0 => Some(Why::Weight),
        (Admin::Enabled, _) => None,
    }
}
