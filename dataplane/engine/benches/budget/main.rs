//! How many instructions the stages and whole turns take, held against `budgets.toml`.
//!
//! ```text
//!  scripts/bench budgets            counts all, fails where a budget is exceeded by more than 3 %
//!  scripts/bench budgets --update   counts all and writes the budgets anew
//! ```
//! Instructions are counted by callgrind, so a busy machine changes nothing and a figure repeats to
//! the last digit. They are no cycles: what waits for memory costs none, so `scripts/bench dataplane`
//! has the last word on speed. The program runs itself under valgrind, once per case; only what
//! happens inside [`cases::measured`] counts, and the queues of the rig do not.

mod cases;
mod ledger;
#[path = "../rig/mod.rs"]
#[allow(dead_code, reason = "another benchmark uses the rest")]
mod rig;

use std::env;
use std::process::{Command, ExitCode};

use crate::cases::Case;
use crate::ledger::Ledger;

/// Where callgrind begins to count, and within it where it does not.
const TOGGLES: [&str; 2] = ["budget::cases::measured*", "budget::rig::aside*"];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|w| *w != "--bench").collect();
    match words[..] {
        ["--case", name] => run(name),
        [] => check(),
        ["--update"] => update(),
        _ => {
            eprintln!("budget: nothing, or --update, or --case NAME");
            ExitCode::FAILURE
        }
    }
}

/// The child: one case, and on its standard output how many units it worked on.
fn run(name: &str) -> ExitCode {
    let Some(case) = cases::all().into_iter().find(|c| c.name == name) else {
        eprintln!("budget: no case {name}");
        return ExitCode::FAILURE;
    };
    println!("{}", (case.run)());
    ExitCode::SUCCESS
}

fn check() -> ExitCode {
    let budgets = match Ledger::read() {
        Ok(budgets) => budgets,
        Err(error) => {
            eprintln!("budget: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (here, there) = (ledger::toolchain(), budgets.toolchain());
    if here != there {
        println!(
            "skipped: budgets are for {}, {}; this is {}, {}",
            there.0, there.1, here.0, here.1
        );
        return ExitCode::SUCCESS;
    }
    let counts: Vec<_> = cases::all().iter().map(|c| (c.name.clone(), count(c))).collect();
    if budgets.compare(&counts) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn update() -> ExitCode {
    let counts: Vec<_> = cases::all().iter().map(|c| (c.name.clone(), count(c))).collect();
    ledger::write(&counts);
    ExitCode::SUCCESS
}

/// Instructions per unit of a case.
fn count(case: &Case) -> f64 {
    let own = env::current_exe().expect("its own path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(TOGGLES.map(|toggle| format!("--toggle-collect={toggle}")))
        .arg(own)
        .args(["--case", &case.name])
        .output()
        .expect("valgrind is installed: scripts/setup test");
    let (said, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {log}", case.name);
    let collected = log.split("Collected : ").nth(1).and_then(|s| s.split_whitespace().next());
    let total: f64 = collected.and_then(|s| s.parse().ok()).expect("callgrind's total");
    let units: f64 = said.trim().parse().expect("how many units");
    assert!(total > 0.0 && units > 0.0, "{}: nothing was counted: {log}", case.name);
    total / units
}
