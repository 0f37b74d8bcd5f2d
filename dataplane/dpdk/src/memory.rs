//! Memory for tables that live as long as the process.

use crate::error::{Error, Result};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
use std::{num::NonZeroUsize, ptr::NonNull, slice};

/// What a table got.
pub struct Table {
    /// Zeroed bytes, aligned to [`HUGE`].
    pub bytes: &'static mut [u8],
    /// Which pages they lie on.
    pub pages: Pages,
}

/// The pages of a table, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved hugepages of 2 MiB.
    Huge,
    /// Ordinary memory that the kernel was asked to back with pages of 2 MiB, which it does when it
    /// finds some.
    Transparent,
    /// Pages of 4 KiB: the kernel has no transparent hugepages. Every access then costs a walk of
    /// the page table as well.
    Small,
}

impl std::fmt::Display for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Huge => "reserved hugepages",
            Self::Transparent => "transparent hugepages",
            Self::Small => "pages of 4 KiB",
        })
    }
}

/// Whether memory is made present now or when it is first touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Now, so that no packet waits for the kernel: up to 3 s per gigabyte.
    Now,
    /// When first used.
    Later,
}

/// Bytes of a hugepage, and the alignment of a table.
pub const HUGE: usize = 2 << 20;

/// `len` zeroed bytes on the largest pages that can be had. They are never given back.
///
/// # Errors
/// [`Error::Setting`] for a length of 0 or beyond the address space, [`Error::System`] when there is
/// too little memory.
pub fn zeroed_huge(len: usize, touch: Touch) -> Result<Table> {
    let wrong = || Error::Setting(format!("a table of {len} bytes"));
    let whole = len.checked_next_multiple_of(HUGE).and_then(NonZeroUsize::new).ok_or_else(wrong)?;
    // Reserved pages are all there at once or not at all, so nothing faults later.
    let reserved = MapFlags::MAP_HUGETLB | MapFlags::MAP_HUGE_2MB | MapFlags::MAP_POPULATE;
    let (start, pages) = match map(whole, reserved) {
        Ok(start) => (start, Pages::Huge),
        Err(_) => aligned(whole)?,
    };
    // SAFETY: the mapping is private, readable and writable, at least `len` bytes from `start`,
    // zeroed by the kernel, and never unmapped; nobody else knows it.
    let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) };
    if touch == Touch::Now {
        for page in bytes.chunks_mut(4096) {
            // A volatile store of the zero that is there: the compiler must not drop it.
            // SAFETY: the pointer is one of the slice.
            unsafe { page.as_mut_ptr().write_volatile(0) }
        }
    }
    Ok(Table { bytes, pages })
}

/// Ordinary memory, aligned to a hugepage so that the kernel can back it with hugepages.
fn aligned(len: NonZeroUsize) -> Result<(NonNull<u8>, Pages)> {
    let failed =
        |errno| Error::System { what: format!("a table of {} MB", len.get() >> 20), errno };
    // The slack at both ends is address space only; it is never touched.
    let room = len.saturating_add(HUGE);
    let start = map(room, MapFlags::empty()).map_err(failed)?;
    // SAFETY: the offset is below HUGE, which is the room beyond `len`.
    let start = unsafe { start.add(start.align_offset(HUGE)) };
    // SAFETY: advice about a range of the mapping just made.
    let advised = unsafe { madvise(start.cast(), len.get(), MmapAdvise::MADV_HUGEPAGE) };
    Ok((start, if advised.is_ok() { Pages::Transparent } else { Pages::Small }))
}

fn map(len: NonZeroUsize, more: MapFlags) -> nix::Result<NonNull<u8>> {
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    unsafe { mmap_anonymous(None, len, access, flags | more) }.map(NonNull::cast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_zeroed_aligned_and_writable() {
        let len = 3 * HUGE + 17;
        let table = zeroed_huge(len, Touch::Now).expect("6 MB");
        assert_eq!(table.bytes.len(), len);
        assert_eq!(table.bytes.as_ptr().align_offset(HUGE), 0);
        assert!(table.bytes.iter().all(|&b| b == 0));
        table.bytes[len - 1] = 1;
        assert_eq!(table.bytes[len - 1], 1);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(zeroed_huge(0, Touch::Later), Err(Error::Setting(_))));
        assert!(matches!(zeroed_huge(usize::MAX, Touch::Later), Err(Error::Setting(_))));
        assert!(matches!(zeroed_huge(1 << 50, Touch::Later), Err(Error::System { .. })));
    }
}
