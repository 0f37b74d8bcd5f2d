//! bindgen's own assertions compare clang's layout with rustc's; this one compares both with the
//! compiler that built the shim, and so DPDK's inline functions.

use core::mem::{offset_of, size_of};
use dpdk_sys::*;

#[test]
fn layout_is_what_the_c_compiler_sees() {
    // SAFETY: the shim defines the array and its length; both are constants.
    let seen_by_c = unsafe {
        core::slice::from_raw_parts((&raw const sluice_layout).cast::<usize>(), sluice_layout_len)
    };
    let seen_by_rust = [
        size_of::<rte_mbuf>(),
        SLUICE_OFF_BUF_ADDR as usize,
        SLUICE_OFF_DATA_OFF as usize,
        SLUICE_OFF_REFCNT as usize,
        SLUICE_OFF_NB_SEGS as usize,
        SLUICE_OFF_PORT as usize,
        SLUICE_OFF_OL_FLAGS as usize,
        SLUICE_OFF_PACKET_TYPE as usize,
        SLUICE_OFF_PKT_LEN as usize,
        SLUICE_OFF_DATA_LEN as usize,
        SLUICE_OFF_VLAN_TCI as usize,
        SLUICE_OFF_RSS as usize,
        SLUICE_OFF_BUF_LEN as usize,
        SLUICE_OFF_POOL as usize,
        SLUICE_OFF_NEXT as usize,
        SLUICE_OFF_TX_OFFLOAD as usize,
        size_of::<rte_eth_fp_ops>(),
        offset_of!(rte_eth_fp_ops, rx_pkt_burst),
        offset_of!(rte_eth_fp_ops, rxq),
        offset_of!(rte_eth_fp_ops, tx_pkt_burst),
        offset_of!(rte_eth_fp_ops, txq),
        size_of::<rte_eth_conf>(),
        size_of::<rte_eth_dev_info>(),
        size_of::<rte_eth_stats>(),
        size_of::<rte_mempool>(),
    ];
    assert_eq!(seen_by_c, seen_by_rust);
}

/// The release that runs is the one the bindings were made for.
#[test]
fn version_is_the_one_of_the_headers() {
    // SAFETY: rte_version gives a static string.
    let running = unsafe { core::ffi::CStr::from_ptr(rte_version()) };
    let headers = format!("DPDK {RTE_VER_YEAR}.{RTE_VER_MONTH:02}.{RTE_VER_MINOR}");
    assert_eq!(running.to_str(), Ok(headers.as_str()));
}
