//! Captures as tests: `sluiced` reads frames from one file and writes what it forwards to another.
//!
//! No root, no interface: the device is `net_pcap`, and `--exit-when-idle` ends it.
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use etherparse::{Ipv4Header, PacketBuilder, PacketBuilderStep, TcpHeader};
use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use tests::{Scratch, both, daemon, program};

/// The address that DPDK gives to `net_pcap0`: "\x02pcap" and the number of the port.
const PORT_MAC: [u8; 6] = [0x02, 0x70, 0x63, 0x61, 0x70, 0x00];
const CLIENT_MAC: [u8; 6] = [0x02, 0, 0, 0, 0x0c, 0x01];
const SERVER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0x05, 0x01];
const CLIENT: [u8; 4] = [192, 0, 2, 101];
const DIRECTOR: [u8; 4] = [192, 0, 2, 2];
const VIP: [u8; 4] = [192, 0, 2, 10];
const SERVER: [u8; 4] = [192, 0, 2, 11];
const TTL: u8 = 61;
/// Ethernet header; IPv4 header without options.
const ETH: usize = 14;
const IP: usize = 20;

/// What a client sends in the life of one connection: SYN, ACK, a request, FIN.
fn client_frames() -> Vec<Vec<u8>> {
    let tcp = |seq| {
        let ip = PacketBuilder::ethernet2(CLIENT_MAC, PORT_MAC).ipv4(CLIENT, VIP, TTL);
        ip.tcp(40_000, 80, seq, 64_240)
    };
    let request = b"GET / HTTP/1.1\r\nHost: sluice\r\n\r\n";
    let steps = [
        (tcp(1000).syn(), &b""[..]),
        (tcp(1001).ack(5001), b""),
        (tcp(1001).ack(5001).psh(), request),
        (tcp(1001 + request.len() as u32).ack(5001).fin(), b""),
    ];
    let build = |(step, payload): (PacketBuilderStep<TcpHeader>, &[u8])| {
        let mut frame = Vec::new();
        step.write(&mut frame, payload).expect("a frame");
        frame.resize(frame.len().max(60), 0); // as short frames come from a wire
        frame
    };
    steps.into_iter().map(build).collect()
}

/// The client's IPv4 packet as its server must get it: one hop older, else the same.
fn one_hop_older(frame: &[u8]) -> Vec<u8> {
    let (mut header, _) = Ipv4Header::from_slice(&frame[ETH..]).expect("an IPv4 header");
    header.time_to_live -= 1;
    header.header_checksum = header.calc_header_checksum();
    let end = ETH + usize::from(header.total_len);
    [&header.to_bytes()[..], &frame[ETH + IP..end]].concat()
}

/// Runs the director over the frames and returns what it sent.
fn forwarded(story: &str, way: &str, frames: &[Vec<u8>]) -> anyhow::Result<Vec<Vec<u8>>> {
    let scratch = Scratch::new(story);
    let (from, to) = (scratch.path().join("in.pcap"), scratch.path().join("out.pcap"));
    write(&from, frames)?;
    let port = format!(
        "device = \"net_pcap0,rx_pcap={},tx_pcap={}\"\naddresses = [\"192.0.2.2/24\"]\ngarp = false\n",
        from.display(),
        to.display()
    );
    let service = format!(
        "[[service]]\nname = \"web\"\nlisten = \"tcp 192.0.2.10:80\"\nscheduler = \"rr\"\n\
         forward = \"{way}\"\n\
         servers = [{{ address = \"192.0.2.11\", mac = \"02:00:00:00:05:01\" }}]\n"
    );
    let config = scratch.path().join("sluice.toml");
    std::fs::write(&config, daemon::config(scratch.path(), &[0], &port, &service))?;
    let mut sluiced = Command::new("timeout");
    sluiced.arg("30").arg(program("sluiced")).arg("--config").arg(config).arg("--exit-when-idle");
    let output = sluiced.output()?;
    ensure!(output.status.success(), "sluiced: {}\n{}", output.status, both(&output));
    read(&to)
}

fn write(path: &Path, frames: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut file = PcapWriter::new(File::create(path)?)?;
    for frame in frames {
        let length = u32::try_from(frame.len())?;
        file.write_packet(&PcapPacket::new(Duration::ZERO, length, frame)?)?;
    }
    Ok(file.flush()?)
}

fn read(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut file = PcapReader::new(File::open(path)?)?;
    let mut frames = Vec::new();
    while let Some(packet) = file.next_packet() {
        frames.push(packet?.data().to_vec());
    }
    Ok(frames)
}

#[test]
fn direct_routing_changes_macs_ttl_and_checksum_alone() {
    let sent = client_frames();
    let got = forwarded("pcap-dr", "dr", &sent).expect("a clean run");
    assert_eq!(got.len(), sent.len(), "as many frames out as in");
    for (sent, got) in sent.iter().zip(&got) {
        assert_eq!(got[..6], SERVER_MAC, "to the server");
        assert_eq!(got[6..12], PORT_MAC, "from the port");
        assert_eq!(got[12..ETH], [0x08, 0x00], "IPv4");
        let packet = one_hop_older(sent);
        assert_eq!(got[ETH..ETH + packet.len()], packet, "the packet, one hop older");
    }
}

#[test]
fn a_tunnel_carries_that_same_packet() {
    let sent = client_frames();
    let got = forwarded("pcap-ipip", "tunnel", &sent).expect("a clean run");
    assert_eq!(got.len(), sent.len(), "as many frames out as in");
    for (sent, got) in sent.iter().zip(&got) {
        let (outer, inner) = Ipv4Header::from_slice(&got[ETH..]).expect("an outer header");
        let packet = one_hop_older(sent);
        assert_eq!(got[..6], SERVER_MAC, "to the server");
        assert_eq!((outer.source, outer.destination), (DIRECTOR, SERVER));
        assert_eq!(outer.protocol.0, 4, "IPv4 in IPv4");
        assert_eq!(usize::from(outer.total_len), IP + packet.len());
        assert_eq!(outer.time_to_live, packet[8], "outer TTL = inner TTL");
        assert_eq!(outer.dont_fragment, packet[6] & 0x40 != 0, "DF copied");
        assert_eq!(outer.header_checksum, outer.calc_header_checksum());
        assert_eq!(inner[..packet.len()], packet, "the packet, one hop older");
    }
}

/// A capture without traffic for any service: nothing comes out, and the daemon still ends.
#[test]
fn strangers_are_not_forwarded() {
    let other = PacketBuilder::ethernet2(CLIENT_MAC, PORT_MAC).ipv4(CLIENT, [192, 0, 2, 99], TTL);
    let mut frame = Vec::new();
    other.udp(5000, 53).write(&mut frame, &[0; 30]).expect("a frame");
    let got = forwarded("pcap-other", "dr", &[frame]).expect("a clean run");
    assert_eq!(got, Vec::<Vec<u8>>::new());
}
