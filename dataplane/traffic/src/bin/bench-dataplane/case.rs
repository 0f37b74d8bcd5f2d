//! The list of cases.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use dpdk::{Clock, Mempool};
use engine::conn::table::ConnTable;
use engine::forward::ForwarderKind;
use traffic::cost::Sample;

use crate::director::{Director, Load, Setting};
use crate::floor::{Floor, Swap};
use crate::testpmd::Testpmd;

/// Where everything is measured.
pub(crate) struct Place {
    pub(crate) pool: Mempool,
    pub(crate) clock: Clock,
    pub(crate) main_core: usize,
    pub(crate) core: usize,
    pub(crate) huge: bool,
}

/// One row of the table.
pub(crate) struct Case {
    pub(crate) name: String,
    subject: Subject,
}

enum Subject {
    Floor(Box<Floor>),
    Testpmd(&'static str),
    Director(Box<Director>),
}

const FLOORS: [(&str, Swap); 3] =
    [("source-sink", Swap::Io), ("macswap", Swap::Mac), ("5tswap", Swap::FiveTuple)];
const TESTPMD: [(&str, &str); 2] = [("testpmd-macswap", "macswap"), ("testpmd-5tswap", "5tswap")];
/// Short names of loads, and whether a run without `--only` has them.
const LOADS: [(&str, Load, bool); 8] = [
    ("hit-32", Load::Hit(5), false),
    ("hit-1k", Load::Hit(10), true),
    ("hit-64k", Load::Hit(16), true),
    ("hit-1M", Load::Hit(20), true),
    ("hit-16M", Load::Hit(24), true),
    ("new", Load::New(20), true),
    ("new-1k", Load::New(10), false),
    ("new-64k", Load::New(16), false),
];
/// Servers; eight are not named.
const SERVERS: [(&str, u16); 4] =
    [("", 8), ("-3servers", 3), ("-100servers", 100), ("-1000servers", 1000)];
/// Services; one is not named.
const SERVICES: [(&str, u16); 2] = [("", 1), ("-10kservices", 10_000)];
/// What a run without `--only` has besides.
const BESIDES: [&str; 3] =
    ["dr-v4-new-1000servers", "dr-v4-hit-1k-1000servers", "dr-v4-hit-1k-10kservices"];
/// Bytes that must be left over when a table was made.
const RESERVE: u64 = 512 << 20;

/// The whole matrix, small tables first.
fn matrix() -> Vec<(String, Setting, bool)> {
    let mut all = Vec::new();
    for &forwarder in ForwarderKind::ALL {
        for (load_name, load, usual) in LOADS {
            for (servers_name, servers) in SERVERS {
                for (services_name, services) in SERVICES {
                    // Each service has a pool of its own: ten million places say nothing new.
                    if u32::from(servers) * u32::from(services) > 1_000_000 {
                        continue;
                    }
                    let name =
                        format!("{}-v4-{load_name}{servers_name}{services_name}", forwarder.name());
                    let plain = servers == 8 && services == 1;
                    let dr_only = load == Load::Hit(24) && forwarder != ForwarderKind::Dr;
                    let usual = usual && plain && !dr_only || BESIDES.contains(&name.as_str());
                    all.push((name, Setting { forwarder, load, servers, services }, usual));
                }
            }
        }
    }
    all.sort_by_key(|(_, setting, _)| setting.capacity());
    all
}

/// Whether there is memory for a table: reserved pages, or what the kernel can give.
fn has_room(bytes: usize) -> bool {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = info.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    let huge = field("HugePages_Free:").saturating_sub(field("HugePages_Rsvd:")) * (2 << 20);
    huge >= bytes as u64 || field("MemAvailable:") * 1024 >= bytes as u64 + RESERVE
}

/// The child that two of the cases need, if one of them is wanted and it is installed.
pub(crate) fn testpmd(place: &Place, only: &[String]) -> Result<Option<Testpmd>> {
    if !TESTPMD.iter().any(|(name, _)| is_wanted(name, only)) {
        return Ok(None);
    }
    let started = Testpmd::start(place.main_core, place.core, place.huge)?;
    if started.is_none() {
        eprintln!("dpdk-testpmd is not installed: its cases are left out");
    }
    Ok(started)
}

/// All cases that are wanted, each in its steady state.
pub(crate) fn all(place: &Place, only: &[String], with_testpmd: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |name: &str, subject| cases.push(Case { name: name.to_owned(), subject });
    for (name, swap) in FLOORS {
        if name == "5tswap" || is_wanted(name, only) {
            add(name, Subject::Floor(Box::new(Floor::new(&place.pool, swap))));
        }
    }
    for (name, mode) in TESTPMD {
        if with_testpmd && is_wanted(name, only) {
            add(name, Subject::Testpmd(mode));
        }
    }
    let matrix = matrix();
    // A case's whole name means that case alone, though it begins those of others.
    let whole = |word: &str| matrix.iter().any(|(name, ..)| name == word);
    let asked = |name: &str| {
        only.iter()
            .any(|word| if whole(word) { name == word } else { name.contains(word.as_str()) })
    };
    for (name, setting, usual) in &matrix {
        if !(if only.is_empty() { *usual } else { asked(name) }) {
            continue;
        }
        let bytes = ConnTable::bytes(setting.capacity());
        if !has_room(bytes) {
            eprintln!("{name}: skipped, no memory for a table of {} MB", bytes >> 20);
            continue;
        }
        let director = Director::new(&place.pool, place.clock, *setting);
        add(name, Subject::Director(Box::new(director.with_context(|| name.clone())?)));
    }
    let names = |word: &String| cases.iter().any(|c| c.name.contains(word.as_str()));
    if let Some(word) = only.iter().find(|word| !names(word)) {
        bail!("no case that can run here has {word:?} in its name");
    }
    Ok(cases)
}

fn is_wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|word| name.contains(word.as_str()))
}

impl Case {
    /// Measures once.
    pub(crate) fn run(&mut self, limit: Duration, testpmd: Option<&mut Testpmd>) -> Result<Sample> {
        match &mut self.subject {
            Subject::Floor(floor) => floor.run(limit),
            Subject::Testpmd(mode) => testpmd.context("it does not run")?.run(mode, limit),
            Subject::Director(director) => director.run(limit),
        }
    }
}
