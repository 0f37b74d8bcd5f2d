//! Clients: curl for new connections, wrk for many requests, held connections for shares.
use std::io::{BufRead, BufReader, Read};
use std::ops::AddAssign;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, bail, ensure};
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

/// One thread, so that the director keeps its share of the machine; an answer that takes longer is a
/// failure. wrk's own two seconds are less than a segment takes that a busy machine lost twice.
const WRK: [&str; 4] = ["-t1", "-c20", "--timeout", "5s"];

/// wrk in the background.
#[derive(Debug)]
pub struct Wrk(Child);

impl Wrk {
    /// Starts to ask for `url` over 20 kept-alive connections, until [`Wrk::finish`].
    pub fn start(lab: &Lab, client: &str, url: &str) -> anyhow::Result<Self> {
        Self::spawn(lab, client, &["-d600s", url])
    }

    /// The same with a new connection for each request.
    pub fn start_new(lab: &Lab, client: &str, url: &str) -> anyhow::Result<Self> {
        Self::spawn(lab, client, &["-d600s", "-H", "Connection: close", url])
    }

    fn spawn(lab: &Lab, client: &str, words: &[&str]) -> anyhow::Result<Self> {
        let mut wrk = lab.command(client, "wrk");
        wrk.args(WRK).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
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
    Ok(pace(lab, client, url, seconds, close)?.tally)
}

/// What wrk measured beside a tally.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Answered and failed.
    pub tally: Tally,
    /// Answered requests per second.
    pub per_second: f64,
    /// Half of the answers took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 answers took no longer, in microseconds.
    pub p99_us: f64,
}

/// The same load as [`wrk`], with the times it took.
pub fn pace(lab: &Lab, client: &str, url: &str, seconds: u32, close: bool) -> anyhow::Result<Pace> {
    let mut wrk = lab.command(client, "wrk");
    wrk.args(WRK).args(["--latency", &format!("-d{seconds}s"), url]);
    if close {
        wrk.args(["-H", "Connection: close"]);
    }
    parse_pace(&output(&mut wrk)?)
}

fn parse_pace(report: &str) -> anyhow::Result<Pace> {
    let value = |name: &str| {
        let found = report.lines().find_map(|l| l.trim().strip_prefix(name));
        found.map(str::trim).with_context(|| format!("no {name} in wrk's report:\n{report}"))
    };
    Ok(Pace {
        tally: parse_wrk(report)?,
        per_second: value("Requests/sec:")?.parse()?,
        p50_us: microseconds(value("50%")?)?,
        p99_us: microseconds(value("99%")?)?,
    })
}

/// A time as wrk writes it: `847.00us`, `1.84ms`, `2.00s`, `1.00m`.
fn microseconds(text: &str) -> anyhow::Result<f64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => bail!("no time: {text}"),
    };
    Ok(text.trim_end_matches(unit).parse::<f64>()? * scale)
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
    use super::{Tally, parse_pace, parse_wrk};

    #[test]
    fn a_report_with_errors_counts_them() {
        let report = "  1200 requests in 3.00s, 1MB read\n  \
             Socket errors: connect 1, read 2, write 0, timeout 4\n";
        assert_eq!(parse_wrk(report).unwrap(), Tally { requests: 1200, failed: 7 });
        assert_eq!(parse_wrk("  9 requests in 3.00s\n").unwrap().failed, 0);
        assert!(parse_wrk("unable to connect").is_err());
    }
    #[test]
    fn a_pace_is_read_in_microseconds() {
        let report = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
             Latency   532.78us  450.29us   9.51ms   97.14%\n  Latency Distribution\n     \
             50%  474.00us\n     75%  510.00us\n     90%  1.00ms\n     99%    1.84ms\n  \
             62817 requests in 2.04s, 12.94MB read\nRequests/sec:  30853.20\n";
        let pace = parse_pace(report).unwrap();
        assert_eq!((pace.p50_us, pace.p99_us, pace.per_second), (474.0, 1840.0, 30853.2));
        assert_eq!(pace.tally, Tally { requests: 62817, failed: 0 });
        assert!(parse_pace("  9 requests in 3.00s\n").is_err());
    }
}
