//! New connections to servers that have thresholds. Apart, so that others do not pay for it.

use super::answer::no_server;
use super::begin::{first_state, guarded, insert, picked, untracked};
use crate::burst::Burst;
use crate::conn::tcp_state::ConnState;
use crate::lcore::Lcore;
use crate::parse::Parsed;
use crate::queue::TxQueue;
use crate::service::Service;
use crate::snapshot::Snapshot;
use crate::ticks::Ticks;
use crate::verdict::Verdict;

/// Begins a connection with the server in a slot or, when that has become full in this moment, with
/// another one that the scheduler picks. A flow that may be `stateless` keeps to its server, with an
/// entry or without.
#[cold]
#[inline(never)]
pub(super) fn begin<T: TxQueue>(
    burst: &mut Burst<T::F>,
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    i: u8,
    (slot, stateless): (u32, bool),
    now: Ticks,
) -> Result<u32, Verdict> {
    let (at, hash) = (&burst.at[usize::from(i)], burst.hash[usize::from(i)]);
    if guarded(lcore, snap, now) {
        lcore.board.stats.flood_guarded.add(1);
    } else if let Some(slot) = enter(lcore, snap, service, at, (slot, stateless), now) {
        if insert::<T, true>(lcore, snap, service, at, hash, slot, now) {
            return Ok(slot);
        }
        let line = &snap.servers[slot as usize];
        let (generation, to) = (line.generation, line.thresholds);
        if to.any() {
            let half_open = first_state(at) == ConnState::SynRecv;
            lcore.live.occupancies().leave(slot, generation, to, half_open);
        }
    } else if !stateless {
        return Err(no_server(burst, lcore, service, i, now));
    }
    untracked(lcore, service, at, hash, (slot, stateless), now)
}

/// How many picks a new connection gets: each that fails is one whose last place another lcore took
/// in this moment.
const PICKS: u32 = 8;

/// Takes a place; where.
fn enter<T: TxQueue>(
    lcore: &mut Lcore<T>,
    snap: &Snapshot,
    service: &Service,
    at: &Parsed,
    (mut slot, stateless): (u32, bool),
    now: Ticks,
) -> Option<u32> {
    let half_open = first_state(at) == ConnState::SynRecv;
    if service.rules.persistence.is_some() {
        // A client that the server has a template for is let in, as in LVS.
        let line = &snap.servers[slot as usize];
        let all = lcore.live.occupancies();
        all.enter_anyway(slot, line.generation, line.thresholds, half_open);
        return Some(slot);
    }
    for left in (0..if stateless { 1 } else { PICKS }).rev() {
        let line = &snap.servers[slot as usize];
        let (generation, to) = (line.generation, line.thresholds);
        if !to.any() || lcore.live.occupancies().enter(slot, generation, to, half_open) {
            return Some(slot);
        }
        if left > 0 {
            // Who took the place may not have said so yet.
            lcore.live.occupancies().flip();
            slot = picked(lcore, service, at, now)?;
        }
    }
    None
}
