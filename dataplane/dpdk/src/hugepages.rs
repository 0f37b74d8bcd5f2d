//! Which hugepages this machine can give, and what EAL has to be told about it.

use std::{fmt, fs, path::PathBuf};

/// Where DPDK's memory shall come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hugepages {
    /// Hugepages where enough are free, else plain memory.
    #[default]
    Auto,
    /// Plain memory. Half the speed, as every mbuf then starts on a page of its own and all headers
    /// fall into the same few cache sets: for tests and small machines.
    No,
    /// Hugepages from this hugetlbfs mount.
    Dir(PathBuf),
}

/// What [`Hugepages`] led to; for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages from a hugetlbfs mount; the files are unlinked at once, so nothing stays behind.
    Mounted(PathBuf),
    /// Hugepages without a mount: free pages exist, and no file is needed for them.
    Anonymous,
    /// Plain memory, and why.
    Plain {
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted(dir) => write!(f, "hugepages from {}", dir.display()),
            Self::Anonymous => f.write_str("hugepages without a mount"),
            Self::Plain { reason } => write!(f, "no hugepages: {reason}"),
        }
    }
}

impl Memory {
    /// Decides for a director that needs `need_mb` megabytes.
    pub(crate) fn choose(wish: &Hugepages, need_mb: u32) -> Self {
        match wish {
            Hugepages::No => Self::Plain { reason: "so configured".to_owned() },
            Hugepages::Dir(dir) => Self::Mounted(dir.clone()),
            Hugepages::Auto => {
                let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
                from_machine(&free_pages(), &mounts, need_mb)
            }
        }
    }

    /// The arguments for EAL.
    pub(crate) fn eal_args(&self, need_mb: u32) -> Vec<String> {
        let args: &[&str] = match self {
            Self::Mounted(dir) => {
                &["--huge-unlink=always", "--huge-dir", &dir.display().to_string()]
            }
            Self::Anonymous => &["--in-memory"],
            Self::Plain { .. } => &["--no-huge", "-m", &need_mb.to_string()],
        };
        args.iter().map(|&arg| arg.to_owned()).collect()
    }
}

/// Free hugepages of one size.
struct Free {
    page_kb: u64,
    pages: u64,
}

impl Free {
    fn mb(&self) -> u64 {
        self.page_kb * self.pages / 1024
    }
}

/// What the kernel says is free, by page size.
fn free_pages() -> Vec<Free> {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else { return Vec::new() };
    let of_size = |dir: fs::DirEntry| {
        let name = dir.file_name().into_string().ok()?;
        let page_kb = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = fs::read_to_string(dir.path().join("free_hugepages")).ok()?;
        Some(Free { page_kb, pages: pages.trim().parse().ok()? })
    };
    sizes.flatten().filter_map(of_size).collect()
}

/// The choice for a machine with these free pages and this `/proc/mounts`.
fn from_machine(free: &[Free], mounts: &str, need_mb: u32) -> Memory {
    let Some(best) = free.iter().max_by_key(|size| size.mb()) else {
        return Memory::Plain { reason: "the kernel has none".to_owned() };
    };
    if best.mb() < u64::from(need_mb) {
        return Memory::Plain { reason: format!("{} MB free, {need_mb} MB needed", best.mb()) };
    }
    let of_best_size =
        |options: &str| match options.split(',').find_map(|o| o.strip_prefix("pagesize=")) {
            Some(size) => size_kb(size) == Some(best.page_kb),
            None => true,
        };
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (dir, kind, options) = (words.nth(1)?, words.next()?, words.next()?);
        (kind == "hugetlbfs" && of_best_size(options)).then(|| PathBuf::from(dir))
    });
    mount.map_or(Memory::Anonymous, Memory::Mounted)
}

/// `2M` or `1024M` or `1G` in kilobytes.
fn size_kb(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let scale = match unit {
        "K" => 1,
        "M" => 1024,
        "G" => 1024 * 1024,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        h1 /mnt/huge1g hugetlbfs rw,relatime,pagesize=1024M 0 0\n\
        h2 /mnt/huge2m hugetlbfs rw,relatime,pagesize=2M 0 0\n";

    #[test]
    fn takes_the_mount_of_the_size_that_is_free() {
        let free = [Free { page_kb: 2048, pages: 300 }, Free { page_kb: 1_048_576, pages: 0 }];
        let choice = from_machine(&free, MOUNTS, 512);
        assert_eq!(choice, Memory::Mounted("/mnt/huge2m".into()));
    }

    #[test]
    fn needs_no_mount() {
        let free = [Free { page_kb: 2048, pages: 300 }];
        assert_eq!(from_machine(&free, "", 512), Memory::Anonymous);
    }

    #[test]
    fn says_why_not() {
        let free = [Free { page_kb: 2048, pages: 10 }];
        let choice = from_machine(&free, MOUNTS, 512);
        assert_eq!(choice.to_string(), "no hugepages: 20 MB free, 512 MB needed");
        assert_eq!(choice.eal_args(512), ["--no-huge", "-m", "512"]);
    }
}
