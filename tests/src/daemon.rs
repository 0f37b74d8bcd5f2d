//! `sluiced` as a guard: started with a config, awaited at its socket, ended with the story.
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ctl::Ctl;
use crate::lab::Lab;
use crate::{program, wait_for};

/// The EAL, tables and ports take about a second; the first touch of memory may take four.
const START: Duration = Duration::from_secs(30);
/// Keys of `[director]` in most stories.
const CONNECTIONS: &str = "connections = \"256k\"\n";
const END: Duration = Duration::from_secs(10);

/// A running director.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
    /// The way to talk to it.
    pub ctl: Ctl,
}

impl Daemon {
    /// Starts `sluiced` in the lab's director namespace: `lcores`, DPDK device, services as TOML.
    pub fn in_lab(
        lab: &Lab,
        lcores: &[usize],
        device: &str,
        services: &str,
    ) -> anyhow::Result<Self> {
        Self::in_lab_with(lab, lcores, device, CONNECTIONS, services)
    }

    /// The same with keys of `[director]`: how many connections, and what else differs.
    pub fn in_lab_with(
        lab: &Lab,
        lcores: &[usize],
        device: &str,
        director: &str,
        services: &str,
    ) -> anyhow::Result<Self> {
        let port = format!("device = \"{device}\"\naddresses = [\"192.0.2.2/24\"]\n");
        let sluiced = lab.command("d", program("sluiced"));
        let config = config(lab.state(), lcores, &port, services);
        Self::start(lab.state(), sluiced, &config.replace(CONNECTIONS, director))
    }

    /// Starts `sluiced` by a command, with its files in `dir`, and waits until it says hello.
    pub fn start(dir: &Path, mut sluiced: Command, config: &str) -> anyhow::Result<Self> {
        let file = dir.join("sluice.toml");
        std::fs::write(&file, config)?;
        let log = dir.join("sluiced.log");
        let output = File::options().create(true).append(true).open(&log)?;
        sluiced.arg("--config").arg(file).stdin(Stdio::null());
        let child =
            sluiced.stdout(output.try_clone()?).stderr(output).spawn().context("sluiced")?;
        let mut daemon = Self { child, log, ctl: Ctl::new(dir.join("control.sock")) };
        daemon.wait_for_hello()?;
        Ok(daemon)
    }

    fn wait_for_hello(&mut self) -> anyhow::Result<()> {
        wait_for("sluiced says hello", START, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("sluiced ended, {status}:\n{}", self.log()?);
            }
            Ok(self.ctl.hello().is_ok())
        })
    }

    /// What it has logged so far.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// Stops it by `director stop --yes` and waits for its end.
    pub fn stop(mut self) -> anyhow::Result<ExitStatus> {
        self.ctl.ok("director stop --yes")?;
        self.wait_for_end()
    }

    /// Waits until it ends by itself.
    pub fn wait_for_end(&mut self) -> anyhow::Result<ExitStatus> {
        let mut status = None;
        wait_for("sluiced ends", END, || {
            status = self.child.try_wait()?;
            Ok(status.is_some())
        })?;
        status.context("no status")
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill(pid(&self.child), signal)?)
    }

    /// Memory that the process holds, in kB, hugepages included.
    pub fn memory_kb(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let read = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)).context("no such line")?;
            line.trim().trim_end_matches(" kB").parse::<u64>().context("a number")
        };
        Ok(read("VmRSS:")? + read("HugetlbPages:")?)
    }

    /// True while the process lives.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A config with one port, its socket in `dir`.
pub fn config(dir: &Path, lcores: &[usize], port: &str, services: &str) -> String {
    let socket = dir.join("control.sock");
    format!(
        "[director]\nname = \"lab\"\nlcores = {lcores:?}\n{CONNECTIONS}\
         socket = {socket:?}\n\n[[port]]\nname = \"p0\"\n{port}\n{services}"
    )
}

/// Ends a child politely, after three seconds by force.
pub fn end(child: &mut Child) {
    let gone = |child: &mut Child| Ok(child.try_wait()?.is_some());
    if gone(child).unwrap_or(true) {
        return;
    }
    let _ = kill(pid(child), Signal::SIGTERM);
    if wait_for("end", Duration::from_secs(3), || gone(child)).is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// `ip netns exec` becomes the program it starts, so a child's pid is the program's.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}
