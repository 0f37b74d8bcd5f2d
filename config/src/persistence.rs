//! Client persistence in the operator's words.

use engine::sched::SchedulerKind;
use engine::service;
use engine::ticks::TickSpan;

use crate::check::Fault;
use crate::load::MAX_TIMEOUT;
use crate::spec::ServiceSpec;

engine::registry! {
    /// From when on a server's persistent clients are scheduled anew.
    pub enum PersistenceVoid {
        /// Once it is down, disabled or removed.
        Down = "down",
        /// Also when it drains.
        Drain = "drain",
        /// Also when its weight is 0 (LVS's `expire_quiescent_template`).
        Weight0 = "weight-0",
    }
}

#[allow(clippy::derivable_impls, reason = "variants of a registry have no attributes")]
impl Default for PersistenceVoid {
    fn default() -> Self {
        Self::Drain
    }
}

/// Reads a netmask or the length of a prefix: `255.255.255.0`, `24`.
///
/// # Errors
/// In words, with an example.
pub fn netmask(text: &str) -> Result<u8, String> {
    let wrong = || format!("{text:?} is no netmask such as 255.255.255.0 or 24");
    if let Ok(mask) = text.parse::<std::net::Ipv4Addr>() {
        return ipnet::ipv4_mask_to_prefix(mask).map_err(|_| wrong());
    }
    text.parse::<u8>().ok().filter(|length| (1..=128).contains(length)).ok_or_else(wrong)
}

/// What the engine makes of it.
#[must_use]
pub fn rules(spec: &ServiceSpec) -> Option<service::Persistence> {
    let life = TickSpan::from_secs(spec.persistence?.into());
    let (before, all) = if spec.address.is_ipv4() { (96, 32) } else { (0, 128) };
    Some(service::Persistence { life, bits: before + spec.persistence_netmask.unwrap_or(all) })
}

/// Checks what a service says about it.
///
/// # Errors
/// The first broken rule.
pub fn check(spec: &ServiceSpec) -> Result<(), Fault> {
    let mask = spec.persistence_netmask;
    let Some(seconds) = spec.persistence else {
        let void = spec.persistence_void != PersistenceVoid::default();
        let key = if void { "persistence-void" } else { "persistence-netmask" };
        return if void || mask.is_some() {
            Err(Fault::new(key, "is for services with `persistence`").hint("persistence = 300"))
        } else {
            Ok(())
        };
    };
    if !(1..=MAX_TIMEOUT).contains(&seconds) {
        let fault =
            Fault::new("persistence", format!("{seconds} s is no time to remember clients"));
        return Err(fault.hint(format!("1 to {MAX_TIMEOUT}")));
    }
    let most = if spec.address.is_ipv4() { 32 } else { 128 };
    match mask.filter(|length| !(1..=most).contains(length)) {
        Some(length) => {
            let message =
                format!("{length} bits are not the length of a prefix of {}", spec.address);
            Err(Fault::new("persistence-netmask", message).hint(format!("1 to {most}")))
        }
        None => Ok(()),
    }
}

/// What an operator should know of a service that is right, but may do what nobody expects.
#[must_use]
pub fn warning(spec: &ServiceSpec) -> Option<String> {
    use SchedulerKind::{Lblc, Lblcr, Lc, Nq, Ovf, Sed, Twos, Wlc};
    let by_load = matches!(spec.scheduler, Wlc | Lc | Sed | Nq | Lblc | Lblcr | Ovf | Twos);
    (spec.persistence.is_some() && by_load).then(|| {
        format!(
            "service {}: {} balances connections, but with persistence a client's connections stay \
             together: shares follow clients",
            spec.name, spec.scheduler
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netmasks_and_prefixes() {
        for (text, length) in [
            ("255.255.255.0", 24),
            ("255.255.255.255", 32),
            ("128.0.0.0", 1),
            ("24", 24),
            ("128", 128),
        ] {
            assert_eq!(netmask(text), Ok(length), "{text}");
        }
        for text in ["255.0.255.0", "0", "129", "/24", "", "255.255.255", "-1"] {
            assert!(netmask(text).is_err(), "{text}");
        }
    }
}
