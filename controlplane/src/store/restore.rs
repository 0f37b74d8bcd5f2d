//! Replaces everything in one step: what stays keeps its slots and connections.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use config::check;
use config::{Endpoint, ServerSpec, ServiceSpec};

use super::{Store, name_taken};
use crate::change::{Refusal, RefusalCode, Wanted};

impl Store {
    pub(super) fn restore(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        if let Some(timeouts) = wanted.timeouts {
            self.set_timeouts(timeouts)?;
        }
        let specs: Vec<ServiceSpec> =
            wanted.services.iter().map(|s| s.clone().resolved()).collect();
        distinct(&specs)?;
        let kept: HashSet<Endpoint> = specs.iter().map(ServiceSpec::endpoint).collect();
        let gone = self.by_endpoint.iter().filter(|(e, _)| !kept.contains(e));
        let gone: Vec<u64> = gone.map(|(_, order)| *order).collect();
        gone.into_iter().try_for_each(|order| self.del_service(order))?;
        specs.iter().try_for_each(|spec| self.put_service(spec))?;
        self.order_as(&specs);
        Ok(())
    }

    fn put_service(&mut self, spec: &ServiceSpec) -> Result<(), Refusal> {
        check::service(spec, &self.network)?;
        let shape = ServiceSpec { servers: Vec::new(), ..spec.clone() };
        let Some(&order) = self.by_endpoint.get(&spec.endpoint()) else {
            let order = self.insert_service(shape)?;
            return spec.servers.iter().try_for_each(|server| self.add_server(order, server));
        };
        self.reshape(order, shape);
        self.put_servers(order, &spec.servers)
    }

    /// Gives a service these servers. When nothing changed for the scheduler it goes on where it
    /// was, else it begins as if they had just been added.
    fn put_servers(&mut self, order: u64, wanted: &[ServerSpec]) -> Result<(), Refusal> {
        let Some(entry) = self.services.get_mut(&order) else { return Ok(()) };
        let now = entry.members.iter().map(|m| &*m.spec);
        if now.eq(wanted) {
            return Ok(());
        }
        let entry = Arc::make_mut(entry);
        let picked = |s: &ServerSpec| (s.address, s.port, s.weight, s.backup);
        let same_pool = entry.members.iter().map(|m| picked(&m.spec)).eq(wanted.iter().map(picked));
        let place = |s: &ServerSpec| (s.address, s.port);
        let kept: HashSet<_> = wanted.iter().map(place).collect();
        for member in std::mem::take(&mut entry.members) {
            if kept.contains(&place(&member.spec)) {
                entry.members.push(member);
            } else {
                self.slots.remove(member.slot, entry.spec.on_remove, self.version);
            }
        }
        entry.members.clear();
        let pool = std::mem::replace(&mut entry.pool, Self::fresh_pool(&mut self.trail));
        let backups = std::mem::replace(&mut entry.backups, Self::fresh_pool(&mut self.trail));
        for spec in wanted {
            self.add_server(order, spec)?;
        }
        if same_pool && let Some(entry) = self.services.get_mut(&order) {
            // The same slots in the same order: the pools as they were fit the new members.
            let entry = Arc::make_mut(entry);
            (entry.pool, entry.backups) = (pool, backups);
        }
        Ok(())
    }

    /// Lists services in the order of the wish.
    fn order_as(&mut self, specs: &[ServiceSpec]) {
        let mut ordered = BTreeMap::new();
        for spec in specs {
            let Some(place) = self.by_endpoint.get_mut(&spec.endpoint()) else { continue };
            let Some(entry) = self.services.remove(place) else { continue };
            self.last_order += 1;
            *place = self.last_order;
            ordered.insert(self.last_order, entry);
        }
        self.services = ordered;
    }
}

fn distinct(specs: &[ServiceSpec]) -> Result<(), Refusal> {
    let (mut endpoints, mut names) = (HashSet::new(), HashSet::new());
    for spec in specs {
        if !endpoints.insert(spec.endpoint()) {
            let message = format!("service {} is given twice", spec.endpoint());
            return Err(Refusal::new(RefusalCode::ServiceExists, message));
        }
        if !names.insert(&spec.name) {
            return Err(name_taken(&spec.name));
        }
    }
    Ok(())
}
