//! What each single change does.

use std::sync::Arc;

use config::check;
use config::load::MAX_TIMEOUT;
use config::persistence::PersistenceVoid;
use config::slow_start::is_ramped;
use config::spec::{Admin, Flags, MaglevHash, OnRemove, Timeouts};
use config::{ServerRef, ServerSpec, ServiceRef, ServiceSpec};
use engine::pool::PoolServer;

use super::{Entry, Member, Store, limit, name_taken, no_such_server};
use crate::change::{Refusal, RefusalCode, ServerEdit, ServiceEdit};

/// Servers of one service: a hash table names them by two bytes.
const MAX_POOL: usize = 65_000;

impl Store {
    pub(super) fn add_service(&mut self, spec: &ServiceSpec) -> Result<(), Refusal> {
        let spec = spec.clone().resolved();
        check::service(&spec, &self.network)?;
        if self.by_endpoint.contains_key(&spec.endpoint()) {
            let message = format!("service {} exists", spec.endpoint());
            return Err(Refusal::new(RefusalCode::ServiceExists, message)
                .hint("sluicectl service edit, or another address or port"));
        }
        self.name_is_free(&spec.name, None)?;
        let order = self.insert_service(ServiceSpec { servers: Vec::new(), ..spec.clone() })?;
        spec.servers.iter().try_for_each(|server| self.add_server(order, server))
    }

    /// A checked service without servers.
    pub(super) fn insert_service(&mut self, spec: ServiceSpec) -> Result<u64, Refusal> {
        let id = self.ids.take().ok_or_else(|| limit("service", "max-services"))?;
        self.last_order += 1;
        self.by_endpoint.insert(spec.endpoint(), self.last_order);
        let pool = Self::fresh_pool(&mut self.trail);
        let backups = Self::fresh_pool(&mut self.trail);
        let entry = Entry { id, spec, members: Vec::new(), pool, backups };
        self.services.insert(self.last_order, Arc::new(entry));
        Ok(self.last_order)
    }

    pub(super) fn edit_service(
        &mut self,
        service: &ServiceRef,
        edit: &ServiceEdit,
    ) -> Result<(), Refusal> {
        let (order, entry) = self.find(service)?;
        let mut spec = entry.spec.clone();
        if let Some(scheduler) = edit.scheduler.filter(|s| *s != spec.scheduler) {
            // Flags and tables belong to a scheduler: another one starts without.
            (spec.scheduler, spec.flags) = (scheduler, Flags::default());
            (spec.maglev_hash, spec.maglev_size) = (MaglevHash::default(), None);
            spec.slow_start = spec.slow_start.filter(|_| is_ramped(scheduler));
        }
        spec.flags = edit.flags.unwrap_or(spec.flags);
        spec.forward = edit.forward.unwrap_or(spec.forward);
        spec.maglev_hash = edit.maglev_hash.unwrap_or(spec.maglev_hash);
        spec.maglev_size = edit.maglev_size.or(spec.maglev_size);
        spec.stray = edit.stray.unwrap_or(spec.stray);
        spec.sloppy = edit.sloppy.unwrap_or(spec.sloppy);
        spec.one_packet = edit.one_packet.unwrap_or(spec.one_packet);
        spec.on_remove = edit.on_remove.unwrap_or(spec.on_remove);
        match edit.persistence {
            // What is said of persistence goes with it.
            Some(0) => {
                (spec.persistence, spec.persistence_netmask) = (None, None);
                spec.persistence_void = PersistenceVoid::default();
            }
            seconds => spec.persistence = seconds.or(spec.persistence),
        }
        spec.persistence_netmask = edit.persistence_netmask.or(spec.persistence_netmask);
        spec.persistence_void = edit.persistence_void.unwrap_or(spec.persistence_void);
        spec.timeouts = edit.timeouts.or(spec.timeouts);
        spec.quorum = edit.quorum.unwrap_or(spec.quorum);
        spec.hysteresis = edit.hysteresis.unwrap_or(spec.hysteresis);
        spec.no_server = edit.no_server.unwrap_or(spec.no_server);
        spec.slow_start = edit.slow_start(spec.slow_start)?;
        spec.name = edit.name.clone().unwrap_or(spec.name);
        let spec = spec.resolved();
        check::service(&spec, &self.network)?;
        self.name_is_free(&spec.name, Some(order))?;
        self.reshape(order, spec);
        Ok(())
    }

    /// Another shape for a service; another scheduler begins anew.
    pub(super) fn reshape(&mut self, order: u64, spec: ServiceSpec) {
        let Some(entry) = self.services.get_mut(&order) else { return };
        if entry.spec == spec {
            return;
        }
        let entry = Arc::make_mut(entry);
        if entry.spec.scheduler != spec.scheduler {
            entry.pool.start_over();
            entry.backups.start_over();
            self.trail = self.trail.max(entry.trail());
        }
        entry.spec = spec;
    }

    pub(super) fn del_service(&mut self, order: u64) -> Result<(), Refusal> {
        if let Some(entry) = self.services.remove(&order) {
            self.by_endpoint.remove(&entry.spec.endpoint());
            self.slots.end_service(entry.id, self.version);
            self.ids.leaving.push((entry.id, self.version));
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Refusal> {
        let all: Vec<u64> = self.services.keys().copied().collect();
        all.into_iter().try_for_each(|order| self.del_service(order))
    }

    pub(super) fn add_server(&mut self, order: u64, spec: &ServerSpec) -> Result<(), Refusal> {
        let Some(entry) = self.services.get_mut(&order) else { return Ok(()) };
        let spec = spec.clone().resolved(&entry.spec);
        checked(&spec, &entry.spec, &self.network)?;
        let place = |m: &Member| (m.spec.address, m.spec.port) == (spec.address, spec.port);
        if entry.members.iter().any(place) {
            let message = format!("service {} has server {}", entry.spec.name, spec.address);
            return Err(
                Refusal::new(RefusalCode::ServerExists, message).hint("sluicectl server edit")
            );
        }
        if entry.members.iter().any(|m| m.spec.name == spec.name) {
            return Err(name_taken(&spec.name));
        }
        if entry.members.len() >= MAX_POOL {
            let message = format!("service {} has {MAX_POOL} servers", entry.spec.name);
            return Err(Refusal::new(RefusalCode::LimitReached, message));
        }
        let entry = Arc::make_mut(entry);
        let spec = Arc::new(spec);
        let slot = self.slots.take(entry.id, Arc::clone(&spec));
        let slot = slot.ok_or_else(|| limit("server", "max-servers"))?;
        self.last_seq += 1;
        entry.pool_of(&spec).add(pool_server(&spec, slot, self.last_seq));
        entry.members.push(Member { spec, slot });
        self.trail = self.trail.max(entry.trail());
        Ok(())
    }

    pub(super) fn edit_server(
        &mut self,
        service: &ServiceRef,
        server: &ServerRef,
        edit: &ServerEdit,
    ) -> Result<(), Refusal> {
        let (order, at) = self.find_server(service, server)?;
        let Some(entry) = self.services.get_mut(&order) else { return Ok(()) };
        let old = Arc::clone(&entry.members[at].spec);
        let spec = edited(&old, edit);
        checked(&spec, &entry.spec, &self.network)?;
        let others = entry.members.iter().enumerate().filter(|(i, _)| *i != at);
        if others.map(|(_, m)| &m.spec.name).any(|n| *n == spec.name) {
            return Err(name_taken(&spec.name));
        }
        // LVS begins its turn anew at any edit of a weight or way; ours of name or state are none.
        let noted = edit.weight.is_some() || edit.forward.is_some() || edit.tun_type.is_some();
        let entry = Arc::make_mut(entry);
        let (spec, slot) = (Arc::new(spec), entry.members[at].slot);
        let moved = spec.backup != old.backup;
        if moved {
            self.last_seq += 1;
            entry.pool_of(&old).remove(slot);
            entry.pool_of(&spec).add(pool_server(&spec, slot, self.last_seq));
        } else if noted {
            entry.pool_of(&spec).set_weight(slot, spec.weight);
        }
        self.slots.update(slot, Arc::clone(&spec));
        entry.members[at].spec = spec;
        if moved {
            // In the order of addition, as in its new pool.
            let member = entry.members.remove(at);
            entry.members.push(member);
        }
        self.trail = self.trail.max(entry.trail());
        Ok(())
    }

    pub(super) fn del_server(
        &mut self,
        service: &ServiceRef,
        server: &ServerRef,
        then: Option<OnRemove>,
    ) -> Result<(), Refusal> {
        let (order, at) = self.find_server(service, server)?;
        let Some(entry) = self.services.get_mut(&order) else { return Ok(()) };
        let entry = Arc::make_mut(entry);
        let member = entry.members.remove(at);
        self.slots.remove(member.slot, then.unwrap_or(entry.spec.on_remove), self.version);
        entry.pool_of(&member.spec).remove(member.slot);
        self.trail = self.trail.max(entry.trail());
        Ok(())
    }

    /// Another admin state for a server in all its services.
    pub(super) fn set_admin(&mut self, server: &ServerRef, admin: Admin) -> Result<(), Refusal> {
        let edit = ServerEdit { admin: Some(admin), ..ServerEdit::default() };
        let all: Vec<_> = self.everywhere(server).collect();
        if all.is_empty() {
            return Err(nowhere(server));
        }
        all.iter().try_for_each(|(service, place)| self.edit_server(service, place, &edit))
    }

    /// A server in every service that has it: the service, and its place there.
    pub fn everywhere(&self, server: &ServerRef) -> impl Iterator<Item = (ServiceRef, ServerRef)> {
        let place = |(entry, m): (&Entry, &Member)| {
            (entry.spec.endpoint().into(), ServerRef::Address(m.spec.address, m.spec.port))
        };
        self.found(server).map(place).collect::<Vec<_>>().into_iter()
    }

    /// A server's slots, with the services they belong to.
    ///
    /// # Errors
    /// When no service has such a server.
    pub fn members(&self, server: &ServerRef) -> Result<Vec<(&Entry, u32)>, Refusal> {
        let slots: Vec<_> = self.found(server).map(|(entry, m)| (entry, m.slot)).collect();
        if slots.is_empty() { Err(nowhere(server)) } else { Ok(slots) }
    }

    fn found(&self, server: &ServerRef) -> impl Iterator<Item = (&Entry, &Member)> {
        let all = self.services().flat_map(|e| e.members.iter().map(move |m| (&**e, m)));
        all.filter(move |(_, m)| is(m, server))
    }

    pub(super) fn end_connections(
        &mut self,
        service: &ServiceRef,
        server: &ServerRef,
        then: OnRemove,
    ) -> Result<(), Refusal> {
        let (order, at) = self.find_server(service, server)?;
        if let Some(orphans) = then.orphans() {
            self.slots.renew(self.services[&order].members[at].slot, orphans);
        }
        Ok(())
    }

    pub(super) fn set_timeouts(&mut self, new: Timeouts) -> Result<(), Refusal> {
        let keep = |new: u32, old: u32| match new {
            0 => Ok(old),
            1..=MAX_TIMEOUT => Ok(new),
            _ => {
                let message = format!("{new} s is too long an idle time");
                let refusal = Refusal::new(RefusalCode::BadValue, message);
                Err(refusal.hint(format!("allowed: 1 to {MAX_TIMEOUT} s, 0 to keep a value")))
            }
        };
        let old = self.timeouts;
        self.timeouts = Timeouts {
            tcp: keep(new.tcp, old.tcp)?,
            tcpfin: keep(new.tcpfin, old.tcpfin)?,
            udp: keep(new.udp, old.udp)?,
        };
        Ok(())
    }

    fn find_server(
        &self,
        service: &ServiceRef,
        server: &ServerRef,
    ) -> Result<(u64, usize), Refusal> {
        let (order, entry) = self.find(service)?;
        let mut found = entry.members.iter().enumerate().filter(|(_, m)| is(m, server));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok((order, at)),
            (None, _) => Err(no_such_server(server, &entry.spec)),
            (Some(_), Some(_)) => {
                let message = format!("{server} is more than one server of {}", entry.spec.name);
                Err(Refusal::new(RefusalCode::Ambiguous, message).hint("add its port"))
            }
        }
    }
}

fn pool_server(spec: &ServerSpec, slot: u32, seq: u64) -> PoolServer {
    let port = spec.port.unwrap_or_default();
    PoolServer::new(slot, seq, spec.weight, spec.address.into(), port)
}

fn checked(
    spec: &ServerSpec,
    service: &ServiceSpec,
    network: &check::Network,
) -> Result<(), Refusal> {
    check::server(spec, service, network)?;
    check::fixed_mac("mac", spec.mac)?;
    Ok(())
}

fn nowhere(server: &ServerRef) -> Refusal {
    let message = format!("no service has a server {server}");
    Refusal::new(RefusalCode::NoSuchServer, message).hint("sluicectl server list")
}

fn is(member: &Member, server: &ServerRef) -> bool {
    match server {
        ServerRef::Address(a, port) => {
            member.spec.address == *a && port.is_none_or(|p| member.spec.port == Some(p))
        }
        ServerRef::Name(name) => member.spec.name == *name,
    }
}

fn edited(old: &ServerSpec, edit: &ServerEdit) -> ServerSpec {
    ServerSpec {
        name: edit.name.clone().unwrap_or_else(|| old.name.clone()),
        address: old.address,
        port: old.port,
        forward: edit.forward.or(old.forward),
        tun_type: edit.tun_type.unwrap_or(old.tun_type),
        weight: edit.weight.unwrap_or(old.weight),
        mac: edit.mac.or(old.mac),
        mtu: edit.mtu.or(old.mtu),
        u_threshold: edit.u_threshold.unwrap_or(old.u_threshold),
        l_threshold: edit.l_threshold.unwrap_or(old.l_threshold),
        admin: edit.admin.unwrap_or(old.admin),
        backup: edit.backup.unwrap_or(old.backup),
    }
}
