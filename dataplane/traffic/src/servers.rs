//! Where a director may send: real servers, known by station (direct routing) or address (tunnel).

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;

use engine::addr::{Addr, Mac};

/// A real server as the operator names it: `10.0.0.11`, `2001:db8::b`,
/// `02:00:00:00:00:0b` or an address and a station by `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub addr: Option<Addr>,
    /// Its station.
    pub mac: Mac,
}

impl Server {
    /// A server with an address alone has a station that follows from its last four bytes.
    #[must_use]
    pub const fn at(addr: Addr) -> Self {
        let [a, b, c, d] = addr.low4();
        Self { addr: Some(addr), mac: Mac([2, 0, a, b, c, d]) }
    }
}

impl FromStr for Server {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let addr = |text: &str| text.parse::<IpAddr>().map(Addr::from);
        if let Some((left, mac)) = text.split_once('@') {
            let addr = addr(left).map_err(|e| format!("{left:?}: {e}"))?;
            return Ok(Self { addr: Some(addr), mac: mac.parse()? });
        }
        match addr(text) {
            Ok(addr) => Ok(Self::at(addr)),
            Err(_) => Ok(Self { addr: None, mac: text.parse()? }),
        }
    }
}

/// What a frame says of where it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// To this station.
    Station(Mac),
    /// In a tunnel to this address.
    Tunnel(Addr),
}

/// All servers; without any named, they are learned as packets reach them.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    names: Vec<String>,
    places: HashMap<Place, u16>,
    learns: bool,
}

/// Most servers that are learned.
const MOST: usize = 4096;

impl Servers {
    /// Those named, or all that turn up.
    #[must_use]
    pub fn new(named: &[Server]) -> Self {
        let mut servers = Self { learns: named.is_empty(), ..Self::default() };
        for (server, n) in named.iter().zip(0..) {
            servers.places.insert(Place::Station(server.mac), n);
            if let Some(addr) = server.addr {
                servers.places.insert(Place::Tunnel(addr), n);
            }
            let addr = server.addr.map(|a| a.to_string());
            servers.names.push(addr.unwrap_or_else(|| server.mac.to_string()));
        }
        servers
    }

    /// The number of the server at a place; `None`: nobody's.
    #[inline]
    pub fn find(&mut self, place: Place) -> Option<u16> {
        self.places.get(&place).copied().or_else(|| self.learn(place))
    }

    fn learn(&mut self, place: Place) -> Option<u16> {
        if !self.learns || self.names.len() == MOST {
            return None;
        }
        let n = u16::try_from(self.names.len()).ok()?;
        self.names.push(match place {
            Place::Station(mac) => mac.to_string(),
            Place::Tunnel(addr) => addr.to_string(),
        });
        self.places.insert(place, n);
        Some(n)
    }

    /// Their names, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_address_or_station() {
        let mac = Mac([2, 0, 0, 0, 0, 0xb]);
        let parse = |text: &str| text.parse::<Server>();
        assert_eq!(parse("02:00:00:00:00:0b"), Ok(Server { addr: None, mac }));
        let addr = Addr::v4([10, 0, 0, 11]);
        assert_eq!(parse("10.0.0.11"), Ok(Server::at(addr)));
        assert_eq!(parse("10.0.0.11@02:00:00:00:00:0b"), Ok(Server { addr: Some(addr), mac }));
        let v6 = parse("2001:db8::1:b").expect("an address");
        assert_eq!(v6.mac, Mac([2, 0, 0, 1, 0, 0xb]));
        assert_eq!(parse("2001:db8::1:b@02:00:00:00:00:0b"), Ok(Server { mac, ..v6 }));
        assert!(parse("10.0.0").is_err() && parse("x@02:00:00:00:00:0b").is_err());
    }

    #[test]
    fn named_servers_are_all_there_are() {
        let mut servers = Servers::new(&[
            Server::at(Addr::v4([10, 0, 0, 1])),
            Server::at(Addr::v4([10, 0, 0, 2])),
        ]);
        assert_eq!(servers.find(Place::Tunnel(Addr::v4([10, 0, 0, 2]))), Some(1));
        assert_eq!(servers.find(Place::Station(Mac([2, 0, 10, 0, 0, 1]))), Some(0));
        assert_eq!(servers.find(Place::Tunnel(Addr::v4([10, 0, 0, 3]))), None);
        assert_eq!(servers.names(), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn unnamed_servers_are_learned() {
        let mut servers = Servers::new(&[]);
        assert_eq!(servers.find(Place::Tunnel(Addr::v4([10, 0, 0, 9]))), Some(0));
        assert_eq!(servers.find(Place::Station(Mac([2; 6]))), Some(1));
        assert_eq!(servers.find(Place::Tunnel(Addr::v4([10, 0, 0, 9]))), Some(0));
    }
}
