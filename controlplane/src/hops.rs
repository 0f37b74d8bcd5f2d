//! Numbers for next hops: one per station that packets are sent to.
//!
//! A hop that no server uses any more keeps its number until every lcore has left the snapshots
//! that name it; only then may the number mean another station. Numbers never used come first and
//! the one that is free longest next, so that a packet which still waits for the old station will
//! have been given up long before.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use engine::addr::Mac;
use engine::neigh::{HopId, PortId};

/// A station that packets are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Behind this port.
    pub port: PortId,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address, if it is not to be asked for.
    pub mac: Option<Mac>,
    /// Our own address on that port, which asks for it.
    pub source: IpAddr,
}

#[derive(Clone, Copy, Debug)]
struct Numbered {
    hop: NextHop,
    /// Servers that use it, in the snapshot being made.
    servers: usize,
    /// The first version that does not name it.
    unused_since: Option<u64>,
}

/// All next hops.
#[derive(Debug)]
pub struct Hops {
    by_hop: HashMap<NextHop, HopId>,
    numbered: BTreeMap<HopId, Numbered>,
    free: VecDeque<HopId>,
    max: usize,
}

impl Hops {
    /// None yet, `max` at most.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { by_hop: HashMap::new(), numbered: BTreeMap::new(), free: VecDeque::new(), max }
    }

    /// The number of a hop for one more server of the snapshot being made; `None` when there is no
    /// number left.
    pub fn want(&mut self, hop: NextHop) -> Option<HopId> {
        let id = match self.by_hop.get(&hop) {
            Some(id) => *id,
            None => self.fresh().or_else(|| self.free.pop_front())?,
        };
        self.by_hop.insert(hop, id);
        let numbered = Numbered { hop, servers: 0, unused_since: None };
        self.numbered.entry(id).or_insert(numbered).servers += 1;
        Some(id)
    }

    fn fresh(&self) -> Option<HopId> {
        let next = self.numbered.len() + self.free.len();
        u32::try_from(next).ok().filter(|_| next < self.max).map(HopId)
    }

    /// Ends the making of a snapshot of this version: what nobody wanted is on its way out.
    pub fn settle(&mut self, version: u64) {
        for numbered in self.numbered.values_mut() {
            numbered.unused_since = match (numbered.servers, numbered.unused_since) {
                (0, None) => Some(version),
                (0, since) => since,
                _ => None,
            };
        }
    }

    /// One server less is behind a hop, between two snapshots: its slot became free.
    pub fn release(&mut self, id: HopId) {
        if let Some(numbered) = self.numbered.get_mut(&id) {
            numbered.servers = numbered.servers.saturating_sub(1);
        }
    }

    /// Begins the making of a snapshot.
    pub fn begin(&mut self) {
        self.numbered.values_mut().for_each(|n| n.servers = 0);
    }

    /// Gives numbers free; `applied` is the oldest version that an lcore uses.
    pub fn reclaim(&mut self, applied: u64) {
        let gone =
            self.numbered.iter().filter(|(_, n)| n.unused_since.is_some_and(|v| v <= applied));
        let gone: Vec<HopId> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(numbered) = self.numbered.remove(&id) {
                self.by_hop.remove(&numbered.hop);
                self.free.push_back(id);
            }
        }
    }

    /// Those in use, with the number of servers behind each.
    pub fn in_use(&self) -> impl Iterator<Item = (HopId, NextHop, usize)> {
        let used = self.numbered.iter().filter(|(_, n)| n.servers > 0);
        used.map(|(id, n)| (*id, n.hop, n.servers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(last: u8) -> NextHop {
        let address = IpAddr::from([10, 0, 0, last]);
        NextHop { port: 0, address, mac: None, source: IpAddr::from([10, 0, 0, 1]) }
    }

    #[test]
    fn a_number_is_free_only_when_no_lcore_can_name_it() {
        let mut hops = Hops::new(2);
        hops.begin();
        let first = hops.want(hop(2)).unwrap();
        assert_eq!(hops.want(hop(2)), Some(first));
        let second = hops.want(hop(3)).unwrap();
        hops.settle(1);
        hops.begin();
        hops.want(hop(3));
        assert_eq!(hops.want(hop(4)), None, "all numbers are taken");
        hops.settle(2);
        hops.reclaim(1);
        hops.begin();
        assert_eq!(hops.want(hop(4)), None, "an lcore may still use version 1");
        assert_eq!(hops.want(hop(3)), Some(second));
        hops.settle(3);
        hops.reclaim(2);
        hops.begin();
        assert_eq!(hops.want(hop(4)), Some(first));
    }

    #[test]
    fn a_hop_that_is_wanted_again_in_time_keeps_its_number() {
        let mut hops = Hops::new(4);
        hops.begin();
        let id = hops.want(hop(2));
        hops.settle(1);
        hops.begin();
        hops.settle(2);
        hops.begin();
        assert_eq!(hops.want(hop(2)), id);
        hops.settle(3);
        hops.reclaim(9);
        assert_eq!(hops.in_use().count(), 1);
    }
}
