//! What killed processes have left: EAL's directory of each, which nobody removes after SIGKILL.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Removes the directories beside `own` that carry our name and the number of a process that is no
/// more. Other programs' and living processes' stay, and so does what cannot be removed.
pub(crate) fn sweep(own: &Path) {
    let Some(entries) = own.parent().and_then(|all| fs::read_dir(all).ok()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner);
        if owner.is_some_and(is_gone) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process in `sluice-PID`, or in `sluice-bench-PID`, as a benchmark calls its dpdk-testpmd.
fn owner(name: &str) -> Option<Pid> {
    let rest = name.strip_prefix("sluice-")?;
    let number = rest.strip_prefix("bench-").unwrap_or(rest).parse().ok()?;
    (number > 1).then(|| Pid::from_raw(number))
}

fn is_gone(owner: Pid) -> bool {
    kill(owner, None) == Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    #[test]
    fn only_what_the_dead_have_left_of_ours_goes() {
        let mut child = Command::new("true").spawn().expect("a process");
        let dead = child.id();
        child.wait().expect("its end");
        let all = std::env::temp_dir().join(format!("stale-{}", id()));
        let name = |name: String| all.join(name);
        let (gone, bench) = (name(format!("sluice-{dead}")), name(format!("sluice-bench-{dead}")));
        let own = name(format!("sluice-{}", id()));
        let kept = [
            own.clone(),
            name("sluice-1".to_owned()),
            name(format!("rte-{dead}")),
            name(format!("sluice-{dead}-more")),
            name("sluice--5".to_owned()),
            name("sluice-".to_owned()),
        ];
        for path in kept.iter().chain([&gone, &bench]) {
            fs::create_dir_all(path).expect("a directory");
            fs::write(path.join("config"), "x").expect("a file");
        }
        sweep(&own);
        let still: Vec<_> = kept.iter().filter(|path| path.exists()).collect();
        let went = !gone.exists() && !bench.exists();
        fs::remove_dir_all(&all).expect("ours");
        assert_eq!(still.len(), kept.len(), "{still:?}");
        assert!(went, "{dead}");
    }
}
