//! Frames in words, for incoming and expected ones alike:
//!
//! ```text
//!  peer>us tcp 198.51.100.7:40000 > 192.0.2.10:80 flags=S ttl=63 data=hello
//!  us>rs2 ip 192.0.2.1 > 203.0.113.5 proto=4 ttl=62 carrying tcp 198.51.100.7:40000 > …
//!  peer>all arp request 192.0.2.254 > 192.0.2.10
//! ```
//! First who sends to whom: `us`, `peer`, `all`, `group`, a server's name, or a MAC. Then the
//! protocol, both ends, and `key=value` words as [`option`] knows them. `carrying` makes the packet
//! that follows, without its Ethernet header, the data. What is not said is as in
//! [`engine::testkit::craft`]: TTL 64, DF set, checksums right.

use engine::addr::Mac;
use engine::frame::Frame;
use engine::testkit::craft::{self, Craft, PEER, STATION};

/// The bytes of the frame that `text` describes. `servers` are names whose MAC is
/// [`server_mac`] of their index. Panics, with the text, at anything it does not know.
pub(crate) fn frame(text: &str, servers: &[String]) -> Vec<u8> {
    let (who, packet) = text.trim().split_once(' ').unwrap_or_else(|| panic!("no packet: {text}"));
    let (from, to) = who.split_once('>').unwrap_or_else(|| panic!("who sends? {text}"));
    let (from, to) = (mac(from, servers), mac(to, servers));
    match packet.strip_prefix("arp ") {
        Some(arp) => arp_frame(arp, from, to),
        None => ip(packet).macs(to, from).bytes(),
    }
}

/// The MAC address of the n-th server.
pub(crate) fn server_mac(n: usize) -> Mac {
    Mac([2, 0, 0, 0, 1, u8::try_from(n).unwrap()])
}

fn mac(name: &str, servers: &[String]) -> Mac {
    match name {
        "us" => STATION,
        "peer" => PEER,
        "all" => Mac::BROADCAST,
        "group" => Mac([1, 0, 0x5e, 0, 0, 1]),
        _ => match servers.iter().position(|s| s == name) {
            Some(n) => server_mac(n),
            None => name.parse().unwrap(),
        },
    }
}

/// `request 192.0.2.254 > 192.0.2.10` or `reply …`.
fn arp_frame(text: &str, from: Mac, to: Mac) -> Vec<u8> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [op, sender, ">", target] = words[..] else { panic!("no ARP: {text}") };
    let (oper, target_mac) = match op {
        "request" => (1, Mac::default()),
        "reply" => (2, to),
        _ => panic!("no ARP operation: {op}"),
    };
    let frame = craft::arp(oper, (from, sender.into()), (target_mac, target.into()), to);
    frame.bytes().to_vec()
}

/// An IPv4 packet, everything behind the MAC addresses.
fn ip(text: &str) -> Craft {
    let (text, inner) = match text.split_once(" carrying ") {
        Some((outer, inner)) => (outer, Some(ip(inner).bytes().split_off(14))),
        None => (text, None),
    };
    let mut words = text.split_whitespace();
    let head: Vec<&str> = words.by_ref().take(4).collect();
    let [protocol, from, ">", to] = head[..] else { panic!("no packet: {text}") };
    let mut options: Vec<(&str, &str)> =
        words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
    let mut take = |key| {
        let at = options.iter().position(|(k, _)| *k == key);
        at.map_or(0, |at| u8::try_from(number(options.remove(at).1)).unwrap())
    };
    let craft = match protocol {
        "tcp" => craft::tcp(from, to),
        "udp" => craft::udp(from, to),
        "icmp" => craft::icmp(from, to, take("type"), take("code")),
        "ip" => craft::ip(from, to, take("proto")),
        _ => panic!("no protocol: {text}"),
    };
    let craft = options.into_iter().fold(craft, |craft, (key, value)| option(craft, key, value));
    inner.into_iter().fold(craft, |craft, inner| craft.payload(&inner))
}

/// One `key=value` word, or a word alone.
fn option(craft: Craft, key: &str, value: &str) -> Craft {
    let word = || u16::try_from(number(value)).unwrap();
    let byte = || u8::try_from(number(value)).unwrap();
    let len = || usize::try_from(number(value)).unwrap();
    match key {
        "ttl" => craft.ttl(byte()),
        "tos" => craft.tos(byte()),
        "id" => craft.may_fragment(word()),
        "fragment" => craft.fragment(word()),
        "options" => craft.options(&hex(value)),
        "flags" => craft.flags(value),
        "numbers" => {
            let (seq, ack) = value.split_once(',').unwrap();
            craft.numbers(number(seq), number(ack))
        }
        "window" => craft.window(word()),
        "tcp-options" => craft.tcp_options(&hex(value)),
        "rest" => craft.rest(hex(value).try_into().unwrap()),
        "data" => craft.payload(value.as_bytes()),
        "zeros" => craft.payload(&vec![0; len()]),
        "padded" => craft.padded(),
        "padding" => craft.padding(len()),
        "version" => craft.version(byte()),
        "ethertype" => craft.ethertype(word()),
        "total-len" => craft.total_len(word()),
        "data-offset" => craft.data_offset(byte()),
        "udp-len" => craft.udp_len(word()),
        "bad-ip-checksum" => craft.bad_ip_checksum(),
        "bad-checksum" => craft.bad_checksum(),
        "cut" => craft.cut(len()),
        _ => panic!("no such word: {key}"),
    }
}

/// A number, decimal or `0x…`.
fn number(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap_or_else(|_| panic!("no number: {text}")),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|d| u8::try_from(d[0] << 4 | d[1]).unwrap()).collect()
}
