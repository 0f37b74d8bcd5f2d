//! What can go wrong between us and DPDK, in words that an operator can act on.

use dpdk_sys::{rte_strerror, sluice_errno};
use std::{ffi::CStr, fmt};

/// Result of a call into this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of set-up or of a control call. Nothing on the packet path returns one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// EAL starts once in the life of a process, also after it was shut down.
    #[error("DPDK was started in this process before; it starts once per process")]
    StartedBefore,

    /// EAL refused to start; it has written its own reasons to stderr.
    #[error("DPDK did not start ({errno}) with the arguments: {args}")]
    Start {
        /// EAL's error.
        errno: Errno,
        /// The arguments, as EAL got them.
        args: String,
    },

    /// A driver plug-in was asked for, but DPDK is linked into this executable.
    #[error(
        "plugin {0:?}: this is a static build, which carries its drivers and cannot load others; \
         build the shared one: cargo build --release -p dataplane --no-default-features"
    )]
    PluginsNeedShared(std::path::PathBuf),

    /// A setting that cannot be right, whatever the machine.
    #[error("{0}")]
    Setting(String),

    /// A device string that cannot be parsed, or a device that did not come up.
    #[error("device {device:?}: {reason}")]
    Device {
        /// The device, as the operator wrote it.
        device: String,
        /// Why not, and what to do.
        reason: String,
    },

    /// A limit of a port: more was asked for than it has.
    #[error("port {port}: {asked} {what} asked for, the device has at most {most}")]
    PortLimit {
        /// Name of the port.
        port: String,
        /// What there is too little of.
        what: &'static str,
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        most: usize,
    },

    /// A thread could not be bound to its core.
    #[error("cannot run on core {core}; this process may use {allowed}")]
    Core {
        /// The core asked for.
        core: usize,
        /// The cores of the process, as `0-3,8`.
        allowed: String,
    },

    /// A DPDK function failed.
    #[error("{call} failed for {on}: {errno}")]
    Call {
        /// Name of the function.
        call: &'static str,
        /// What it was called for.
        on: String,
        /// Its error.
        errno: Errno,
    },

    /// A system call failed.
    #[error("{what}: {errno}")]
    System {
        /// What was tried.
        what: String,
        /// Its error.
        errno: nix::errno::Errno,
    },
}

/// An error number of DPDK: the system's, a few of its own, and 0 for a driver that gave none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The calling thread's `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local variable.
        Self(unsafe { sluice_errno() })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("no reason given; the driver may have written one to stderr");
        }
        // SAFETY: rte_strerror gives a string that lives until this thread's next call of it.
        let text = unsafe { CStr::from_ptr(rte_strerror(self.0)) };
        write!(f, "{} (error {})", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Turns the return code of a function that gives a negated error number into a result.
pub(crate) fn check(code: i32, call: &'static str, on: &str) -> Result<i32> {
    if code >= 0 {
        return Ok(code);
    }
    // Drivers say -1 for "failed", not for EPERM.
    let errno = Errno(if code == -1 { 0 } else { -code });
    Err(Error::Call { call, on: on.to_owned(), errno })
}
