//! Nothing that comes over the control socket, or stops coming, disturbs a client.
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use tests::ctl::Ctl;
use tests::daemon::Daemon;
use tests::lab::story;
use tests::load::Wrk;
use tests::output;
use tests::service::{DEVICE, URL, web};

const MANY: usize = 1000;

/// Runs a story beside a load that must not see one failure.
fn undisturbed(act: impl FnOnce(&Ctl) -> anyhow::Result<()>) {
    story(|lab| {
        let mut daemon = Daemon::in_lab(lab, &[1], DEVICE, &web("wlc", [1; 3]))?;
        let load = Wrk::start(lab, "c1", URL)?;
        std::thread::sleep(Duration::from_millis(500));
        act(&daemon.ctl)?;
        std::thread::sleep(Duration::from_millis(500));
        let tally = load.finish()?;
        println!("{} requests, {} failed", tally.requests, tally.failed);
        ensure!(tally.failed == 0 && tally.requests > 1000, "{tally:?}");
        ensure!(daemon.is_running(), "sluiced ended:\n{}", daemon.log()?);
        daemon.ctl.hello()
    });
}

#[test]
fn clients_killed_in_the_middle() {
    undisturbed(|ctl| {
        for round in 0..60 {
            let mut child = ctl.command("stats --rate").stdout(Stdio::null()).spawn()?;
            std::thread::sleep(Duration::from_micros(200 * round));
            child.kill()?;
            child.wait()?;
        }
        ctl.hello()
    });
}

#[test]
fn garbage_oversize_and_halves() {
    undisturbed(|ctl| {
        for garbage in [&b"\0\xff\xfe\n"[..], b"{]\n", b"[]\n", b"{\"jsonrpc\":\"2.0\"}\n", b"\n"] {
            refuses(ctl, garbage)?;
        }
        let mut oversize = vec![b'x'; 2 << 20];
        oversize.push(b'\n');
        refuses(ctl, &oversize)?;
        let mut halves = Vec::new();
        for _ in 0..20 {
            let mut half = ctl.connect()?;
            half.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth")?;
            halves.push(half);
            ctl.hello()?;
        }
        drop(halves);
        ctl.hello()
    });
}

/// Bytes that are no request get an error with a code, or a closed connection; then all goes on.
fn refuses(ctl: &Ctl, bytes: &[u8]) -> anyhow::Result<()> {
    let mut stream = ctl.connect()?;
    // The director may close before it has read an oversized request to its end.
    let sent = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    if sent.is_ok() && read.is_ok() && !answer.is_empty() {
        let line = answer.lines().next().unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(line)?;
        ensure!(value["error"]["code"].is_i64(), "{value}");
    }
    ctl.hello()
}

fn address(i: usize) -> String {
    format!("198.51.{}.{}:80", 101 + i / 250, 1 + i % 250)
}

/// `sluicectl batch` applies its lines as a whole, `restore` makes the rest disappear.
#[test]
fn a_thousand_services_in_one_transaction() {
    undisturbed(|ctl| {
        let before = kept(ctl, "before.toml", &ctl.ok("save")?)?;
        batch(ctl, &|a| format!("service add tcp {a} -s rr"))?;
        ensure!(services(ctl)? == MANY + 1, "all services are there");
        batch(ctl, &|a| format!("service edit tcp {a} -s wlc"))?;
        batch(ctl, &|a| format!("server add tcp {a} 192.0.2.11 -g -w 1"))?;
        ensure!(services(ctl)? == MANY + 1, "all services are still there");
        batch(ctl, &|a| format!("service del tcp {a}"))?;
        ensure!(services(ctl)? == 1, "all but one are gone");
        batch(ctl, &|a| format!("service add tcp {a} -s mh"))?;
        output(ctl.command("restore").stdin(before))?;
        ensure!(services(ctl)? == 1, "what was saved is all there is");
        Ok(())
    });
}

/// One line for each of the many addresses, in one request.
fn batch(ctl: &Ctl, line: &dyn Fn(String) -> String) -> anyhow::Result<()> {
    let lines: Vec<_> = (0..MANY).map(|i| line(address(i))).collect();
    output(ctl.command("batch").stdin(kept(ctl, "batch.txt", &lines.join("\n"))?)).map(drop)
}

/// A file with this text in the lab's directory, open for reading.
fn kept(ctl: &Ctl, name: &str, text: &str) -> anyhow::Result<File> {
    let path = ctl.socket().with_file_name(name);
    std::fs::write(&path, text)?;
    Ok(File::open(path)?)
}

#[test]
fn a_thousand_services_one_by_one() {
    undisturbed(|ctl| {
        let each = |words: &dyn Fn(String) -> String| -> anyhow::Result<()> {
            (0..MANY).try_for_each(|i| ctl.ok(&words(address(i))).map(drop))
        };
        each(&|a| format!("service add tcp {a} -s rr"))?;
        each(&|a| format!("service edit tcp {a} -s wlc"))?;
        ensure!(services(ctl)? == MANY + 1, "all services are there");
        each(&|a| format!("service del tcp {a}"))?;
        ensure!(services(ctl)? == 1, "all but one are gone");
        Ok(())
    });
}

fn services(ctl: &Ctl) -> anyhow::Result<usize> {
    Ok(ctl.json("service list")?["services"].as_array().map_or(0, Vec::len))
}

/// The daemon ends on a signal as it does on a command, and takes its socket with it.
#[test]
fn a_signal_ends_it() {
    story(|lab| {
        let mut daemon = Daemon::in_lab(lab, &[1], DEVICE, &web("wlc", [1; 3]))?;
        daemon.signal(Signal::SIGTERM)?;
        ensure!(daemon.wait_for_end()?.success(), "ended badly:\n{}", daemon.log()?);
        ensure!(!daemon.ctl.socket().exists(), "the socket is still there");
        Ok(())
    });
}
