//! Counters: one lcore writes, anybody may read.
//!
//! Nothing on an lcore sums or formats.

use crossbeam::utils::CachePadded;

use crate::changes::ChangeLog;
use crate::counter::Counter;
use crate::sync::{AtomicU32, Ordering, own};
use crate::turns::TurnHistogram;
use crate::verdict::DropReason;

macro_rules! lcore_counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What one lcore counts. Written by that lcore only, once per burst.
        #[derive(Debug, Default)]
        pub struct LcoreStats {
            $($(#[doc = $doc])+ pub $name: Counter,)*
            /// Drops, by [`DropReason`] as index.
            pub drops: [Counter; DropReason::ALL.len()],
        }

        /// A copy of [`LcoreStats`] at one moment; sums over lcores are made of these.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct LcoreTotals {
            $($(#[doc = $doc])+ pub $name: u64,)*
            /// Drops, by [`DropReason`] as index.
            pub drops: [u64; DropReason::ALL.len()],
        }

        impl LcoreStats {
            /// A copy of all counters. Not one moment's cut: each is read by itself.
            #[must_use]
            pub fn read(&self) -> LcoreTotals {
                LcoreTotals {
                    $($name: self.$name.get(),)*
                    drops: std::array::from_fn(|i| self.drops[i].get()),
                }
            }
        }

        impl LcoreTotals {
            /// Names and values, without the drops.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Adds another lcore's figures.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)*
                for (a, b) in self.drops.iter_mut().zip(other.drops) {
                    *a = a.wrapping_add(b);
                }
            }

            /// What was counted since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($name: self.$name.wrapping_sub(earlier.$name),)*
                    drops: std::array::from_fn(|i| self.drops[i].wrapping_sub(earlier.drops[i])),
                }
            }
        }
    };
}

lcore_counters! {
    /// Frames received from ports.
    received,
    /// Bytes in them.
    received_bytes,
    /// Frames taken over from other lcores.
    taken_over,
    /// Frames whose next hop became known.
    unparked,
    /// Frames forwarded to real servers.
    forwarded,
    /// Frames turned into answers.
    replied,
    /// Frames left to the kernel.
    punted,
    /// Frames handed over to their owner.
    handed_over,
    /// Frames that began to wait for a next hop.
    parked,
    /// Frames the director made itself.
    originated,
    /// Frames that a device took.
    sent,
    /// Frames dropped because a transmit queue stayed full.
    tx_full,
    /// Gauge: frames waiting for a transmit queue.
    queued,
    /// Gauge: frames waiting for a next hop.
    waiting,
    /// New flows that got an entry.
    created,
    /// Entries that ended.
    ended,
    /// New flows forwarded without an entry, by the service's consistent hash.
    untracked,
    /// Packets that met an entry of another generation: its server was purged.
    purged,
    /// Gauge: entries in the connection table.
    entries,
    /// Most entries there ever were.
    entries_peak,
    /// Connections whose next segment is answered by a reset, so that another server has them.
    given_up,
    /// Inserts that found no room.
    insert_failures,
    /// New flows that the flood guard kept out of the table.
    flood_guarded,
    /// Half-open entries that were ended to make room.
    half_open_evicted,
    /// New clients of persistent services that got a template.
    templates_made,
    /// Those that found no room for one.
    template_failures,
    /// Timer visits that armed an entry again.
    rearmed,
    /// Turns of the loop. A watcher sees by it that the lcore lives.
    turns,
    /// Turns in which there was work.
    busy_turns,
    /// Cycles of the time-stamp counter that passed in turns with work, whoever had the core.
    busy_cycles,
    /// Cycles of the time-stamp counter since the start.
    total_cycles,
    /// Gauge: the version of the snapshot in use.
    snapshot,
    /// Messages to the control thread that found its ring full.
    events_lost,
}

/// What one lcore counts for one server slot: one cache line, written by that lcore only.
///
/// `generation` says which life of the slot `active` and `inactive` belong to. The writer zeroes
/// both *before* it stores a new generation (release); a reader loads the generation first
/// (acquire) and ignores the counts of any other generation. Swapped, a reader could take the
/// counts of a purged life for the new one's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ServerCounters {
    /// Connections scheduled to the server.
    pub conns: Counter,
    /// Packets towards the server.
    pub in_packets: Counter,
    /// Bytes towards the server: IP lengths, as LVS counts them.
    pub in_bytes: Counter,
    /// SYNs seen again for an entry that had not yet been established.
    pub syn_retransmits: Counter,
    active: AtomicU32,
    inactive: AtomicU32,
    generation: AtomicU32,
}

/// ActiveConn and InActConn of one server on one lcore, or in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnCounts {
    /// Connections that count as active: half-open and established TCP.
    pub active: u32,
    /// All others: closing TCP, UDP.
    pub inactive: u32,
}

impl ServerCounters {
    /// The counts, if they belong to `generation`; else none. For any reader.
    #[inline(always)]
    #[must_use]
    pub fn counts(&self, generation: u16) -> ConnCounts {
        if self.generation.load(Ordering::Acquire) != u32::from(generation) {
            return ConnCounts::default();
        }
        ConnCounts {
            active: self.active.load(Ordering::Relaxed),
            inactive: self.inactive.load(Ordering::Relaxed),
        }
    }

    /// Changes the counts of `generation` by signed amounts; the first change of a new generation
    /// starts from zero. A change for a generation older than the one that counts is ignored, which
    /// the caller makes sure of by passing the slot's generation of its snapshot as `current`.
    #[inline(always)]
    fn change(&self, generation: u16, current: u16, active: i32, inactive: i32) {
        if generation != current {
            return;
        }
        if own!(self.generation) != u32::from(generation) {
            self.active.store(0, Ordering::Relaxed);
            self.inactive.store(0, Ordering::Relaxed);
            self.generation.store(u32::from(generation), Ordering::Release);
        }
        let shift = |cell: &AtomicU32, by: i32| {
            let old = own!(cell);
            debug_assert!(i64::from(old) + i64::from(by) >= 0, "a count fell below zero");
            cell.store(old.saturating_add_signed(by), Ordering::Relaxed);
        };
        if active != 0 {
            shift(&self.active, active);
        }
        if inactive != 0 {
            shift(&self.inactive, inactive);
        }
    }
}

/// What one lcore counts for one service, off the hit path; written by that lcore only.
#[derive(Debug, Default)]
pub struct ServiceCounters {
    /// New flows forwarded without an entry.
    pub untracked: Counter,
    /// Packets that belonged to nothing.
    pub stray: Counter,
    /// New flows for which no server was eligible.
    pub no_server: Counter,
}

/// All that one lcore publishes. Shared by reference: the lcore writes, the control side reads.
#[derive(Debug)]
pub struct LcoreBoard {
    /// Packet and table counters.
    pub stats: CachePadded<LcoreStats>,
    /// How long turns with work took.
    pub turns: CachePadded<TurnHistogram>,
    /// By server slot.
    pub servers: Box<[ServerCounters]>,
    /// By service index.
    pub services: Box<[ServiceCounters]>,
    /// The slots whose counts of connections changed.
    pub changes: ChangeLog,
}

impl LcoreBoard {
    /// A board with room for `max_servers` slots and `max_services` services.
    #[must_use]
    pub fn new(max_servers: usize, max_services: usize) -> Self {
        Self {
            stats: CachePadded::default(),
            turns: CachePadded::default(),
            servers: (0..max_servers).map(|_| ServerCounters::default()).collect(),
            services: (0..max_services).map(|_| ServiceCounters::default()).collect(),
            changes: ChangeLog::new(max_servers),
        }
    }

    /// Changes a slot's counts of connections as [`ServerCounters`] says, and notes it. Only the one
    /// writer may call this.
    #[inline(always)]
    pub fn change(&self, slot: u32, generation: u16, current: u16, active: i32, inactive: i32) {
        self.servers[slot as usize].change(generation, current, active, inactive);
        self.changes.note(slot);
    }
}

/// The two laws that hold after every turn, for one lcore or for a sum of all:
///
/// * received + taken over + unparked = forwarded + replied + punted + handed over + parked + Σ drops
/// * forwarded + replied + originated = sent + tx-full + still queued
///
/// # Panics
/// When a law does not hold: a packet had no end, or two.
pub fn assert_laws(t: &LcoreTotals) {
    let dropped: u64 = t.drops.iter().sum();
    assert_eq!(
        t.received + t.taken_over + t.unparked,
        t.forwarded + t.replied + t.punted + t.handed_over + t.parked + dropped,
        "packets in and their ends differ: {t:?}"
    );
    assert_eq!(
        t.forwarded + t.replied + t.originated,
        t.sent + t.tx_full + t.queued,
        "packets out and what became of them differ: {t:?}"
    );
}
