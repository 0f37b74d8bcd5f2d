//! The view of a service's Maglev table.

use config::ServiceRef;
use engine::sched::maglev::Disruption;

use super::Control;
use crate::change::{Refusal, RefusalCode};
use crate::views::{DisruptionView, MaglevServerView, MaglevView};

impl Control {
    /// The Maglev table of a service, as lcores use it.
    ///
    /// # Errors
    /// When there is no such service, or it has no such table.
    pub fn maglev(&self, service: &ServiceRef) -> Result<MaglevView, Refusal> {
        let entry = self.store.service(service)?;
        let (name, kind) = (&entry.spec.name, entry.spec.scheduler);
        let Some((maglev, took)) = self.compiler.maglev(entry.id) else {
            let message = format!("{name} has no Maglev table: its scheduler is {kind}");
            let hint = format!("sluicectl service edit {name} -s mh");
            return Err(Refusal::new(RefusalCode::BadValue, message).hint(hint));
        };
        let shares = entry.pool.servers.iter().zip(maglev.shares());
        let servers: Vec<_> = shares
            .filter_map(|(server, places)| {
                let member = entry.members.iter().find(|m| m.slot == server.slot)?;
                Some(MaglevServerView {
                    name: member.spec.name.clone(),
                    address: member.spec.address,
                    port: server.port,
                    weight: server.last_weight,
                    places,
                })
            })
            .collect();
        let size = f64::from(maglev.size());
        let percent = |places: u32| f64::from(places) * 100.0 / size;
        Ok(MaglevView {
            service: name.clone(),
            hash: entry.spec.maglev_hash,
            own_key: self.setup.settings.director.mh_key.is_some(),
            places: maglev.size(),
            bytes: maglev.bytes(),
            build_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            imbalance_percent: imbalance(&servers, size),
            disruption: maglev.disruption().map(|Disruption { moved, least }| DisruptionView {
                moved_percent: percent(moved),
                least_percent: percent(least),
            }),
            servers,
        })
    }
}

/// By how much the fullest server exceeds its share, in percent of it.
fn imbalance(servers: &[MaglevServerView], size: f64) -> f64 {
    let total: f64 = servers.iter().map(|s| f64::from(s.weight)).sum();
    let share = |s: &MaglevServerView| size * f64::from(s.weight) / total;
    let weighty = servers.iter().filter(|s| s.weight > 0);
    let excess = weighty.map(|s| (f64::from(s.places) / share(s) - 1.0) * 100.0);
    excess.fold(0.0, f64::max)
}
