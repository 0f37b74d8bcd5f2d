//! What it costs hits that other connections come due: the same director without and with them.
//!
//! ```text
//!  others begin      quiet window        60 s after they began: they come due
//!  |-----------|     |-----------|       |-----------|
//! ```
//! In both windows time goes on by the CPU time that the lcore spends, so a million a second is one
//! per 2,600 cycles at 2.6 GHz, whatever else the machine does. A window is whole slots of the
//! wheel, since what is due in a slot comes at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use dpdk::{Clock, Mempool};
use engine::conn::wheel::SLOT_TICKS;
use traffic::cost::Sample;
use traffic::dice::Dice;

use crate::director::{Director, SYN_RECV_MS};
use crate::setup::{DUE_PER_SECOND, Setting};

/// More than an lcore visits in a turn.
const MANY: u64 = 64;

/// A director whose connections come due together.
pub(crate) struct Expiry {
    director: Director,
    /// Its time, in milliseconds.
    at: u64,
}

impl Expiry {
    /// With a table that has been in use: connections that come due together lie anywhere.
    pub(crate) fn new(pool: &Mempool, clock: Clock, setting: Setting) -> Result<Self> {
        let director = Director::new(pool, clock, setting)?;
        let mut expiry = Self { at: director.now(), director };
        expiry.scramble()?;
        Ok(expiry)
    }

    /// Packets without, then with the expiry of others, in `limit` CPU time each.
    pub(crate) fn run(&mut self, limit: Duration) -> Result<(Sample, Sample)> {
        let wanted = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        // A second at most: that many others the table has room for.
        let lasts = (wanted / SLOT_TICKS).clamp(1, 1000 / SLOT_TICKS) * SLOT_TICKS;
        let count = DUE_PER_SECOND * lasts / 1000;
        // Due from a slot's edge on.
        let begun = (self.at + SYN_RECV_MS).next_multiple_of(SLOT_TICKS) - SYN_RECV_MS;
        let refused = self.begin(count, begun, lasts)?;

        self.at = begun + lasts;
        self.catch_up()?;
        let (quiet, ended) = self.window(lasts)?;
        ensure!(ended == 0, "{ended} connections ended early");

        // Half a slot before the first of them, so that the last slot ends within the window.
        self.at = begun + SYN_RECV_MS + SLOT_TICKS / 2;
        self.catch_up()?;
        let (busy, ended) = self.window(lasts)?;
        ensure!(ended == count - refused, "{ended} of {count} ended, {refused} had no entry");
        Ok((quiet, busy))
    }

    /// So many others begin, evenly over a time. Returns how many found the table full.
    fn begin(&mut self, count: u64, from: u64, lasts: u64) -> Result<u64> {
        let untracked = self.director.board.stats.untracked.get();
        self.director.others.ask(count);
        while self.director.others.wanted() > 0 {
            let past = count - self.director.others.wanted();
            self.turn(from + 1 + past * lasts / count)?;
        }
        let refused = self.director.board.stats.untracked.get() - untracked;
        ensure!(refused <= count / 1000, "{refused} of {count} found the table full");
        Ok(refused)
    }

    /// CPU time and its packets, and how many connections ended meanwhile.
    fn window(&mut self, lasts: u64) -> Result<(Sample, u64)> {
        let (limit, from) = (Duration::from_millis(lasts), self.at);
        Sample::take(limit / 10, || self.director.turn_at(|_| from));
        let (sample, seen) = self.director.watch(|director| {
            Sample::take_timed(limit, |spent| {
                let passed = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
                director.turn_at(|_| from + passed.min(lasts))
            })
        })?;
        self.at += lasts;
        ensure!(seen.created == 0, "a known flow was none: {seen:?}");
        Ok((sample, seen.ended))
    }

    /// Fills all places in turn and frees them in random order.
    fn scramble(&mut self) -> Result<()> {
        let mut dice = Dice::new(1);
        let stats = &self.director.board.stats;
        let places = u64::from(self.director.setting.capacity()) - stats.entries.get();
        for _ in 0..places {
            self.director.others.ask(1);
            self.turn(self.at + u64::from(dice.below(50_000)))?;
        }
        self.at += 2 * SYN_RECV_MS;
        self.catch_up()
    }

    /// Turns until nothing is due any more.
    fn catch_up(&mut self) -> Result<()> {
        let visits = |d: &Director| d.board.stats.ended.get() + d.board.stats.rearmed.get();
        loop {
            let before = visits(&self.director);
            self.turn(self.at)?;
            if visits(&self.director) - before < MANY {
                return Ok(());
            }
        }
    }

    fn turn(&mut self, at: u64) -> Result<()> {
        ensure!(self.director.turn_at(|_| at) > 0, "the source ran dry");
        Ok(())
    }
}
