//! SIGINT and SIGTERM for programs that leave files when they are struck down.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

/// Both signals, blocked for the thread that asked and all that it starts later.
#[derive(Debug)]
pub struct Signals(SigSet);

impl Signals {
    /// Blocks them.
    ///
    /// # Errors
    /// What the system says.
    pub fn block() -> Result<Self, Errno> {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        mask.thread_block()?;
        Ok(Self(mask))
    }

    /// Waits for one of them in a thread, then does this.
    pub fn then(self, act: impl FnOnce() + Send + 'static) {
        std::thread::spawn(move || {
            if self.0.wait().is_ok() {
                act();
            }
        });
    }

    /// Ends the process at the first of them, with the directory that DPDK has made.
    pub fn end_with(self, directory: &Path) {
        let directory = directory.to_owned();
        self.then(move || {
            let _ = std::fs::remove_dir_all(directory);
            std::process::exit(130);
        });
    }
}
