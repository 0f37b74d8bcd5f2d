//! Counters of a port, for the control side.

use crate::{
    error::{Result, check},
    port::Port,
};
use dpdk_sys::{
    rte_eth_stats, rte_eth_stats_get, rte_eth_xstat, rte_eth_xstat_name, rte_eth_xstats_get,
    rte_eth_xstats_get_names,
};
use std::{ffi::CStr, ptr, sync::PoisonError};

/// The counters that every device has, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames dropped by the device because no descriptor was free: the lcore is too slow.
    pub rx_missed: u64,
    /// Frames received with an error.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames dropped because the pool was empty.
    pub rx_no_buffer: u64,
}

impl Port {
    /// The counters that every device has.
    ///
    /// # Errors
    /// [`crate::Error::Call`].
    pub fn stats(&self) -> Result<PortStats> {
        let _alone = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        let mut raw = rte_eth_stats::default();
        // SAFETY: the port is open as long as this handle; the structure is ours.
        let code = unsafe { rte_eth_stats_get(self.id(), &raw mut raw) };
        check(code, "rte_eth_stats_get", self.name())?;
        Ok(PortStats {
            rx_frames: raw.ipackets,
            rx_bytes: raw.ibytes,
            tx_frames: raw.opackets,
            tx_bytes: raw.obytes,
            rx_missed: raw.imissed,
            rx_errors: raw.ierrors,
            tx_errors: raw.oerrors,
            rx_no_buffer: raw.rx_nombuf,
        })
    }

    /// All counters by the driver's names, which differ between drivers.
    ///
    /// # Errors
    /// [`crate::Error::Call`].
    pub fn xstats(&self) -> Result<Vec<(String, u64)>> {
        let _alone = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, name) = (self.id(), self.name());
        // SAFETY: no array, no room: only the count is asked for.
        let count = unsafe { rte_eth_xstats_get_names(id, ptr::null_mut(), 0) };
        let count = check(count, "rte_eth_xstats_get_names", name)?.unsigned_abs();
        let mut names = vec![rte_eth_xstat_name::default(); count as usize];
        let mut values = vec![rte_eth_xstat::default(); count as usize];
        // SAFETY: both arrays have `count` elements.
        unsafe {
            let code = rte_eth_xstats_get_names(id, names.as_mut_ptr(), count);
            check(code, "rte_eth_xstats_get_names", name)?;
            let code = rte_eth_xstats_get(id, values.as_mut_ptr(), count);
            check(code, "rte_eth_xstats_get", name)?;
        }
        let named = |value: &rte_eth_xstat| {
            let name = &names.get(usize::try_from(value.id).ok()?)?.name;
            // SAFETY: DPDK ends every name with a NUL byte inside its array.
            let name = unsafe { CStr::from_ptr(name.as_ptr()) };
            Some((name.to_string_lossy().into_owned(), value.value))
        };
        Ok(values.iter().filter_map(named).collect())
    }
}
