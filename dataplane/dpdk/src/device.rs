//! The operator's device string: what it names, what its driver needs, what it can do.
//!
//! A device is a PCI address (`0000:3b:00.0` or `3b:00.0`), a virtual device by its driver's name
//! (`net_tap0`), or a name with its bus in front (`auxiliary:mlx5_core.sf.4`), each followed by the
//! driver's own arguments after a comma. Any DPDK device works; a driver has a line in [`DRIVERS`]
//! only where there is something to know about it.

use crate::error::{Error, Result};

/// What is known about a driver of virtual devices.
struct Driver {
    /// Device names are this and a number or word.
    prefix: &'static str,
    /// The argument that creates several queues, where there is one.
    queues: Option<&'static str>,
    /// Most queues that it can be counted on to have when nobody said how many.
    unasked: u16,
    /// Frames for other MAC addresses have to be let in.
    promiscuous: bool,
    /// An argument that it gets unless the operator gave it: its own default does badly.
    usual: Option<(&'static str, &'static str)>,
}

const DRIVERS: &[Driver] = &[
    Driver {
        prefix: "net_af_packet",
        queues: Some("qpairs"),
        unasked: u16::MAX,
        promiscuous: false,
        // Of its own accord 512: a burst while the core is with another process overruns that, and
        // the driver does not count what the kernel then drops. 4096 are 16 MiB a queue pair.
        usual: Some(("framecnt", "4096")),
    },
    // It refuses more queues than its interface has channels, and a veth has one whatever it says.
    Driver {
        prefix: "net_af_xdp",
        queues: Some("queue_count"),
        unasked: 1,
        promiscuous: false,
        usual: None,
    },
    Driver {
        prefix: "net_virtio_user",
        queues: Some("queues"),
        unasked: u16::MAX,
        promiscuous: false,
        usual: None,
    },
    // A capture holds frames for the MAC address of another machine.
    Driver { prefix: "net_pcap", queues: None, unasked: u16::MAX, promiscuous: true, usual: None },
];

/// How EAL finds the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// A PCI function.
    Pci,
    /// Created by its driver when asked for.
    Virtual,
    /// Another bus, named in front of the device.
    Other,
}

/// A device, as the operator wrote it and taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    bus: Bus,
    name: String,
    args: String,
}

impl Device {
    /// Parses `text`, a name and optional arguments after a comma.
    ///
    /// # Errors
    /// [`Error::Device`] when there is no name, or a character that no device name has.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, args) = text.split_once(',').unwrap_or((text, ""));
        let good = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        if name.is_empty() || !name.chars().all(good) || args.contains(char::is_whitespace) {
            let reason = "want a PCI address such as 0000:3b:00.0, or a virtual device such as \
                          net_af_packet0,iface=eth1";
            return Err(Error::Device { device: text.to_owned(), reason: reason.to_owned() });
        }
        let (bus, name) = match name.split_once(':') {
            Some(("vdev", rest)) => (Bus::Virtual, rest.to_owned()),
            Some(("pci", rest)) => (Bus::Pci, pci_address(rest).unwrap_or(rest.to_owned())),
            _ => match pci_address(name) {
                Some(address) => (Bus::Pci, address),
                None if name.contains(':') || is_vmbus(name) => (Bus::Other, name.to_owned()),
                None => (Bus::Virtual, name.to_owned()),
            },
        };
        Ok(Self { bus, name, args: args.to_owned() })
    }

    /// The name by which DPDK knows the device and its port.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.bus {
            Bus::Other => self.name.split_once(':').map_or(&self.name, |(_, name)| name),
            _ => &self.name,
        }
    }

    /// The driver's arguments, without the leading comma.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.args
    }

    /// Where EAL finds it.
    #[must_use]
    pub fn bus(&self) -> Bus {
        self.bus
    }

    /// Whether polling it costs nobody else anything. A virtual device lives on the same machine's
    /// kernel or on another process, which need the core that an idle poller burns: such a poller
    /// should yield.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        self.bus != Bus::Virtual
    }

    /// Whether frames for other MAC addresses have to be let in for the device to be of use.
    #[must_use]
    pub fn wants_promiscuous(&self) -> bool {
        self.driver().is_some_and(|d| d.promiscuous)
    }

    /// Most queues to ask for when the operator has not said how many.
    #[must_use]
    pub fn unasked_queues(&self) -> u16 {
        self.driver().map_or(u16::MAX, |d| d.unasked)
    }

    /// The device with `count` queues, when its driver creates them by an argument and the operator
    /// has not given that argument.
    #[must_use]
    pub fn with_queues(mut self, count: u16) -> Self {
        if let Some(key) = self.driver().and_then(|d| d.queues)
            && count > 1
        {
            self.unless_given(key, &count.to_string());
        }
        self
    }

    /// The device with what its driver does better with, where the operator has not said otherwise.
    #[must_use]
    pub fn with_usual(mut self) -> Self {
        if let Some((key, value)) = self.driver().and_then(|d| d.usual) {
            self.unless_given(key, value);
        }
        self
    }

    fn unless_given(&mut self, key: &str, value: &str) {
        if !self.args.split(',').any(|arg| arg.split('=').next() == Some(key)) {
            let comma = if self.args.is_empty() { "" } else { "," };
            self.args = format!("{}{comma}{key}={value}", self.args);
        }
    }

    fn driver(&self) -> Option<&'static Driver> {
        let known = |d: &&Driver| self.name.starts_with(d.prefix);
        DRIVERS.iter().find(known).filter(|_| self.bus == Bus::Virtual)
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comma = if self.args.is_empty() { "" } else { "," };
        write!(f, "{}{comma}{}", self.name, self.args)
    }
}

/// `DDDD:BB:DD.F`, with the domain added where it was left out.
fn pci_address(text: &str) -> Option<String> {
    let is_hex = |part: &str, len| part.len() == len && u32::from_str_radix(part, 16).is_ok();
    let full = match text.matches(':').count() {
        1 => format!("0000:{text}"),
        2 => text.to_owned(),
        _ => return None,
    };
    let (rest, function) = full.split_once('.')?;
    let mut parts = rest.split(':');
    let (domain, bus, slot) = (parts.next()?, parts.next()?, parts.next()?);
    let good = domain.len() >= 4
        && u32::from_str_radix(domain, 16).is_ok()
        && is_hex(bus, 2)
        && is_hex(slot, 2)
        && is_hex(function, 1);
    good.then(|| full.to_ascii_lowercase())
}

/// A Hyper-V device is named by a UUID.
fn is_vmbus(name: &str) -> bool {
    name.len() == 36 && name.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Device {
        Device::parse(text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn tells_the_buses_apart() {
        for (text, bus, name) in [
            ("0000:3b:00.0", Bus::Pci, "0000:3b:00.0"),
            ("3B:00.1,arg=1", Bus::Pci, "0000:3b:00.1"),
            ("pci:0000:3b:00.0", Bus::Pci, "0000:3b:00.0"),
            ("net_tap0,iface=x", Bus::Virtual, "net_tap0"),
            ("vdev:my_own", Bus::Virtual, "my_own"),
            ("auxiliary:mlx5_core.sf.4", Bus::Other, "mlx5_core.sf.4"),
            (
                "6be5a4a5-8d3b-4a8c-9d2b-0f2c7c3a1b22",
                Bus::Other,
                "6be5a4a5-8d3b-4a8c-9d2b-0f2c7c3a1b22",
            ),
        ] {
            let device = parse(text);
            assert_eq!((device.bus(), device.name()), (bus, name), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_name() {
        for text in ["", ",iface=x", "net tap0", "net_tap0,iface= x", "net_tap0;reboot"] {
            assert!(matches!(Device::parse(text), Err(Error::Device { .. })), "{text}");
        }
    }

    #[test]
    fn queue_argument_is_added_once_and_only_where_it_exists() {
        let text = |device: &str, queues| parse(device).with_queues(queues).to_string();
        assert_eq!(text("net_af_packet0,iface=a", 2), "net_af_packet0,iface=a,qpairs=2");
        assert_eq!(text("net_af_packet0,iface=a", 1), "net_af_packet0,iface=a");
        assert_eq!(text("net_af_packet0,qpairs=4,iface=a", 2), "net_af_packet0,qpairs=4,iface=a");
        assert_eq!(text("net_af_xdp0,iface=a", 3), "net_af_xdp0,iface=a,queue_count=3");
        assert_eq!(text("net_null0", 3), "net_null0");
        assert_eq!(text("0000:3b:00.0", 3), "0000:3b:00.0");
    }

    #[test]
    fn a_usual_argument_yields_to_the_operators() {
        let text = |device: &str| parse(device).with_usual().to_string();
        assert_eq!(text("net_af_packet0,iface=a"), "net_af_packet0,iface=a,framecnt=4096");
        let own = "net_af_packet0,framecnt=64,iface=a";
        assert_eq!(text(own), own);
        assert_eq!(text("net_null0"), "net_null0");
        assert_eq!(text("0000:3b:00.0"), "0000:3b:00.0");
    }
}
