//! Source hashing: a client has its server, by 256 buckets dealt out in turn.
//!
//! Each server in turn takes as many buckets as its weight says, and at least one: behind a server
//! of weight 256 or more the others have none. Without `sh-fallback` a client whose server is not
//! eligible is refused, as LVS does.

use super::buckets::{BUCKETS, bucket, fold};
use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pool::Pool;

/// The buckets of one pool.
#[derive(Clone, Debug)]
pub struct SourceHash {
    with_port: bool,
    fallback: bool,
    /// Positions in the pool; none when the pool is empty.
    buckets: Box<[u32]>,
}

impl Schedule for SourceHash {
    fn build(pool: &Pool, flags: SchedFlags) -> Self {
        let turns = (0..).zip(&pool.servers).flat_map(|(at, server)| {
            let turns = usize::try_from(server.weight.max(1)).unwrap_or(BUCKETS);
            std::iter::repeat_n(at, turns.min(BUCKETS))
        });
        let buckets = turns.cycle().take(BUCKETS).collect();
        Self { with_port: flags.sh_port, fallback: flags.sh_fallback, buckets }
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        _: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let Arrival { key, family, .. } = arrival;
        let port = if self.with_port { key.ports(family).0 } else { 0 };
        let own = bucket(fold(key.src(family)).wrapping_add(port.into()));
        match self.eligible(pool, own, load) {
            None if self.fallback => self.pick_other(pool, own, load),
            pick => pick,
        }
    }
}

impl SourceHash {
    /// Another server for a client whose own is not eligible: LVS adds a probe that counts up from
    /// the own bucket to the client's hash. It refuses the client when nobody who has a bucket is
    /// eligible; here anybody will do then.
    #[cold]
    fn pick_other(&self, pool: &Pool, own: usize, load: LoadView<'_>) -> Option<usize> {
        let probes = (0..BUCKETS).map(|probe| (own + own + probe) % BUCKETS);
        let eligible = |at: &usize| load.is_eligible(pool.servers[*at].slot);
        let found = { probes }.find_map(|bucket| self.eligible(pool, bucket, load));
        found.or_else(|| (0..pool.servers.len()).find(eligible))
    }

    fn eligible(&self, pool: &Pool, bucket: usize, load: LoadView<'_>) -> Option<usize> {
        let at = *self.buckets.get(bucket)? as usize;
        load.is_eligible(pool.servers[at].slot).then_some(at)
    }
}
