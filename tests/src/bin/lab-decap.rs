//! The real server's end of an IPIP tunnel where the kernel has no `ipip` device (RFC 2003).
//!
//! A raw socket of protocol 4 receives whole outer packets; the inner packet goes out through a raw
//! socket that takes the header as it is. Its destination, the VIP, is an address of this machine,
//! so the kernel loops it through `lo` into its own TCP: no TUN device, no routes of its own. An
//! open socket of protocol 4 also keeps the kernel from answering "protocol unreachable".
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::Context;
use socket2::{Domain, Protocol, Socket, Type};

/// Protocol number of IPv4 in IPv4 (RFC 2003, section 3.1).
const IPIP: i32 = 4;
/// Protocol number that stands for "the header is mine" on Linux (raw(7)).
const RAW: i32 = 255;

fn main() -> anyhow::Result<()> {
    let mut tunnel = raw_socket(IPIP)?;
    let host = raw_socket(RAW)?;
    // Two thousand large packets may wait while this process does.
    tunnel.set_recv_buffer_size(4 << 20)?;
    let mut packet = [0; 65_536];
    loop {
        let length = tunnel.read(&mut packet).context("reading from the tunnel")?;
        let Some((inner, to)) = inner_packet(&packet[..length]) else { continue };
        // One packet that the kernel refuses (no such VIP here) must not end the tunnel.
        if let Err(error) = host.send_to(inner, &to.into()) {
            eprintln!("{to}: {error}");
        }
    }
}

fn raw_socket(protocol: i32) -> anyhow::Result<Socket> {
    Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol)))
        .with_context(|| format!("raw socket of protocol {protocol} (needs CAP_NET_RAW)"))
}

/// What an outer packet carries, and where that wants to go. None: not a whole IPv4 packet.
fn inner_packet(outer: &[u8]) -> Option<(&[u8], SocketAddrV4)> {
    let outer_header = usize::from(outer.first()? & 0x0f) * 4;
    let inner = outer.get(outer_header..)?;
    let header = inner.first_chunk::<20>()?;
    if header[0] >> 4 != 4 {
        return None;
    }
    let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    Some((inner, SocketAddrV4::new(to, 0)))
}
