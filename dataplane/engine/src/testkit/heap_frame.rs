//! A frame on the heap, and a pool of them that shows leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::frame::{Frame, FramePool, NoHeadroom};

/// Free bytes in front of a frame unless a test says otherwise: what DPDK leaves.
pub const HEADROOM: usize = 128;
/// Bytes that one buffer of a pool holds, headroom not counted: what DPDK's default leaves.
pub const CAPACITY: usize = 2048;

/// A [`Frame`] whose memory is a vector.
#[derive(Debug)]
pub struct HeapFrame {
    buffer: Vec<u8>,
    start: usize,
    live: Option<Live>,
}

impl HeapFrame {
    /// A frame of `bytes` with [`HEADROOM`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self::with_headroom(bytes, HEADROOM)
    }

    /// A frame of `bytes` with `headroom` free bytes in front, which are not zero: who grows the
    /// frame must write what it gained.
    #[must_use]
    pub fn with_headroom(bytes: &[u8], headroom: usize) -> Self {
        let mut buffer = vec![0xa5; headroom];
        buffer.extend_from_slice(bytes);
        Self { buffer, start: headroom, live: None }
    }
}

impl Frame for HeapFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }

    #[inline]
    fn grow_front(&mut self, len: usize) -> Result<&mut [u8], NoHeadroom> {
        self.start = self.start.checked_sub(len).ok_or(NoHeadroom)?;
        Ok(self.bytes_mut())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) {
        assert!(len <= self.bytes().len(), "a frame cannot lose more than it has");
        self.start += len;
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.buffer.truncate(self.start + len);
    }
}

impl Clone for HeapFrame {
    /// A copy; it counts as alive in no pool.
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), start: self.start, live: None }
    }
}

impl PartialEq for HeapFrame {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for HeapFrame {}

/// Makes heap frames, at most so many at a time.
#[derive(Clone, Debug)]
pub struct HeapPool {
    live: Arc<AtomicUsize>,
    limit: usize,
    headroom: usize,
}

impl HeapPool {
    /// A pool of at most `limit` living frames.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { live: Arc::default(), limit, headroom: HEADROOM }
    }

    /// The same pool, whose frames have `headroom` free bytes in front from now on.
    #[must_use]
    pub fn with_headroom(self, headroom: usize) -> Self {
        Self { headroom, ..self }
    }

    /// How many frames of this pool (and its clones) are alive; 0 at the end, or some leaked.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// A frame of `bytes`, or `None` when the limit is reached or they exceed [`CAPACITY`].
    #[must_use]
    pub fn frame(&mut self, bytes: &[u8]) -> Option<HeapFrame> {
        if bytes.len() > CAPACITY {
            return None;
        }
        let live = Live::new(&self.live, self.limit)?;
        let mut frame = HeapFrame::with_headroom(bytes, self.headroom);
        frame.live = Some(live);
        Some(frame)
    }
}

impl FramePool for HeapPool {
    type F = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        self.frame(&vec![0; len])
    }
}

/// One frame's share of a pool's count; gives it back when dropped.
#[derive(Debug)]
struct Live(Arc<AtomicUsize>);

impl Live {
    fn new(count: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let one_more = |n: usize| (n < limit).then_some(n + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_into_headroom_only() {
        let mut frame = HeapFrame::with_headroom(&[1, 2, 3], 4);
        assert!(frame.grow_front(5).is_err());
        assert_eq!(frame.bytes(), [1, 2, 3], "a refusal changes nothing");
        frame.grow_front(4).unwrap()[..4].fill(9);
        assert_eq!(frame.bytes(), [9, 9, 9, 9, 1, 2, 3]);
        frame.trim_front(5);
        frame.truncate(1);
        assert_eq!(frame.bytes(), [2]);
    }

    #[test]
    fn pool_counts_the_living() {
        let mut pool = HeapPool::new(2);
        let (a, b) = (pool.alloc(60).unwrap(), pool.frame(&[1]).unwrap());
        assert_eq!((pool.live(), pool.alloc(60).is_none()), (2, true));
        drop((a, b));
        assert_eq!(pool.live(), 0);
        assert!(pool.alloc(CAPACITY + 1).is_none());
    }
}
