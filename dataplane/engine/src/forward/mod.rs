//! How a packet is brought to its real server: the contract, and the registry of forwarders.
//!
//! A forwarder is one file with one function that rewrites or encapsulates a frame, and one line in
//! the registry. The packet's way calls them grouped by kind (`pipeline.rs`).

crate::registry! {
    /// The name of a forwarding method.
    pub enum ForwarderKind {
        /// Direct routing: only the hardware addresses change; the server answers the client itself.
        Dr = "dr",
        /// IP in IP (RFC 2003): the server may be in another network.
        Ipip = "ipip",
    }
}
