//! CPU time, in seconds.

use std::ops::Sub;
use std::time::Instant;

use ::tests::daemon::Daemon;
use ::tests::lab::Lab;
use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What a director has used until now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Threads that sleep when they have nothing to do.
    threads: f64,
    /// A thread that never sleeps.
    lcore: Option<Lcore>,
}

#[derive(Debug, Clone, Copy)]
struct Lcore {
    thread: f64,
    busy_cycles: f64,
    total_cycles: f64,
    at: Instant,
}

impl Reading {
    /// Of processes that sleep when they have nothing to do.
    pub(crate) fn of(pids: &[u32]) -> Result<Self> {
        Ok(Self { threads: threads(pids, |_| true)?, lcore: None })
    }

    /// Of a director with one lcore.
    pub(crate) fn of_sluice(daemon: &Daemon, pids: &[u32]) -> Result<Self> {
        let document = daemon.ctl.json("lcores")?;
        let counters = &document["lcores"][0]["counters"];
        let counter = |name: &str| {
            counters[name].as_f64().with_context(|| format!("lcores: no {name} in {counters}"))
        };
        let is_lcore = |name: &str| name.starts_with("lcore-");
        let lcore = Lcore {
            thread: threads(pids, is_lcore)?,
            busy_cycles: counter("busy_cycles")?,
            total_cycles: counter("total_cycles")?,
            at: Instant::now(),
        };
        Ok(Self { threads: threads(pids, |name| !is_lcore(name))?, lcore: Some(lcore) })
    }

    /// The time spent on work since an earlier reading. The time-stamp counter goes on while a turn
    /// is interrupted, the thread's CPU time while there is no work: the truth is below both.
    pub(crate) fn since(&self, before: &Self) -> f64 {
        let lcore = match (&self.lcore, &before.lcore) {
            (Some(now), Some(then)) => {
                let cycles = now.total_cycles - then.total_cycles;
                let share = (now.busy_cycles - then.busy_cycles) / cycles.max(1.0);
                let busy = share * (now.at - then.at).as_secs_f64();
                busy.min(now.thread - then.thread)
            }
            _ => 0.0,
        };
        self.threads - before.threads + lcore
    }
}

/// All others that take part: real servers, the kernel's threads that receive packets, the client.
pub(crate) struct Others {
    pids: Vec<u32>,
}

/// CPU time of [`Others`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct OthersReading(f64);

impl Others {
    pub(crate) fn of(lab: &Lab) -> Result<Self> {
        let mut pids = softirq_threads()?;
        for server in ["s1", "s2", "s3"] {
            pids.extend(lab.pids(server)?);
        }
        Ok(Self { pids })
    }

    /// The client is a child that has ended by now.
    pub(crate) fn reading(&self) -> Result<OthersReading> {
        let children = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let micros =
            children.user_time().num_microseconds() + children.system_time().num_microseconds();
        #[allow(clippy::cast_precision_loss, reason = "microseconds of minutes")]
        Ok(OthersReading(threads(&self.pids, |_| true)? + micros as f64 / 1e6))
    }
}

impl Sub for OthersReading {
    type Output = f64;

    fn sub(self, before: Self) -> f64 {
        self.0 - before.0
    }
}

/// CPU time of the processes' living threads whose name is wanted.
fn threads(pids: &[u32], wanted: impl Fn(&str) -> bool) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for pid in pids {
        let tasks = format!("/proc/{pid}/task");
        for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let task = task?.path();
            let read = |name: &str| std::fs::read_to_string(task.join(name));
            // A thread may end meanwhile: sluiced has one for each client of its socket.
            let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else { continue };
            if wanted(name.trim()) {
                let first = stat.split_whitespace().next().context("an empty schedstat")?;
                nanoseconds += first.parse::<f64>()?;
            }
        }
    }
    Ok(nanoseconds / 1e9)
}

fn softirq_threads() -> Result<Vec<u32>> {
    let all = std::fs::read_dir("/proc")?.flatten();
    let numbered = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let is_softirq = |pid: &u32| {
        // Processes come and go meanwhile.
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.starts_with("ksoftirqd/"))
    };
    Ok(numbered.filter(is_softirq).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn work_is_the_smaller_of_two_bounds() {
        let at = Instant::now();
        let reading = |threads, thread, busy_cycles, seconds| Reading {
            threads,
            lcore: Some(Lcore {
                thread,
                busy_cycles,
                total_cycles: 1e9 * seconds,
                at: at + Duration::from_secs_f64(seconds),
            }),
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let before = reading(1.0, 5.0, 100e6, 0.0);
        // A quarter of two seconds' turns had work; two other threads' tenth of a second.
        assert!(close(reading(1.1, 7.0, 600e6, 2.0).since(&before), 0.6));
        // The thread had less CPU time than its busy turns took: it was interrupted.
        assert!(close(reading(1.1, 5.3, 600e6, 2.0).since(&before), 0.4));
    }

    #[test]
    fn threads_that_end_meanwhile_do_no_harm() {
        let own = [std::process::id()];
        let short = std::thread::spawn(|| {
            (0..2000).for_each(|_| std::thread::spawn(|| ()).join().expect("a short thread"));
        });
        while !short.is_finished() {
            Reading::of(&own).expect("a reading");
        }
        assert!(Reading::of(&[u32::MAX]).is_err(), "a process that is gone is an error");
    }

    #[test]
    fn own_cpu_time_grows() {
        // Of this thread alone: other tests' threads end in the middle.
        let own = std::fs::read_to_string("/proc/thread-self/comm").expect("a name");
        let reading = || threads(&[std::process::id()], |name| name == own.trim()).expect("a sum");
        let before = reading();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {}
        assert!(reading() - before > 0.001);
        let of_nobody = threads(&[std::process::id()], |name| name == "nobody").expect("a sum");
        assert!(of_nobody.abs() < f64::EPSILON);
    }
}
