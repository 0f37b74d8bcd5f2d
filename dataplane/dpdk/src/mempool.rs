//! Pools of packet buffers, one per NUMA socket.

use crate::{
    eal::{Eal, Shared},
    error::{Errno, Error, Result},
    mbuf::Mbuf,
};
use dpdk_sys::{
    RTE_MEMPOOL_CACHE_MAX_SIZE, RTE_MEMPOOL_F_NO_IOVA_CONTIG, RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY,
    rte_mbuf, rte_mempool, rte_mempool_create_empty, rte_mempool_free, rte_mempool_in_use_count,
    rte_mempool_obj_iter, rte_mempool_populate_default, rte_mempool_set_ops_byname,
    rte_pktmbuf_init, rte_pktmbuf_pool_init, rte_pktmbuf_pool_private, sluice_pktmbuf_alloc,
    sluice_pktmbuf_alloc_bulk,
};
use engine::frame::{Frame, FramePool, FrameVec};
use std::{
    ffi::{CStr, CString},
    ptr::{self, NonNull},
    sync::{Arc, MutexGuard, PoisonError},
};

/// Memory is taken from the socket that this number names, or from any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Socket(pub Option<u16>);

impl Socket {
    /// DPDK's number for it.
    pub(crate) fn raw(self) -> i32 {
        self.0.map_or(SOCKET_ID_ANY, i32::from)
    }

    /// From DPDK's number.
    pub(crate) fn from_raw(number: i32) -> Self {
        Self(u16::try_from(number).ok())
    }
}

/// The size of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolSize {
    /// Buffers. 2^n - 1 uses memory best.
    pub frames: u32,
    /// Buffers that each lcore keeps at hand, at most 512 and two thirds of `frames`.
    pub cache: u32,
    /// Bytes of the longest frame that one buffer holds, beside the headroom.
    pub frame_len: u16,
}

impl PoolSize {
    /// Bytes of memory that a pool of this size takes, near enough to plan with.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let head = 128 + 64 + 64; // mbuf, the pool's own header, padding between memory channels
        u64::from(self.frames)
            * (u64::from(self.frame_len) + u64::from(RTE_PKTMBUF_HEADROOM) + head)
    }
}

impl Default for PoolSize {
    fn default() -> Self {
        Self { frames: 16_383, cache: 256, frame_len: 2048 }
    }
}

/// A pool of packet buffers. A clone is another handle of the same pool, for another lcore.
///
/// The memory stays until EAL ends, so that a frame may outlive the handles.
#[derive(Clone)]
pub struct Mempool {
    raw: NonNull<rte_mempool>,
    frame_len: u16,
    _eal: Arc<Shared>,
}

// SAFETY: DPDK's mempools may be used by any thread at any time: each registered lcore has a cache
// of its own, all others go to the shared ring.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// Makes a pool. Its name must be unique in this process.
    ///
    /// # Errors
    /// [`Error::Setting`] for sizes that cannot be, [`Error::Call`] when there is too little memory
    /// or the name is taken.
    pub fn new(eal: &Eal, name: &str, size: PoolSize, socket: Socket) -> Result<Self> {
        let c_name = checked(name, size)?;
        let mut pools = lock(&eal.0);
        if pools.sealed {
            let text = "a port frees its frames the fast way, which allows one pool only";
            return Err(Error::Setting(format!("pool {name}: {text}")));
        }
        let hardware = !eal.args().iter().any(|arg| arg == "--no-pci");
        let flags = if hardware { 0 } else { RTE_MEMPOOL_F_NO_IOVA_CONTIG };
        let raw = create(&c_name, size, socket, flags).map_err(|errno| {
            let on = format!("pool {name} of {} MB", size.bytes() >> 20);
            Error::Call { call: "rte_mempool_create", on, errno }
        })?;
        pools.all.push(raw);
        Ok(Self { raw, frame_len: size.frame_len, _eal: Arc::clone(&eal.0) })
    }

    /// Buffers that are not in the pool: held as frames, or lent to a device.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: pools live until EAL ends, and `_eal` keeps it.
        unsafe { rte_mempool_in_use_count(self.raw.as_ptr()) }
    }

    /// Bytes of the longest frame that one buffer holds.
    #[must_use]
    pub fn frame_len(&self) -> u16 {
        self.frame_len
    }

    /// Adds `count` frames of `len` bytes to `into`, all or none; says whether it did. They hold
    /// what the buffers held last: the caller writes every byte that counts. For whoever makes
    /// frames at the rate of a device.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a burst is 32")]
    pub fn alloc_bulk(&mut self, into: &mut FrameVec<Mbuf>, count: usize, len: usize) -> bool {
        let before = into.len();
        if len > usize::from(self.frame_len) || count > into.remaining_capacity() {
            return false;
        }
        // SAFETY: the pool is alive; the vector has room for `count` more, and `Mbuf` is a
        // transparent pointer; buffers that the pool gives belong to the caller alone.
        unsafe {
            let room = into.as_mut_ptr().add(before).cast();
            if sluice_pktmbuf_alloc_bulk(self.as_ptr(), room, count as u32) != 0 {
                return false;
            }
            into.set_len(before + count);
        }
        for frame in &mut into[before..] {
            frame.put_len(len);
        }
        true
    }

    /// For the calls of DPDK that want it.
    pub(crate) fn as_ptr(&self) -> *mut rte_mempool {
        self.raw.as_ptr()
    }
}

impl FramePool for Mempool {
    type F = Mbuf;

    fn alloc(&mut self, len: usize) -> Option<Mbuf> {
        if len > usize::from(self.frame_len) {
            return None;
        }
        // SAFETY: the pool is alive; a buffer it gives belongs to the caller alone.
        let mut frame =
            unsafe { Mbuf::from_raw(NonNull::new(sluice_pktmbuf_alloc(self.as_ptr()))?) };
        frame.set_len(len);
        frame.bytes_mut().fill(0);
        Some(frame)
    }
}

/// Free bytes in front of a fresh frame.
#[allow(clippy::cast_possible_truncation, reason = "128, unless DPDK was built otherwise")]
const HEADROOM: u16 = RTE_PKTMBUF_HEADROOM as u16;

/// All pools of the process.
#[derive(Default)]
pub(crate) struct Pools {
    all: Vec<NonNull<rte_mempool>>,
    /// No further pool may be made.
    sealed: bool,
}

// SAFETY: as for `Mempool`.
unsafe impl Send for Pools {}

impl Pools {
    /// Whether every buffer of every pool is back.
    pub(crate) fn all_frames_back(&self) -> bool {
        // SAFETY: pools live until EAL ends, which is later than this.
        self.all.iter().all(|pool| unsafe { rte_mempool_in_use_count(pool.as_ptr()) } == 0)
    }

    /// Whether there is one pool; if so, there will never be another.
    pub(crate) fn seal_if_single(&mut self) -> bool {
        self.sealed |= self.all.len() == 1;
        self.sealed
    }
}

/// The list of pools.
pub(crate) fn lock(eal: &Shared) -> MutexGuard<'_, Pools> {
    eal.pools.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As `rte_pktmbuf_pool_create`, but with flags.
///
/// `RTE_MEMPOOL_F_NO_IOVA_CONTIG` lets a buffer lie on two pages, which only hardware minds: so all
/// buffers lie in one piece without gaps. AF_XDP needs that. Its driver shares as many bytes with
/// the kernel as the buffers have by themselves; on small pages two buffers in five would lie
/// beyond, and the kernel keeps each of these for ever, until it has none left to receive into.
fn create(
    name: &CStr,
    size: PoolSize,
    socket: Socket,
    flags: u32,
) -> std::result::Result<NonNull<rte_mempool>, Errno> {
    let element = size_of::<rte_mbuf>() as u32 + u32::from(size.frame_len + HEADROOM);
    let private = size_of::<rte_pktmbuf_pool_private>() as u32;
    let (name, socket) = (name.as_ptr(), socket.raw());
    // SAFETY: EAL runs, the name lives during the call, and the caller checked the sizes.
    let raw = unsafe {
        rte_mempool_create_empty(name, size.frames, element, size.cache, private, socket, flags)
    };
    let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
    // SAFETY: the pool is new and nobody else has it; its private part and its elements have the
    // sizes that the two callbacks of mbufs expect; a pool that fails is not used again.
    unsafe {
        let pool = raw.as_ptr();
        let code = rte_mempool_set_ops_byname(pool, c"ring_mp_mc".as_ptr(), ptr::null_mut());
        if code != 0 {
            rte_mempool_free(pool);
            return Err(Errno(-code));
        }
        rte_pktmbuf_pool_init(pool, ptr::null_mut());
        let code = rte_mempool_populate_default(pool);
        if code < 0 {
            rte_mempool_free(pool);
            return Err(Errno(-code));
        }
        rte_mempool_obj_iter(pool, Some(rte_pktmbuf_init), ptr::null_mut());
    }
    Ok(raw)
}

fn checked(name: &str, size: PoolSize) -> Result<CString> {
    let most = RTE_MEMPOOL_CACHE_MAX_SIZE.min(size.frames / 3 * 2);
    if size.cache > most {
        let text = format!("a cache of {} of {} frames; {most} at most", size.cache, size.frames);
        return Err(Error::Setting(format!("pool {name}: {text}")));
    }
    if size.frame_len > u16::MAX - HEADROOM {
        let text = format!("frames of {}; {} at most", size.frame_len, u16::MAX - HEADROOM);
        return Err(Error::Setting(format!("pool {name}: {text}")));
    }
    CString::new(name).map_err(|_| Error::Setting(format!("pool {name:?}: a NUL byte in its name")))
}
