//! One case, the floor, and what the case is compared with: measured in turns, in a process of its
//! own, so that a run never holds more tables than one comparison needs.

use std::time::Duration;

use anyhow::{Context, Result};
use dpdk::{Clock, Mempool, RxHandle, TxHandle};
use serde::{Deserialize, Serialize};
use traffic::cost::Sample;

use crate::bar;
use crate::director::Director;
use crate::expiry::Expiry;
use crate::floor::{Floor, Replay, Swap};
use crate::matrix::{self, FLOOR_GROUP};
use crate::setup::{Load, Setting};
use crate::testpmd::Testpmd;

pub(crate) const FLOORS: [(&str, Swap); 3] =
    [("source-sink", Swap::Io), ("macswap", Swap::Mac), ("5tswap", Swap::FiveTuple)];
pub(crate) const TESTPMD: [(&str, &str); 2] =
    [("testpmd-macswap", "macswap"), ("testpmd-5tswap", "5tswap")];

/// Our `5tswap` on the device of `dpdk-testpmd`.
pub(crate) const REPLAY: &str = "pcap-5tswap";

/// Where everything is measured.
pub(crate) struct Place {
    pub(crate) pool: Mempool,
    /// The queues of the device that `dpdk-testpmd` uses too.
    pub(crate) replay: Option<(RxHandle, TxHandle)>,
    pub(crate) clock: Clock,
    pub(crate) main_core: usize,
    pub(crate) core: usize,
    pub(crate) huge: bool,
}

/// What came of one case: cycles per packet by round, its own and what it is compared with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) case: String,
    pub(crate) cycles: Vec<f64>,
    /// The floor `5tswap` in the same rounds.
    pub(crate) floor: Vec<f64>,
    /// The case that a bar compares it with, in the same rounds; empty: none.
    pub(crate) beside: Vec<f64>,
    pub(crate) packets: u64,
}

/// Measures a group for so many rounds of `limit` CPU time a case.
pub(crate) fn measure(
    mut place: Place,
    group: &str,
    limit: Duration,
    runs: u32,
) -> Result<Vec<Figures>> {
    if group == FLOOR_GROUP {
        let replay = place.replay.take().context("no device to replay from")?;
        return floors(&place, replay, limit, runs);
    }
    let case = matrix::find(group).with_context(|| format!("no case {group:?}"))?;
    let mut subject = Subject::new(&place, &case.name, case.setting)?;
    let mut floor = Floor::new(&place.pool, Swap::FiveTuple);
    let mut figures = Figures { case: case.name, ..Figures::default() };
    let cycles = |sample: Sample| sample.cycles(place.clock.hz());
    for _ in 0..runs {
        figures.floor.push(cycles(floor.run(limit)?));
        let (beside, own) = subject.run(limit)?;
        figures.beside.extend(beside.map(cycles));
        figures.cycles.push(cycles(own));
        figures.packets += own.packets;
    }
    Ok(vec![figures])
}

/// A director, and beside it what it is compared with.
enum Subject {
    Alone(Box<Director>),
    Pair(Box<Director>, Box<Director>),
    Expiry(Box<Expiry>),
}

impl Subject {
    fn new(place: &Place, name: &str, setting: Setting) -> Result<Self> {
        let director = |setting| Director::new(&place.pool, place.clock, setting).map(Box::new);
        if matches!(setting.load, Load::Expire(_)) {
            let expiry = Expiry::new(&place.pool, place.clock, setting)?;
            return Ok(Self::Expiry(Box::new(expiry)));
        }
        let own = director(setting)?;
        match bar::beside(name).and_then(matrix::find) {
            Some(beside) => Ok(Self::Pair(director(beside.setting)?, own)),
            None => Ok(Self::Alone(own)),
        }
    }

    /// The case beside, if there is one, and the case itself.
    fn run(&mut self, limit: Duration) -> Result<(Option<Sample>, Sample)> {
        match self {
            Self::Alone(own) => Ok((None, own.run(limit)?)),
            Self::Pair(beside, own) => Ok((Some(beside.run(limit)?), own.run(limit)?)),
            Self::Expiry(expiry) => expiry.run(limit).map(|(quiet, busy)| (Some(quiet), busy)),
        }
    }
}

/// The floors, and `dpdk-testpmd` where it is installed.
fn floors(
    place: &Place,
    (rx, tx): (RxHandle, TxHandle),
    limit: Duration,
    runs: u32,
) -> Result<Vec<Figures>> {
    let mut testpmd = Testpmd::start(place.main_core, place.core, place.huge)?;
    if testpmd.is_none() {
        eprintln!("dpdk-testpmd is not installed: its cases are left out");
    }
    let mut own = FLOORS.map(|(_, swap)| Floor::new(&place.pool, swap));
    let mut replay = Replay::new(rx, tx);
    let peers = TESTPMD.iter().filter(|_| testpmd.is_some());
    let names = FLOORS.iter().map(|f| f.0).chain([REPLAY]).chain(peers.map(|p| p.0));
    let mut all: Vec<_> =
        names.map(|name| Figures { case: name.to_owned(), ..Figures::default() }).collect();
    for _ in 0..runs {
        let mut samples = own.iter_mut().map(|f| f.run(limit)).collect::<Result<Vec<_>>>()?;
        samples.push(replay.run(limit)?);
        if let Some(testpmd) = &mut testpmd {
            for (_, mode) in TESTPMD {
                samples.push(testpmd.run(mode, limit)?);
            }
        }
        for (figures, sample) in all.iter_mut().zip(samples) {
            figures.cycles.push(sample.cycles(place.clock.hz()));
            figures.packets += sample.packets;
        }
    }
    // The same device, frames and rounds.
    if let Some(peer) = bar::beside(REPLAY).and_then(|name| all.iter().find(|f| f.case == name)) {
        let cycles = peer.cycles.clone();
        all[FLOORS.len()].beside = cycles;
    }
    let swap = FLOORS.iter().position(|f| f.1 == Swap::FiveTuple).unwrap_or_default();
    let floor = all[swap].cycles.clone();
    all.iter_mut().for_each(|figures| figures.floor.clone_from(&floor));
    Ok(all)
}
