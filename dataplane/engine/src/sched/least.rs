//! What `lc` and `wlc` share: a walk that breaks ties fairly.

use super::{Cursor, Who};
use crate::pool::Pool;

/// Shows all servers to `visit` as (position, slot).
///
/// With one lcore the walk starts at the head, so the first of equals is LVS's. With several it
/// starts elsewhere on each lcore and at each pick: lcores that see the same loads would otherwise
/// all choose the same server until they see each other's picks.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "positions are below 2^32")]
pub(super) fn walk(pool: &Pool, who: Who, cursor: &mut Cursor, mut visit: impl FnMut(usize, u32)) {
    let n = pool.servers.len();
    let start = match (who.lcores, cursor.seq) {
        (..=1, _) => 0,
        (_, 0) => who.start(n),
        _ if cursor.hint as usize >= n => 0,
        _ => cursor.hint as usize,
    };
    // `seq` marks that the first start is behind us, `hint` is the next start.
    (cursor.seq, cursor.hint) = (1, start as u32 + 1);
    // `for_each` makes two plain loops of the chain.
    let (before, after) = pool.servers.split_at(start.min(n));
    let servers = (start..).zip(after).chain((0..).zip(before));
    servers.for_each(|(at, server)| visit(at, server.slot));
}
