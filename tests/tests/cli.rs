//! Exit statuses, as scripts see them. `sluicectl`: 0 done, 1 refused by the director, 2 wrong usage
//! or no director. `sluiced`: 0 a clean end, 1 a run-time failure, 2 config or usage.
use std::path::PathBuf;
use std::process::Command;

use tests::ctl::Ctl;
use tests::daemon::{self, Daemon};
use tests::{Scratch, both, program};

/// A device that needs no hardware and no rights.
const PORT: &str = "device = \"net_ring0\"\naddresses = [\"192.0.2.2/24\"]\n";

fn sluiced(words: &[&str]) -> Command {
    let mut command = Command::new(program("sluiced"));
    command.args(words);
    command
}

#[track_caller]
fn expect(status: i32, command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(status), "{command:?}:\n{}", both(&output));
    both(&output)
}

fn written(scratch: &Scratch, text: &str) -> String {
    let path = scratch.path().join("check.toml");
    std::fs::write(&path, text).expect("a config");
    path.display().to_string()
}

#[test]
fn sluicectl_without_a_director() {
    let ctl = Ctl::new(PathBuf::from("/nonexistent/control.sock"));
    let said = expect(2, &mut ctl.command("service list"));
    assert!(said.contains("/nonexistent/control.sock"), "it names the socket: {said}");
    expect(2, &mut ctl.command("service fly"));
    expect(2, &mut ctl.command("service add tcp not-an-address -s wlc"));
    expect(2, &mut ctl.command("service add tcp 192.0.2.10:80 -s no-such-scheduler"));
    expect(0, &mut ctl.command("--help"));
    expect(0, &mut ctl.command("--version"));
}

#[test]
fn sluicectl_with_a_director() {
    let scratch = Scratch::new("cli");
    let config = daemon::config(scratch.path(), &[0], PORT, "");
    let daemon = Daemon::start(scratch.path(), sluiced(&[]), &config).expect("a director");
    let ctl = &daemon.ctl;
    expect(0, &mut ctl.command("service add tcp 192.0.2.10:80 -s wlc"));
    expect(1, &mut ctl.command("service add tcp 192.0.2.10:80 -s wlc"));
    expect(0, &mut ctl.command("server add tcp 192.0.2.10:80 192.0.2.11 -g -w 100"));
    expect(0, &mut ctl.command("server edit tcp 192.0.2.10:80 192.0.2.11 -w 50"));
    expect(1, &mut ctl.command("server edit tcp 192.0.2.10:80 192.0.2.99 -w 50"));
    expect(1, &mut ctl.command("server add tcp 192.0.2.77:80 192.0.2.11 -g"));
    let list = ctl.json("service list").expect("a list");
    assert_eq!(list["version"], 1);
    assert_eq!(list["services"][0]["servers"][0]["weight"], 50, "{list}");
    for words in ["stats", "connections", "ports", "lcores", "neighbours", "timeouts show"] {
        assert_eq!(ctl.json(words).expect(words)["version"], 1, "{words}");
    }
    expect(0, &mut ctl.command("service del tcp 192.0.2.10:80"));
    expect(1, &mut ctl.command("service del tcp 192.0.2.10:80"));
    assert!(daemon.stop().expect("it ends").success());
}

#[test]
fn sluiced_checks_its_config() {
    let scratch = Scratch::new("cli-check");
    let good = written(&scratch, &daemon::config(scratch.path(), &[0], PORT, ""));
    expect(0, &mut sluiced(&["--config", &good, "--check"]));

    let bad = daemon::config(scratch.path(), &[0], PORT, "").replace("lcores", "lcorse");
    let said = expect(2, &mut sluiced(&["--config", &written(&scratch, &bad), "--check"]));
    assert!(said.contains("lcorse") && said.contains("check.toml"), "names file and key: {said}");

    expect(2, &mut sluiced(&["--config", "/nonexistent/sluice.toml"]));
    expect(2, &mut sluiced(&["--no-such-option"]));
    expect(0, &mut sluiced(&["--help"]));
}

#[test]
fn sluiced_with_a_device_that_is_not_there() {
    let scratch = Scratch::new("cli-device");
    let port = PORT.replace("net_ring0", "net_pcap0,rx_pcap=/nonexistent/in.pcap");
    let config = written(&scratch, &daemon::config(scratch.path(), &[0], &port, ""));
    expect(1, &mut sluiced(&["--config", &config]));
}
