//! A start that EAL refuses leaves no files. A process of its own: EAL starts once.

use std::path::{Path, PathBuf};

use dpdk::{Eal, EalSettings, Error, Hugepages, LogLevel};

#[test]
fn a_refused_start_leaves_nothing_behind() {
    let hugepages = Hugepages::Dir("/nowhere/at/all".into());
    let log_level = LogLevel::Error;
    let settings = EalSettings { hugepages, log_level, ..EalSettings::default() };
    let refused = Eal::start(&settings).err();
    assert!(matches!(refused, Some(Error::Start { .. })), "{refused:?}");
    let as_user = std::env::var("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("dpdk"));
    let places: [Option<PathBuf>; 3] =
        [Some("/var/run/dpdk".into()), as_user.ok(), Some("/tmp/dpdk".into())];
    for place in places.into_iter().flatten() {
        let dir = place.join(&settings.file_prefix);
        assert!(!dir.exists(), "{} is left", dir.display());
    }
}
