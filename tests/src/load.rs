//! Clients: curl for new connections, wrk for many requests, held connections for shares.
use std::io::{BufRead, BufReader, Read};
use std::ops::AddAssign;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};

use crate::daemon::pid;
use crate::lab::Lab;
use crate::{output, program};

/// What a load's clients saw.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were answered.
    pub requests: u64,
    /// Errors of connecting, reading, writing, waiting, and answers that were no success.
    pub failed: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
    }
}

/// `count` requests, one after the other, each on a connection of its own.
pub fn curl(lab: &Lab, client: &str, url: &str, count: u64) -> anyhow::Result<Tally> {
    let mut curl = lab.command(client, "curl");
    curl.args(["-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}\\n"]);
    curl.args(["-H", "Connection: close"]).arg(format!("{url}?[1-{count}]"));
    // The exit status speaks of the last request alone: each prints its own.
    let text = String::from_utf8(curl.output().context("curl")?.stdout)?;
    let requests = text.lines().filter(|code| *code == "200").count() as u64;
    Ok(Tally { requests, failed: count - requests })
}

/// The numbers of wrk's report.
fn parse_wrk(report: &str) -> anyhow::Result<Tally> {
    let requests =
        report.lines().find_map(|l| l.trim().split_once(" requests in ")?.0.parse().ok());
    let failures = report.lines().filter(|l| l.contains("errors:") || l.contains("Non-2xx"));
    let digits = failures.flat_map(|l| l.split(|c: char| !c.is_ascii_digit()));
    // "Non-2xx or 3xx responses" brings a 2 and a 3 of its own; they only make a failure look bigger.
    let failed = digits.filter_map(|d| d.parse::<u64>().ok()).sum();
    Ok(Tally { requests: requests.with_context(|| format!("no wrk report:\n{report}"))?, failed })
}

/// wrk in the background: one thread, so that the director keeps its share of the machine.
#[derive(Debug)]
pub struct Wrk(Child);

impl Wrk {
    /// Starts to ask for `url` over 20 kept-alive connections, until [`Wrk::finish`].
    pub fn start(lab: &Lab, client: &str, url: &str) -> anyhow::Result<Self> {
        let mut wrk = lab.command(client, "wrk");
        wrk.args(["-t1", "-c20", "-d600s", url]).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Self(wrk.spawn().context("wrk")?))
    }

    /// Asks for a report and waits for it.
    pub fn finish(mut self) -> anyhow::Result<Tally> {
        kill(pid(&self.0), Signal::SIGINT)?;
        let mut report = String::new();
        self.0.stdout.take().context("wrk's output")?.read_to_string(&mut report)?;
        self.0.wait()?;
        parse_wrk(&report)
    }
}

impl Drop for Wrk {
    fn drop(&mut self) {
        crate::daemon::end(&mut self.0);
    }
}

/// wrk for some seconds, 20 connections; `close` asks for a new connection for each request.
pub fn wrk(lab: &Lab, client: &str, url: &str, seconds: u32, close: bool) -> anyhow::Result<Tally> {
    let mut wrk = lab.command(client, "wrk");
    wrk.args(["-t1", "-c20", &format!("-d{seconds}s"), url]);
    if close {
        wrk.args(["-H", "Connection: close"]);
    }
    parse_wrk(&output(&mut wrk)?)
}

/// Connections that a client holds open.
#[derive(Debug)]
pub struct Held {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Held {
    /// Opens `count` connections, one after the other; all must be answered.
    pub fn open(lab: &Lab, client: &str, to: &str, count: u64) -> anyhow::Result<Self> {
        let mut hold = lab.command(client, program("lab-hold"));
        hold.args([to, &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = hold.spawn().context("lab-hold")?;
        let stdout = BufReader::new(child.stdout.take().context("its output")?);
        let mut held = Self { stdin: child.stdin.take(), child, stdout };
        let line = held.line()?;
        ensure!(line == format!("held {count} failed 0"), "{client}: {line}");
        Ok(held)
    }

    /// Asks once more on each connection, closes all, returns how many still answered.
    pub fn close(mut self) -> anyhow::Result<u64> {
        drop(self.stdin.take());
        let line = self.line()?;
        line.strip_prefix("alive ").context("no answer")?.parse().context("a number")
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim().into())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        crate::daemon::end(&mut self.child);
    }
}

/// Open connections of real server 1, 2 or 3 in its own words, without the one that asks.
pub fn open_at_server(lab: &Lab, server: u8) -> anyhow::Result<u64> {
    let mut curl = lab.command("c1", "curl");
    let page = output(curl.args(["-s", "-m", "5", &format!("http://192.0.2.1{server}/status")]))?;
    let line = page.lines().next().context("an empty status page")?;
    let open: u64 = line.trim_start_matches("Active connections:").trim().parse()?;
    Ok(open - 1)
}

#[cfg(test)]
mod tests {
    use super::{Tally, parse_wrk};

    #[test]
    fn a_report_with_errors_counts_them() {
        let report = "  1200 requests in 3.00s, 1MB read\n  \
             Socket errors: connect 1, read 2, write 0, timeout 4\n";
        assert_eq!(parse_wrk(report).unwrap(), Tally { requests: 1200, failed: 7 });
        assert_eq!(parse_wrk("  9 requests in 3.00s\n").unwrap().failed, 0);
        assert!(parse_wrk("unable to connect").is_err());
    }
}
