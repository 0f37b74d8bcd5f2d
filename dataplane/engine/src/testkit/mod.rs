//! What tests need: frames on the heap, packets to order, queues in memory. Feature `testkit`.
//!
//! Nothing here is fast, and `craft` shares no code with [`crate::wire`]: a test that builds its
//! packets with the code it tries would agree with any fault.

pub mod craft;
pub mod heap_frame;
pub mod mem_queue;
pub mod world;

pub use heap_frame::{HeapFrame, HeapPool};
pub use mem_queue::MemQueue;
pub use world::World;

/// Zeroed memory for a [`crate::conn::table::ConnTable`], aligned as it wants, for ever.
#[must_use]
pub fn table_memory(len: usize) -> &'static mut [u8] {
    let all = Vec::leak(vec![0_u8; len + 64]);
    let skip = all.as_ptr().align_offset(64);
    &mut all[skip..skip + len]
}
