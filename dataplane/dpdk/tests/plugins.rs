//! The shared build finds the installed drivers and loads plug-ins by path; the static one says how
//! to get a shared build (tests/eal.rs).
#![cfg(not(feature = "static"))]

use dpdk::{Device, Eal, EalSettings, Hugepages, PortBuilder};
use std::{fs, path::PathBuf};

#[test]
fn a_plugin_is_loaded_by_its_path() {
    // A library of DPDK's that no driver needs, so that nothing else loads it. EAL refuses plug-ins
    // that lie below a world-writable directory, so a copy in /tmp would not do.
    let eal_library = mapped().into_iter().find(|path| path.contains("librte_eal"));
    let directory = PathBuf::from(eal_library.expect("the shared EAL"));
    let plugin = directory.with_file_name("librte_graph.so");
    let plugin = fs::canonicalize(plugin).expect("librte_graph, of package libdpdk-dev");

    let device = Device::parse("net_null0").expect("a device string");
    let eal = Eal::start(&EalSettings {
        hugepages: Hugepages::No,
        memory_mb: 64,
        devices: vec![device.clone()],
        plugins: vec![plugin.clone()],
        ..EalSettings::default()
    });
    let eal = eal.expect("EAL starts with the plug-in");
    assert!(mapped().contains(&plugin.display().to_string()), "the plug-in is loaded");
    let port = PortBuilder::new(&eal, &device).expect("the installed driver has made the port");
    assert_eq!(port.facts().driver, "net_null");
}

/// The files that are mapped into this process.
fn mapped() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").expect("own memory map");
    maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(str::to_owned).collect()
}
