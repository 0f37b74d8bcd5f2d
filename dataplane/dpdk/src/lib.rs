//! Safe wrapper of the part of DPDK that Sluice uses; it implements the engine's `Frame`,
//! `FramePool`, `RxQueue` and `TxQueue`.
//!
//! ```no_run
//! use dpdk::{Device, Eal, EalSettings, Mempool, PoolSize, PortBuilder, Socket, spawn_lcore};
//! # fn main() -> dpdk::Result<()> {
//! let device = Device::parse("net_af_packet0,iface=eth1")?.with_queues(1);
//! let eal = Eal::start(&EalSettings { devices: vec![device.clone()], ..Default::default() })?;
//! let pool = Mempool::new(&eal, "frames", PoolSize::default(), Socket(None))?;
//! let mut started = PortBuilder::new(&eal, &device)?.queues(1, 1).start(&[&pool])?;
//! let rx = started.rx.remove(0);
//! let lcore = spawn_lcore(&eal, 1, "lcore-1", move || {
//!     let mut queue = rx.into_queue();
//!     // rx_burst, work, tx_burst
//! })?;
//! println!("{:?}", started.port.stats()?);
//! # Ok(()) }
//! ```
//!
//! # The safety contract
//!
//! Safe code cannot misuse DPDK through this crate, because:
//!
//! * **EAL** ([`Eal`]) is started once; everything is made with a reference to it and keeps a share
//!   of it, so nothing outlives it. EAL's memory is unmapped only when every buffer of every pool is
//!   back; else it stays until the process ends.
//! * **Pools** ([`Mempool`]) live until EAL ends and may be used from every thread.
//! * **Frames** ([`Mbuf`]) have one owner, one segment and one reference; a frame is freed exactly
//!   once, by `Drop`, by `Frame::free_bulk`, or by the device that took it. They move between
//!   threads and cannot be shared.
//! * **Queues** ([`RxQueue`], [`TxQueue`]) exist once each, are made from a handle on the thread that
//!   polls, and cannot leave it: DPDK's queues have no lock.
//! * **Ports** ([`Port`]) are stopped and closed when the last handle or queue of them goes. Control
//!   calls (counters, link) may come from any thread and take turns.
//! * **lcores** ([`spawn_lcore`]) leave DPDK at their end, before EAL can.
//!
//! What the compiler cannot see, and the caller must keep: threads that hold frames are joined
//! before the last share of EAL goes, and [`Mbuf::from_raw`] gets what it asks for. Nothing on the
//! packet path allocates, waits, logs or returns an error.

pub use clock::{Clock, cycles};
pub use device::{Bus, Device};
pub use eal::{Eal, EalSettings, LogLevel};
pub use error::{Errno, Error, Result};
pub use hugepages::{Hugepages, Memory};
pub use lcore::{Lcore, socket_of_core, spawn_lcore};
pub use mbuf::Mbuf;
pub use memory::{HUGE, Pages, Table, Touch, zeroed_huge};
pub use mempool::{Mempool, PoolSize, Socket};
pub use port::{Link, Port, PortBuilder, PortFacts, Started};
pub use queue::{RxHandle, RxQueue, TxHandle, TxQueue};
pub use xstats::PortStats;

mod clock;
mod device;
mod eal;
mod error;
mod hugepages;
mod lcore;
mod mbuf;
mod memory;
mod mempool;
mod port;
mod queue;
mod stale;
mod xstats;
