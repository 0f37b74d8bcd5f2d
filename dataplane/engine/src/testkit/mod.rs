//! What tests need: frames on the heap, packets to order, queues in memory. Feature `testkit`.
//!
//! Nothing here is fast, and `craft` shares no code with [`crate::wire`]: a test that builds its
//! packets with the code it tries would agree with any fault.

pub mod craft;
pub mod heap_frame;
pub mod mem_queue;

pub use heap_frame::{HeapFrame, HeapPool};
pub use mem_queue::MemQueue;
