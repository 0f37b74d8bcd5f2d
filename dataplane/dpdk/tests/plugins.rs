//! The shared build finds the installed drivers and loads plug-ins by path; the static one says how
//! to get a shared build (tests/eal.rs).
#![cfg(not(feature = "static"))]

use dpdk::{Device, Eal, EalSettings, Hugepages, PortBuilder};
use std::{env, fs, process};

#[test]
fn a_plugin_is_loaded_by_its_path() {
    // Any shared library will do; this one is there because DPDK needs it.
    let library =
        mapped().into_iter().find(|path| path.contains("libnuma")).expect("DPDK's libnuma");
    let dir = env::temp_dir().join(format!("sluice-plugin-{}", process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let plugin = dir.join("plugin.so");
    fs::copy(library, &plugin).expect("a plug-in");

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
    fs::remove_dir_all(dir).expect("our directory");
}

/// The files that are mapped into this process.
fn mapped() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").expect("own memory map");
    maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(str::to_owned).collect()
}
