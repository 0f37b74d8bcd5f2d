//! Client persistence: the server that a client's new connections go to. One table for all lcores.
//!
//! ```text
//!  bucket   | 8 words               | 8 ends    | 8 clients                    | spare    |
//!             64 bytes                32 bytes    128 bytes
//!  word     | print 22 | turn 4 | stage 2 | generation 16 | slot 20 |
//! ```
//! A template belongs to a service and a client, both in one keyed hash: its low half names a bucket
//! of eight cells, and its top 22 bits, the print, stand in the word beside the server. So one
//! compare-and-swap gives a client its server, and no lcore ever waits for another. Two clients of
//! one print and bucket share a template, and with it the server: one in a million, and none the
//! worse for it. The client's address is kept for lists only; it is right when its hash is the
//! cell's.
//!
//! **Lcores that begin a client's template at once agree on one.** A cell is first *claimed*, then
//! *settled*. Whoever meets a claim for his client looks at the whole bucket once more: a settled
//! cell of the client wins; else the lowest claim wins, all higher ones are taken back, and it is
//! settled, by whoever comes first. Of two cells claimed for one client the later one's look sees
//! the earlier one, so they are never both settled. `turn` moves with each claim, so that an lcore
//! that was stopped halfway recognises that a cell has changed hands.
//!
//! **A template that ends is not revived.** `end` is 0 when the cell may be taken. To end a template
//! is one compare-and-swap to 0, to renew it another one to a later time, so one of the two fails.
//!
//! What it gives up: growth, and exact times. Ends are multiples of 128 ms, rounded up, so that the
//! thousand connections that a client begins in that time write to the cell once.

use std::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

use crate::addr::Addr;
use crate::service::ServiceId;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::ticks::{TickSpan, Ticks};

/// Cells of a bucket. Model checks have two, which is where lcores can miss each other.
const WAYS: usize = if cfg!(loom) { 2 } else { 8 };
/// Cells of a bucket that are in use when the table is full: fewer than one insert in a hundred
/// finds its bucket full before.
const LOAD: usize = 4;
/// Looks at a bucket until an lcore gives up to agree; each one more is another lcore's success.
const LOOKS: usize = 16;
/// Milliseconds of one step of `end`, as a power of two.
const STEP: u32 = 7;
/// While a template's connections live, it lives so long from each of their visits on, as in LVS.
const KEEP: TickSpan = TickSpan::from_secs(60);
/// A connection is visited so long before its template ends.
const LEAD: TickSpan = TickSpan::from_secs(1);

/// Whose a template is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The service.
    pub service: ServiceId,
    /// The client's address, or the network that counts as one client.
    pub client: Addr,
}

/// A server slot, in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot, below 2²⁰.
    pub slot: u32,
    /// Its life.
    pub generation: u16,
}

/// The present of a client that asks: when it is, and how long its template lives from then on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Now.
    pub now: Ticks,
    /// The service's persistence.
    pub life: TickSpan,
}

/// One template as a list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateRow {
    /// Whose it is.
    pub holder: Holder,
    /// Where its connections go.
    pub place: Place,
    /// What is left of it, if no connection comes.
    pub left: TickSpan,
}

impl Span {
    /// When a new connection that ends at `due` is to be visited: not after its template's end.
    #[must_use]
    pub fn first_visit(self, due: Ticks) -> Ticks {
        due.min(Ticks((self.now + self.life).0.saturating_sub(LEAD.0)))
    }

    /// The first step of time at which a template that begins or is renewed now has ended.
    fn end(self) -> u32 {
        step(self.now + self.life) + 1
    }
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    words: [AtomicU64; WAYS],
    ends: [AtomicU32; WAYS],
    clients: [[AtomicU64; 2]; WAYS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 256 && align_of::<Bucket>() == 64);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Empty,
    Claimed,
    Settled,
}

impl Word {
    const SLOT: u32 = 20;
    const GENERATION: u32 = 36;
    const STAGE: u32 = 38;
    const TURN: u32 = 42;

    fn new(print: u64, turn: u64, stage: Stage, place: Place) -> Self {
        debug_assert!(place.slot >> Self::SLOT == 0, "max-servers is below 2^20");
        Self(
            print << Self::TURN
                | (turn & 15) << Self::STAGE
                | (stage as u64) << Self::GENERATION
                | u64::from(place.generation) << Self::SLOT
                | u64::from(place.slot),
        )
    }

    const fn print(self) -> u64 {
        self.0 >> Self::TURN
    }

    const fn turn(self) -> u64 {
        self.0 >> Self::STAGE & 15
    }

    const fn stage(self) -> Stage {
        match self.0 >> Self::GENERATION & 3 {
            0 => Stage::Empty,
            1 => Stage::Claimed,
            _ => Stage::Settled,
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "cut to their widths")]
    const fn place(self) -> Place {
        let slot = self.0 as u32 & ((1 << Self::SLOT) - 1);
        Place { slot, generation: (self.0 >> Self::SLOT) as u16 }
    }

    fn at(self, stage: Stage) -> Self {
        Self::new(self.print(), self.turn(), stage, self.place())
    }

    fn settles(self, print: u64) -> bool {
        self.stage() == Stage::Settled && self.print() == print
    }
}

/// What a look at a bucket found for one client.
#[derive(Default)]
struct Look {
    settled: Option<(usize, Word)>,
    claimed: Option<(usize, Word)>,
    /// A cell that may be taken, with its `end`: the client's own old one, else the first.
    room: Option<(usize, Word, u32)>,
}

/// The templates of all services. See the module.
pub struct Templates {
    secrets: RapidSecrets,
    buckets: Box<[Bucket]>,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Templates").field("buckets", &self.buckets.len()).finish_non_exhaustive()
    }
}

impl Templates {
    /// The most server slots that a template can tell apart.
    pub const MAX_SLOTS: u32 = 1 << Word::SLOT;

    /// An empty table for `capacity` templates. `seed` keeps strangers from aiming at one bucket.
    #[must_use]
    pub fn new(capacity: usize, seed: u64) -> Self {
        let buckets = (0..Self::buckets(capacity)).map(|_| Bucket::default()).collect();
        Self { secrets: RapidSecrets::seed(seed), buckets }
    }

    const fn buckets(capacity: usize) -> usize {
        let n = capacity.div_ceil(LOAD);
        if n == 0 { 1 } else { n }
    }

    /// Bytes of memory for `capacity` templates.
    #[must_use]
    pub const fn bytes(capacity: usize) -> usize {
        Self::buckets(capacity) * size_of::<Bucket>()
    }

    /// How many buckets there are.
    #[must_use]
    pub const fn n_buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The server of a client whose template lives and `serves`. It lives anew from now on.
    pub fn find(
        &self,
        holder: &Holder,
        span: Span,
        serves: impl Fn(Place) -> bool,
    ) -> Option<Place> {
        let (bucket, print) = self.locate(holder);
        (0..WAYS).find_map(|way| {
            let word = bucket.word(way);
            let found = word.settles(print) && serves(word.place());
            (found && bucket.renew(way, word, span)).then(|| word.place())
        })
    }

    /// Gives a client without a template the server `wanted`, or the one that another lcore gave it
    /// meanwhile. `None`: there is no room.
    pub fn settle(
        &self,
        holder: &Holder,
        wanted: Place,
        span: Span,
        serves: impl Fn(Place) -> bool,
    ) -> Option<Place> {
        let (bucket, print) = self.locate(holder);
        // A claim for the client that was there before the look that finds nothing better.
        let mut claim = None;
        for _ in 0..LOOKS {
            // What was claimed is seen by those who look after having claimed.
            fence(Ordering::SeqCst);
            let Some(look) = bucket.look(print, span.now, &serves) else { continue };
            if let Some((way, word)) = look.settled {
                look.claimed.map(|(way, word)| bucket.take_back(way, word));
                if bucket.renew(way, word, span) {
                    return Some(word.place());
                }
            } else if let Some((way, word)) = look.claimed {
                if claim == look.claimed && bucket.confirm(way, word, span, holder) {
                    return Some(word.place());
                }
                claim = look.claimed;
            } else {
                let (way, word, end) = look.room?;
                let mine = Word::new(print, word.turn() + 1, Stage::Claimed, wanted);
                let taken = bucket.end(way, end) && bucket.replace(way, word, mine);
                claim = taken.then_some((way, mine));
            }
        }
        claim.map(|(way, word)| bucket.take_back(way, word));
        None
    }

    /// A connection lives until `due` at least: when it is to be visited, so that its template does
    /// not end before. Only a template with the connection's own server is kept.
    pub fn keep(&self, holder: &Holder, place: Place, now: Ticks, due: Ticks) -> Ticks {
        let (bucket, print) = self.locate(holder);
        for way in 0..WAYS {
            let (word, end) = bucket.pair(way);
            if !word.settles(print) || word.place() != place || end <= step(now) {
                continue;
            }
            let end = Ticks(u64::from(end) << STEP);
            if end >= due + LEAD {
                return due;
            }
            if end > now + KEEP + LEAD {
                return Ticks(end.0 - LEAD.0);
            }
            let life = TickSpan(KEEP.0 + LEAD.0);
            bucket.renew(way, word, Span { now, life });
            return due.min(now + KEEP);
        }
        due
    }

    /// The living templates of one bucket. `service` says whose a place is, if it resolves.
    pub fn rows(
        &self,
        bucket: usize,
        now: Ticks,
        service: impl Fn(Place) -> Option<ServiceId>,
    ) -> impl Iterator<Item = TemplateRow> {
        let ways = self.buckets.get(bucket).map_or(0, |_| WAYS);
        (0..ways).filter_map(move |way| {
            let at = &self.buckets[bucket];
            let (word, end) = at.pair(way);
            if word.stage() != Stage::Settled || end <= step(now) {
                return None;
            }
            let place = word.place();
            let holder = Holder { service: service(place)?, client: at.client(way) };
            let (home, print) = self.home(&holder);
            let left = Ticks(u64::from(end) << STEP).since(now);
            let whole = (home, print) == (bucket, word.print());
            whole.then_some(TemplateRow { holder, place, left })
        })
    }

    /// Ends the templates of a bucket whose server is `gone`, so that their cells are free. Returns
    /// how many templates live there. Control thread.
    pub fn sweep(&self, bucket: usize, now: Ticks, gone: impl Fn(Place) -> bool) -> usize {
        let Some(bucket) = self.buckets.get(bucket) else { return 0 };
        let lives = |way: &usize| {
            let (word, end) = bucket.pair(*way);
            let lives = word.stage() == Stage::Settled && end > step(now);
            lives && !(gone(word.place()) && bucket.end(*way, end))
        };
        (0..WAYS).filter(lives).count()
    }

    fn locate(&self, holder: &Holder) -> (&Bucket, u64) {
        let (home, print) = self.home(holder);
        (&self.buckets[home], print)
    }

    #[allow(clippy::cast_possible_truncation, reason = "below the number of buckets")]
    fn home(&self, holder: &Holder) -> (usize, u64) {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&holder.client.0);
        bytes[16..18].copy_from_slice(&holder.service.to_be_bytes());
        let hash = rapidhash_v3_nano_inline::<true, true>(&bytes, &self.secrets);
        let home = ((hash & 0xffff_ffff) * self.buckets.len() as u64) >> 32;
        (home as usize, hash >> Word::TURN)
    }
}

impl Bucket {
    fn word(&self, way: usize) -> Word {
        Word(self.words[way].load(Ordering::Acquire))
    }

    /// A word with its own `end`.
    fn pair(&self, way: usize) -> (Word, u32) {
        let mut word = self.word(way);
        loop {
            let end = self.ends[way].load(Ordering::Acquire);
            let still = self.word(way);
            if still == word {
                return (word, end);
            }
            word = still;
        }
    }

    /// One look at all cells for one client. Of several claims all but the lowest are taken back;
    /// `None` when that failed.
    fn look(&self, print: u64, now: Ticks, serves: &impl Fn(Place) -> bool) -> Option<Look> {
        let (mut look, mut own) = (Look::default(), None);
        for way in 0..WAYS {
            let (word, end) = self.pair(way);
            let (ours, lives) = (word.print() == print, end > step(now));
            match word.stage() {
                Stage::Claimed if ours && look.claimed.is_none() => {
                    look.claimed = Some((way, word));
                }
                Stage::Claimed if ours && !self.take_back(way, word) => return None,
                Stage::Claimed => {}
                Stage::Settled if ours && lives && serves(word.place()) => {
                    look.settled = Some((way, word));
                }
                Stage::Settled if ours => own = Some((way, word, end)),
                Stage::Settled if lives => {}
                Stage::Empty | Stage::Settled => {
                    look.room.get_or_insert((way, word, end));
                }
            }
        }
        look.room = own.or(look.room);
        Some(look)
    }

    fn replace(&self, way: usize, old: Word, new: Word) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.words[way].compare_exchange(old.0, new.0, success, failure).is_ok()
    }

    /// A claim that was not the first. False: it is no longer one.
    fn take_back(&self, way: usize, claim: Word) -> bool {
        self.replace(way, claim, claim.at(Stage::Empty))
    }

    /// Makes a claim a template. False: it is no longer one.
    fn confirm(&self, way: usize, claim: Word, span: Span, holder: &Holder) -> bool {
        self.ends[way].fetch_max(span.end(), Ordering::AcqRel);
        let settled = self.replace(way, claim, claim.at(Stage::Settled));
        if settled {
            let (high, low) = holder.client.0.split_at(8);
            for (cell, half) in self.clients[way].iter().zip([high, low]) {
                let half = half.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                cell.store(half, Ordering::Relaxed);
            }
        }
        settled
    }

    /// Lets a template that lives do so anew. False: it has ended.
    fn renew(&self, way: usize, word: Word, span: Span) -> bool {
        let mut end = self.ends[way].load(Ordering::Acquire);
        while end > step(span.now) && end < span.end() {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self.ends[way].compare_exchange(end, span.end(), success, failure) {
                Ok(_) => break,
                Err(seen) => end = seen,
            }
        }
        end > step(span.now) && self.word(way) == word
    }

    /// Ends a template, unless it was renewed since `end` was read.
    fn end(&self, way: usize, end: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        end == 0 || self.ends[way].compare_exchange(end, 0, success, failure).is_ok()
    }

    fn client(&self, way: usize) -> Addr {
        let mut addr = Addr::UNSPECIFIED;
        for (bytes, cell) in addr.0.chunks_exact_mut(8).zip(&self.clients[way]) {
            bytes.copy_from_slice(&cell.load(Ordering::Relaxed).to_be_bytes());
        }
        addr
    }
}

/// Time as `end` counts it: from 0 on for 17 years.
#[allow(clippy::cast_possible_truncation, reason = "17 years")]
const fn step(now: Ticks) -> u32 {
    (now.0 >> STEP) as u32
}
