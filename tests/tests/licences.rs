//! Licences and sources of all dependencies against `deny.toml`, where cargo-deny is not installed.
use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use tests::{output, root};

fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let text = output(cargo.arg("x86_64-unknown-linux-gnu").current_dir(root())).expect("metadata");
    let metadata: Value = serde_json::from_str(&text).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// What `deny.toml` allows.
fn allowed() -> BTreeSet<String> {
    let policy = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let policy: toml::Table = policy.parse().expect("TOML");
    let names = policy["licenses"]["allow"].as_array().expect("a list");
    names.iter().map(|n| n.as_str().expect("a name").to_owned()).collect()
}

/// SPDX expressions: one side of an OR is enough, an AND needs both. `AND` binds tighter; an
/// expression in brackets is judged by the names in it, all of which must then be allowed.
fn permitted(expression: &str, allowed: &BTreeSet<String>) -> bool {
    if let Some(open) = expression.find('(') {
        let names = expression[open..].replace(['(', ')'], " ").replace(" OR ", " AND ");
        let rest = expression[..open].trim_end_matches(" AND ").trim_end_matches(" OR ");
        return permitted(&names, allowed) && (rest.is_empty() || permitted(rest, allowed));
    }
    let both = |part: &str| part.split(" AND ").all(|name| allowed.contains(name.trim()));
    expression.replace('/', " OR ").split(" OR ").any(both)
}

#[test]
fn every_licence_is_allowed() {
    let allowed = allowed();
    let refused = |p: &&Value| !permitted(p["license"].as_str().unwrap_or("none"), &allowed);
    let found: Vec<_> = packages()
        .iter()
        .filter(refused)
        .map(|p| format!("{} {}", p["name"], p["license"]))
        .collect();
    assert!(found.is_empty(), "licences that deny.toml does not allow: {found:#?}");
}

#[test]
fn every_source_is_a_registry() {
    let odd = |p: &&Value| p["source"].as_str().is_some_and(|s| !s.starts_with("registry+"));
    let found: Vec<_> = packages().iter().filter(odd).map(|p| p["source"].to_string()).collect();
    assert!(found.is_empty(), "sources that are no registry: {found:#?}");
}

#[test]
fn expressions_are_read_as_spdx_says() {
    let allowed: BTreeSet<String> = ["MIT", "Zlib"].map(String::from).into();
    assert!(permitted("GPL-2.0 OR MIT", &allowed));
    assert!(permitted("MIT/GPL-2.0", &allowed));
    assert!(permitted("(MIT OR Zlib) AND Zlib", &allowed));
    assert!(permitted("MIT AND Zlib", &allowed));
    assert!(!permitted("MIT AND GPL-2.0", &allowed));
    assert!(!permitted("MIT AND (GPL-2.0)", &allowed));
    assert!(!permitted("none", &allowed));
}
