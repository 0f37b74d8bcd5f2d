//! Plays a case through a whole lcore: a SYN goes in, and the hardware address it leaves with says
//! who was picked.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddrV4;

use engine::addr::{Addr, L4Proto};
use engine::frame::Frame;
use engine::service::{ServiceKey, StrayPolicy};
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::testkit::craft;
use engine::testkit::world::{Size, server_mac};
use engine::ticks::TickSpan;

use super::recording::{Case, Change, Open};

/// What a client sees when nobody is picked.
const REFUSED: &str = "ECONNREFUSED";

/// By connection: the name of the server that the engine picks.
pub(crate) fn picks(case: &Case) -> Vec<String> {
    let vips: HashSet<_> = case.opens.iter().map(|open| open.vip).collect();
    let mut directors: HashMap<_, _> =
        vips.into_iter().map(|vip| (vip, Director::new(case, vip))).collect();
    let mut pick = |open: &Open| {
        for director in directors.values_mut() {
            open.changes.iter().for_each(|change| director.change(*change));
        }
        let director = directors.get_mut(&open.vip).expect("one for each");
        let slot = director.packet(open.client, "S");
        if case.closes {
            director.packet(open.client, "FA");
        }
        slot.map_or(REFUSED.to_owned(), |slot| {
            let (addr, port) = director.world.servers[slot as usize].at;
            case.name(addr.into(), port)
        })
    };
    case.opens.iter().map(&mut pick).collect()
}

/// One service on one lcore.
struct Director {
    world: World,
    vip: (Addr, u16),
}

impl Director {
    fn new(case: &Case, vip: SocketAddrV4) -> Self {
        let connections = case.opens.iter().filter(|open| open.vip == vip).count();
        let connections = u32::try_from(connections).expect("bounded by the reader");
        // Buckets fill unevenly: four times the room, so that no flow goes without an entry.
        let capacity = (connections * 4).max(256);
        let size = Size { lcores: 1, capacity, seed: 7, timeouts: Timeouts::default() };
        let vip = (Addr::from(*vip.ip()), vip.port());
        let key = ServiceKey { proto: L4Proto::Tcp, addr: vip.0, port: vip.1 };
        let mut director = Self { world: World::new(size), vip };
        director.world.add_service(key, case.kind, case.flags, StrayPolicy::Reset);
        case.servers.iter().for_each(|(at, weight)| director.change(Change::Add(*at, *weight)));
        director.world.publish();
        director
    }

    fn change(&mut self, change: Change) {
        let (Change::Add(at, _) | Change::Edit(at, _) | Change::Delete(at)) = change;
        let at = (Addr::from(*at.ip()), at.port());
        let known = (0..).zip(&self.world.servers).find(|(_, s)| s.at == at).map(|(slot, _)| slot);
        match (change, known) {
            (Change::Edit(_, weight), Some(slot)) => self.world.edit(slot, weight),
            (Change::Delete(_), Some(slot)) => self.world.remove(slot),
            (Change::Add(_, weight) | Change::Edit(_, weight), _) => {
                self.world.add_server(0, at, weight);
            }
            (Change::Delete(_), None) => {}
        }
        self.world.publish();
    }

    /// Sends a client's packet; the slot of the server that it leaves for.
    fn packet(&mut self, client: SocketAddrV4, flags: &str) -> Option<u32> {
        let from = (Addr::from(*client.ip()), client.port());
        let packet = craft::tcp(from, self.vip).flags(flags).build();
        let frame = self.world.pool.frame(packet.bytes()).expect("the pool is large");
        self.world.sites[0].wire_in.push(frame);
        self.world.turn();
        self.world.look();
        self.world.now = self.world.now + TickSpan(1);
        let servers = u32::try_from(self.world.servers.len()).expect("few");
        let slot = |to: &[u8]| (0..servers).find(|slot| server_mac(*slot).0 == to);
        self.world.sites[0].wire_out.drain().iter().find_map(|frame| slot(frame.bytes().get(..6)?))
    }
}
