//! Two ways to the control socket: `sluicectl` as people use it, and bare bytes.
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{both, program};

/// A socket, and the client that talks to it.
#[derive(Debug, Clone)]
pub struct Ctl {
    socket: PathBuf,
}

impl Ctl {
    /// The director that listens (or does not) at `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Where the director listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// `sluicectl` with the words of a command line, not yet started.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(program("sluicectl"));
        command.arg("--socket").arg(&self.socket).args(words.split_whitespace());
        command.stdin(Stdio::null());
        command
    }

    /// Runs `sluicectl` and returns status and output, whatever they are.
    pub fn run(&self, words: &str) -> anyhow::Result<Output> {
        self.command(words).output().context("sluicectl")
    }

    /// Runs `sluicectl`, which must succeed, and returns what it printed.
    pub fn ok(&self, words: &str) -> anyhow::Result<String> {
        let output = self.run(words)?;
        ensure!(output.status.success(), "{words}: {}\n{}", output.status, both(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `sluicectl … --json`, which must succeed and print one document.
    pub fn json(&self, words: &str) -> anyhow::Result<Value> {
        let text = self.ok(&format!("{words} --json"))?;
        serde_json::from_str(&text).with_context(|| format!("{words}: {text}"))
    }

    /// A bare connection that gives up after five seconds of silence.
    pub fn connect(&self) -> anyhow::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(stream)
    }

    /// One JSON-RPC request on its own connection; the whole answer, `result` or `error`.
    pub fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut stream = self.connect()?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{method} answered {line:?}"))
    }

    /// Asks for the protocol's version: the sign that the director is ready.
    pub fn hello(&self) -> anyhow::Result<()> {
        let answer = self.call("hello", json!({}))?;
        ensure!(answer["result"].is_object(), "hello answered {answer}");
        Ok(())
    }

    /// A field of each server of a service, in the order of `service list`.
    pub fn servers(&self, service: &str, field: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let list = self.json("service list")?;
        let services = list["services"].as_array().context("no services")?;
        let found = services.iter().find(|s| s["name"] == service).context("no such service")?;
        let servers = found["servers"].as_array().context("no servers")?;
        let pair = |s: &Value| {
            let name = s["name"].as_str().context("no name")?;
            Ok((name.into(), s[field].as_u64().with_context(|| format!("no {field}: {s}"))?))
        };
        servers.iter().map(pair).collect()
    }
}
