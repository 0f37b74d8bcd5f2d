//! The lab of `scripts/lab` as a guard, with a capture running on the director's port.
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::{output, program, root, target};

/// Two clients, a director's place, three real servers; see `scripts/lab --help`.
#[derive(Debug)]
pub struct Lab {
    name: String,
    state: PathBuf,
    capture: Option<Child>,
    /// Labs take turns: two pollers and two loads on one machine measure nothing.
    _turn: File,
}

/// The start and end of every connection, bare or tunnelled, and what else a failure needs.
const CAPTURED: &str = "arp or icmp or (tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0) \
    or (ip proto 4 and ip[53] & 7 != 0)";

/// Runs one story in a fresh lab. An error of the story fails the test, logs and capture stay.
///
/// Skipped where [`is_possible`] says so.
pub fn story(run: impl FnOnce(&Lab) -> anyhow::Result<()>) {
    if !is_possible() {
        return;
    }
    let mut lab = turn().and_then(Lab::up).expect("a lab");
    lab.capture = Some(lab.start_capture().expect("a capture"));
    if let Err(error) = run(&lab) {
        panic!("{error:?}"); // Lab::drop sees the panic and keeps the logs
    }
}

/// Whether a lab can be: without root a test is skipped with a message; with `CI=true` it fails.
pub fn is_possible() -> bool {
    let root = nix::unistd::geteuid().is_root();
    assert!(root || std::env::var_os("CI").is_none(), "lab tests need root");
    if !root {
        eprintln!("skipped: the lab needs root");
    }
    root
}

/// Waits until no other lab is up that takes turns, and keeps others waiting.
pub fn turn() -> anyhow::Result<File> {
    let turn = File::create(std::env::temp_dir().join("sluice-lab.lock"))?;
    if turn.try_lock().is_err() {
        eprintln!("waiting for another lab to end");
        turn.lock().context("waiting for other labs")?;
    }
    Ok(turn)
}

impl Lab {
    /// A fresh lab without a capture, removed when it leaves scope, also when it came up by half.
    pub fn up(turn: File) -> anyhow::Result<Self> {
        remove_stale()?;
        let name = format!("t{}", std::process::id());
        let state = output(script("status", &name).arg("--state"))?.trim().into();
        let lab = Self { name, state, capture: None, _turn: turn };
        output(&mut script("up", &lab.name))?;
        Ok(lab)
    }

    /// Where the lab and its programs keep their logs.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// A command that runs in the namespace of a member: `c1 c2 d s1 s2 s3 sw`.
    pub fn command(&self, member: &str, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        let namespace = format!("{}-{member}", self.name);
        command.args(["netns", "exec", &namespace]).arg(program.as_ref());
        command
    }

    /// The processes of a member.
    pub fn pids(&self, member: &str) -> anyhow::Result<Vec<u32>> {
        let mut ip = Command::new("ip");
        let pids = output(ip.args(["netns", "pids", &format!("{}-{member}", self.name)]))?;
        Ok(pids.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    fn start_capture(&self) -> anyhow::Result<Child> {
        let mut tcpdump = self.command("d", "tcpdump");
        tcpdump.args(["-Z", "root", "-i", "eth0", "-s", "128", "-C", "50", "-W", "2", "-w"]);
        tcpdump.arg(self.state.join("director.pcap")).arg(CAPTURED);
        let log = File::create(self.state.join("tcpdump.log"))?;
        tcpdump.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().context("tcpdump")
    }

    fn keep_logs(&self) {
        let kept = target().join("lab-failures").join(&self.name);
        let _ = std::fs::create_dir_all(&kept);
        let _ = Command::new("cp").arg("-a").arg(&self.state).arg(&kept).status();
        eprintln!("logs and capture of the failed story: {}", kept.display());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut tcpdump) = self.capture.take() {
            crate::daemon::end(&mut tcpdump);
        }
        if std::thread::panicking() {
            self.keep_logs();
        }
        if let Err(error) = output(&mut script("down", &self.name)) {
            eprintln!("{error:#}");
        }
    }
}

/// Removes labs whose test was killed, as a runner does after its time limit. We have the turn: a
/// lab of a living test cannot be there.
fn remove_stale() -> anyhow::Result<()> {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let namespace = entry.file_name().to_string_lossy().into_owned();
        let lab = namespace.strip_prefix('t').and_then(|n| n.strip_suffix("-sw"));
        if let Some(pid) = lab.filter(|pid| pid.parse::<u32>().is_ok()) {
            output(&mut script("down", &format!("t{pid}")))?;
        }
    }
    Ok(())
}

fn script(verb: &str, name: &str) -> Command {
    let mut command = Command::new(root().join("scripts/lab"));
    let programs = program("lab-decap");
    command.env("SLUICE_BIN", programs.parent().expect("a directory of programs"));
    // A group of its own: Ctrl-C must not strike it half-way.
    command.args([verb, "--name", name]).stdin(Stdio::null()).process_group(0);
    command
}
