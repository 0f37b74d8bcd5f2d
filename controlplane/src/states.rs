//! Which servers of a service take new connections, and with which weight.
//!
//! Two states of a server are never mixed: *admin* is an operator's word and belongs to the
//! configuration, *health* is a check's and does not. Neither touches the configured weight; both
//! decide about the *effective* one, which lcores pick by.
//!
//! A service loses its quorum when fewer than `quorum − hysteresis` servers are up, and has it again
//! with `quorum + hysteresis`, or with `quorum` when none is down. Without a quorum:
//!
//! ```text
//!   a backup is up?  ──yes──► backups, instead of the servers
//!        │ no
//!   a server is up?  ──yes──► servers
//!        │ no
//!   no-server = fail-open ──► servers that are down, if there are none backups
//!             = backup    ──► backups that are down
//!             else nobody: lcores answer, or are silent
//! ```

use config::persistence::PersistenceVoid;
use config::spec::{Admin, NoServer};
use config::{ServerSpec, ServiceSpec};

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
    /// Why a server gets no new connections. LVS lets the clients that it has a persistence template
    /// for come all the same to a server of weight 0, which its users set to drain; nobody must
    /// come to one that is down, or whose turn it is not.
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
        /// It is a backup, and the servers are enough.
        Standby = "standby",
        /// Too few servers are up: backups stand in for them.
        Quorum = "quorum",
    }
}

engine::registry! {
    /// Who takes the new connections of a service.
    pub enum Acting {
        /// Its servers.
        Servers = "servers",
        /// Its backups.
        Backups = "backups",
        /// Nobody.
        Nobody = "nobody",
    }
}

/// What keeps a server by itself from new connections.
#[must_use]
pub fn obstacle(spec: &ServerSpec, health: Health) -> Option<Why> {
    match (spec.admin, health) {
        (Admin::Disabled, _) => Some(Why::Disabled),
        (Admin::Drain, _) => Some(Why::Drain),
        (Admin::Enabled, _) if spec.weight == 0 => Some(Why::Weight),
        (Admin::Enabled, Health::Down) => Some(Why::Down),
        (Admin::Enabled, _) => None,
    }
}

/// Whether a server that gets no new connections for this reason still serves clients that it has
/// a template for.
#[must_use]
pub fn keeps(spec: &ServiceSpec, why: Option<Why>, health: Health) -> bool {
    let void = spec.persistence_void;
    health != Health::Down
        && match why {
            None => true,
            Some(Why::Drain) => void == PersistenceVoid::Down,
            Some(Why::Weight) => void != PersistenceVoid::Weight0,
            Some(_) => false,
        }
}

/// How a service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Whether it has lost its quorum.
    pub lost: bool,
    /// Who takes new connections.
    pub acting: Acting,
    /// Whether they are taken to be up although they are down.
    pub open: bool,
}

impl Default for Stand {
    fn default() -> Self {
        Self { lost: false, acting: Acting::Servers, open: false }
    }
}

impl Stand {
    /// How a service stands now, by whether it had lost its quorum. Of each server: whether it is a
    /// backup, and its [`obstacle`].
    #[must_use]
    pub fn of(spec: &ServiceSpec, had_lost: bool, servers: &[(bool, Option<Why>)]) -> Self {
        let count = |server: (bool, Option<Why>)| servers.iter().filter(|s| **s == server).count();
        let (up, down) = (count((false, None)), count((false, Some(Why::Down))));
        let (backups_up, backups_down) = (count((true, None)), count((true, Some(Why::Down))));
        let (quorum, hysteresis) = (spec.quorum as usize, spec.hysteresis as usize);
        let lost = if had_lost {
            up < quorum || (up < quorum + hysteresis && down > 0)
        } else {
            up < quorum - hysteresis
        };
        let (acting, open) = match spec.no_server {
            _ if lost && backups_up > 0 => (Acting::Backups, false),
            _ if up > 0 => (Acting::Servers, false),
            NoServer::FailOpen if down > 0 => (Acting::Servers, true),
            NoServer::FailOpen | NoServer::Backup if backups_down > 0 => (Acting::Backups, true),
            _ => (Acting::Nobody, false),
        };
        Self { lost, acting, open }
    }

    /// What keeps a server from new connections as the service stands.
    #[must_use]
    pub fn bars(self, backup: bool, obstacle: Option<Why>) -> Option<Why> {
        let acts = self.acting == if backup { Acting::Backups } else { Acting::Servers };
        match obstacle {
            None if acts => None,
            None if backup => Some(Why::Standby),
            None => Some(Why::Quorum),
            Some(Why::Down) if acts && self.open => None,
            obstacle => obstacle,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn service(quorum: u32, hysteresis: u32, no_server: NoServer) -> ServiceSpec {
        let spec = ServiceSpec::new("tcp 192.0.2.1:80".parse().unwrap());
        ServiceSpec { quorum, hysteresis, no_server, ..spec }
    }

    const UP: (bool, Option<Why>) = (false, None);
    const DOWN: (bool, Option<Why>) = (false, Some(Why::Down));
    const SORRY: (bool, Option<Why>) = (true, None);
    const SORRY_DOWN: (bool, Option<Why>) = (true, Some(Why::Down));

    #[test]
    fn a_quorum_is_lost_and_regained_with_hysteresis() {
        let spec = service(3, 1, NoServer::default());
        let mut lost = false;
        for (up, expected) in
            [(5, false), (3, false), (2, false), (1, true), (2, true), (3, true), (4, false)]
        {
            let servers: Vec<_> = (0..6).map(|n| if n < up { UP } else { DOWN }).collect();
            lost = Stand::of(&spec, lost, &[&servers[..], &[SORRY]].concat()).lost;
            assert_eq!(lost, expected, "{up} up");
        }
        // Three are all there are: more can never be asked for.
        assert!(!Stand::of(&spec, true, &[UP, UP, UP, SORRY]).lost);
        assert!(Stand::of(&spec, true, &[UP, UP, SORRY]).lost, "fewer than the quorum");
        let drained = (false, Some(Why::Drain));
        assert!(Stand::of(&spec, false, &[UP, drained, drained]).lost, "drained is not up");
    }

    #[test]
    fn nobody_left_is_a_matter_of_policy() {
        use Acting::{Backups, Nobody, Servers};
        let drained = (false, Some(Why::Drain));
        for (policy, servers, acting, open) in [
            (NoServer::Reset, vec![DOWN], Nobody, false),
            (NoServer::Reset, vec![DOWN, SORRY], Backups, false),
            (NoServer::FailOpen, vec![DOWN, drained], Servers, true),
            (NoServer::FailOpen, vec![DOWN, SORRY], Backups, false),
            (NoServer::FailOpen, vec![drained, SORRY_DOWN], Backups, true),
            (NoServer::FailOpen, vec![drained], Nobody, false),
            (NoServer::FailOpen, vec![UP, DOWN], Servers, false),
            (NoServer::Backup, vec![DOWN, SORRY_DOWN], Backups, true),
            (NoServer::Backup, vec![DOWN], Nobody, false),
            (NoServer::Backup, vec![UP, SORRY_DOWN], Servers, false),
            (NoServer::Drop, vec![], Nobody, false),
        ] {
            let stand = Stand::of(&service(1, 0, policy), false, &servers);
            assert_eq!((stand.acting, stand.open), (acting, open), "{policy} {servers:?}");
        }
    }

    fn servers() -> impl Strategy<Value = Vec<(bool, Option<Why>)>> {
        let why = [None, None, Some(Why::Down), Some(Why::Drain), Some(Why::Weight)];
        prop::collection::vec((any::<bool>(), prop::sample::select(why.to_vec())), 0..8)
    }

    fn policy() -> impl Strategy<Value = NoServer> {
        use NoServer::{Backup, Drop, FailOpen, Reset, Unreachable};
        prop::sample::select(vec![Unreachable, Reset, Drop, FailOpen, Backup])
    }

    proptest! {
        /// Servers and backups never both take, an operator's word always holds, who is down takes
        /// only where nobody else does and the policy says so, and nobody is idle without a reason.
        #[test]
        fn somebody_takes_if_anybody_may(
            (quorum, hysteresis) in (1_u32..5).prop_flat_map(|q| (Just(q), 0..q)),
            policy in policy(),
            had_lost in any::<bool>(),
            servers in servers(),
        ) {
            let stand = Stand::of(&service(quorum, hysteresis, policy), had_lost, &servers);
            let takes = |s: &&(bool, Option<Why>)| stand.bars(s.0, s.1).is_none();
            let taking: Vec<_> = servers.iter().filter(takes).copied().collect();
            let up = servers.iter().filter(|s| s.1.is_none()).count();
            prop_assert!(taking.windows(2).all(|w| w[0].0 == w[1].0), "{taking:?}");
            prop_assert!(taking.iter().all(|s| matches!(s.1, None | Some(Why::Down))));
            prop_assert!(up == 0 || !taking.is_empty());
            let down = taking.iter().any(|s| s.1 == Some(Why::Down));
            prop_assert!(!down || (up == 0 && stand.open));
            prop_assert!(!stand.open || matches!(policy, NoServer::FailOpen | NoServer::Backup));
            prop_assert_eq!(taking.is_empty(), stand.acting == Acting::Nobody);
            let again = Stand::of(&service(quorum, hysteresis, policy), stand.lost, &servers);
            prop_assert_eq!(again, stand, "it stands until something changes");
            let up = servers.iter().filter(|s| **s == UP).count();
            prop_assert!(!stand.lost || up < (quorum + hysteresis) as usize);
            prop_assert!(stand.lost || up >= (quorum - hysteresis) as usize);
        }
    }
}
