//! Which lcore polls which queue, and how much memory that takes. Pure.
//!
//! Each lcore wants one receive and one transmit queue on each port. A device with fewer receive
//! queues is polled by as many lcores as it has queues; the others get their flows handed over. A
//! device with fewer transmit queues is filled by as many; the others relay their frames to lcore
//! `n % queues`.

use engine::owner::DEPTH;
use engine::parking::PLACES;

/// Descriptors of a receive or a transmit queue.
pub(crate) const DESCRIPTORS: u16 = 1024;
/// Buffers each lcore keeps at hand.
pub(crate) const CACHE: u32 = 256;

/// The queues of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    /// Receive queues: lcore n polls queue n, if there is one.
    pub(crate) rx: u16,
    /// Transmit queues: lcore n fills queue n, or relays to lcore n % tx.
    pub(crate) tx: u16,
}

impl PortPlan {
    /// For `lcores` lcores on a device that has at most so many queues. `wanted` limits the receive
    /// queues further.
    #[must_use]
    pub(crate) fn new(lcores: u16, max_rx: u16, max_tx: u16, wanted: Option<u16>) -> Self {
        let rx = lcores.min(max_rx).min(wanted.unwrap_or(u16::MAX)).max(1);
        Self { rx, tx: lcores.min(max_tx).max(1) }
    }

    /// The lcore that fills the queue for `lcore`: itself, or the one it relays to.
    #[must_use]
    pub(crate) const fn sender(&self, lcore: u16) -> u16 {
        lcore % self.tx
    }
}

/// How many buffers one pool must have so that every queue, ring and waiting place can be full and
/// there is still one burst for each lcore.
#[must_use]
pub(crate) fn frames(lcores: u16, ports: &[PortPlan]) -> u32 {
    let n = u32::from(lcores);
    let descriptors: u32 =
        ports.iter().map(|p| u32::from(p.rx + p.tx) * u32::from(DESCRIPTORS)).sum();
    let rings = n * n.saturating_sub(1) * usize_u32(DEPTH);
    let relays: u32 = ports.iter().map(|p| (n - u32::from(p.tx).min(n)) * usize_u32(DEPTH)).sum();
    let own = n * (usize_u32(PLACES) + 2 * CACHE + 64 * (ports.len() as u32 + 1));
    // 2^n - 1 uses a pool's ring best.
    (descriptors + rings + relays + own + 1).next_power_of_two() - 1
}

#[allow(clippy::cast_possible_truncation, reason = "small constants")]
const fn usize_u32(n: usize) -> u32 {
    n as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lcore_has_a_queue_where_the_device_has_as_many() {
        let plan = PortPlan::new(3, 8, 8, None);
        assert_eq!(plan, PortPlan { rx: 3, tx: 3 });
        assert_eq!((0..3).map(|l| plan.sender(l)).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_device_with_one_queue_serves_all_by_handing_over_and_relaying() {
        let plan = PortPlan::new(4, 1, 1, None);
        assert_eq!(plan, PortPlan { rx: 1, tx: 1 });
        assert!((0..4).all(|l| plan.sender(l) == 0));
    }

    #[test]
    fn the_operator_may_ask_for_fewer_receive_queues() {
        assert_eq!(PortPlan::new(4, 8, 8, Some(2)), PortPlan { rx: 2, tx: 4 });
        assert_eq!(PortPlan::new(1, 8, 8, Some(2)), PortPlan { rx: 1, tx: 1 });
    }

    #[test]
    fn the_pool_covers_all_places_where_frames_can_wait() {
        let ports = [PortPlan { rx: 2, tx: 1 }];
        let frames = frames(2, &ports);
        assert!(frames >= 3 * 1024 + 2 * 512 + 512 + 2 * (1024 + 512));
        assert!((frames + 1).is_power_of_two());
    }
}
