//! Safe wrapper of DPDK (being built).
