//! One packet buffer, whoever owns its memory.

/// A frame has too little free space in front of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeadroom;

/// A packet buffer that can be read, changed and grown at the front.
///
/// Two implementations: `dpdk::Mbuf`, and `testkit::HeapFrame`. A frame is one contiguous run of
/// bytes that starts with its Ethernet header. Dropping a frame frees its buffer.
pub trait Frame: Sized + Send {
    /// The whole frame.
    fn bytes(&self) -> &[u8];

    /// The whole frame, to be changed in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Adds `len` bytes of unspecified content in front and gives the whole grown frame.
    ///
    /// # Errors
    /// [`NoHeadroom`] when the buffer has less than `len` free bytes in front; nothing changes.
    fn grow_front(&mut self, len: usize) -> Result<&mut [u8], NoHeadroom>;

    /// Removes `len` bytes at the front.
    ///
    /// # Panics
    /// When the frame is shorter than `len`: a fault of the caller.
    fn trim_front(&mut self, len: usize);

    /// Shortens the frame to its first `len` bytes; longer than it is changes nothing.
    fn truncate(&mut self, len: usize);

    /// The first `N` bytes, when there are as many: one length check for a fixed window.
    #[inline(always)]
    fn head<const N: usize>(&self) -> Option<&[u8; N]> {
        self.bytes().first_chunk::<N>()
    }

    /// The first `N` bytes, to be changed in place.
    #[inline(always)]
    fn head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.bytes_mut().first_chunk_mut::<N>()
    }

    /// Frees all `frames` at once and leaves the vector empty.
    #[inline]
    fn free_bulk(frames: &mut FrameVec<Self>) {
        frames.clear();
    }
}

/// Most packets in one burst.
pub const BURST: usize = 32;

/// Up to one burst of frames, in place, no allocation.
pub type FrameVec<F> = arrayvec::ArrayVec<F, BURST>;

/// Makes empty frames, for packets that the director itself originates.
pub trait FramePool {
    /// What it makes.
    type F: Frame;

    /// A frame of `len` zeroed bytes with headroom, or `None` when the pool is empty or `len`
    /// exceeds what one buffer holds.
    fn alloc(&mut self, len: usize) -> Option<Self::F>;
}
