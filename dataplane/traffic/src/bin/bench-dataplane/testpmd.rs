//! `dpdk-testpmd` on the same core, in the same run: a child that sleeps while it is not measured.
//!
//! It is driven by the commands that a person would type. Its cost is the CPU time of its forwarding
//! thread between `start` and `stop`, over the packets that it says it sent between them.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::{Context, Result, anyhow, ensure};
use traffic::cost::Sample;

use crate::capture::Capture;

const PROMPT: &str = "testpmd> ";
/// Longest time for any answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `dpdk-testpmd`; ended when dropped.
pub(crate) struct Testpmd {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Testpmd {
    /// Starts it with its forwarding thread on `core`. `Ok(None)`: it is not installed.
    pub(crate) fn start(main_core: usize, core: usize, hugepages: bool) -> Result<Option<Self>> {
        let path = env::var_os("PATH").unwrap_or_default();
        if !env::split_paths(&path).any(|dir| dir.join("dpdk-testpmd").is_file()) {
            return Ok(None);
        }
        let capture = Capture::new()?;
        let memory = if hugepages { &["--in-memory"][..] } else { &["--no-huge", "-m", "128"] };
        let vdev = format!("--vdev={}", capture.device());
        // Into a pipe it would hold its answers back until it ends.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "dpdk-testpmd"])
            .arg(format!("--lcores=0@{main_core},1@{core}"))
            .args(memory)
            .args(["--no-pci", "--no-telemetry", &vdev])
            .arg(format!("--file-prefix=sluice-bench-{}", process::id()))
            .args(["--", "-i", "--port-topology=loop", "--nb-cores=1"])
            .arg("--total-num-mbufs=16384")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("stdbuf")?;
        let input = child.stdin.take().context("its input")?;
        let output = listen(child.stdout.take().context("its output")?);
        let mut testpmd = Self { child, input, output };
        testpmd.answer()?; // It has read the file by then.
        Ok(Some(testpmd))
    }

    /// Measures a forwarding mode for `limit` CPU time.
    pub(crate) fn run(&mut self, mode: &str, limit: Duration) -> Result<Sample> {
        self.say(&format!("set fwd {mode}"))?;
        let before = self.worker_time()?;
        self.say("start")?;
        let deadline = Instant::now() + PATIENCE + 20 * limit;
        while self.worker_time()?.saturating_sub(before) < limit {
            ensure!(Instant::now() < deadline, "dpdk-testpmd gets no CPU time");
            thread::sleep(Duration::from_millis(10));
        }
        let said = self.say("stop")?;
        let time = self.worker_time()?.saturating_sub(before);
        let packets = sent(&said).ok_or_else(|| anyhow!("no count of packets in: {said}"))?;
        ensure!(packets > 0, "dpdk-testpmd {mode} sent nothing");
        Ok(Sample { time, packets })
    }

    fn say(&mut self, command: &str) -> Result<String> {
        writeln!(self.input, "{command}")?;
        self.input.flush()?;
        self.answer()
    }

    /// What it says up to its next prompt.
    fn answer(&mut self) -> Result<String> {
        let (deadline, mut said) = (Instant::now() + PATIENCE, String::new());
        while !said.ends_with(PROMPT) {
            let left = deadline.saturating_duration_since(Instant::now());
            let part = self.output.recv_timeout(left);
            let part = part.map_err(|e| anyhow!("dpdk-testpmd does not answer ({e}): {said}"))?;
            said.push_str(&String::from_utf8_lossy(&part));
        }
        Ok(said)
    }

    /// CPU time of the forwarding thread: the first number of its schedstat, in nanoseconds.
    fn worker_time(&self) -> Result<Duration> {
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))?.flatten() {
            let name = fs::read_to_string(task.path().join("comm"))?;
            // rte-worker-1, lcore-worker-1 or dpdk-worker1, by release.
            if name.contains("worker") {
                let stat = fs::read_to_string(task.path().join("schedstat"))?;
                let nanos = stat.split(' ').next().unwrap_or_default().parse()?;
                return Ok(Duration::from_nanos(nanos));
            }
        }
        Err(anyhow!("dpdk-testpmd has no forwarding thread"))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "quit");
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        // Does nothing to a child that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the end, so that a wait can have a limit.
fn listen(mut output: ChildStdout) -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = output.read(&mut buffer) {
            if to.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    from
}

/// The count behind the first `TX-packets:`.
fn sent(said: &str) -> Option<u64> {
    said.split("TX-packets:").nth(1)?.split_whitespace().next()?.parse().ok()
}
