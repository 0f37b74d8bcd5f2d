//! The fate of a packet that goes no further: exactly one verdict, and every drop has a name.

crate::registry! {
    /// Why a packet was dropped. One line is a variant, its counter and its text.
    pub enum DropReason {
        /// The frame ends before its headers do.
        Truncated = "truncated",
        /// A header field contradicts another (version, header length, total length, data offset).
        BadHeader = "bad-header",
        /// The checksum of an IPv4 header, or of a ping, is wrong (RFC 1122 3.2.1.2, 3.2.2).
        BadChecksum = "bad-checksum",
        /// A source that no host may use: zero, loopback, multicast, broadcast, or the destination.
        BadSource = "bad-source",
        /// Source or destination port zero (RFC 6335 6).
        ZeroPort = "zero-port",
        /// Sent to another station's hardware address.
        OtherStation = "other-station",
        /// A fragment: it has no ports, and this release does not reassemble.
        Fragment = "fragment",
        /// The address is a VIP, but no service has this protocol and port.
        NoService = "no-service",
        /// The service has no server that may take a new connection.
        NoServer = "no-server",
        /// Neither the start of a connection nor part of a known one.
        Stray = "stray",
        /// A client's SYN+ACK: nothing a client of a service would send.
        SynAck = "syn-ack",
        /// TTL 1 or 0: it may go no further (RFC 791).
        TtlExpired = "ttl-expired",
        /// It does not fit the way to its server and must not be fragmented.
        TooBig = "too-big",
        /// The buffer has no room for another header.
        NoHeadroom = "no-headroom",
        /// The next hop's hardware address is unknown and its wait queue is full.
        NeighbourQueueFull = "neighbour-queue-full",
        /// The next hop did not answer in time.
        NoNeighbour = "no-neighbour",
        /// The owning lcore's hand-over ring is full.
        HandOverFull = "hand-over-full",
        /// An answer was due, but the limit of such answers is used up.
        ReplyLimited = "reply-limited",
        /// ICMP that this release neither answers nor forwards.
        IcmpIgnored = "icmp-ignored",
        /// ARP that is malformed, or asks for an address that is not ours.
        ArpIgnored = "arp-ignored",
        /// Buffers in several segments that do not fit one.
        Unusable = "unusable",
    }
}

/// What happens to a packet that is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Turned into an answer to its sender.
    Reply,
    /// Not for a service: the kernel's business, or (ARP replies to us) the control thread's.
    Punt,
    /// Belongs to this lcore.
    HandOver(u16),
    /// Waits for its next hop's hardware address.
    Park,
    /// Ends here.
    Drop(DropReason),
}
