//! Who runs where, and in what frames replies travel.

use ::tests::lab::Lab;
use ::tests::output;
use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A core for the director, the others for the rest of the lab.
pub(crate) struct Stage {
    /// The last core that this program may use.
    pub(crate) core: usize,
    rest: Vec<usize>,
}

/// Those who take part: the second client has no load.
const MEMBERS: [&str; 5] = ["d", "c1", "s1", "s2", "s3"];

impl Stage {
    /// Leaves the last core; all that this program starts does the same unless it is told
    /// otherwise.
    pub(crate) fn enter() -> Result<Self> {
        let all = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
        let mut rest: Vec<_> =
            (0..CpuSet::count()).filter(|n| all.is_set(*n).unwrap_or(false)).collect();
        ensure!(rest.len() > 1, "needs two cores: one for the director, one for all others");
        let core = rest.pop().context("a core")?;
        let mut set = CpuSet::new();
        rest.iter().try_for_each(|n| set.set(*n))?;
        sched_setaffinity(Pid::from_raw(0), &set).context("sched_setaffinity")?;
        Ok(Self { core, rest })
    }

    /// All cores, as `taskset -c` takes them.
    pub(crate) fn all_cores(&self) -> String {
        let all = self.rest.iter().chain([&self.core]);
        all.map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whoever receives a packet pays for it (receive packet steering), not whoever sends it.
    pub(crate) fn steer(&self, lab: &Lab) -> Result<()> {
        let (own, rest) = (mask(&[self.core]), mask(&self.rest));
        for member in MEMBERS {
            let cores = if member == "d" { &own } else { &rest };
            shell(
                lab,
                member,
                &format!("echo {cores} > /sys/class/net/eth0/queues/rx-0/rps_cpus"),
            )?;
        }
        let ports = "for p in /sys/class/net/port-*/queues/rx-0/rps_cpus";
        shell(lab, "sw", &format!("{ports}; do echo {rest} > $p; done"))
    }

    /// Without `tso` all frames are as on the wire. With it, TCP hands over super-frames wherever
    /// the candidate can take them: Sluice does not see replies, and its requests must have their
    /// checksums (AF_PACKET and AF_XDP hand it none that is left to the device).
    pub(crate) fn offloads(&self, lab: &Lab, tso: bool, sluice: bool) -> Result<()> {
        for member in MEMBERS {
            let own = tso && !(sluice && matches!(member, "d" | "c1"));
            let port = tso && !(sluice && member == "d");
            ethtool(lab, member, "eth0", own)?;
            ethtool(lab, "sw", &format!("port-{member}"), port)?;
        }
        Ok(())
    }
}

fn ethtool(lab: &Lab, member: &str, device: &str, on: bool) -> Result<()> {
    let on = if on { "on" } else { "off" };
    shell(lab, member, &format!("ethtool -K {device} tx {on} tso {on} gso {on}"))
}

fn shell(lab: &Lab, member: &str, words: &str) -> Result<()> {
    output(lab.command(member, "sh").args(["-ec", words])).map(drop)
}

/// Cores as sysfs takes them: groups of 32 bits, the highest first.
fn mask(cores: &[usize]) -> String {
    let groups = cores.iter().max().map_or(1, |n| n / 32 + 1);
    let group = |g: usize| {
        let bits = cores.iter().filter(|n| **n / 32 == g).map(|n| 1_u32 << (n % 32));
        format!("{:08x}", bits.fold(0, |all, bit| all | bit))
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks_are_written_in_groups() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 3, 31]), "8000000a");
        assert_eq!(mask(&[0, 33]), "00000002,00000001");
    }
}
