//! `sluice-traffic` plays against other processes over memif: no root, no hugepages, no NIC.
//!
//! The rates are low and bounded: what counts is that not one packet is lost, hurt or misled, and
//! the tester compares every byte of each. It is held to that by a peer that hurts on purpose.
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::daemon::{Daemon, config, end};
use tests::{Scratch, both, program, wait_for};

/// Two servers whose station the config fixes, one that is asked for by ARP; twice through a
/// gateway that is asked for, too.
const SERVICES: &str = r#"
[[service]]
name      = "web"
listen    = "tcp 192.0.2.10:80"
scheduler = "wlc"
forward   = "dr"
servers   = [
  { address = "192.0.2.11", mac = "02:00:00:00:05:01", weight = 100 },
  { address = "192.0.2.12", mac = "02:00:00:00:05:02", weight = 100 },
  { address = "192.0.2.13", mac = "02:00:00:00:05:03", weight = 200 },
]

[[service]]
name      = "dns"
listen    = "udp 192.0.2.10:53"
scheduler = "mh"
forward   = "tunnel"
servers   = [{ address = "10.9.0.11" }, { address = "10.9.0.12" }, { address = "10.9.0.13" }]

[[service]]
name      = "h3"
listen    = "udp 192.0.2.10:443"
scheduler = "rr"
forward   = "dr"
servers   = [
  { address = "192.0.2.11", mac = "02:00:00:00:05:01" },
  { address = "192.0.2.12", mac = "02:00:00:00:05:02" },
  { address = "192.0.2.13", mac = "02:00:00:00:05:03" },
]

[dpdk]
hugepages = false
"#;
const WEB: &str = "--server 192.0.2.11@02:00:00:00:05:01 --server 192.0.2.12@02:00:00:00:05:02 \
                   --server 192.0.2.13@02:00:00:00:05:03";
const DNS: &str = "--vip 192.0.2.10:53 --udp --gateway 192.0.2.1 --server 10.9.0.11 \
                   --server 10.9.0.12 --server 10.9.0.13";

fn memif(directory: &Path, role: &str) -> String {
    let socket = directory.join("memif.sock");
    format!("net_memif0,role={role},socket={},socket-abstract=no", socket.display())
}

fn director(directory: &Path) -> anyhow::Result<Daemon> {
    let port = format!(
        "device = \"{}\"\naddresses = [\"192.0.2.2/24\"]\ngateway = \"192.0.2.1\"\n",
        memif(directory, "server")
    );
    let mut sluiced = Command::new("timeout");
    sluiced.arg("120").arg(program("sluiced"));
    Daemon::start(directory, sluiced, &config(directory, &[0], &port, SERVICES))
}

fn traffic(directory: &Path, words: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program("sluice-traffic")).args(words.split_whitespace());
    command.args(["--no-huge", "--tx", &memif(directory, "client")]);
    command
}

/// Runs it, which must succeed, and returns its document.
fn report(directory: &Path, words: &str) -> anyhow::Result<Value> {
    let output = traffic(directory, &format!("{words} --json")).output()?;
    ensure!(output.status.success(), "{words}: {}\n{}", output.status, both(&output));
    serde_json::from_slice(&output.stdout).with_context(|| both(&output))
}

/// A part of all, in percent, of each server.
fn shares(report: &Value, field: &str) -> Vec<u64> {
    let servers = report["servers"].as_array().expect("servers");
    let counts: Vec<_> = servers.iter().map(|s| s[field].as_u64().expect("a count")).collect();
    counts.iter().map(|n| n * 100 / counts.iter().sum::<u64>().max(1)).collect()
}

fn assert_nothing_lost(report: &Value, packets: u64) {
    assert_eq!(report["version"], 1);
    assert_eq!(report["verdict"], "pass", "{report}");
    assert_eq!(report["sent"]["packets"], packets, "{report}");
    assert_eq!(report["received"]["packets"], packets, "{report}");
    assert_eq!(report["ttl_lost"]["min"], report["ttl_lost"]["max"], "{report}");
}

#[test]
fn a_director_loses_hurts_and_misleads_nothing() {
    let scratch = Scratch::new("traffic-director");
    let here = scratch.path();
    let daemon = director(here).expect("a director");
    let picture = here.join("run.svg");

    let lives = format!("run {WEB} --life cycle --flows 400 --rate 20000 --packets 30000");
    let web = report(here, &format!("{lives} --svg {}", picture.display())).expect("lives");
    assert_nothing_lost(&web, 30_000);
    assert_eq!(web["ttl_lost"]["max"], 1, "a director is a hop");
    // The tester's living flows; the director weighs those that wait to be forgotten, too.
    for (share, want) in shares(&web, "new_flows").into_iter().zip([25, 25, 50]) {
        assert!(share.abs_diff(want) <= 5, "wlc by weights 100:100:200, {share} %: {web}");
    }
    let drawn = std::fs::read_to_string(picture).expect("a picture");
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));

    let sizes = "--flows 3000 --frame 1400 --rate 10000 --packets 10000";
    let dns = report(here, &format!("run {DNS} {sizes}")).expect("datagrams");
    assert_nothing_lost(&dns, 10_000);
    for share in shares(&dns, "flows") {
        assert!((28..=38).contains(&share), "mh spreads evenly, {share} %: {dns}");
    }
    assert!(daemon.stop().expect("an end").success());
}

/// A director that knows addresses and ports sends two of three that migrate to another server, and
/// none of the others.
#[test]
fn quic_stays_on_its_server_until_it_migrates() {
    let scratch = Scratch::new("traffic-quic");
    let daemon = director(scratch.path()).expect("a director");
    let quic = "--vip 192.0.2.10:443 --quic --migrate 0.5 --life cycle --packets-per-flow 8";
    let words = format!("run {WEB} {quic} --flows 100 --rate 8000 --packets 16000");
    let report = report(scratch.path(), &words).expect("a run");
    assert_nothing_lost(&report, 16_000);
    let of = |field: &str| report["migrations"][field].as_u64().expect("a count");
    let (seen, moved) = (of("seen"), of("moved"));
    assert!((850..=1150).contains(&seen), "half of 2,000 flows: {report}");
    assert!((seen / 2..=seen * 5 / 6).contains(&moved), "{moved} of {seen} moved");
    assert!(daemon.stop().expect("an end").success());
}

#[test]
fn packets_too_big_for_a_tunnel_are_missed_and_named() {
    let scratch = Scratch::new("traffic-big");
    let daemon = director(scratch.path()).expect("a director");
    let words = format!("run {DNS} --flows 200 --frame 1518 --rate 5000 --packets 2000 --json");
    let output = traffic(scratch.path(), &words).output().expect("a run");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(report["verdict"], "fail");
    assert_eq!((&report["lost"], &report["received"]["packets"]), (&2000.into(), &0.into()));
    assert!(report["icmp_errors"].as_u64().is_some_and(|n| n > 0), "{report}");
    assert!(daemon.stop().expect("an end").success());
}

#[test]
fn a_search_finds_that_low_rates_lose_nothing() {
    let scratch = Scratch::new("traffic-search");
    let daemon = director(scratch.path()).expect("a director");
    for what in ["zero-loss", "cps", "table"] {
        let words = format!("search {what} {WEB} --rate 3000 --seconds 1 --flows 500 --near 0.2");
        let found = report(scratch.path(), &words).expect(what);
        assert_eq!(found["verdict"], "pass", "{what}: {found}");
        let search = &found["search"];
        assert_eq!(search["mode"], what, "{search}");
        let first = match what {
            "zero-loss" => 3000,
            "cps" => 1000,
            _ => 500,
        };
        let steps = search["steps"].as_array().expect("steps");
        assert_eq!(steps[0]["load"].as_f64(), Some(f64::from(first)), "{search}");
        for step in steps {
            for field in ["load", "sent", "rate", "received", "lost", "resets", "moved", "faults"] {
                assert!(step[field].is_number(), "{field} of {search}");
            }
            let outcome = step["outcome"].as_str().expect("a word");
            // A busy machine may keep the tester from offering what it wants to.
            let held = step["held"].as_bool().expect("yes or no");
            assert_eq!(outcome == "held", held, "{search}");
            assert!(held || outcome.contains("too slow"), "{search}");
        }
        let held = steps.iter().filter(|step| step["held"] == true);
        let best = held.filter_map(|step| step["load"].as_f64()).fold(0.0, f64::max);
        assert_eq!(search["answer"].as_f64(), Some(best), "{search}");
    }
    assert!(daemon.stop().expect("an end").success());
}

/// Against itself: what it sends comes back through a ring.
#[test]
fn a_signal_ends_a_load_with_its_report_and_leaves_nothing() {
    let scratch = Scratch::new("traffic-signal");
    let here = scratch.path();
    let mut dead = Command::new("true").spawn().expect("a process");
    dead.wait().expect("its end");
    let stale = here.join(format!("dpdk/sluice-{}", dead.id()));
    std::fs::create_dir_all(&stale).expect("what a killed process leaves");
    let words = "run --tx net_ring0 --to 02:00:00:00:00:01 --no-huge --rate 1000 --seconds 60";
    let (output, lines) = (here.join("report.json"), here.join("lines"));
    let mut command = Command::new(program("sluice-traffic"));
    command.args(words.split(' ')).arg("--json").env("RUNTIME_DIRECTORY", here);
    command.stdout(File::create(&output).expect("a file"));
    command.stderr(File::create(&lines).expect("a file"));
    let mut tester = command.spawn().expect("the tester");
    let is_sending = || Ok(std::fs::read_to_string(&lines)?.contains("sent"));
    wait_for("a second of the load", Duration::from_secs(40), is_sending).expect("a load");
    let pid = nix::unistd::Pid::from_raw(tester.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal");
    let has_ended = || Ok(tester.try_wait()?.is_some());
    wait_for("the end", Duration::from_secs(30), has_ended).expect("an end");
    let report = std::fs::read(&output).expect("a file");
    let report: Value = serde_json::from_slice(&report).expect("a document");
    assert!(report["seconds"].as_f64().is_some_and(|s| (0.5..55.0).contains(&s)), "{report}");
    assert_eq!(report["verdict"], "pass", "{report}");
    let left = std::fs::read_dir(here.join("dpdk")).expect("a folder").count();
    assert_eq!(left, 0, "directories, a dead process's and its own");
}

/// A testpmd over memif that gives every frame back in this way.
struct Testpmd(Child);

impl Testpmd {
    /// `None` where it is not installed.
    fn start(directory: &Path, way: &str) -> Option<Self> {
        if !is_installed("dpdk-testpmd") {
            return None;
        }
        let vdev = format!("--vdev={}", memif(directory, "server"));
        let prefix = format!("--file-prefix=testpmd-{}-{way}", std::process::id());
        let mut command = Command::new("timeout");
        command.args([
            "60",
            "stdbuf",
            "-oL",
            "dpdk-testpmd",
            "-l0,1",
            "--no-pci",
            "--no-huge",
            "-m256",
            &vdev,
        ]);
        command.args([&prefix, "--no-telemetry", "--", "--total-num-mbufs=8192", "--nb-cores=1"]);
        command.args(["--port-topology=loop", &format!("--forward-mode={way}"), "-a"]);
        // Its files go with ours.
        command.env("RUNTIME_DIRECTORY", directory);
        // It runs until its input ends. A client that comes before its port has started stays
        // outside for good.
        let log = directory.join("testpmd.log");
        let output = File::create(&log).expect("a log");
        command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::null());
        let testpmd = Self(command.spawn().expect("timeout"));
        let started = || Ok(std::fs::read_to_string(&log)?.contains("Checking link"));
        wait_for("testpmd starts", Duration::from_secs(20), started).expect("testpmd");
        Some(testpmd)
    }
}

/// Whether the shell would find it.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).exists())
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

#[test]
fn testpmd_gives_back_what_it_gets() {
    let scratch = Scratch::new("traffic-testpmd");
    let Some(_testpmd) = Testpmd::start(scratch.path(), "macswap") else {
        eprintln!("skipped: no dpdk-testpmd");
        return;
    };
    let words = "run --to 02:00:00:00:00:01 --zipf 1 --imix --rate 10000 --packets 10000";
    let report = report(scratch.path(), words).expect("a run");
    assert_nothing_lost(&report, 10_000);
    assert_eq!(report["ttl_lost"]["max"], 0);
    assert_eq!(shares(&report, "packets"), [100], "one station, the sender's own");
    assert_eq!(report["search"], Value::Null, "no search");
}

/// The same over IPv6: what has IPv4 alone in its head would drop or hurt it.
#[test]
fn ipv6_and_quic_come_back_as_they_went() {
    let v6 = "--vip [2001:db8::10]:443";
    let quic = "--quic --life cycle --packets-per-flow 6 --flows 50 --migrate 0.5";
    let mut last = Value::Null;
    for load in ["--imix", "--udp --zipf 1", "--life cycle", "--quic", quic] {
        // Its memif takes one client in its life.
        let scratch = Scratch::new("traffic-v6");
        let Some(_testpmd) = Testpmd::start(scratch.path(), "macswap") else {
            eprintln!("skipped: no dpdk-testpmd");
            return;
        };
        let to = "--to 02:00:00:00:00:01 --rate 5000 --packets 4000";
        last = report(scratch.path(), &format!("run {v6} {load} {to}")).expect(load);
        assert_nothing_lost(&last, 4000);
        assert!(last["load"].as_str().is_some_and(|l| l.contains("over ipv6")), "{last}");
    }
    let report = last;
    // Some 667 flows, of which half migrate; one server has them all.
    let seen = report["migrations"]["seen"].as_u64().expect("a count");
    assert!((250..=420).contains(&seen), "{report}");
    assert_eq!(report["migrations"]["moved"], 0, "{report}");
}

/// 5tswap sends packets back to the client: each is hurt, and each is seen to be.
#[test]
fn a_peer_that_changes_packets_is_found_out() {
    let scratch = Scratch::new("traffic-hurt");
    let Some(_testpmd) = Testpmd::start(scratch.path(), "5tswap") else {
        eprintln!("skipped: no dpdk-testpmd");
        return;
    };
    let words = "run --to 02:00:00:00:00:01 --rate 5000 --packets 5000 --json";
    let output = traffic(scratch.path(), words).output().expect("a run");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(report["faults"]["altered"], 5000, "{report}");
}
