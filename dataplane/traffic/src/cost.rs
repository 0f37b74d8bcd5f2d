//! What packets cost: CPU time of the thread × rate of the time-stamp counter ÷ packets.
//!
//! Never wall time: the machine may be shared, and only CPU time leaves out what others got.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The calling thread's CPU time.
#[must_use]
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// CPU time spent.
    pub time: Duration,
    /// Packets it was spent on.
    pub packets: u64,
}

impl Sample {
    /// Turns `turn`, which says how many packets it took, until `limit` CPU time is spent.
    #[inline(always)]
    pub fn take(limit: Duration, mut turn: impl FnMut() -> u64) -> Self {
        Self::take_timed(limit, |_| turn())
    }

    /// The same for a turn that wants to know how much CPU time is spent. The clock is read once in
    /// 1,024 turns.
    #[inline(always)]
    pub fn take_timed(limit: Duration, mut turn: impl FnMut(Duration) -> u64) -> Self {
        let began = cpu_time();
        let mut sample = Self::default();
        while sample.time < limit {
            for _ in 0..1024 {
                sample.packets += turn(sample.time);
            }
            sample.time = cpu_time().saturating_sub(began);
        }
        sample
    }

    /// Cycles per packet at `hz` cycles per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn cycles(&self, hz: u64) -> f64 {
        self.time.as_secs_f64() * hz as f64 / self.packets as f64
    }
}
