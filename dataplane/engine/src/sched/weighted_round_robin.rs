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
//! costs at most a few passes over the pool, whatever the weights.

use super::{Arrival, Cursor, SchedFlags, Schedule, Who};
use crate::live::LoadView;
use crate::pool::{Pool, PoolServer};

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

    #[inline(always)]
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
        let n = pool.servers.len();
        let reaches = |at: &usize, weight| load.weight(pool.servers[*at].slot) >= weight;
        let mut rest = cursor.next(pool, Who::ALONE)..n;
        let at = rest.find(|at| reaches(at, cursor.current_weight)).or_else(|| {
            self.next_round(pool, cursor, load)?;
            // Weights may fall while they are looked at; then anybody eligible will do.
            let found = (0..n).find(|at| reaches(at, cursor.current_weight));
            found.or_else(|| (0..n).find(|at| reaches(at, 1)))
        })?;
        cursor.set(pool, at);
        Some(at)
    }
}

impl WeightedRoundRobin {
    /// Lowers the current weight to the next round in which somebody is picked. `None` when nobody
    /// is eligible; then the current weight is where LVS leaves it after trying all rounds: at the
    /// first, for a whole round was the last try; or at the last round when it began in the middle of
    /// that, for then the last try ends where it began.
    fn next_round(&self, pool: &Pool, cursor: &mut Cursor, load: LoadView<'_>) -> Option<()> {
        let heaviest = pool.servers.iter().map(|s| load.weight(s.slot)).max().unwrap_or(0);
        if heaviest == 0 {
            let in_last = cursor.seq > 0 && cursor.current_weight <= self.step;
            cursor.current_weight = if in_last { (self.top - 1) % self.step + 1 } else { self.top };
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

    /// Takes the changes since an lcore's last pick into account: the first lcore does as LVS does,
    /// the others start over, each in another part of the cycle. Together they favour nobody.
    #[cold]
    fn follow(&self, pool: &Pool, who: Who, cursor: &mut Cursor) {
        let missed = pool.changes_since(cursor.version).filter(|_| cursor.version > 0);
        (cursor.current_weight, cursor.seq) = match missed {
            _ if who.lcore > 0 => self.part(pool, who),
            Some(changes) => (changes.iter().fold(cursor.current_weight, |w, c| c.carry(w)), 0),
            None => (pool.last_change().unused_weight, 0),
        };
        cursor.version = pool.version;
    }

    /// Current weight and last pick of an lcore that starts with its share of the cycle.
    ///
    /// Rounds are numbered from the last one, 0, whose current weight is 1; a server of weight
    /// *w* × step is picked in the last *w* rounds.
    #[allow(clippy::cast_possible_truncation, reason = "below a cycle, below the greatest weight")]
    fn part(&self, pool: &Pool, who: Who) -> (u32, u64) {
        let rounds = |s: &PoolServer| u64::from(s.weight / self.step);
        let picks_before = |round: u64| -> u64 {
            pool.servers.iter().map(|s| rounds(s).saturating_sub(round + 1)).sum()
        };
        let cycle: u64 = pool.servers.iter().map(rounds).sum();
        let share = u128::from(cycle) * u128::from(who.lcore) / u128::from(who.lcores.max(1));
        let skipped = share as u64;
        let (mut round, mut above) = (0, u64::from((self.top - 1) / self.step));
        while round < above {
            let middle = u64::midpoint(round, above);
            if picks_before(middle) <= skipped {
                above = middle;
            } else {
                round = middle + 1;
            }
        }
        let here = skipped - picks_before(round);
        let last = pool.servers.iter().filter(|s| rounds(s) > round).take(here as usize).last();
        (1 + self.step * round as u32, last.map_or(0, |s| s.seq))
    }
}
