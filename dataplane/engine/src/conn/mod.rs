//! This lcore's connections: entries, the table that finds them, the states of TCP.

pub mod tcp_state;
