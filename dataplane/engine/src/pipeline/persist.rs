//! New connections of persistent services: a client's template, else the scheduler.
//!
//! Everything here is off the way of services without persistence.

use super::begin::{hashed, picked};
use crate::lcore::Lcore;
use crate::parse::Parsed;
use crate::queue::TxQueue;
use crate::service::{Persistence, Service};
use crate::snapshot::Snapshot;
use crate::templates::{Holder, Place, Span};
use crate::ticks::Ticks;

/// The server slot for a new connection of a persistent service. If the flow may be one without an
/// entry, a new client gets the server that the consistent hash names.
#[inline(never)]
pub(super) fn server<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    (service, to): (&Service, &Persistence),
    at: &Parsed,
    stateless: bool,
    now: Ticks,
) -> Option<u32> {
    let (holder, span) = (holder(service, to, at), Span { now, life: to.life });
    let found = lcore.templates.find(&holder, span, |place| serves(lcore, snap, service, place));
    if let Some(place) = found {
        return Some(place.slot);
    }
    let slot = if stateless {
        hash(lcore, service, at, &holder)
    } else {
        picked(lcore, service, at, now)
    }?;
    let wanted = Place { slot, generation: snap.servers[slot as usize].generation };
    let serves = |place| serves(lcore, snap, service, place);
    let settled = lcore.templates.settle(&holder, wanted, span, serves);
    let stats = &lcore.board.stats;
    match settled {
        Some(place) if place == wanted => {
            stats.templates_made.add(1);
            Some(slot)
        }
        // Another lcore was first; its snapshot may know a server that ours does not.
        Some(place) if serves(place) => Some(place.slot),
        Some(_) => Some(slot),
        None => {
            stats.template_failures.add(1);
            hash(lcore, service, at, &holder)
        }
    }
}

/// The server slot of a packet that begins nothing: its client's, else the consistent hash's.
#[inline(never)]
pub(super) fn known<T: TxQueue>(
    lcore: &Lcore<T>,
    snap: &Snapshot,
    (service, to): (&Service, &Persistence),
    at: &Parsed,
    now: Ticks,
) -> Option<u32> {
    let (holder, span) = (holder(service, to, at), Span { now, life: to.life });
    let found = lcore.templates.find(&holder, span, |place| serves(lcore, snap, service, place));
    found.map(|place| place.slot).or_else(|| hash(lcore, service, at, &holder))
}

fn holder(service: &Service, to: &Persistence, at: &Parsed) -> Holder {
    to.holder(service.id, at.key.src(at.family))
}

/// Whether clients of a template for this place go there.
fn serves<T: TxQueue>(lcore: &Lcore<T>, snap: &Snapshot, service: &Service, at: Place) -> bool {
    let line = snap.server(at.slot, at.generation);
    line.is_some_and(|line| line.service == service.id) && lcore.live.serves_known(at.slot)
}

/// The consistent hash over what counts as one client: where there is no room for templates, its
/// connections go to one server all the same.
fn hash<T: TxQueue>(
    lcore: &Lcore<T>,
    service: &Service,
    at: &Parsed,
    holder: &Holder,
) -> Option<u32> {
    let key = at.key.from_client(holder.client, at.family);
    hashed(lcore, service, &key, at.family)
}
