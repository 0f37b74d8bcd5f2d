//! Threads that poll: bound to one core, known to DPDK.

use crate::{
    eal::{Eal, Shared},
    error::{Errno, Error, Result},
    mempool::Socket,
};
use core_affinity::CoreId;
use dpdk_sys::{rte_thread_register, rte_thread_unregister};
use std::{
    sync::{Arc, mpsc},
    thread::{Builder, JoinHandle},
};

/// Starts a thread on `core` that runs `work`, and waits until it is bound and registered.
///
/// The core is taken by its number, also one that the kernel's scheduler leaves alone
/// (`isolcpus`). An unregistered thread would work too, at half the speed: it has no cache of
/// buffers.
///
/// # Errors
/// [`Error::Core`] when the process may not use the core, [`Error::Call`] when DPDK has no room for
/// another thread (128 by default), [`Error::System`] when there can be no more threads.
pub fn spawn_lcore<T: Send + 'static>(
    eal: &Eal,
    core: usize,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Lcore<T>> {
    let shared = Arc::clone(&eal.0);
    let (ready, outcome) = mpsc::sync_channel(1);
    let body = move || {
        let registered = enter(&shared, core);
        let (report, registration) = match registered {
            Ok(registration) => (Ok(()), Some(registration)),
            Err(e) => (Err(e), None),
        };
        let told = ready.send(report);
        let result = registration.as_ref().filter(|_| told.is_ok()).map(|_| work());
        // What `work` owned is gone by now; EAL may end only after the thread has left it.
        drop(registration);
        drop(shared);
        result
    };
    let failed = |e: std::io::Error| Error::System {
        what: format!("thread {name}"),
        errno: nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)),
    };
    let thread = Builder::new().name(name.to_owned()).spawn(body).map_err(failed)?;
    match outcome.recv().expect("the thread reports before anything else") {
        Ok(()) => Ok(Lcore(thread)),
        Err(e) => {
            // Its share of EAL must be gone before the caller gives up the last one.
            let _ = thread.join();
            Err(e)
        }
    }
}

/// A running lcore thread. Dropping this leaves it running, with its share of EAL.
pub struct Lcore<T>(JoinHandle<Option<T>>);

impl<T> Lcore<T> {
    /// Waits for the end of its work and gives the result.
    ///
    /// # Errors
    /// What the work panicked with.
    ///
    /// # Panics
    /// Never: an `Lcore` exists only when its work has begun.
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join().map(|result| result.expect("a started lcore has run its work"))
    }

    /// Whether its work has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// The NUMA socket of a core, whose memory is near to it.
#[must_use]
pub fn socket_of_core(core: usize) -> Socket {
    let of_node =
        |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok();
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}"));
    Socket(entries.ok().and_then(|entries| entries.flatten().find_map(of_node)))
}

fn enter(shared: &Shared, core: usize) -> Result<Registration> {
    if core_affinity::set_for_current(CoreId { id: core }) {
        Registration::new(core)
    } else {
        Err(shared.core_error(core))
    }
}

/// Registered with DPDK until dropped.
struct Registration;

impl Registration {
    fn new(core: usize) -> Result<Self> {
        // SAFETY: EAL runs, and this thread is not registered.
        if unsafe { rte_thread_register() } == 0 {
            return Ok(Self);
        }
        let on = format!("the thread of core {core}");
        Err(Error::Call { call: "rte_thread_register", on, errno: Errno::last() })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: this thread was registered by `new`; the value never leaves it.
        unsafe { rte_thread_unregister() }
    }
}
