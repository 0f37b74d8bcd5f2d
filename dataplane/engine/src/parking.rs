//! Packets that wait for a next hop's hardware address.
//!
//! A fixed pool of places, and a line of places for each hop. One hop may fill 16 of them, and a hop
//! that has none waiting always finds one as long as a quarter of the pool is free: the last quarter
//! is for first packets. So a flood towards one dead server takes no room from others. A packet
//! waits for [`PATIENCE`] at most. A line keeps its order, and who comes while it is not empty joins
//! it, so packets of one flow do not overtake each other when its next hop becomes known.

use std::collections::VecDeque;

use crate::frame::Frame;
use crate::neigh::{HopId, HopTable, PortId};
use crate::ticks::{TickSpan, Ticks};

/// Places in all, per lcore.
pub const PLACES: usize = 1024;
/// Places one hop may fill.
pub const PER_HOP: u16 = 16;
/// How long a packet waits.
pub const PATIENCE: TickSpan = TickSpan::from_secs(3);

/// Index of a place.
type At = u16;

struct Place<F> {
    packet: Option<(F, PortId)>,
    since: Ticks,
    /// The place behind it in its line, or among the free ones.
    next: At,
}

/// The packets for one hop, from first to last.
#[derive(Clone, Copy, Default)]
struct Line {
    first: At,
    last: At,
    len: u16,
    /// Whether the hop was asked for and may still answer.
    asked: bool,
}

/// The packets of one lcore that wait for next hops.
pub struct Parking<F> {
    places: Box<[Place<F>]>,
    free: At,
    len: usize,
    /// By hop.
    lines: Box<[Line]>,
    /// Hops whose line is not empty; the first one was not looked at for longest.
    hops: VecDeque<HopId>,
}

/// Why a packet leaves.
#[derive(Debug)]
pub enum Leaving<F> {
    /// Its next hop is known: it goes through the pipeline again.
    Ready(F, PortId),
    /// Its time is up.
    GivenUp(F),
}

impl<F: Frame> Parking<F> {
    /// An empty one for `max_hops` next hops.
    #[must_use]
    pub fn new(max_hops: usize) -> Self {
        let place = |next| Place { packet: None, since: Ticks(0), next };
        Self {
            places: (1..=PLACES as At).map(place).collect(),
            free: 0,
            len: 0,
            lines: vec![Line::default(); max_hops].into(),
            hops: VecDeque::with_capacity(max_hops.min(PLACES)),
        }
    }

    /// How many packets wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// For how many hops packets wait.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.hops.len()
    }

    /// Whether packets wait for this hop.
    #[must_use]
    pub fn has_line(&self, hop: HopId) -> bool {
        self.lines[hop.0 as usize].len > 0
    }

    /// Lets a packet wait. Returns whether its hop must be asked for: it is the first one in its
    /// line, or one before it waited in vain.
    ///
    /// # Errors
    /// The frame comes back when the hop's share, or the pool, is full.
    pub fn park(&mut self, frame: F, port: PortId, hop: HopId, now: Ticks) -> Result<bool, F> {
        let line = &mut self.lines[hop.0 as usize];
        let places = if line.len == 0 { PLACES } else { PLACES * 3 / 4 };
        if line.len >= PER_HOP || self.len >= places {
            return Err(frame);
        }
        let at = self.free;
        let place = &mut self.places[usize::from(at)];
        self.free = place.next;
        (place.packet, place.since) = (Some((frame, port)), now);
        if line.len == 0 {
            line.first = at;
            self.hops.push_back(hop);
        } else {
            self.places[usize::from(line.last)].next = at;
        }
        (line.last, line.len) = (at, line.len + 1);
        self.len += 1;
        Ok(!std::mem::replace(&mut line.asked, true))
    }

    /// The next packet that leaves the line that was not looked at for longest. `None`: nobody
    /// leaves it, and the next call looks at the next line.
    pub fn leave(&mut self, hops: &HopTable, now: Ticks) -> Option<Leaving<F>> {
        let hop = *self.hops.front()?;
        let line = &mut self.lines[hop.0 as usize];
        let at = line.first;
        let place = &mut self.places[usize::from(at)];
        let ready = hops.hop(hop).is_reachable();
        if !ready && now.since(place.since) < PATIENCE {
            self.hops.rotate_left(1);
            return None;
        }
        let (frame, port) = place.packet.take()?;
        line.first = std::mem::replace(&mut place.next, self.free);
        self.free = at;
        line.len -= 1;
        self.len -= 1;
        line.asked &= ready && line.len > 0;
        if line.len == 0 {
            self.hops.pop_front();
        }
        Some(if ready { Leaving::Ready(frame, port) } else { Leaving::GivenUp(frame) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Mac;
    use crate::testkit::HeapFrame;

    fn numbered(n: u8) -> HeapFrame {
        HeapFrame::new(&[n])
    }

    fn leaves(parking: &mut Parking<HeapFrame>, hops: &HopTable, now: Ticks) -> Vec<(bool, u8)> {
        let mut all = Vec::new();
        let mut idle = parking.hops();
        while idle > 0 {
            match parking.leave(hops, now) {
                Some(Leaving::Ready(f, _)) => all.push((true, f.bytes()[0])),
                Some(Leaving::GivenUp(f)) => all.push((false, f.bytes()[0])),
                None => idle -= 1,
            }
            idle = idle.min(parking.hops());
        }
        all
    }

    #[test]
    fn lines_keep_their_order_whatever_is_looked_at_between() {
        let (mut parking, hops) = (Parking::new(3), HopTable::new(3));
        for n in 0..30 {
            assert!(parking.park(numbered(n), 0, HopId(u32::from(n) % 3), Ticks(0)).is_ok());
            let _ = parking.leave(&hops, Ticks(0));
        }
        hops.set(HopId(1), 0, Some(Mac([2; 6])));
        let ready: Vec<_> = (0..10).map(|n| (true, n * 3 + 1)).collect();
        assert_eq!(leaves(&mut parking, &hops, Ticks(1)), ready);
        assert_eq!((parking.len(), parking.hops(), parking.has_line(HopId(1))), (20, 2, false));
    }

    #[test]
    fn a_flood_leaves_places_to_first_packets() {
        let (mut parking, hops) = (Parking::new(PLACES + 1), HopTable::new(PLACES + 1));
        let mut refused = 0;
        for hop in 0..PLACES as u32 / 4 + 48 {
            for n in 0..20 {
                match parking.park(numbered(n), 0, HopId(hop), Ticks(0)) {
                    Ok(asks) => assert_eq!(asks, n == 0),
                    Err(_) => {
                        assert_ne!(n, 0, "a first packet finds a place");
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!((parking.len(), refused), (PLACES, (PLACES / 4 + 48) * 20 - PLACES));
        assert!(parking.park(numbered(0), 0, HopId(PLACES as u32), Ticks(0)).is_err());
        assert_eq!(leaves(&mut parking, &hops, Ticks(PATIENCE.0)).len(), PLACES);
    }

    #[test]
    fn a_hop_is_asked_for_again_when_a_packet_waited_in_vain() {
        let (mut parking, hops) = (Parking::new(1), HopTable::new(1));
        let park = |parking: &mut Parking<_>, at| parking.park(numbered(0), 0, HopId(0), at);
        assert_eq!(park(&mut parking, Ticks(0)), Ok(true));
        assert_eq!(park(&mut parking, Ticks(2000)), Ok(false));
        assert_eq!(leaves(&mut parking, &hops, Ticks(3000)), [(false, 0)]);
        assert_eq!(park(&mut parking, Ticks(3000)), Ok(true));
        assert_eq!(park(&mut parking, Ticks(3000)), Ok(false));
    }
}
