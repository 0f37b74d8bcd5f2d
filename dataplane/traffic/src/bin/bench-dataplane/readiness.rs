//! How long a table for 16 million connections takes until it is ready, and what one costs there.

use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use dpdk::{Touch, zeroed_huge};
use engine::conn::table::ConnTable;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};

use crate::matrix::TABLE;

/// Connections that the table has room for.
pub(crate) const PLACES: u32 = 1 << 24;
/// Most bytes a connection may cost, all told.
const MOST_BYTES: f64 = 96.0;
/// Most seconds beyond the kernel's own.
const MOST_SECONDS: f64 = 2.0;

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Readiness {
    case: String,
    bytes_per_connection: f64,
    /// CPU time of the thread in user mode, in seconds: ours.
    user_seconds: f64,
    /// In the kernel: page faults.
    kernel_seconds: f64,
    wall_seconds: f64,
    pages: String,
    bar: String,
}

/// Makes one as the daemon does.
pub(crate) fn measure() -> Result<Readiness> {
    let bytes = ConnTable::bytes(PLACES);
    let (began, before) = (Instant::now(), usage()?);
    let memory = zeroed_huge(bytes, Touch::Now)?;
    ConnTable::new(memory.bytes, PLACES).map_err(|e| anyhow!("table: {e:?}"))?;
    let (wall, after) = (began.elapsed(), usage()?);
    let (user_seconds, kernel_seconds) = (after.0 - before.0, after.1 - before.1);
    let each = bytes as f64 / f64::from(PLACES);
    let verdict = |met: bool| if met { "met" } else { "missed" };
    let small = verdict(each <= MOST_BYTES);
    let quick = verdict(user_seconds < MOST_SECONDS);
    Ok(Readiness {
        case: TABLE.to_owned(),
        bytes_per_connection: (each * 10.0).round() / 10.0,
        user_seconds,
        kernel_seconds,
        wall_seconds: wall.as_secs_f64(),
        pages: memory.pages.to_string(),
        bar: format!("{MOST_BYTES} bytes: {small}, {MOST_SECONDS} s beyond the kernel's: {quick}"),
    })
}

/// CPU time of this thread in user mode and in the kernel, in seconds.
fn usage() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("getrusage")?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 * 1e-6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

impl Readiness {
    /// A line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}: {} bytes a connection; ready in {:.3} s and {:.2} s in the kernel ({:.2} s by the \
             clock, {}); {}",
            self.case,
            self.bytes_per_connection,
            self.user_seconds,
            self.kernel_seconds,
            self.wall_seconds,
            self.pages,
            self.bar
        )
    }
}
