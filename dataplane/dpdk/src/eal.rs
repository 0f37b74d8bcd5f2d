//! Starting and ending DPDK's environment layer.
//!
//! EAL lives as long as anything that was made from it: every pool, port, queue and lcore thread
//! keeps a share, and the last one to go shuts EAL down.

use crate::{
    device::{Bus, Device},
    error::{Errno, Error, Result, check},
    hugepages::{Hugepages, Memory},
    mempool::Pools,
    stale,
};
use dpdk_sys::{
    rte_eal_cleanup, rte_eal_get_runtime_dir, rte_eal_hotplug_add, rte_eal_init, rte_version,
};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::{
    ffi::{CStr, CString, c_char, c_int},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// What EAL writes to stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// And what may go wrong.
    #[default]
    Warning,
    /// And what it finds.
    Info,
    /// Everything.
    Debug,
}

/// How EAL shall start.
#[derive(Clone, Debug)]
pub struct EalSettings {
    /// The core of the control threads; `None`: the first that the process may use. EAL's own
    /// threads stay on it.
    pub main_core: Option<usize>,
    /// Where memory comes from.
    pub hugepages: Hugepages,
    /// Megabytes that pools and rings will need. Hugepages are used when so much is free, and
    /// taken as needed; plain memory is reserved at this size.
    pub memory_mb: u32,
    /// Names EAL's files, `/var/run/dpdk/PREFIX`; must be unique on the machine.
    pub file_prefix: String,
    /// The devices to use; no others are touched.
    pub devices: Vec<Device>,
    /// Driver plug-ins to load (shared build only).
    pub plugins: Vec<PathBuf>,
    /// More arguments for EAL, after ours.
    pub args: Vec<String>,
    /// Whether DPDK's telemetry socket shall exist.
    pub telemetry: bool,
    /// How much EAL says.
    pub log_level: LogLevel,
}

impl Default for EalSettings {
    fn default() -> Self {
        Self {
            main_core: None,
            hugepages: Hugepages::Auto,
            memory_mb: 256,
            file_prefix: own_prefix(),
            devices: Vec::new(),
            plugins: Vec::new(),
            args: Vec::new(),
            telemetry: false,
            log_level: LogLevel::Warning,
        }
    }
}

/// A prefix that no other process has.
fn own_prefix() -> String {
    format!("sluice-{}", std::process::id())
}

/// DPDK is running. Everything else in this crate is made with a reference to this.
pub struct Eal(pub(crate) Arc<Shared>);

/// What pools, ports and threads hold on to.
pub(crate) struct Shared {
    /// Every pool ever made: they live until EAL ends.
    pub(crate) pools: Mutex<Pools>,
    /// DPDK's numbers of the ports that have an owner.
    pub(crate) ports: Mutex<Vec<u16>>,
    cores: CpuSet,
    memory: Memory,
    args: Vec<String>,
    run_dir: PathBuf,
}

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts EAL and its devices. The calling thread keeps the cores it may run on.
    ///
    /// # Errors
    /// [`Error::StartedBefore`] for a second start in this process, [`Error::PluginsNeedShared`],
    /// [`Error::Setting`] for a wrong setting, [`Error::Core`], [`Error::Start`] when EAL refuses,
    /// and [`Error::Device`] when a device does not come up. After the last two EAL cannot be
    /// started again in this process.
    pub fn start(settings: &EalSettings) -> Result<Self> {
        if let (true, Some(plugin)) = (cfg!(feature = "static"), settings.plugins.first()) {
            return Err(Error::PluginsNeedShared(plugin.clone()));
        }
        let cores = own_cores()?;
        let main_core = settings.main_core.unwrap_or_else(|| first(&cores));
        let memory = Memory::choose(&settings.hugepages, settings.memory_mb);
        let args = arguments(settings, &memory, main_core);
        let raw = to_c(&args)?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::StartedBefore);
        }
        // EAL's threads inherit these cores, and it binds the caller to one: give it the main core
        // alone for the start, so that nothing of it ever runs on the cores that will poll.
        bind(&only(main_core)?).map_err(|_| core_error(main_core, &cores))?;
        let started = init(&raw);
        let restored = bind(&cores);
        let run_dir = run_dir();
        stale::sweep(&run_dir);
        started.map_err(|errno| {
            // Another prefix may be that of a director that runs, which is why EAL refused.
            if settings.file_prefix == own_prefix() && run_dir.ends_with(own_prefix()) {
                let _ = std::fs::remove_dir_all(&run_dir);
            }
            Error::Start { errno, args: args.join(" ") }
        })?;
        let (pools, ports) = (Mutex::default(), Mutex::default());
        let eal = Self(Arc::new(Shared { pools, ports, cores, memory, args, run_dir }));
        restored?;
        for device in settings.devices.iter().filter(|d| d.bus() == Bus::Virtual) {
            eal.add(device)?;
        }
        Ok(eal)
    }

    /// Creates a virtual device. Given to EAL after its start, a wrong one has an error of its own.
    ///
    /// # Errors
    /// [`Error::Device`] when the driver is unknown or refuses.
    pub fn add(&self, device: &Device) -> Result<()> {
        let name = to_c(&[device.name().to_owned(), device.args().to_owned()])?;
        // SAFETY: three strings that live during the call, with EAL running.
        let code =
            unsafe { rte_eal_hotplug_add(c"vdev".as_ptr(), name[0].as_ptr(), name[1].as_ptr()) };
        let explain = |e| {
            let reason = match e {
                Error::Call { errno, .. } => format!(
                    "it did not come up: {errno}; is the driver's name right, is it in this \
                     build, does the interface or file exist, and are the rights sufficient?"
                ),
                other => other.to_string(),
            };
            Error::Device { device: device.to_string(), reason }
        };
        check(code, "rte_eal_hotplug_add", device.name()).map(drop).map_err(explain)
    }

    /// DPDK's name and release.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: rte_version gives a static string.
        unsafe { CStr::from_ptr(rte_version()) }.to_string_lossy().into_owned()
    }

    /// Where memory comes from, and why: a line for the log.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// The directory of this process's files: it goes when EAL ends.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.0.run_dir
    }

    /// The arguments that EAL got.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.0.args
    }
}

impl Shared {
    /// The error for a core that a thread cannot be bound to.
    pub(crate) fn core_error(&self, core: usize) -> Error {
        core_error(core, &self.cores)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let pools = self.pools.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A frame that somebody still holds, or that a device kept, lies in EAL's memory: then the
        // memory stays until the process ends. No file of it is left behind either way.
        if pools.all_frames_back() {
            // SAFETY: EAL is running, and no pool, port, queue, thread or frame is left.
            unsafe { rte_eal_cleanup() };
        }
        // Nothing to do about a directory that cannot be removed.
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}

fn arguments(settings: &EalSettings, memory: &Memory, main_core: usize) -> Vec<String> {
    let mut args = vec!["sluice".to_owned(), format!("--lcores=0@{main_core}")];
    args.push(format!("--file-prefix={}", settings.file_prefix));
    args.push(format!("--log-level={}", format!("{:?}", settings.log_level).to_lowercase()));
    args.extend(memory.eal_args(settings.memory_mb));
    if !settings.telemetry {
        args.push("--no-telemetry".to_owned());
    }
    let found_by_bus = || settings.devices.iter().filter(|d| d.bus() != Bus::Virtual);
    if found_by_bus().next().is_none() {
        args.push("--no-pci".to_owned());
    }
    for device in found_by_bus() {
        args.extend(["-a".to_owned(), device.to_string()]);
    }
    for plugin in &settings.plugins {
        args.extend(["-d".to_owned(), plugin.display().to_string()]);
    }
    args.extend(settings.args.iter().cloned());
    args
}

fn to_c(args: &[String]) -> Result<Vec<CString>> {
    let convert = |arg: &String| {
        let nul = |_| Error::Setting(format!("EAL argument {arg:?} contains a NUL byte"));
        CString::new(arg.as_str()).map_err(nul)
    };
    args.iter().map(convert).collect()
}

fn init(args: &[CString]) -> Result<(), Errno> {
    let mut argv: Vec<*mut c_char> = args.iter().map(|a| a.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    let argc = c_int::try_from(args.len()).unwrap_or(c_int::MAX);
    // SAFETY: argv holds argc strings and a null pointer, alive during the call; EAL copies what it
    // keeps and reorders only the pointers. STARTED makes this the only call.
    if unsafe { rte_eal_init(argc, argv.as_mut_ptr()) } < 0 { Err(Errno::last()) } else { Ok(()) }
}

fn run_dir() -> PathBuf {
    // SAFETY: the string is static; empty when EAL did not come so far.
    let dir = unsafe { CStr::from_ptr(rte_eal_get_runtime_dir()) };
    PathBuf::from(dir.to_string_lossy().into_owned())
}

fn own_cores() -> Result<CpuSet> {
    let failed = |errno| Error::System { what: "sched_getaffinity".to_owned(), errno };
    sched_getaffinity(Pid::from_raw(0)).map_err(failed)
}

fn bind(cores: &CpuSet) -> Result<()> {
    let failed = |errno| Error::System { what: "sched_setaffinity".to_owned(), errno };
    sched_setaffinity(Pid::from_raw(0), cores).map_err(failed)
}

fn only(core: usize) -> Result<CpuSet> {
    let mut set = CpuSet::new();
    let failed = |errno| Error::System { what: format!("core {core}"), errno };
    set.set(core).map_err(failed)?;
    Ok(set)
}

fn members(cores: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|&core| cores.is_set(core).unwrap_or(false)).collect()
}

fn first(cores: &CpuSet) -> usize {
    members(cores).first().copied().unwrap_or(0)
}

fn core_error(core: usize, cores: &CpuSet) -> Error {
    let runs = members(cores).chunk_by(|a, b| a + 1 == *b).map(run_text).collect::<Vec<_>>();
    Error::Core { core, allowed: format!("cores {}", runs.join(",")) }
}

/// `3` or `0-3`.
fn run_text(run: &[usize]) -> String {
    match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_named_in_runs() {
        let mut set = CpuSet::new();
        for core in [0, 1, 2, 7, 9, 10] {
            set.set(core).expect("a core in range");
        }
        let text = core_error(4, &set).to_string();
        assert_eq!(text, "cannot run on core 4; this process may use cores 0-2,7,9-10");
    }

    #[test]
    fn pci_is_scanned_only_for_a_device_of_it() {
        let args = |device: &str| {
            let devices = vec![Device::parse(device).expect("a device")];
            let settings = EalSettings { devices, ..EalSettings::default() };
            arguments(&settings, &Memory::Anonymous, 1)
        };
        assert!(args("net_null0").contains(&"--no-pci".to_owned()));
        let pci = args("3b:00.0,x=1");
        assert!(!pci.contains(&"--no-pci".to_owned()));
        assert_eq!(pci[pci.len() - 2..], ["-a", "0000:3b:00.0,x=1"]);
    }
}
