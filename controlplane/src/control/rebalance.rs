//! Gives new servers their share of connections that would stay where they are: the fullest servers
//! of a service give up what they have above theirs, so many per second.
//!
//! What is to go is settled once, when it is asked for: clients that come back are scheduled like
//! new ones, and no two of these choices chase each other.

use engine::mailbox::{Order, Thin};
use engine::service::ServiceId;
use serde::{Deserialize, Serialize};

use super::LcoreLink;

/// Time between two portions, in ms.
const PORTION_MS: u64 = 100;

/// One server's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) server: u32,
    pub(super) generation: u16,
    pub(super) left: u64,
}

/// What was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Connections that are given up.
    pub connections: u64,
    /// Servers that give up some.
    pub servers: u64,
    /// Seconds that it takes at least.
    pub seconds: u64,
}

/// A service that is being rebalanced.
#[derive(Debug)]
pub(super) struct Rebalance {
    pub(super) service: ServiceId,
    rate: u32,
    parts: Vec<Part>,
    due_ms: u64,
    /// Thousandths of a connection that were not whole yet.
    rest: u64,
}

/// What servers have above their share of all active connections, by their weights: `(active,
/// weight)` in, connections to give up out.
pub(super) fn excess(servers: &[(u64, u32)]) -> Vec<u64> {
    let active: u128 = servers.iter().map(|(active, _)| u128::from(*active)).sum();
    let weight: u128 = servers.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let share = |w: u32| (active * u128::from(w)).div_ceil(weight.max(1));
    let over = |(active, w): &(u64, u32)| u128::from(*active).saturating_sub(share(*w));
    // Drained and down servers keep what they have: nobody gets a share by their loss alone.
    let over = |s: &(u64, u32)| if s.1 == 0 { 0 } else { over(s) };
    servers.iter().map(|s| u64::try_from(over(s)).unwrap_or(u64::MAX)).collect()
}

impl Rebalance {
    pub(super) const fn new(service: ServiceId, rate: u32, parts: Vec<Part>, now_ms: u64) -> Self {
        Self { service, rate, parts, due_ms: now_ms, rest: 0 }
    }

    pub(super) fn plan(&self) -> Plan {
        let connections = self.parts.iter().map(|p| p.left).sum::<u64>();
        Plan {
            connections,
            servers: self.parts.len() as u64,
            seconds: connections.div_ceil(u64::from(self.rate.max(1))),
        }
    }

    /// A portion, if it is time for one. False when there was nothing to do any more: a portion
    /// later, so that what an lcore declines meanwhile finds its way back.
    pub(super) fn tick(&mut self, lcores: &mut [LcoreLink], now_ms: u64) -> bool {
        if now_ms < self.due_ms {
            return true;
        }
        self.due_ms = now_ms + PORTION_MS;
        self.rest += u64::from(self.rate) * PORTION_MS;
        let mut portion = self.rest / 1000;
        self.rest %= 1000;
        while portion > 0 {
            let Some(fullest) = self.parts.iter_mut().max_by_key(|p| p.left) else { return false };
            if fullest.left == 0 {
                return false;
            }
            // All that keeps it the fullest by about one step, so that a few steps do.
            let step = portion.div_ceil(8).min(fullest.left);
            portion -= step;
            let unsent = spread(lcores, *fullest, step);
            fullest.left -= step - unsent;
            if unsent > 0 {
                break;
            }
        }
        true
    }

    /// An lcore has no place for an order: it is to be given again.
    pub(super) fn declined(&mut self, thin: Thin) {
        let place = (thin.server, thin.generation);
        if let Some(part) = self.parts.iter_mut().find(|p| (p.server, p.generation) == place) {
            part.left += u64::from(thin.count);
        }
    }
}

/// Orders lcores to give up `count` connections, the one that has most of them first. Returns how
/// many are still to be ordered because a ring is full.
fn spread(lcores: &mut [LcoreLink], part: Part, count: u64) -> u64 {
    let Part { server, generation, .. } = part;
    let active = |l: &LcoreLink| l.board.servers[server as usize].counts(generation).active;
    let mut order: Vec<(u32, usize)> =
        lcores.iter().enumerate().map(|(i, l)| (active(l), i)).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = u32::try_from(count).unwrap_or(u32::MAX);
    let mut unsent = 0;
    for (active, lcore) in order {
        let count = left.min(active);
        left -= count;
        if count > 0 {
            let order = Order::Thin(Thin { server, generation, count });
            if lcores[lcore].end.orders.push(order).is_err() {
                unsent += u64::from(count);
            }
        }
    }
    unsent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_give_up_what_is_above_their_share() {
        assert_eq!(excess(&[(100, 1), (100, 1), (0, 1)]), [33, 33, 0]);
        assert_eq!(excess(&[(100, 100), (100, 100), (100, 200)]), [25, 25, 0]);
        assert_eq!(excess(&[(10, 1), (10, 0)]), [0, 0]);
        assert_eq!(excess(&[]), [0; 0]);
        let huge = u32::MAX / 2;
        assert_eq!(excess(&[(u64::from(u32::MAX), huge), (1, huge)]), [u64::from(huge), 0]);
    }
}
