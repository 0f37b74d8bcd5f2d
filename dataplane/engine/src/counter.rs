//! One number that one lcore counts and anybody may read.
//!
//! It is an atomic only so that another thread may read it; its single writer uses a plain load and
//! store, never a locked instruction.

use crate::sync::{AtomicU64, Ordering, own};

/// A number with one writer. Read by any thread, at most a moment old.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the one writer may call this.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(own!(self.0).wrapping_add(n), Ordering::Relaxed);
    }

    /// Replaces the value. Only the one writer may call this.
    #[inline(always)]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
