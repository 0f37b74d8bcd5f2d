//! Round robin: the next server in turn, whatever the weights (but 0).
//!
//! The place is the `seq` of the last pick; the next is the eligible server with the greatest `seq`
//! below it. Servers that leave take nothing with them. One case needs care: when the last pick was
//! the newest server and leaves, LVS stands before the head of its list, and a server added later is
//! next. A cursor would stand behind that newer server, so the trail of changes moves it.

use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Schedule for RoundRobin {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    #[inline(always)]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        if cursor.version != pool.version {
            follow(pool, cursor);
        }
        let next = cursor.next(pool, arrival.who);
        let eligible = |at: &usize| load.is_eligible(pool.servers[*at].slot);
        let at = (next..pool.servers.len()).chain(0..next).find(eligible)?;
        cursor.set(pool, at);
        Some(at)
    }
}

/// Moves a cursor whose server is gone before the head, if no newer server was left at the time.
#[cold]
fn follow(pool: &Pool, cursor: &mut Cursor) {
    match pool.changes_since(cursor.version) {
        Some(changes) if changes.iter().all(|c| cursor.seq <= c.newest) => {}
        _ => cursor.seq = 0,
    }
    cursor.version = pool.version;
}
