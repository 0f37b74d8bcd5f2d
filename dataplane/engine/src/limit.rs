//! Limits on what a stranger can make an lcore do: token buckets, per lcore and kind of answer.

use crate::ticks::Ticks;

/// So many per second, with a tenth of a second's worth in one go.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    per_sec: u64,
    /// Thousandths of one permission.
    tokens: u64,
    last: Ticks,
}

impl Limit {
    /// A full bucket of `per_sec` permissions per second.
    #[must_use]
    pub const fn per_sec(per_sec: u64) -> Self {
        Self { per_sec, tokens: Self::depth(per_sec), last: Ticks(0) }
    }

    const fn depth(per_sec: u64) -> u64 {
        let tenth = per_sec * 100;
        if tenth < 1000 { 1000 } else { tenth }
    }

    /// Takes one permission, if there is one.
    pub fn allow(&mut self, now: Ticks) -> bool {
        let passed = now.since(self.last).0.min(1000);
        self.last = now;
        self.tokens = (self.tokens + passed * self.per_sec).min(Self::depth(self.per_sec));
        let allowed = self.tokens >= 1000;
        self.tokens -= if allowed { 1000 } else { 0 };
        allowed
    }
}

/// The limits of one lcore. Generous for honest networks, harmless for the lcore: at 2.6 GHz an
/// answer costs about 200 cycles, so all of them together stay under 0.2 % of a core; answers to ARP
/// may take 2 % more, if an attacker on the wire uses all of them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// TCP resets to packets that belong to nothing.
    pub reset: Limit,
    /// ICMP unreachable: no server, closed port.
    pub unreachable: Limit,
    /// ICMP fragmentation needed. Apart from the others: without it connections hang.
    pub too_big: Limit,
    /// ICMP time exceeded.
    pub time_exceeded: Limit,
    /// ICMP echo replies.
    pub echo: Limit,
    /// ARP replies, by the last byte of the asker's address: who asks at rate, or in a million
    /// names, keeps few others from an answer.
    pub arp: [Limit; 256],
    /// Messages to the control thread about ARP heard, by the last byte of the address claimed: a
    /// storm of claims of one address drowns few others.
    pub heard: [Limit; 256],
    /// Messages to the control thread about next hops wanted.
    pub event: Limit,
    /// New entries while the flood guard is set; see [`crate::snapshot::Snapshot::flood_guard`].
    pub entries: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reset: Limit::per_sec(10_000),
            unreachable: Limit::per_sec(2_000),
            too_big: Limit::per_sec(2_000),
            time_exceeded: Limit::per_sec(1_000),
            echo: Limit::per_sec(1_000),
            arp: [Limit::per_sec(1_000); 256],
            heard: [Limit::per_sec(100); 256],
            event: Limit::per_sec(5_000),
            entries: Limit::per_sec(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_a_burst_then_the_rate() {
        let mut limit = Limit::per_sec(100);
        let count = |l: &mut Limit, t| (0..1000).filter(|_| l.allow(Ticks(t))).count();
        assert_eq!(count(&mut limit, 0), 10);
        assert_eq!(count(&mut limit, 50), 5);
        assert_eq!(count(&mut limit, 10_000), 10);
    }

    #[test]
    fn a_slow_limit_still_gives_one() {
        let mut limit = Limit::per_sec(1);
        assert!(limit.allow(Ticks(0)));
        assert!(!limit.allow(Ticks(999)));
        assert!(limit.allow(Ticks(1000)));
    }
}
