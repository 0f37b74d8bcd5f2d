//! This lcore's connections: entries, the table that finds them, the states of TCP.

pub mod entry;
pub mod table;
pub mod tcp_state;
pub mod wheel;
