//! Atomics: the standard library's, or loom's in model checks (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The one writer's look at what it wrote itself: a plain load.
///
/// Under loom it is a read-modify-write that changes nothing, because loom 0.7 explores a single
/// order of threads once a thread loads a cell and then stores to it, and a check that explores one
/// order proves nothing.
macro_rules! own {
    ($cell:expr) => {{
        #[cfg(not(loom))]
        let value = $cell.load(crate::sync::Ordering::Relaxed);
        #[cfg(loom)]
        let value = $cell.fetch_add(0, crate::sync::Ordering::Relaxed);
        value
    }};
}
pub(crate) use own;
