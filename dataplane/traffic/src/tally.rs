//! What came of a load: counters, shares of servers, latencies.

use hdrhistogram::Histogram;

/// Longest latency that is told from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// Latencies in buckets, three digits exact (HDR histogram), in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds that HDR allows"))
    }
}

impl Latency {
    /// One more; longer than a minute counts as a minute.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// The latency that this part of all packets, 0 to 1, does not exceed; 0 without packets.
    #[must_use]
    pub fn at(&self, part: f64) -> u64 {
        self.0.value_at_quantile(part)
    }

    /// The shortest; 0 without packets.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Adds what another has.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }
}

/// What one server got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Packets.
    pub packets: u64,
    /// Flows whose first packet seen here was its.
    pub flows: u64,
}

/// Counters; each packet that was received is in exactly one of the first group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ours, intact or not at the right server, the first time.
    pub received: u64,
    /// Ours, a second time in a row.
    pub duplicates: u64,
    /// From a client to the virtual address, but not as sent, so that the stamp says nothing.
    pub unreadable: u64,
    /// Resets from the virtual address to a client.
    pub resets: u64,
    /// ICMP to a client: such as a packet too big for a tunnel.
    pub errors: u64,
    /// ARP.
    pub arp: u64,
    /// Anything else.
    pub foreign: u64,

    /// Sent.
    pub sent: u64,
    /// Bytes sent, without check sequences.
    pub sent_bytes: u64,
    /// Bytes of those received, as they came.
    pub received_bytes: u64,
    /// New flows begun.
    pub begun: u64,
    /// New flows seen.
    pub flows: u64,
    /// Of those received: a byte differs from what was sent, TTL and its checksum aside.
    pub altered: u64,
    /// Of those received: at nobody's place.
    pub wrong_server: u64,
    /// Of those received: at another server than its flow's packet before, which came from the same
    /// port.
    pub moved: u64,
    /// Of those received: from another port than its flow's packet before.
    pub migrations: u64,
    /// Of these: at another server. No fault of who balances by addresses and ports.
    pub moved_migrating: u64,
    /// Of those received: before it came a later one of its flow.
    pub reordered: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.unreadable += other.unreadable;
        self.resets += other.resets;
        self.errors += other.errors;
        self.arp += other.arp;
        self.foreign += other.foreign;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.begun += other.begun;
        self.flows += other.flows;
        self.altered += other.altered;
        self.wrong_server += other.wrong_server;
        self.moved += other.moved;
        self.migrations += other.migrations;
        self.moved_migrating += other.moved_migrating;
        self.reordered += other.reordered;
    }

    /// Sent and never received.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// The lost part of what was sent, 0 to 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost() as f64 / self.sent as f64 }
    }

    /// Packets that a director must not make so, whatever the load.
    #[must_use]
    pub const fn faults(&self) -> u64 {
        self.altered
            + self.unreadable
            + self.wrong_server
            + self.moved
            + self.reordered
            + self.duplicates
    }
}

/// Counters, shares and latencies of one load.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Counters.
    pub counts: Counts,
    /// By the servers' numbers.
    pub shares: Vec<Share>,
    /// From being written to being read.
    pub latency: Latency,
    /// Nanoseconds from the first packet to the last one sent.
    pub lasted: u64,
}

impl Tally {
    /// Adds a load that came before.
    pub fn add(&mut self, before: &Self) {
        self.counts.add(&before.counts);
        let longest = self.shares.len().max(before.shares.len());
        self.shares.resize(longest, Share::default());
        for (share, other) in self.shares.iter_mut().zip(&before.shares) {
            share.packets += other.packets;
            share.flows += other.flows;
        }
        self.latency.merge(&before.latency);
        self.lasted += before.lasted;
    }

    /// Counts per second of the load.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn rate(&self, count: u64) -> f64 {
        if self.lasted == 0 { 0.0 } else { count as f64 * 1e9 / self.lasted as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_three_digits_exact() {
        let (mut all, mut half) = (Latency::default(), Latency::default());
        assert_eq!((all.min(), all.max(), all.at(0.5)), (0, 0, 0));
        (1..=1000).for_each(|n| all.record(n * 1000));
        (1001..=2000).for_each(|n| half.record(n * 1000));
        all.merge(&half);
        for (part, want) in [(0.5, 1_000_000), (0.99, 1_980_000), (1.0, 2_000_000)] {
            let got = all.at(part);
            assert!(got.abs_diff(want) <= want / 1000, "{part}: {got} for {want}");
        }
        all.record(u64::MAX);
        assert!(all.max() >= LONGEST, "a minute and longer");
        all.clear();
        assert_eq!(all.max(), 0);
    }

    #[test]
    fn loads_add_up() {
        let load = |n: u64| Tally {
            counts: Counts { sent: n, received: n - 1, moved: 2, ..Counts::default() },
            shares: vec![Share { packets: n, flows: 1 }; n as usize],
            lasted: n,
            ..Tally::default()
        };
        let mut all = load(3);
        all.add(&load(2));
        assert_eq!((all.counts.sent, all.counts.received, all.counts.moved), (5, 3, 4));
        assert_eq!(all.shares.iter().map(|s| s.packets).collect::<Vec<_>>(), [5, 5, 3]);
        assert_eq!((all.lasted, all.shares[0].flows), (5, 2));
    }

    #[test]
    fn loss_is_what_never_came() {
        let counts = Counts { sent: 200, received: 150, duplicates: 9, ..Counts::default() };
        assert_eq!((counts.lost(), counts.faults()), (50, 9));
        assert!((counts.loss() - 0.25).abs() < 1e-9);
        assert!(Counts::default().loss() < 1e-9);
    }
}
