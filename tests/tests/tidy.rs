//! Style as a test: what a machine can check is not discussed in review.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::root;

/// Where `unsafe` may stand: the bindings, their safe wrapper, and one instruction of the engine.
const UNSAFE: [&str; 3] = ["dpdk-sys/", "dataplane/dpdk/", "dataplane/engine/src/cpu.rs"];

/// Who may use whom among the workspace's crates: arrows only go down (ARCHITECTURE.md).
const FLOORS: [(&str, &[&str]); 8] = [
    ("dpdk-sys", &[]),
    ("engine", &[]),
    ("config", &["engine"]),
    ("dpdk", &["dpdk-sys", "engine"]),
    ("controlplane", &["config", "engine"]),
    ("traffic", &["dpdk", "controlplane", "config", "engine"]),
    ("dataplane", &["dpdk", "controlplane", "config", "engine"]),
    ("tests", &["dataplane", "dpdk", "controlplane", "config", "engine", "traffic"]),
];

/// The parts of the engine that stand on top of it: only those right of the colon may use them.
const SUMMITS: [(&str, &[&str]); 2] =
    [("pipeline", &["lib.rs", "worker", "testkit/"]), ("worker", &["lib.rs", "testkit/"])];

/// The ground of the engine: what each of these may use of it, beside the registry macro.
const GROUND: [(&str, &[&str]); 13] = [
    ("addr", &[]),
    ("frame", &[]),
    ("cpu", &[]),
    ("sync", &[]),
    ("ticks", &[]),
    ("flow", &["addr"]),
    ("queue", &["frame"]),
    ("verdict", &[]),
    ("counter", &["sync"]),
    ("turns", &["counter"]),
    ("changes", &["sync"]),
    ("stats", &["changes", "counter", "sync", "turns", "verdict"]),
    ("wire", &["addr"]),
];

/// What the safe wrapper of DPDK may know of the engine: the traits it implements.
const DPDK_SEES: [&str; 5] =
    ["engine::addr", "engine::frame", "engine::queue", "engine::registry", "engine::ticks"];

/// Files below `directory` whose path ends so, relative to the repository, in order.
fn files(directory: &str, suffix: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(directory)];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_string_lossy().starts_with('.') || name == "target" {
                continue;
            } else if path.is_dir() {
                pending.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path.strip_prefix(root()).expect("below").display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// A line without its comment and without what stands between quotes.
fn code(line: &str) -> String {
    let quoted =
        |(i, part): (usize, &str)| if i % 2 == 0 { part.to_owned() } else { String::new() };
    let bare: String = line.replace("\\\"", "").split('"').enumerate().map(quoted).collect();
    bare.split("//").next().unwrap_or_default().to_owned()
}

fn has_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.split(|c| !is_word(c)).any(|found| found == word)
}

/// The paths in a file's code that begin so, each with the one name that follows. The crate's own
/// unit tests, which stand last in a file, may use anything.
fn paths(file: &str, begin: &str) -> Vec<String> {
    let text = text(file);
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let name = |rest: &str| rest.split(|c| !is_word(c)).next().unwrap_or_default().to_owned();
    let of_line = |line: &str| {
        let code = code(line);
        code.split(begin).skip(1).map(|rest| format!("{begin}{}", name(rest))).collect::<Vec<_>>()
    };
    product.lines().flat_map(of_line).collect()
}

#[track_caller]
fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut found = Vec::new();
    for file in files("", ".rs").iter().filter(|f| !UNSAFE.iter().any(|u| f.starts_with(u))) {
        let lines = text(file);
        let guilty = lines.lines().enumerate().filter(|(_, l)| has_word(&code(l), "unsafe"));
        found.extend(guilty.map(|(i, l)| format!("{file}:{}: {}", i + 1, l.trim())));
    }
    none("unsafe outside of dpdk-sys, dataplane/dpdk and cpu.rs", &found);
}

/// A block or impl has `SAFETY:` in the comment before it, a function `# Safety` in its doc.
#[test]
fn unsafe_gives_its_reasons() {
    let mut found = Vec::new();
    for file in files("", ".rs").iter().filter(|f| !f.starts_with("dpdk-sys/")) {
        let text = text(file);
        let lines: Vec<_> = text.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, l)| has_word(&code(l), "unsafe")) {
            let before = lines[i.saturating_sub(12)..=i].join("\n");
            let attribute = line.trim().starts_with("#");
            if !attribute && !before.contains("SAFETY:") && !before.contains("# Safety") {
                found.push(format!("{file}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none("unsafe without SAFETY", &found);
}

#[test]
fn every_module_says_what_it_is() {
    let silent = |f: &String| !text(f).starts_with("//!");
    none(
        "no //! in the first line",
        &files("", ".rs").into_iter().filter(silent).collect::<Vec<_>>(),
    );
}

#[test]
fn arrows_between_crates_go_down() {
    let mut found = Vec::new();
    for file in files("", "Cargo.toml").iter().filter(|f| *f != "Cargo.toml") {
        let manifest: toml::Table = text(file).parse().unwrap_or_else(|e| panic!("{file}: {e}"));
        let name = manifest["package"]["name"].as_str().expect("a name");
        let Some((_, may)) = FLOORS.iter().find(|(floor, _)| *floor == name) else {
            continue; // outside of the workspace: fuzz targets
        };
        let used = manifest.get("dependencies").and_then(|d| d.as_table());
        let used = used.into_iter().flat_map(|d| d.keys());
        let ours = used.filter(|d| FLOORS.iter().any(|(floor, _)| floor == d));
        let wrong = ours.filter(|d| !may.contains(&d.as_str()));
        found.extend(wrong.map(|d| format!("{name} uses {d}")));
    }
    none("a crate uses what is not below it", &found);
}

#[test]
fn nothing_in_the_engine_stands_on_its_summits() {
    let mut found = Vec::new();
    for (summit, may) in SUMMITS {
        let path = format!("crate::{summit}");
        for file in files("dataplane/engine/src", ".rs") {
            let inner = file.trim_start_matches("dataplane/engine/src/");
            let allowed = inner.starts_with(summit) || may.iter().any(|m| inner.starts_with(m));
            if !allowed && text(&file).lines().any(|l| code(l).contains(&path)) {
                found.push(format!("{file} uses {path}"));
            }
        }
    }
    none("a module uses one above its floor", &found);
}

#[test]
fn the_ground_of_the_engine_is_low() {
    let mut found = Vec::new();
    for file in files("dataplane/engine/src", ".rs") {
        let inner = file.trim_start_matches("dataplane/engine/src/");
        let module = inner.split(['/', '.']).next().unwrap_or_default();
        let Some((_, may)) = GROUND.iter().find(|(ground, _)| *ground == module) else { continue };
        for used in paths(&file, "crate::") {
            let used = used.trim_start_matches("crate::");
            if used != "registry" && used != module && !may.contains(&used) {
                found.push(format!("{file} uses crate::{used}"));
            }
        }
    }
    none("a module of the engine's ground uses one above", &found);
}

#[test]
fn the_dpdk_wrapper_knows_the_traits_alone() {
    let mut found = Vec::new();
    for file in files("dataplane/dpdk/src", ".rs") {
        let wrong = paths(&file, "engine::").into_iter().filter(|p| !DPDK_SEES.contains(&&p[..]));
        found.extend(wrong.map(|p| format!("{file} uses {p}")));
    }
    none("dataplane/dpdk uses more of the engine than the traits", &found);
}

#[test]
fn every_script_explains_itself() {
    let executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let entries = fs::read_dir(root().join("scripts")).expect("scripts/").flatten();
    let scripts: Vec<PathBuf> = entries.map(|e| e.path()).filter(executable).collect();
    assert!(!scripts.is_empty());
    let silent = |script: &&PathBuf| {
        let output = Command::new(script).arg("--help").output().expect("it starts");
        !output.status.success() || output.stdout.len() < 80
    };
    let found: Vec<_> = scripts.iter().filter(silent).map(|s| s.display().to_string()).collect();
    none("a script without --help", &found);
}

/// Every direct dependency has its reason in the line before it.
#[test]
fn every_dependency_has_a_reason() {
    let manifest = text("Cargo.toml");
    let table = manifest.split("[workspace.dependencies]").nth(1).expect("dependencies");
    let table = table.split("\n[").next().unwrap_or_default();
    let mut reason = false;
    let mut found = BTreeMap::new();
    for line in table.lines() {
        let is_dependency = line.contains('=') && !line.starts_with('#');
        if is_dependency && !reason {
            found.insert(line.to_owned(), ());
        }
        // One reason may speak for the lines that follow it without a gap.
        reason = line.starts_with('#') || (reason && is_dependency) || line.starts_with(['}', ' ']);
    }
    none("a dependency without a reason", &found.into_keys().collect::<Vec<_>>());
}

/// A scan that finds nothing must be able to find something.
#[test]
fn the_scanner_sees_words_and_skips_quotes() {
    assert!(has_word(&code("let x = unsafe { y };"), "unsafe"));
    assert!(!has_word(&code("#![deny(unsafe_code)]"), "unsafe"));
    assert!(!has_word(&code("let s = \"unsafe\"; // unsafe"), "unsafe"));
    assert!(files("", ".rs").iter().any(|f| Path::new(f) == Path::new("tests/tests/tidy.rs")));
}
