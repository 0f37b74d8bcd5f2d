//! One packet buffer of DPDK, owned.

use dpdk_sys::{
    RTE_MBUF_F_RX_IP_CKSUM_BAD, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD,
    RTE_MBUF_F_RX_L4_CKSUM_GOOD, SLUICE_OFF_BUF_ADDR, SLUICE_OFF_BUF_LEN, SLUICE_OFF_DATA_LEN,
    SLUICE_OFF_DATA_OFF, SLUICE_OFF_NB_SEGS, SLUICE_OFF_OL_FLAGS, SLUICE_OFF_PKT_LEN, fast::at,
    rte_mbuf, sluice_off, sluice_pktmbuf_free, sluice_pktmbuf_free_bulk, sluice_pktmbuf_linearize,
};
use engine::frame::{Frame, FrameVec, NoHeadroom};
use std::{mem::ManuallyDrop, ptr::NonNull, slice};

/// A packet buffer that this value owns alone; dropping it gives the buffer back to its pool.
///
/// One segment, never shared: what a device delivers otherwise becomes so, or is freed, before it
/// becomes an `Mbuf`. `Option<Mbuf>` is a pointer wide.
#[repr(transparent)]
pub struct Mbuf(NonNull<rte_mbuf>);

const _: () = assert!(size_of::<Option<Mbuf>>() == size_of::<*mut rte_mbuf>());

// SAFETY: an mbuf belongs to no thread; its pool may be used by all. The value is not `Sync`.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// Takes over an mbuf.
    ///
    /// # Safety
    /// `raw` is a whole packet of one segment from a pool of this crate, nobody else uses or frees
    /// it, and its reference count is 1.
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<rte_mbuf>) -> Self {
        Self(raw)
    }

    /// Gives the mbuf away, to be freed by whoever takes it.
    #[must_use]
    pub fn into_raw(self) -> NonNull<rte_mbuf> {
        ManuallyDrop::new(self).0
    }

    /// Whether the device checked a checksum of this frame and found it wrong. Never so when the
    /// port was not asked to check, or cannot.
    #[must_use]
    #[inline]
    pub fn has_bad_checksum(&self) -> bool {
        let flags = self.get::<u64>(SLUICE_OFF_OL_FLAGS);
        // Both bits of a pair mean "not filled in, but the data is intact".
        let is_bad = |bad, good| flags & (bad | good) == bad;
        is_bad(RTE_MBUF_F_RX_IP_CKSUM_BAD, RTE_MBUF_F_RX_IP_CKSUM_GOOD)
            || is_bad(RTE_MBUF_F_RX_L4_CKSUM_BAD, RTE_MBUF_F_RX_L4_CKSUM_GOOD)
    }

    /// Sets the length to `len`, which must not exceed what lies behind the start of the data.
    pub(crate) fn set_len(&mut self, len: usize) {
        let start = self.get::<u16>(SLUICE_OFF_DATA_OFF);
        let room = usize::from(self.get::<u16>(SLUICE_OFF_BUF_LEN) - start);
        assert!(len <= room, "a frame longer than its buffer");
        self.put_len(len);
    }

    #[inline(always)]
    fn get<T: Copy>(&self, off: sluice_off) -> T {
        // SAFETY: the mbuf is ours; every caller in this file names the field's C type.
        unsafe { *at(self.0.as_ptr(), off) }
    }

    #[inline(always)]
    fn put<T>(&mut self, off: sluice_off, value: T) {
        // SAFETY: as in `get`.
        unsafe { *at(self.0.as_ptr(), off) = value }
    }

    /// Writes both lengths: a frame has one segment.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "callers stay within a u16 buffer length")]
    pub(crate) fn put_len(&mut self, len: usize) {
        self.put(SLUICE_OFF_DATA_LEN, len as u16);
        self.put(SLUICE_OFF_PKT_LEN, len as u32);
    }

    #[inline(always)]
    fn start(&self) -> NonNull<u8> {
        let offset = usize::from(self.get::<u16>(SLUICE_OFF_DATA_OFF));
        // SAFETY: every mbuf of a pool has a buffer, and the data starts inside it, or at its end.
        unsafe { self.get::<NonNull<u8>>(SLUICE_OFF_BUF_ADDR).add(offset) }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        usize::from(self.get::<u16>(SLUICE_OFF_DATA_LEN))
    }
}

impl Frame for Mbuf {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: data_off + data_len lies within the buffer, which was initialised when the pool
        // was made; the borrow of `self` keeps writers away.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the buffer is not shared.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "len is at most a u16 here")]
    fn grow_front(&mut self, len: usize) -> Result<&mut [u8], NoHeadroom> {
        let offset = usize::from(self.get::<u16>(SLUICE_OFF_DATA_OFF));
        let left = offset.checked_sub(len).ok_or(NoHeadroom)?;
        self.put(SLUICE_OFF_DATA_OFF, left as u16);
        self.put_len(self.len() + len);
        Ok(self.bytes_mut())
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "len is at most a u16 here")]
    fn trim_front(&mut self, len: usize) {
        assert!(len <= self.len(), "trimming more than the frame has");
        let offset = self.get::<u16>(SLUICE_OFF_DATA_OFF);
        self.put(SLUICE_OFF_DATA_OFF, offset + len as u16);
        self.put_len(self.len() - len);
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.put_len(len);
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
    fn free_bulk(frames: &mut FrameVec<Self>) {
        let count = frames.len() as u32;
        // SAFETY: `Mbuf` is a transparent pointer, so the vector is an array of mbuf pointers; its
        // length is set to 0 first, so that none is freed twice.
        unsafe {
            frames.set_len(0);
            sluice_pktmbuf_free_bulk(frames.as_mut_ptr().cast(), count);
        }
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: the mbuf is ours, and this is the end of it.
        unsafe { sluice_pktmbuf_free(self.0.as_ptr()) }
    }
}

/// Makes a packet that a device delivered into a frame of one segment, or frees it.
///
/// # Safety
/// `raw` is a whole packet that the caller owns.
#[inline(always)]
pub(crate) unsafe fn one_segment(raw: NonNull<rte_mbuf>) -> Option<Mbuf> {
    // SAFETY: the caller owns the packet; nb_segs is a u16.
    unsafe {
        if *at::<u16>(raw.as_ptr(), SLUICE_OFF_NB_SEGS) == 1 {
            Some(Mbuf(raw))
        } else {
            joined(raw)
        }
    }
}

/// Rare: a frame longer than one buffer, or headers that the device split off.
///
/// # Safety
/// As for [`one_segment`].
#[cold]
unsafe fn joined(raw: NonNull<rte_mbuf>) -> Option<Mbuf> {
    // SAFETY: the caller owns the packet; linearize changes nothing when it fails.
    unsafe {
        if sluice_pktmbuf_linearize(raw.as_ptr()) == 0 {
            return Some(Mbuf(raw));
        }
        sluice_pktmbuf_free(raw.as_ptr());
    }
    None
}
