//! The client half of a TCP connection, as a director sees it in direct routing and tunnels.
//!
//! Replies go past the director, so only the client's packets move the state: LVS calls this
//! table *input only*.
//!
//! Of the states, a director that sees no replies reaches six; the others exist for NAT, which sees
//! both halves.

use crate::snapshot::Timeouts;

crate::registry! {
    /// The state of a connection's client half.
    pub enum ConnState {
        /// No packet counted yet.
        None = "NONE",
        /// The handshake is complete.
        Established = "ESTABLISHED",
        /// The server's SYN was seen (NAT).
        SynSent = "SYN_SENT",
        /// The client's SYN was seen.
        SynRecv = "SYN_RECV",
        /// The client's FIN was seen.
        FinWait = "FIN_WAIT",
        /// Both FINs were seen, or a FIN in the handshake.
        TimeWait = "TIME_WAIT",
        /// A reset was seen.
        Close = "CLOSE",
        /// The server's FIN was seen (NAT).
        CloseWait = "CLOSE_WAIT",
        /// The last acknowledgement is due (NAT).
        LastAck = "LAST_ACK",
        /// Unused by LVS's tables, kept for its numbers.
        Listen = "LISTEN",
        /// Any UDP flow.
        Udp = "UDP",
        /// The client's next segment is answered by a reset: its server gives connections up.
        Reset = "RESET",
    }
}

/// What a client's segment does to the state; the strongest flag counts, as in LVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpEvent {
    /// SYN.
    Syn,
    /// FIN.
    Fin,
    /// ACK alone.
    Ack,
    /// RST.
    Rst,
    /// None of them: nothing moves.
    None,
}

impl TcpEvent {
    /// From the flags byte of a TCP header (RFC 9293 3.1): RST before SYN before FIN before ACK.
    #[inline(always)]
    #[must_use]
    pub const fn from_flags(flags: u8) -> Self {
        if flags & 0x04 != 0 {
            Self::Rst
        } else if flags & 0x02 != 0 {
            Self::Syn
        } else if flags & 0x01 != 0 {
            Self::Fin
        } else if flags & 0x10 != 0 {
            Self::Ack
        } else {
            Self::None
        }
    }
}

/// LVS's input-only table: rows are what the client sent, columns the state before.
#[rustfmt::skip]
const AFTER: [[ConnState; 10]; 4] = {
    use ConnState::{
        Close as CL, CloseWait as CW, Established as ES, FinWait as FW, LastAck as LA,
        Listen as LI, SynRecv as SR, SynSent as SS, TimeWait as TW,
    };
    [ //          None ES  SS  SR  FW  TW  CL  CW  LA  LI
        /* syn */ [SR, ES, ES, SR, SR, SR, SR, SR, SR, SR],
        /* fin */ [CL, FW, SS, TW, FW, TW, CL, CW, LA, LI],
        /* ack */ [ES, ES, SS, ES, FW, TW, CL, CW, CL, LI],
        /* rst */ [CL, CL, CL, SR, CL, CL, CL, CL, LA, LI],
    ]
};

impl ConnState {
    /// The state after the client's `event`.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, event: TcpEvent) -> Self {
        if matches!(self, Self::Udp | Self::Reset) || matches!(event, TcpEvent::None) {
            return self;
        }
        AFTER[event as usize][self as usize]
    }

    /// Whether the connection counts as ActiveConn: half-open and established TCP (LVS).
    #[inline(always)]
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Established | Self::SynSent | Self::SynRecv)
    }

    /// From the byte an entry stores.
    #[inline(always)]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        let all = Self::ALL;
        if (byte as usize) < all.len() { all[byte as usize] } else { Self::None }
    }

    /// Idle time after which a connection in this state ends, in seconds.
    #[inline(always)]
    #[must_use]
    pub const fn timeout(self, t: &Timeouts) -> u32 {
        match self {
            Self::Established | Self::Reset => t.tcp,
            Self::FinWait => t.tcp_fin,
            Self::Udp => t.udp,
            Self::SynRecv | Self::CloseWait => 60,
            Self::SynSent | Self::TimeWait | Self::Listen => 120,
            Self::None | Self::Close => 10,
            Self::LastAck => 30,
        }
    }
}
