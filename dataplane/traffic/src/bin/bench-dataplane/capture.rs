//! A device that gives the frames of the source from a capture, again and again, and drops what it
//! is given: for our own loop and for `dpdk-testpmd`, so that both pay for the same device.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::{env, process};

use anyhow::{Context, Result};
use traffic::template::{LEN, Template};

use crate::setup::TARGET;

const FRAMES: u64 = 1024;

/// A file with the frames and no name any more: whatever ends this program, nothing stays behind.
pub(crate) struct Capture(File);

impl Capture {
    pub(crate) fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("sluice-bench-{}.pcap", process::id()));
        let mut file = File::create_new(&path).with_context(|| path.display().to_string())?;
        fs::remove_file(&path)?;
        file.write_all(&frames())?;
        Ok(Self(file))
    }

    /// The device; who starts with it has read the file.
    pub(crate) fn device(&self) -> String {
        let (pid, fd) = (process::id(), self.0.as_raw_fd());
        format!("net_pcap0,rx_pcap=/proc/{pid}/fd/{fd},infinite_rx=1")
    }
}

/// A capture of the frames that the source sends, in the classic format.
fn frames() -> Vec<u8> {
    let template = Template::new(TARGET, engine::wire::tcp::ACK);
    let len = u32::try_from(LEN).unwrap_or_default();
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for flow in 0..FRAMES {
        let mut bytes = [0; LEN];
        template.segment(flow, &mut bytes);
        file.extend(words(&[0, 0, len, len]));
        file.extend(bytes);
    }
    file
}
