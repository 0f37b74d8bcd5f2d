//! When the daemon ends: a signal, an order over the socket, silence when asked for, a dead thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::stats::{LcoreBoard, LcoreTotals};
use engine::verdict::DropReason;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::WATCH;

/// SIGINT and SIGTERM as something to look at, instead of something that strikes.
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals for this thread and all that it starts.
    pub(crate) fn catch() -> Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        mask.thread_block().context("blocking signals")?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits until it is time to end, and says why. `idle`: the silence that ends it; `over`:
    /// which thread has ended by itself, if one has.
    pub(crate) fn wait(
        &self,
        boards: &[Arc<LcoreBoard>],
        idle: Option<Duration>,
        over: impl Fn() -> Option<&'static str>,
    ) -> Result<String> {
        let mut silence = Silence::default();
        loop {
            if let Some(info) = self.0.read_signal().context("reading signals")? {
                let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
                return Ok(format!("{}", Signal::try_from(signal)?));
            }
            if let Some(why) = over() {
                return Ok(why.to_owned());
            }
            if let Some(idle) = idle
                && silence.lasts(boards) >= idle
            {
                return Ok(format!("nothing received for {} ms", idle.as_millis()));
            }
            std::thread::sleep(WATCH);
        }
    }
}

/// What became of all frames, in one line: who ends on silence has nobody to ask afterwards.
pub(crate) fn summary(boards: &[Arc<LcoreBoard>]) -> String {
    let mut all = LcoreTotals::default();
    for board in boards {
        all.add(&board.stats.read());
    }
    let drops: Vec<_> = DropReason::ALL
        .iter()
        .zip(all.drops)
        .filter(|(_, frames)| *frames > 0)
        .map(|(why, frames)| format!("{why} {frames}"))
        .collect();
    let drops = if drops.is_empty() { "nothing".to_owned() } else { drops.join(", ") };
    format!(
        "received {}, forwarded {}, replied {}, punted {}, sent {}; dropped {drops}",
        all.received, all.forwarded, all.replied, all.punted, all.sent
    )
}

/// How long nothing has come in and nothing has waited.
#[derive(Default)]
struct Silence {
    received: u64,
    since: Option<Instant>,
}

impl Silence {
    fn lasts(&mut self, boards: &[Arc<LcoreBoard>]) -> Duration {
        let totals = boards.iter().map(|b| b.stats.read());
        let (mut received, mut turns, mut waiting) = (0, u64::MAX, 0);
        let (mut handed, mut taken) = (0, 0);
        for t in totals {
            received += t.received + t.taken_over + t.unparked;
            turns = turns.min(t.turns);
            waiting += t.queued + t.waiting;
            handed += t.handed_over;
            taken += t.taken_over;
        }
        waiting += u64::from(handed != taken);
        // Silence counts only from the first turn of every lcore on.
        if received != self.received || waiting > 0 || turns == 0 || self.since.is_none() {
            self.received = received;
            self.since = Some(Instant::now());
        }
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_sums_lcores_and_names_only_drops_that_were() {
        let boards = [1, 2].map(|n| {
            let board = LcoreBoard::new(1, 1);
            board.stats.received.add(n);
            board.stats.drops[DropReason::Stray as usize].add(n);
            Arc::new(board)
        });
        let text = summary(&boards);
        assert!(text.starts_with("received 3, forwarded 0, "), "{text}");
        assert!(text.ends_with("; dropped stray 3"), "{text}");
        assert!(summary(&[]).ends_with("; dropped nothing"));
    }
}
