//! What the golden cases are made of: a director of one lcore, and packets in words.

pub(crate) mod director;
pub(crate) mod notation;
