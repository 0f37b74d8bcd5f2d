//! The list of cases.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use dpdk::{Clock, Mempool};
use engine::forward::ForwarderKind;
use traffic::cost::Sample;

use crate::director::{Director, Load};
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
const LOADS: [(&str, Load); 5] = [
    ("hit-1k", Load::Hit(10)),
    ("hit-64k", Load::Hit(16)),
    ("hit-1M", Load::Hit(20)),
    ("new-1k", Load::New(10)),
    ("new-1M", Load::New(20)),
];

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
    for &forwarder in ForwarderKind::ALL {
        for (load_name, load) in LOADS {
            let name = format!("{}-v4-{load_name}", forwarder.name());
            if is_wanted(&name, only) {
                let director = Director::new(&place.pool, place.clock, forwarder, load);
                add(&name, Subject::Director(Box::new(director.with_context(|| name.clone())?)));
            }
        }
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
