//! The benchmark of `scripts/bench endtoend` measures what it says, and leaves nothing behind.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tests::lab::is_possible;
use tests::{both, program};

fn bench(words: &str) -> Command {
    let mut bench = Command::new(program("bench-endtoend"));
    bench.args(words.split(' ')).stdin(Stdio::null());
    bench.stdout(Stdio::piped()).stderr(Stdio::piped());
    bench
}

/// The figures of a case that was asked for, sound in themselves.
fn assert_measured(row: &Value) {
    assert_eq!(row["failed"], 0, "{row}");
    assert!(row["requests"].as_u64().is_some_and(|n| n > 100), "{row}");
    for figure in [
        "requests_per_second",
        "p50_us",
        "p99_us",
        "director_cpu_us_per_request",
        "total_cpu_us_per_request",
    ] {
        let [min, median, max] =
            ["min", "median", "max"].map(|end| row[figure][end].as_f64().expect("a number"));
        assert!(0.0 < min && min <= median && median <= max, "{figure}: {row}");
    }
    let median = |figure: &str| row[figure]["median"].as_f64().expect("a number");
    assert!(median("p50_us") <= median("p99_us"), "{row}");
    let (director, total) = ("director_cpu_us_per_request", "total_cpu_us_per_request");
    assert!(median(director) < median(total), "{row}");
}

#[test]
fn it_measures_sluice_and_whom_it_finds() {
    if !is_possible() {
        return;
    }
    let words = "--seconds 1 --runs 1 --json --only \
                 sluice-dr/100B,sluice-dr/100KB-tso,haproxy/100KB-tso,nginx-stream/100KB-tso";
    let output = bench(words).output().expect("the benchmark");
    assert!(output.status.success(), "{}", both(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let of = |case: &str| rows.iter().find(|row| row["case"] == case);
    rows.iter().for_each(assert_measured);
    assert_eq!(of("sluice-dr/100B").expect("a row")["ratio_to_sluice"], 1.0);
    assert_eq!(of("sluice-dr/100KB-tso").expect("a row")["load"], "100KB-tso");
    let said = String::from_utf8_lossy(&output.stderr);
    for proxy in ["haproxy", "nginx-stream"] {
        if said.contains(&format!("skipped: {proxy} ")) {
            eprintln!("skipped: {proxy} is not installed");
            continue;
        }
        let row = of(&format!("{proxy}/100KB-tso")).expect("a row");
        assert!(row["bar"].as_str().is_some_and(|bar| bar.contains("x CPU")), "{row}");
    }
}

#[test]
fn interrupted_it_leaves_nothing() {
    if !is_possible() {
        return;
    }
    let mut child = bench("--only sluice-dr/100B --runs 600 --seconds 1").spawn().expect("it");
    let mut said = BufReader::new(child.stderr.take().expect("its messages")).lines();
    // The lab is up by now, in a namespace named after the process.
    let round = |line: &Result<String, _>| line.as_ref().is_ok_and(|l| l == "round 1 of 600");
    assert!(said.any(|line| round(&line)));
    let namespace = format!("/run/netns/t{}-d", child.id());
    assert!(Path::new(&namespace).exists());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("a signal");
    let rest: Vec<_> = said.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    assert!(rest.iter().any(|line| line.contains("interrupted")), "{rest:?}");
    assert!(!Path::new(&namespace).exists(), "the lab is still there: {rest:?}");
}
