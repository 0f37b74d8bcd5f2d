//! A list of connections in the making: a slice per turn, so that packets hardly notice.
//!
//! How long a slice is follows from the packets of the same turn. Full bursts say that more of them
//! may wait: then one bucket every few turns, with its lines on their way a turn or two before it
//! is read. A burst that is not full has emptied its queue, and time is left over.
//!
//! A question is answered in parts: after some time the lcore says how far it came, whether it
//! found something or not, so that nobody takes a busy lcore for a silent one.

use crate::conn::entry::Conn;
use crate::conn::table::ConnTable;
use crate::frame::BURST;
use crate::lcore::{EVENT_RESERVE, due};
use crate::mailbox::{ConnRow, Event, Query};
use crate::ring::Producer;
use crate::snapshot::Snapshot;
use crate::ticks::{TickSpan, Ticks};

/// Buckets of a turn without packets.
const IDLE: u32 = 64;
/// Buckets of a turn whose bursts were not full.
const EASY: u32 = 8;
/// Turns with full bursts from one bucket to the next. With 8 a list and `stats` in loops cost hits
/// of 1 k flows 5.6 % of their cycles; a million connections then took half the time to list.
const FULL_TURNS: u32 = 16;
/// How many buckets ahead lines are asked for: those of a bucket's entries, and the bucket's own.
const AHEAD: (u32, u32) = (4, 8);
/// Rows that one bucket can have.
const ROWS_PER_BUCKET: usize = 8;
/// An answer takes at most so long, and a turn.
const PATIENCE: TickSpan = TickSpan(200);

/// The query that an lcore works on.
pub(crate) struct Listing {
    query: Query,
    bucket: u32,
    rows: u32,
    began: Ticks,
    /// Packets that the lcore had got by the last turn.
    packets: u64,
    /// Turns with full bursts since the last bucket.
    waited: u32,
}

/// What a listing reads.
pub(crate) struct Sight<'a> {
    pub(crate) table: &'a ConnTable,
    pub(crate) snap: &'a Snapshot,
    pub(crate) now: Ticks,
    /// Packets that the lcore got since it started.
    pub(crate) packets: u64,
}

impl Listing {
    pub(crate) const fn new(query: Query, now: Ticks, packets: u64) -> Self {
        Self { query, bucket: query.bucket, rows: 0, began: now, packets, waited: 0 }
    }

    /// The bucket that comes next.
    pub(crate) const fn bucket(&self) -> u32 {
        self.bucket
    }

    /// One turn's slice. Returns whether the query was answered.
    pub(crate) fn turn(&mut self, sight: &Sight<'_>, events: &mut Producer<Event>) -> bool {
        let slice = self.slice(sight);
        for _ in 0..slice {
            if events.slots() < EVENT_RESERVE + ROWS_PER_BUCKET {
                return false;
            }
            if slice > 1 {
                sight.table.prefetch_entries(self.bucket + AHEAD.0);
                sight.table.prefetch_numbered(self.bucket + AHEAD.1);
            }
            let Some(conns) = sight.table.bucket(self.bucket) else {
                return self.answer(None, events);
            };
            for conn in conns {
                let Some(row) = row(&self.query, conn, sight) else { continue };
                self.rows += 1;
                let pushed = events.push(Event::Conn(row));
                debug_assert!(pushed.is_ok(), "room was asked for");
            }
            self.bucket += 1;
            if self.rows >= self.query.limit {
                return self.answer(Some(self.bucket), events);
            }
        }
        let late = slice > 0 && sight.now.since(self.began) >= PATIENCE;
        late && self.answer(Some(self.bucket), events)
    }

    /// How many buckets this turn is for.
    fn slice(&mut self, sight: &Sight<'_>) -> u32 {
        let packets = sight.packets.wrapping_sub(self.packets);
        self.packets = sight.packets;
        if packets < BURST as u64 {
            return if packets == 0 { IDLE } else { EASY };
        }
        self.waited += 1;
        match FULL_TURNS.saturating_sub(self.waited) {
            2 => sight.table.prefetch_numbered(self.bucket),
            1 => sight.table.prefetch_entries(self.bucket),
            0 => {
                self.waited = 0;
                return 1;
            }
            _ => {}
        }
        0
    }

    fn answer(&self, next: Option<u32>, events: &mut Producer<Event>) -> bool {
        events.push(Event::QueryDone { id: self.query.id, next }).is_ok()
    }
}

/// A connection as the query wants it, or `None`.
fn row(query: &Query, conn: &Conn, sight: &Sight<'_>) -> Option<ConnRow> {
    let Sight { snap, now, .. } = *sight;
    let family = conn.family();
    let client = conn.key.src(family);
    let wanted = query.service.is_none_or(|s| s == conn.service)
        && query.server.is_none_or(|s| s == conn.server)
        && query.client.is_none_or(|c| c == client)
        && snap.server(conn.server, conn.generation).is_some();
    let (client_port, vip_port) = conn.key.ports(family);
    let left = due(conn, snap, now).since(now).0.div_ceil(1000);
    wanted.then(|| ConnRow {
        id: query.id,
        client: (client, client_port),
        vip: (conn.key.dst(family), vip_port),
        proto: conn.key.proto(family),
        state: conn.state(),
        server: conn.server,
        generation: conn.generation,
        expires_secs: u32::try_from(left).unwrap_or(u32::MAX),
    })
}
