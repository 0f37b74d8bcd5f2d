//! Who has which hardware address: ARP (RFC 826) as a state machine without I/O or clock.
//!
//! ```text
//!                 heard                     30 s                    3 s
//!   Incomplete ──────────► Reachable ─────────────► Probe ────────────────► Stale
//!        │ 3 s                 ▲  a reply, any time   (asks the station)  (asks everybody)
//!        ▼                     │                                              │ 3 s
//!     Failed ──────────────────┴───────────────────────◄──────────────────────┘
//!   (no MAC; asks 1, 2, 4 … 16 s apart; at once when a packet waits)
//! ```
//! Up to `Stale` the MAC stays in use: a station that only lost an answer loses no packet. No hop is
//! asked for more than once a second. An overheard claim (request, announcement) is taken over at
//! once when it differs. Whenever a MAC changes, everybody is asked, so that the true owner of the
//! address contradicts a false one.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use engine::addr::{Addr, Mac};
use engine::mailbox::{ArpHeard, ArpOrder};
use engine::neigh::{HopId, HopTable, PortId};

use crate::hops::NextHop;

/// How long a confirmed MAC is believed, in ms.
pub const REACHABLE_MS: u64 = 30_000;
/// The least time between two questions for one hop, in ms.
pub const ASK_MS: u64 = 1_000;
/// The longest time between two questions for a failed hop, in ms.
pub const BACK_OFF_MS: u64 = 16_000;
/// Questions in each of `Incomplete`, `Probe` and `Stale`.
const QUESTIONS: u32 = 3;
/// Questions per tick, over all hops, so that a thousand hops do not ask in one burst.
const PER_TICK: usize = 32;

/// What is known of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never heard of.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// In use; the station itself is being asked.
    Probe,
    /// In use; everybody is being asked.
    Stale,
    /// Does not answer; not in use.
    Failed,
    /// Fixed by the config.
    Permanent,
}

impl State {
    /// The name in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Probe => "probe",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Permanent => "permanent",
        }
    }
}

/// One next hop.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// Where, and who asks.
    pub hop: NextHop,
    /// Servers behind it.
    pub servers: usize,
    /// What is known.
    pub state: State,
    /// Its MAC, as far as it is in use.
    pub mac: Option<Mac>,
    /// When it was confirmed last, in ms.
    pub confirmed_ms: Option<u64>,
    /// Questions since then.
    pub asked: u32,
    last_asked_ms: Option<u64>,
    due_ms: u64,
}

/// All next hops in use.
#[derive(Debug, Default)]
pub struct Neighbours {
    hops: HashMap<HopId, Neighbour>,
    by_address: HashMap<(PortId, Addr), Vec<HopId>>,
    due: BTreeSet<(u64, HopId)>,
}

impl Neighbours {
    /// Takes over what the newest snapshot names: new hops are asked for at once, others keep what
    /// is known of them.
    pub fn follow(
        &mut self,
        wanted: impl Iterator<Item = (HopId, NextHop, usize)>,
        table: &HopTable,
        now_ms: u64,
    ) {
        let mut before = std::mem::take(&mut self.hops);
        self.by_address.clear();
        self.due.clear();
        for (id, hop, servers) in wanted {
            let known = before.remove(&id).filter(|n| n.hop == hop);
            let fresh = || Neighbour::new(hop, now_ms);
            let neighbour = Neighbour { servers, ..known.unwrap_or_else(fresh) };
            table.set(id, hop.port, neighbour.mac);
            if neighbour.state != State::Permanent {
                self.due.insert((neighbour.due_ms, id));
            }
            self.by_address.entry((hop.port, hop.address.into())).or_default().push(id);
            self.hops.insert(id, neighbour);
        }
    }

    /// A packet waits for a hop: a failed one is asked for again as soon as may be.
    pub fn wanted(&mut self, id: HopId) {
        let Some(n) = self.hops.get_mut(&id).filter(|n| n.mac.is_none()) else { return };
        let soonest = n.last_asked_ms.map_or(0, |t| t + ASK_MS);
        if soonest < n.due_ms {
            self.due.remove(&(n.due_ms, id));
            n.due_ms = soonest;
            self.due.insert((n.due_ms, id));
        }
    }

    /// A station claimed an address. Only addresses that are next hops count.
    pub fn heard(&mut self, heard: ArpHeard, table: &HopTable, now_ms: u64) {
        if !heard.mac.is_station() {
            return;
        }
        let ids = self.by_address.get(&(heard.port, heard.addr)).cloned().unwrap_or_default();
        for id in ids {
            let Some(n) = self.hops.get_mut(&id).filter(|n| n.state != State::Permanent) else {
                continue;
            };
            let moved = n.mac != Some(heard.mac);
            if !heard.reply && !moved {
                continue;
            }
            self.due.remove(&(n.due_ms, id));
            n.learn(heard, now_ms);
            self.due.insert((n.due_ms, id));
            if moved {
                table.set(id, heard.port, n.mac);
            }
        }
    }

    /// The questions that are due now.
    pub fn tick(&mut self, table: &HopTable, now_ms: u64) -> Vec<ArpOrder> {
        let mut orders = Vec::new();
        while orders.len() < PER_TICK
            && let Some(&(due, id)) = self.due.first()
            && due <= now_ms
        {
            self.due.pop_first();
            let Some(n) = self.hops.get_mut(&id) else { continue };
            let had = n.mac;
            n.advance();
            orders.push(n.ask(now_ms));
            self.due.insert((n.due_ms, id));
            if n.mac != had {
                table.set(id, n.hop.port, n.mac);
            }
        }
        orders
    }

    /// All hops, by port and address.
    #[must_use]
    pub fn list(&self) -> Vec<Neighbour> {
        let mut all: Vec<Neighbour> = self.hops.values().copied().collect();
        all.sort_by_key(|n| (n.hop.port, n.hop.address));
        all
    }
}

impl Neighbour {
    const fn new(hop: NextHop, now_ms: u64) -> Self {
        let state = if hop.mac.is_some() { State::Permanent } else { State::Incomplete };
        Self {
            hop,
            servers: 0,
            state,
            mac: hop.mac,
            confirmed_ms: None,
            asked: 0,
            last_asked_ms: None,
            due_ms: now_ms,
        }
    }

    /// A reply confirms what was known, or is the first to say it. Any other claim is used, and
    /// everybody asked about it.
    fn learn(&mut self, heard: ArpHeard, now_ms: u64) {
        let confirms = heard.reply && self.mac.is_none_or(|known| known == heard.mac);
        self.mac = Some(heard.mac);
        self.asked = 0;
        self.confirmed_ms = Some(now_ms);
        if confirms {
            self.state = State::Reachable;
            self.due_ms = now_ms + REACHABLE_MS;
        } else {
            self.state = State::Stale;
            self.due_ms = self.last_asked_ms.map_or(now_ms, |t| now_ms.max(t + ASK_MS));
        }
    }

    /// The state in which the question that is due is asked.
    fn advance(&mut self) {
        let spent = self.asked >= QUESTIONS;
        self.state = match self.state {
            State::Reachable => State::Probe,
            State::Probe if spent => State::Stale,
            State::Stale if self.asked >= 2 * QUESTIONS => State::Failed,
            State::Incomplete if spent => State::Failed,
            same => same,
        };
        if self.state == State::Failed {
            self.mac = None;
        }
    }

    fn ask(&mut self, now_ms: u64) -> ArpOrder {
        self.asked = self.asked.saturating_add(1);
        self.last_asked_ms = Some(now_ms);
        let wait = match self.state {
            State::Failed => {
                // 1, 2, 4 … s from the first question of this state on.
                let doublings = self.asked.saturating_sub(QUESTIONS + 1).min(4);
                (ASK_MS << doublings).min(BACK_OFF_MS)
            }
            _ => ASK_MS,
        };
        self.due_ms = now_ms + wait;
        let to = if self.state == State::Probe { self.mac } else { None };
        ArpOrder {
            port: self.hop.port,
            sender: self.hop.source.into(),
            target: self.hop.address.into(),
            to,
        }
    }
}

/// Announces virtual addresses (RFC 5227 3): when one appears, and again 1, 2, 4 and 8 s later, for
/// neighbours that lost the first; and once when another station claims it (RFC 5227 2.4 c).
#[derive(Debug, Default)]
pub struct Announcer {
    /// Address and port: how often it was said, and when it is due again.
    waiting: HashMap<(IpAddr, PortId), (u32, u64)>,
    known: BTreeSet<(IpAddr, PortId)>,
    /// When an address was last defended.
    defended: HashMap<(IpAddr, PortId), u64>,
}

impl Announcer {
    const TIMES: u32 = 5;
    /// The least time between two defences of an address, in ms (RFC 5227 1.1, DEFEND_INTERVAL).
    const DEFEND_MS: u64 = 10_000;

    /// Takes over which addresses are answered for on which ports.
    pub fn follow(&mut self, wanted: BTreeSet<(IpAddr, PortId)>, now_ms: u64) {
        for new in wanted.difference(&self.known) {
            self.waiting.insert(*new, (0, now_ms));
        }
        self.waiting.retain(|key, _| wanted.contains(key));
        self.defended.retain(|key, _| wanted.contains(key));
        self.known = wanted;
    }

    /// Another station claimed an address of ours: its neighbours are told better.
    pub fn defend(&mut self, key: (IpAddr, PortId), now_ms: u64) {
        let lately = self.defended.get(&key).is_some_and(|at| now_ms < at + Self::DEFEND_MS);
        if self.known.contains(&key) && !lately {
            self.defended.insert(key, now_ms);
            self.waiting.entry(key).or_insert((Self::TIMES - 1, now_ms)).1 = now_ms;
        }
    }

    /// The announcements that are due now, a bounded number.
    pub fn tick(&mut self, now_ms: u64) -> Vec<ArpOrder> {
        let mut orders = Vec::new();
        for ((address, port), (said, due)) in &mut self.waiting {
            if *due > now_ms || orders.len() == PER_TICK {
                continue;
            }
            let addr = Addr::from(*address);
            orders.push(ArpOrder { port: *port, sender: addr, target: addr, to: None });
            *due = now_ms + (1_000 << *said);
            *said += 1;
        }
        self.waiting.retain(|_, (said, _)| *said < Self::TIMES);
        orders
    }
}

#[cfg(test)]
mod tests;
