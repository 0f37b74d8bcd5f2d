//! Runs `sluicectl`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::Director;

/// Runs a line.
pub fn run(socket: &Path, line: &str, stdin: Option<&str>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluicectl"))
        .args(line.split_whitespace())
        .env("SLUICE_SOCKET", socket)
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let Some(text) = stdin {
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }
    child.wait_with_output().unwrap()
}

pub fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a line that must succeed; its stdout.
pub fn good(director: &Director, line: &str) -> String {
    let output = run(&director.socket, line, None);
    assert_eq!(status(&output), 0, "{line}: {}", err(&output));
    out(&output)
}
