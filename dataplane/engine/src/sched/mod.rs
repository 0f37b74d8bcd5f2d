//! How a new connection picks its server: the contract, and the registry of algorithms.
//!
//! An algorithm is one file with one type that implements [`Schedule`], and one line below. With
//! one lcore the sequence of picks equals the Linux kernel's for the same pool and the same
//! arrivals; servers are walked newest first, as the kernel walks them.

mod buckets;
pub mod destination_hash;
mod destinations;
pub mod failover;
pub mod least;
pub mod least_conn;
pub mod locality;
pub mod locality_replicated;
pub mod maglev;
mod maglev_table;
pub mod never_queue;
pub mod overflow;
mod positions;
pub mod round_robin;
pub mod shortest_delay;
pub mod source_hash;
pub mod two_choices;
pub mod weighted_least_conn;
pub mod weighted_round_robin;

use crate::flow::{Family, FlowKey};
use crate::live::LoadView;
use crate::pace::{self, Offer};
use crate::pool::Pool;
use crate::ticks::Ticks;

/// Weighted least connections, as `lblc` and `lblcr` ask it.
type WeightedLeast = least::Least<weighted_least_conn::WeightedLeastConn>;

/// What an lcore remembers between two picks of one service. All zero is the state before the
/// first pick, and what a new service must find. Written by that lcore only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// `rr`, `wrr`: [`crate::pool::PoolServer::seq`] of the last pick; 0 stands before the head.
    pub seq: u64,
    /// [`Pool::version`] up to which changes have been taken into account.
    pub version: u64,
    /// `wrr`: the current weight.
    pub current_weight: u32,
    /// A place in the pool that is probably right; verified before use.
    pub hint: u32,
}

impl Cursor {
    /// The position behind the last pick, where the walk goes on; the length of the pool at its end.
    #[inline]
    fn next(&self, pool: &Pool, who: Who) -> usize {
        let hint = self.hint as usize;
        if self.seq == 0 {
            who.start(pool.servers.len())
        } else if pool.servers.get(hint).is_some_and(|s| s.seq == self.seq) {
            hint + 1
        } else {
            pool.servers.partition_point(|s| s.seq >= self.seq)
        }
    }

    /// Notes a pick.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "positions are below 2^32")]
    fn set(&mut self, pool: &Pool, at: usize) {
        self.seq = pool.servers[at].seq;
        self.hint = at as u32;
    }
}

/// Which lcore picks. With several, starts and ties are rotated, so that N lcores do not all send
/// their next connection to one server.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// This lcore, 0 … `lcores` − 1.
    pub lcore: u16,
    /// How many lcores schedule.
    pub lcores: u16,
}

impl Who {
    /// The only lcore: picks as the kernel does.
    pub const ALONE: Self = Self { lcore: 0, lcores: 1 };

    /// The position in a pool of `n` where the first walk of this lcore starts.
    #[inline]
    fn start(self, n: usize) -> usize {
        if self.lcores <= 1 { 0 } else { usize::from(self.lcore) * n / usize::from(self.lcores) }
    }
}

/// One new connection that wants a server.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its flow.
    pub key: &'a FlowKey,
    /// The family of the key.
    pub family: Family,
    /// Which lcore asks.
    pub who: Who,
    /// When.
    pub now: Ticks,
}

/// The contract of one algorithm.
pub trait Schedule: Sized {
    /// Builds what can be computed beforehand. Runs on the control thread, for a new pool.
    fn build(pool: &Pool, flags: SchedFlags) -> Self;

    /// Builds for another state of the same service's pool, and keeps of `self` what is still good
    /// for it. Control thread.
    #[must_use]
    fn rebuild(&self, pool: &Pool, flags: SchedFlags) -> Self {
        Self::build(pool, flags)
    }

    /// The position in `pool.servers` of the pick, or `None` when nobody is eligible.
    ///
    /// Never picks a server whose weight in `load` is 0. Runs on an lcore, for new connections
    /// only: no allocation, work bounded by the size of the pool (`sh-fallback`, `mh-fallback`: of
    /// the table).
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize>;

    /// Offers a server its turn that [`Schedule::pick`] leaves alone, because it starts slowly.
    /// Whether it is taken: always, if the algorithm does not go by loads.
    #[inline]
    fn offer(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
        offer: Offer,
    ) -> bool {
        let _ = (pool, arrival, cursor, load, offer);
        true
    }

    /// An lcore's own counts of the server at a position have changed: a connection began, ended, or
    /// moved between active and inactive. Only that lcore may call this. For algorithms that go by
    /// loads and keep something computed from them.
    #[inline]
    fn changed(&self, lcore: u16, at: u32) {
        let _ = (lcore, at);
    }
}

/// LVS's scheduler flags, and what is the same for all services: how many lcores there are, and the
/// key of Maglev's keyed mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SchedFlags {
    /// How many lcores pick. 0: one.
    pub lcores: u16,
    /// `sh-port`: the client's port takes part in the hash.
    pub sh_port: bool,
    /// `sh-fallback`: a client whose server is not eligible goes to another.
    pub sh_fallback: bool,
    /// `mh-port`: the client's port takes part in the hash.
    pub mh_port: bool,
    /// `mh-fallback`: a client whose server is not eligible goes to another.
    pub mh_fallback: bool,
    /// Keyed mode of `mh`: the same on every director that must agree. `None`: as the kernel hashes.
    pub mh_key: Option<[u8; 16]>,
    /// Places in the table of `mh`, as [`maglev::is_size`] allows. `None`: 4,093, the kernel's default.
    pub mh_size: Option<u32>,
}

macro_rules! schedulers {
    ($($(#[doc = $about:literal])+ $variant:ident = $name:literal => $ty:ty,)*) => {
        crate::registry! {
            /// The name of an algorithm.
            pub enum SchedulerKind { $($(#[doc = $about])+ $variant = $name,)* }
        }

        /// An algorithm, built for one pool.
        #[derive(Debug)]
        pub enum Scheduler {
            $($(#[doc = $about])+ $variant($ty),)*
        }

        impl Scheduler {
            /// Builds the algorithm for a pool. Control thread.
            #[must_use]
            pub fn build(kind: SchedulerKind, pool: &Pool, flags: SchedFlags) -> Self {
                match kind {
                    $(SchedulerKind::$variant => Self::$variant(<$ty>::build(pool, flags)),)*
                }
            }

            /// Builds the algorithm for another state of the same service's pool. What was
            /// remembered lives on unless the algorithm is another one. Control thread.
            #[must_use]
            pub fn rebuild(&self, kind: SchedulerKind, pool: &Pool, flags: SchedFlags) -> Self {
                match (self, kind) {
                    $((Self::$variant(s), SchedulerKind::$variant) => {
                        Self::$variant(s.rebuild(pool, flags))
                    })*
                    _ => Self::build(kind, pool, flags),
                }
            }

            /// See [`Schedule::pick`].
            #[inline(always)]
            pub fn pick(
                &self,
                pool: &Pool,
                arrival: Arrival<'_>,
                cursor: &mut Cursor,
                load: LoadView<'_>,
            ) -> Option<usize> {
                if load.paces().any() {
                    return self.pick_paced(pool, arrival, cursor, load);
                }
                match self {
                    $(Self::$variant(s) => s.pick(pool, arrival, cursor, load),)*
                }
            }

            /// The same while servers start slowly: see [`crate::pace`].
            #[cold]
            #[inline(never)]
            fn pick_paced(
                &self,
                pool: &Pool,
                arrival: Arrival<'_>,
                cursor: &mut Cursor,
                load: LoadView<'_>,
            ) -> Option<usize> {
                match self {
                    $(Self::$variant(s) => pace::pick(s, pool, arrival, cursor, load),)*
                }
            }

            /// See [`Schedule::changed`].
            #[inline(always)]
            pub fn changed(&self, lcore: u16, at: u32) {
                match self {
                    $(Self::$variant(s) => s.changed(lcore, at),)*
                }
            }

            /// Its name.
            #[must_use]
            pub const fn kind(&self) -> SchedulerKind {
                match self { $(Self::$variant(_) => SchedulerKind::$variant,)* }
            }
        }
    };
}

schedulers! {
    /// Round robin: the next server in turn, whatever the weights.
    Rr = "rr" => round_robin::RoundRobin,
    /// Weighted round robin: in turn, interleaved in proportion to the weights.
    Wrr = "wrr" => weighted_round_robin::WeightedRoundRobin,
    /// Least connections: the smallest 256 * active + inactive.
    Lc = "lc" => least::Least<least_conn::LeastConn>,
    /// Weighted least connections: the smallest (256 * active + inactive) / weight. The default.
    Wlc = "wlc" => least::Least<weighted_least_conn::WeightedLeastConn>,
    /// Locality: a destination stays with its server until that is overloaded.
    Lblc = "lblc" => locality::Locality,
    /// Locality with replication: a destination has a set of servers that grows with its load.
    Lblcr = "lblcr" => locality_replicated::LocalityReplicated,
    /// Destination hashing: each virtual address has its server, whatever the weights.
    Dh = "dh" => destination_hash::DestinationHash,
    /// Source hashing: each client has its server, in proportion to the weights.
    Sh = "sh" => source_hash::SourceHash,
    /// Shortest expected delay: the smallest (active + 1) / weight.
    Sed = "sed" => least::Least<shortest_delay::ShortestDelay>,
    /// Never queue: an idle server if there is one, else the shortest expected delay.
    Nq = "nq" => least::Least<never_queue::NeverQueue>,
    /// Weighted failover: the server of the highest weight takes everything.
    Fo = "fo" => failover::Failover,
    /// Weighted overflow: the highest weight until more connections are active, then the next.
    Ovf = "ovf" => overflow::Overflow,
    /// Maglev hashing of the client's address: the same server on every director.
    Mh = "mh" => maglev::Maglev,
    /// The power of two choices: the less loaded of two servers drawn at random by weight.
    Twos = "twos" => two_choices::TwoChoices,
}
