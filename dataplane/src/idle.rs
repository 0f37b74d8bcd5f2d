//! What an lcore does when there is nothing to do.

use std::time::Duration;

use config::settings::Idle;

/// Empty turns before an lcore rests.
const PATIENCE: u32 = 1000;
/// One rest of the `sleep` policy.
const NAP: Duration = Duration::from_micros(50);

/// Counts empty turns and rests after enough of them.
pub(crate) struct Rest {
    policy: Idle,
    empty: u32,
}

impl Rest {
    /// For a policy.
    pub(crate) const fn new(policy: Idle) -> Self {
        Self { policy, empty: 0 }
    }

    /// After a turn.
    #[inline(always)]
    pub(crate) fn after(&mut self, busy: bool) {
        if busy {
            self.empty = 0;
            return;
        }
        self.empty += 1;
        if self.empty >= PATIENCE {
            self.empty = PATIENCE;
            match self.policy {
                Idle::Poll => std::hint::spin_loop(),
                Idle::Yield => std::thread::yield_now(),
                Idle::Sleep => std::thread::sleep(NAP),
            }
        }
    }
}

/// The policy of an lcore: the director's word, else the least patient of its ports' words, else
/// `poll` where every device is hardware of its own and `yield` where a virtual device shares the
/// machine with those who feed it.
pub(crate) fn policy(director: Option<Idle>, ports: &[Option<Idle>], all_hardware: bool) -> Idle {
    let rank = |i: &Idle| match i {
        Idle::Poll => 0,
        Idle::Yield => 1,
        Idle::Sleep => 2,
    };
    let default = if all_hardware { Idle::Poll } else { Idle::Yield };
    director.or_else(|| ports.iter().flatten().copied().min_by_key(rank)).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directors_word_counts_before_the_ports() {
        assert_eq!(policy(Some(Idle::Sleep), &[Some(Idle::Poll)], true), Idle::Sleep);
        assert_eq!(policy(None, &[Some(Idle::Sleep), Some(Idle::Yield)], true), Idle::Yield);
        assert_eq!(policy(None, &[None], true), Idle::Poll);
        assert_eq!(policy(None, &[None], false), Idle::Yield);
    }
}
