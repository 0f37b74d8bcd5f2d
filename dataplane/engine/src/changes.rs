//! Which server slots an lcore has counted for lately: a hint where the control thread should look.
//!
//! A ring of slot numbers that the lcore overwrites without asking. Gives up being complete: a
//! reader who comes later than a round learns that it missed some, and looks at all slots.

use crossbeam::utils::CachePadded;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, own};

/// Most places: a reader who comes once a millisecond misses nothing below 8 million changes a
/// second. Fewer than half as many as there are slots would help nobody: to look at all slots in
/// their order costs no more than at half of them in any.
const MOST: usize = 8192;

/// The slots that changed, in order. Written by one lcore; read by the control thread.
#[derive(Debug)]
pub struct ChangeLog {
    /// How many were ever noted. Beside nothing that the lcore reads when it notes nothing.
    noted: CachePadded<AtomicU64>,
    slots: Box<[AtomicU32]>,
}

impl ChangeLog {
    /// For so many slots.
    #[must_use]
    pub fn new(max_servers: usize) -> Self {
        let places = (max_servers / 2).clamp(1, MOST).next_power_of_two();
        Self {
            noted: CachePadded::new(AtomicU64::new(0)),
            slots: (0..places).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Notes a slot whose counts have changed. Only the one writer may call this.
    #[inline(always)]
    pub(crate) fn note(&self, slot: u32) {
        let noted = own!(self.noted);
        // Release: who sees the number of the next round in a place sees by `noted` that there was
        // a next round.
        self.slots[self.place(noted)].store(slot, Ordering::Release);
        self.noted.store(noted + 1, Ordering::Release);
    }

    /// Calls `each` with all slots noted since `read`, some of them more than once, and moves `read`;
    /// false if some are missing. The counts behind a slot are as new as its note, or newer.
    #[must_use]
    pub fn since(&self, read: &mut u64, mut each: impl FnMut(u32)) -> bool {
        let noted = self.noted.load(Ordering::Acquire);
        let from = std::mem::replace(read, noted);
        if noted - from >= self.slots.len() as u64 {
            return false;
        }
        (from..noted).for_each(|n| each(self.slots[self.place(n)].load(Ordering::Relaxed)));
        if from == noted {
            return true;
        }
        fence(Ordering::Acquire);
        self.noted.load(Ordering::Relaxed) - from < self.slots.len() as u64
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the ring's length is a power of two")]
    fn place(&self, n: u64) -> usize {
        n as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog, read: &mut u64) -> Option<Vec<u32>> {
        let mut slots = Vec::new();
        log.since(read, |slot| slots.push(slot)).then_some(slots)
    }

    #[test]
    fn a_reader_gets_what_is_new_to_it() {
        let (log, mut early, mut late) = (ChangeLog::new(16), 0, 0);
        assert_eq!(since(&log, &mut early), Some(vec![]));
        log.note(3);
        log.note(5);
        assert_eq!(since(&log, &mut early), Some(vec![3, 5]));
        log.note(3);
        assert_eq!(since(&log, &mut early), Some(vec![3]));
        assert_eq!(since(&log, &mut early), Some(vec![]));
        assert_eq!(since(&log, &mut late), Some(vec![3, 5, 3]));
    }

    #[test]
    fn who_comes_later_than_a_round_learns_it() {
        let (log, mut read) = (ChangeLog::new(16), 0);
        (0..7).for_each(|slot| log.note(slot));
        assert_eq!(since(&log, &mut read), Some((0..7).collect()), "eight places");
        (0..8).for_each(|slot| log.note(slot));
        assert_eq!(since(&log, &mut read), None, "the first may be overwritten at this moment");
        log.note(9);
        assert_eq!(since(&log, &mut read), Some(vec![9]));
    }
}
