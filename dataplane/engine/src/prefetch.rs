//! Asking the CPU for a cache line before it is needed. The only unsafe code of the crate.
#![allow(unsafe_code)]

/// Starts to load the first line of `*what` into the nearest cache. Never faults, never waits.
#[inline(always)]
pub(crate) fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads no value and faults on no address; `what` is a valid
    // reference besides.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
