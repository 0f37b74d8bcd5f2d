//! Weighted round robin: in turn, interleaved in proportion to the weights.
//!
//! LVS's walk: round after round over the servers with a *current weight* that falls by the greatest
//! common divisor after each round, from the greatest weight down to above 0 and over again. A
//! server is picked in each round whose current weight it reaches.
//!
//! ```text
//!   weights   a 3  b 2  c 1      rounds   3: a    2: a b    1: a b c    3: a    …
//! ```
//! Every change of the pool sends the walk back to the head of the list and fits the current weight
//! to the new weights ([`crate::pool::PoolChange::carry`]).
//!
//! Rounds in which nobody would be picked are not walked but skipped by one division, so a pick
//! costs at most three passes over the pool, whatever the weights.

use super::{Arrival, Cursor, SchedFlags, Schedule, Who};
use crate::live::LoadView;
use crate::pool::Pool;

/// The rounds of one pool.
#[derive(Clone, Copy, Debug)]
pub struct WeightedRoundRobin {
    /// By how much the current weight falls after each round.
    step: u32,
    /// The current weight of the first round.
    top: u32,
}

impl Schedule for WeightedRoundRobin {
    fn build(pool: &Pool, _: SchedFlags) -> Self {
        let change = pool.last_change();
        Self { step: change.gcd, top: change.top() }
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        if self.top == 0 {
            return None;
        }
        if cursor.version != pool.version || cursor.current_weight == 0 {
            self.follow(pool, arrival.who, cursor);
        }
        let next = cursor.next(pool, arrival.who);
        let reaches = |at: &usize, weight| load.weight(pool.servers[*at].slot) >= weight;
        let at = (next..pool.servers.len()).find(|at| reaches(at, cursor.current_weight)).or_else(
            || {
                self.next_round(pool, cursor, load)?;
                (0..pool.servers.len()).find(|at| reaches(at, cursor.current_weight))
            },
        )?;
        cursor.set(pool, at);
        Some(at)
    }
}

impl WeightedRoundRobin {
    /// Lowers the current weight to the next round in which somebody is picked. `None` when nobody
    /// is eligible; then the current weight is where LVS leaves it after trying all rounds: at the
    /// first when it stands before the head, else at the last.
    fn next_round(&self, pool: &Pool, cursor: &mut Cursor, load: LoadView<'_>) -> Option<()> {
        let heaviest = pool.servers.iter().map(|s| load.weight(s.slot)).max().unwrap_or(0);
        if heaviest == 0 {
            let last = (self.top - 1) % self.step + 1;
            cursor.current_weight = if cursor.seq == 0 { self.top } else { last };
            return None;
        }
        let mut current = match cursor.current_weight.saturating_sub(self.step) {
            0 => self.top,
            lower => lower,
        };
        if current > heaviest {
            let empty_rounds = (current - heaviest).div_ceil(self.step);
            // The last round is 1, so it never falls to 0 for the weights of this pool.
            current = current.saturating_sub(empty_rounds * self.step).max(1);
        }
        cursor.current_weight = current;
        Some(())
    }

    /// Does to a cursor what the changes since its last pick do to it.
    #[cold]
    fn follow(&self, pool: &Pool, who: Who, cursor: &mut Cursor) {
        let missed = pool.changes_since(cursor.version).filter(|_| cursor.version > 0);
        cursor.current_weight = match missed {
            Some(changes) => changes.iter().fold(cursor.current_weight, |w, c| c.carry(w)),
            None if who.lcore == 0 => pool.last_change().unused_weight,
            None => self.spread(who),
        };
        cursor.seq = 0;
        cursor.version = pool.version;
    }

    /// The first round of an lcore that is not the first: the lcores are spread over the rounds, so
    /// that together they favour nobody at the start.
    fn spread(&self, who: Who) -> u32 {
        let rounds = u64::from((self.top - 1) / self.step + 1);
        let round = rounds * u64::from(who.lcore) / u64::from(who.lcores.max(1));
        1 + self.step * u32::try_from(round).unwrap_or(0)
    }
}
