//! Drives Sluice's programs from outside: on vdevs, and in the lab of network namespaces.
//!
//! A test is a story: it brings up a [`lab::Lab`], starts a [`daemon::Daemon`] in it, changes
//! things by [`ctl::Ctl`], and looks at what the clients of [`load`] got. Everything is a guard:
//! processes end and namespaces go when it leaves scope, also when the story fails. Then the logs
//! and a capture stay behind, and the failure says where.
pub mod ctl;
pub mod daemon;
pub mod lab;
pub mod load;
pub mod service;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

/// Cargo's target directory: the tests' own program lies in it.
pub fn target() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    let named = |path: &&Path| path.join("CACHEDIR.TAG").exists();
    own.ancestors().find(named).map_or_else(|| root().join("target"), Path::to_path_buf)
}

/// One of Sluice's programs, built with profile `lab` unless `SLUICE_BIN` names their directory.
pub fn program(name: &str) -> PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS
        .get_or_init(|| std::env::var_os("SLUICE_BIN").map_or_else(build, PathBuf::from))
        .join(name)
}

fn build() -> PathBuf {
    let words =
        "build --quiet --profile lab -p dataplane -p controlplane -p traffic -p tests --bins";
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(words.split(' ')).current_dir(root()).env("CARGO_TARGET_DIR", target());
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "cargo {words}: {status}");
    target().join("lab")
}

/// Runs a command to its end and returns what it printed; an error shows both streams.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, both(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Standard output and standard error, one after the other, for messages.
pub fn both(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Asks every 10 ms until `ready` says true; the error names what was waited for.
pub fn wait_for(
    what: &str,
    longest: Duration,
    mut ready: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !ready()? {
        ensure!(start.elapsed() < longest, "{what}: not within {longest:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A directory of its own, removed in the end; a failing test leaves it and says so.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty directory below the target directory.
    pub fn new(name: &str) -> Self {
        let path = target().join("scratch").join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("files of the failed test: {}", self.0.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}
