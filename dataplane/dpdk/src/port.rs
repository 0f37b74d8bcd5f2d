//! A port: what the device can do, how it is set up, and its end.
//!
//! `PortBuilder::new` → settings → [`PortBuilder::start`] → a [`Port`] for the control side and one
//! handle per queue for the lcores. The device is stopped and closed when the `Port` and all its
//! queues are gone, so no queue can be polled on a closed device.

use crate::{
    device::Device,
    eal::{Eal, Shared},
    error::{Error, Result, check},
    mempool::{self, Mempool, Socket},
    queue::{RxHandle, TxHandle},
};
use dpdk_sys::{
    RTE_ETH_MQ_RX_RSS, RTE_ETH_RSS_IP, RTE_ETH_RSS_NONFRAG_IPV4_TCP, RTE_ETH_RSS_TCP,
    RTE_ETH_RSS_UDP, RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, RTE_ETH_RX_OFFLOAD_TCP_CKSUM,
    RTE_ETH_RX_OFFLOAD_UDP_CKSUM, RTE_ETH_SPEED_NUM_UNKNOWN, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE,
    rte_eth_conf, rte_eth_dev_adjust_nb_rx_tx_desc, rte_eth_dev_close, rte_eth_dev_configure,
    rte_eth_dev_get_mtu, rte_eth_dev_get_port_by_name, rte_eth_dev_info, rte_eth_dev_info_get,
    rte_eth_dev_set_mtu, rte_eth_dev_socket_id, rte_eth_dev_start, rte_eth_dev_stop,
    rte_eth_macaddr_get, rte_eth_promiscuous_disable, rte_eth_promiscuous_enable,
    rte_eth_rx_queue_setup, rte_eth_tx_queue_setup, rte_ether_addr, sluice_link,
};
use engine::addr::Mac;
use std::{
    ffi::{CStr, CString},
    ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// What a device says about itself.
#[derive(Clone, Debug)]
pub struct PortFacts {
    /// The operator's device string.
    pub device: String,
    /// Name of the driver.
    pub driver: String,
    /// The hardware address.
    pub mac: Mac,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// The NUMA socket it is attached to.
    pub socket: Socket,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// Bytes of the RSS key it wants; 0: it has no such key.
    pub rss_key_len: usize,
    /// Whether it says that it spreads TCP over its receive queues by addresses and ports.
    pub spreads_tcp: bool,
    /// Whether it checks IPv4, TCP and UDP checksums of what it receives.
    pub checks_checksums: bool,
}

/// A port being set up.
pub struct PortBuilder {
    port: Port,
    info: rte_eth_dev_info,
    queues: (u16, u16),
    descriptors: (u16, u16),
    rss_key: Vec<u8>,
    check_checksums: bool,
    fast_free: bool,
    promiscuous: bool,
    mtu: Option<u16>,
}

/// A started port, with its queues for the lcores.
pub struct Started {
    /// For the control side.
    pub port: Port,
    /// Receive queues 0, 1, …
    pub rx: Vec<RxHandle>,
    /// Transmit queues 0, 1, …
    pub tx: Vec<TxHandle>,
}

impl PortBuilder {
    /// Finds the port of a device that EAL was started with, and takes it.
    ///
    /// Defaults: one queue each way, 1024 descriptors, no device checksums, promiscuous only where
    /// the device is of no use otherwise.
    ///
    /// # Errors
    /// [`Error::Device`] when there is no such port, or it is taken; [`Error::Call`].
    pub fn new(eal: &Eal, device: &Device) -> Result<Self> {
        let id = find(device)?;
        let mut taken = eal.0.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(&id) {
            return Err(failed(device, "another port uses it already"));
        }
        let (info, facts) = describe(id, device)?;
        taken.push(id);
        let started = AtomicBool::new(false);
        let inner =
            Inner { id, facts, started, control: Mutex::default(), _eal: Arc::clone(&eal.0) };
        Ok(Self {
            port: Port(Arc::new(inner)),
            info,
            queues: (1, 1),
            descriptors: (1024, 1024),
            rss_key: Vec::new(),
            check_checksums: false,
            fast_free: false,
            promiscuous: device.wants_promiscuous(),
            mtu: None,
        })
    }

    /// What the device can do.
    #[must_use]
    pub fn facts(&self) -> &PortFacts {
        self.port.facts()
    }

    /// How many queues: one of each per lcore that polls the port.
    #[must_use]
    pub fn queues(mut self, rx: u16, tx: u16) -> Self {
        self.queues = (rx, tx);
        self
    }

    /// How many descriptors each queue has, adjusted to what the device can do.
    #[must_use]
    pub fn descriptors(mut self, rx: u16, tx: u16) -> Self {
        self.descriptors = (rx, tx);
        self
    }

    /// The key of the hash that spreads flows over queues, [`PortFacts::rss_key_len`] random bytes.
    /// Without one the driver's well-known key is used, which strangers can compute with.
    #[must_use]
    pub fn rss_key(mut self, key: &[u8]) -> Self {
        self.rss_key = key.to_vec();
        self
    }

    /// Lets the device check received checksums, where it can
    /// ([`crate::Mbuf::has_bad_checksum`]).
    #[must_use]
    pub fn check_checksums(mut self, ask: bool) -> Self {
        self.check_checksums = ask;
        self
    }

    /// Lets the device free sent frames the fast way, where it can. Legal while there is one pool:
    /// ignored when there are several, and no other can be made afterwards.
    #[must_use]
    pub fn fast_free(mut self, ask: bool) -> Self {
        self.fast_free = ask;
        self
    }

    /// Receives frames for other MAC addresses too. A device without such a mode delivers all.
    #[must_use]
    pub fn promiscuous(mut self, on: bool) -> Self {
        self.promiscuous |= on;
        self
    }

    /// Sets the largest IP packet, in bytes.
    #[must_use]
    pub fn mtu(mut self, bytes: u16) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Sets the device up and starts it. Queue `q` receives into `pools[q % pools.len()]`.
    ///
    /// # Errors
    /// [`Error::PortLimit`] for more queues than there are, [`Error::Setting`] for a key of the
    /// wrong length or an MTU that the pools' frames cannot hold, [`Error::Call`].
    ///
    /// # Panics
    /// When `pools` is empty.
    pub fn start(mut self, pools: &[&Mempool]) -> Result<Started> {
        self.check_limits()?;
        self.check_frame_len(pools)?;
        self.configure()?;
        self.set_up_queues(pools)?;
        let (id, name) = (self.port.id(), self.port.name());
        if self.promiscuous {
            // SAFETY: the port exists; control calls of it are made by this thread only.
            let code = unsafe { rte_eth_promiscuous_enable(id) };
            if code != -nix::libc::ENOTSUP {
                check(code, "rte_eth_promiscuous_enable", name)?;
            }
        }
        // SAFETY: the port is configured and all its queues are set up.
        check(unsafe { rte_eth_dev_start(id) }, "rte_eth_dev_start", name)?;
        self.port.0.started.store(true, Ordering::Release);
        self.read_back();
        let rx = (0..self.queues.0).map(|q| RxHandle::new(self.port.clone(), q)).collect();
        let tx = (0..self.queues.1).map(|q| TxHandle::new(self.port.clone(), q)).collect();
        Ok(Started { port: self.port, rx, tx })
    }

    fn check_limits(&self) -> Result<()> {
        let facts = self.facts();
        let limit = |what, asked: u16, most: u16| {
            let (asked, most) = (usize::from(asked), usize::from(most));
            let port = facts.device.clone();
            if asked > most { Err(Error::PortLimit { port, what, asked, most }) } else { Ok(()) }
        };
        limit("receive queues", self.queues.0, facts.max_rx_queues)?;
        limit("transmit queues", self.queues.1, facts.max_tx_queues)?;
        let (len, want) = (self.rss_key.len(), facts.rss_key_len);
        if len != 0 && want != 0 && len != want {
            let text = format!("port {}: an RSS key of {len} bytes, it wants {want}", facts.device);
            return Err(Error::Setting(text));
        }
        Ok(())
    }

    fn check_frame_len(&self, pools: &[&Mempool]) -> Result<()> {
        assert!(!pools.is_empty(), "a port needs a pool to receive into");
        let mtu = self.mtu.unwrap_or(self.facts().mtu);
        let longest = usize::from(mtu) + FRAME_OVERHEAD;
        match pools.iter().map(|pool| usize::from(pool.frame_len())).min() {
            Some(room) if self.mtu.is_some() && room < longest => Err(Error::Setting(format!(
                "port {}: an MTU of {mtu} needs frames of {longest} bytes, the pool has {room}",
                self.facts().device
            ))),
            _ => Ok(()),
        }
    }

    fn configure(&mut self) -> Result<()> {
        let (id, name) = (self.port.id(), self.port.name().to_owned());
        let conf = self.conf();
        // SAFETY: the port exists and is stopped; conf and the key in it live during the call.
        let code =
            unsafe { rte_eth_dev_configure(id, self.queues.0, self.queues.1, &raw const conf) };
        check(code, "rte_eth_dev_configure", &name)?;
        let (rx, tx) = (&raw mut self.descriptors.0, &raw mut self.descriptors.1);
        // SAFETY: two integers of ours, written during the call.
        let code = unsafe { rte_eth_dev_adjust_nb_rx_tx_desc(id, rx, tx) };
        check(code, "rte_eth_dev_adjust_nb_rx_tx_desc", &name)?;
        if let Some(mtu) = self.mtu.filter(|&mtu| mtu != self.facts().mtu) {
            // SAFETY: the port exists and is stopped.
            let code = unsafe { rte_eth_dev_set_mtu(id, mtu) };
            // Without such a call the driver has taken the value from the configuration.
            if code != -nix::libc::ENOTSUP {
                check(code, "rte_eth_dev_set_mtu", &name)?;
            }
        }
        Ok(())
    }

    fn conf(&mut self) -> rte_eth_conf {
        let mut conf = rte_eth_conf::default();
        conf.rxmode.mtu = self.mtu.unwrap_or(self.facts().mtu).into();
        let hash = HASHED & self.info.flow_type_rss_offloads;
        if self.queues.0 > 1 && hash != 0 {
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
            let rss = &mut conf.rx_adv_conf.rss_conf;
            rss.rss_hf = hash;
            if !self.rss_key.is_empty() && self.facts().rss_key_len != 0 {
                // The type of the length differs between releases.
                rss.rss_key_len = self.rss_key.len().try_into().unwrap_or(0);
                rss.rss_key = self.rss_key.as_mut_ptr();
            }
        }
        if self.check_checksums {
            conf.rxmode.offloads |= CHECKSUMS & self.info.rx_offload_capa;
        }
        let fast = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE & self.info.tx_offload_capa;
        // Our frames have one segment and one owner; that they come from one pool is left to see to.
        if self.fast_free && fast != 0 && mempool::lock(&self.port.0._eal).seal_if_single() {
            conf.txmode.offloads |= fast;
        }
        conf
    }

    fn set_up_queues(&self, pools: &[&Mempool]) -> Result<()> {
        let (id, name) = (self.port.id(), self.port.name());
        #[allow(clippy::cast_sign_loss, reason = "SOCKET_ID_ANY is -1 as unsigned, too")]
        let socket = self.facts().socket.raw() as u32;
        for (queue, pool) in (0..self.queues.0).zip(pools.iter().cycle()) {
            let (count, pool) = (self.descriptors.0, pool.as_ptr());
            // SAFETY: the port is configured with this queue; no conf means the driver's own; the
            // pool lives until EAL ends.
            let code =
                unsafe { rte_eth_rx_queue_setup(id, queue, count, socket, ptr::null(), pool) };
            check(code, "rte_eth_rx_queue_setup", name)?;
        }
        for queue in 0..self.queues.1 {
            let count = self.descriptors.1;
            // SAFETY: as above.
            let code = unsafe { rte_eth_tx_queue_setup(id, queue, count, socket, ptr::null()) };
            check(code, "rte_eth_tx_queue_setup", name)?;
        }
        Ok(())
    }

    /// The facts that starting may have changed.
    fn read_back(&mut self) {
        let id = self.port.id();
        if let (Some(inner), Ok(mtu)) = (Arc::get_mut(&mut self.port.0), mtu_of(id)) {
            inner.facts.mtu = mtu;
        }
    }
}

/// The state of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether frames can pass.
    pub is_up: bool,
    /// Speed in Mbit/s, where there is one. Virtual devices make one up.
    pub mbps: Option<u32>,
}

/// A port, for the control side: facts, link, counters. A clone is another handle.
#[derive(Clone)]
pub struct Port(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    id: u16,
    facts: PortFacts,
    started: AtomicBool,
    /// DPDK leaves it to us that control calls of one port do not meet.
    pub(crate) control: Mutex<()>,
    _eal: Arc<Shared>,
}

impl Port {
    /// What the device says about itself.
    #[must_use]
    pub fn facts(&self) -> &PortFacts {
        &self.0.facts
    }

    /// The state of its link, as the driver knows it now.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn link(&self) -> Result<Link> {
        let _alone = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mbps = 0;
        // SAFETY: the port is open as long as this handle; the integer is written during the call.
        let state = unsafe { sluice_link(self.id(), &raw mut mbps) };
        let is_up = check(state, "rte_eth_link_get_nowait", self.name())? == 1;
        let known = mbps != 0 && mbps != RTE_ETH_SPEED_NUM_UNKNOWN;
        Ok(Link { is_up, mbps: known.then_some(mbps) })
    }

    /// DPDK's number for it.
    pub(crate) fn id(&self) -> u16 {
        self.0.id
    }

    /// The operator's device string, for errors.
    pub(crate) fn name(&self) -> &str {
        &self.0.facts.device
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the last handle goes, so no queue is left that could be polled. Errors have no
        // consequence: the device is not used again.
        unsafe {
            if self.started.load(Ordering::Acquire) {
                // A kernel interface would stay promiscuous after us.
                rte_eth_promiscuous_disable(self.id);
                rte_eth_dev_stop(self.id);
            }
            rte_eth_dev_close(self.id);
        }
    }
}

/// What flows are spread by, as far as the device can.
const HASHED: u64 = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;

const CHECKSUMS: u64 =
    RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;

/// Ethernet header, two VLAN tags, check sequence.
const FRAME_OVERHEAD: usize = 14 + 8 + 4;

fn failed(device: &Device, reason: &str) -> Error {
    Error::Device { device: device.to_string(), reason: reason.to_owned() }
}

fn find(device: &Device) -> Result<u16> {
    let name = CString::new(device.name()).map_err(|_| failed(device, "a NUL byte in its name"))?;
    let mut id = 0;
    // SAFETY: a string and an integer that live during the call; the caller holds EAL.
    match unsafe { rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } {
        0 => Ok(id),
        _ => Err(failed(
            device,
            "DPDK has no such port; is the device bound to a driver that DPDK can use \
             (dpdk-devbind.py --status), and is its driver in this build?",
        )),
    }
}

fn describe(id: u16, device: &Device) -> Result<(rte_eth_dev_info, PortFacts)> {
    let name = device.to_string();
    let mut info = rte_eth_dev_info::default();
    let mut mac = rte_ether_addr::default();
    // SAFETY: the port exists; both structures are ours and written during the calls.
    unsafe {
        check(rte_eth_dev_info_get(id, &raw mut info), "rte_eth_dev_info_get", &name)?;
        check(rte_eth_macaddr_get(id, &raw mut mac), "rte_eth_macaddr_get", &name)?;
    }
    // SAFETY: the driver's name is a static string of it.
    let driver = unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned();
    let facts = PortFacts {
        device: name,
        driver,
        mac: Mac(mac.addr_bytes),
        mtu: mtu_of(id)?,
        // SAFETY: the port exists.
        socket: Socket::from_raw(unsafe { rte_eth_dev_socket_id(id) }),
        max_rx_queues: info.max_rx_queues,
        max_tx_queues: info.max_tx_queues,
        rss_key_len: usize::from(info.hash_key_size),
        spreads_tcp: info.flow_type_rss_offloads & RTE_ETH_RSS_NONFRAG_IPV4_TCP != 0,
        checks_checksums: info.rx_offload_capa & CHECKSUMS == CHECKSUMS,
    };
    Ok((info, facts))
}

fn mtu_of(id: u16) -> Result<u16> {
    let mut mtu = 0;
    // SAFETY: the port exists; the integer is written during the call.
    check(unsafe { rte_eth_dev_get_mtu(id, &raw mut mtu) }, "rte_eth_dev_get_mtu", "the port")?;
    Ok(mtu)
}
