//! The time-stamp counter as the engine's clock.

use crate::eal::Eal;
use dpdk_sys::{rte_get_tsc_hz, sluice_rdtsc};
use engine::ticks::Ticks;

/// Counts milliseconds since it was made; copies share that origin, so lcores agree.
///
/// Meant to be read once per turn of an lcore: a reading costs about 20 ns.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    hz: u64,
    per_ms: u64,
}

impl Clock {
    /// A clock that starts now, at the rate that EAL measured.
    #[must_use]
    pub fn new(_running: &Eal) -> Self {
        // SAFETY: reads a number that EAL has set.
        let hz = unsafe { rte_get_tsc_hz() };
        Self::from_parts(cycles(), hz)
    }

    /// The time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Ticks {
        self.at(cycles())
    }

    /// The time at a value of the counter ([`cycles`]), for a caller that reads it anyway.
    #[must_use]
    #[inline]
    pub fn at(&self, cycles: u64) -> Ticks {
        Ticks(cycles.saturating_sub(self.origin) / self.per_ms)
    }

    fn from_parts(origin: u64, hz: u64) -> Self {
        Self { origin, hz, per_ms: hz / 1000 }
    }

    /// Cycles per second.
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.hz
    }
}

/// The time-stamp counter.
#[must_use]
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: reads a register.
    unsafe { sluice_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_milliseconds_from_its_origin() {
        let clock = Clock::from_parts(5000, 2_600_000_000);
        assert_eq!(clock.at(5000), Ticks(0));
        assert_eq!(clock.at(5000 + 2_599_999), Ticks(0));
        assert_eq!(clock.at(5000 + 2_600_000), Ticks(1));
        // A counter a little behind on another core is not centuries ahead.
        assert_eq!(clock.at(4000), Ticks(0));
    }
}
