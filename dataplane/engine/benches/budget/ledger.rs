//! The budgets in their file: what they are for, and how counts compare with them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fmt, fs};

use serde::Deserialize;

/// How far a count may exceed its budget, or stay below it unremarked.
const TOLERANCE: f64 = 0.03;
const HEAD: &str = "\
# Instructions per packet, pick, connection or turn, as callgrind counts them; the cases are in
# cases.rs. Written by `scripts/bench budgets --update`, held by `scripts/test --only budgets`:
# more than 3 % above fails. Other compilers make other code, so the check is skipped for them.
";

/// What one case may cost more than another: a running list at most 2 %.
const COSTS: [(&str, &str, f64); 1] = [("turn-dr-hit-listed", "turn-dr-hit", 0.02)];

/// The file's content.
#[derive(Deserialize)]
pub(crate) struct Ledger {
    compiler: String,
    target_cpu: String,
    instructions: BTreeMap<String, f64>,
}

impl Ledger {
    /// The budgets of the repository.
    pub(crate) fn read() -> Result<Self, String> {
        let path = path();
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Compiler and processor that they are for.
    pub(crate) fn toolchain(&self) -> (String, String) {
        (self.compiler.clone(), self.target_cpu.clone())
    }

    /// Prints every count beside its budget. False when one is exceeded, missing or left over.
    pub(crate) fn compare(&self, counts: &[(String, f64)]) -> bool {
        println!("{:<24} {:>10} {:>10}", "instructions", "counted", "budget");
        let mut holds = true;
        for (name, counted) in counts {
            let verdict = self.judge(name, *counted);
            holds &= !verdict.fails();
            let budget = self.instructions.get(name).copied().unwrap_or(f64::NAN);
            println!("{name:<24} {counted:>10.1} {budget:>10.1}  {verdict}");
        }
        for name in self.instructions.keys().filter(|n| !counts.iter().any(|(c, _)| c == *n)) {
            println!("{name:<24} has a budget and no case");
            holds = false;
        }
        holds && costs(counts)
    }

    fn judge(&self, name: &str, counted: f64) -> Verdict {
        let Some(budget) = self.instructions.get(name) else { return Verdict::NoBudget };
        let by = counted / budget - 1.0;
        match by {
            by if by > TOLERANCE => Verdict::Exceeded(by),
            by if by < -TOLERANCE => Verdict::Below(by),
            _ => Verdict::Met,
        }
    }
}

/// Prints what a case costs more than the one it is held against. False when that is too much.
fn costs(counts: &[(String, f64)]) -> bool {
    let counted = |name: &str| counts.iter().find(|(c, _)| c == name).map(|(_, n)| *n);
    let cost = |(name, plain, most): &(&'static str, &'static str, f64)| {
        let by = counted(name)? / counted(plain)? - 1.0;
        println!("{name}: {:.1} % above {plain}, at most {:.0} %", by * 100.0, most * 100.0);
        Some(by <= *most)
    };
    COSTS.iter().all(|c| cost(c) == Some(true))
}

enum Verdict {
    Met,
    Below(f64),
    Exceeded(f64),
    NoBudget,
}

impl Verdict {
    const fn fails(&self) -> bool {
        matches!(self, Self::Exceeded(_) | Self::NoBudget)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => f.write_str("met"),
            Self::Below(by) => write!(f, "{:.1} %: bring the budget down", by * 100.0),
            Self::Exceeded(by) => write!(f, "EXCEEDED by {:.1} %", by * 100.0),
            Self::NoBudget => f.write_str("HAS NO BUDGET"),
        }
    }
}

/// Makes these counts the budgets.
pub(crate) fn write(counts: &[(String, f64)]) {
    let (compiler, target_cpu) = toolchain();
    let head = format!("{HEAD}compiler = \"{compiler}\"\ntarget_cpu = \"{target_cpu}\"\n");
    let lines = counts.iter().map(|(name, count)| format!("{name} = {count:.1}\n"));
    let text = format!("{head}\n[instructions]\n{}", lines.collect::<String>());
    fs::write(path(), &text).expect("the repository can be written to");
    print!("{text}");
}

/// The compiler here, and the level of processor that this program was made for.
pub(crate) fn toolchain() -> (String, String) {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().expect("rustc");
    let level = match () {
        () if cfg!(target_feature = "avx512f") => "x86-64-v4",
        () if cfg!(target_feature = "avx2") => "x86-64-v3",
        () if cfg!(target_feature = "sse4.2") => "x86-64-v2",
        () => env::consts::ARCH,
    };
    (String::from_utf8_lossy(&said.stdout).trim().to_owned(), level.to_owned())
}

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "benches", "budget", "budgets.toml"].iter().collect()
}
