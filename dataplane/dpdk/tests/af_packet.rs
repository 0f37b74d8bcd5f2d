//! Kernel interfaces by AF_PACKET: the device that works everywhere. Two ends of a veth pair, in a
//! network namespace that ends with this process.

use dpdk::{Device, Eal, EalSettings, Hugepages, Mempool, PoolSize, PortBuilder, Socket, Started};
use engine::{
    frame::{Frame, FramePool, FrameVec},
    queue::{RxQueue as _, TxQueue as _},
};
use nix::sched::{CloneFlags, unshare};
use std::{
    process::Command,
    time::{Duration, Instant},
};

#[test]
fn frames_cross_a_veth_pair() {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    ip("link add veth-a type veth peer name veth-b");
    ip("link set veth-a up");
    ip("link set veth-b up");
    let device = |text| Device::parse(text).expect("a device string").with_queues(2);
    let devices = [device("net_af_packet0,iface=veth-a"), device("net_af_packet1,iface=veth-b")];
    let eal = Eal::start(&EalSettings {
        hugepages: Hugepages::No,
        memory_mb: 128,
        devices: devices.to_vec(),
        ..EalSettings::default()
    });
    let eal = eal.expect("EAL starts");
    let size = PoolSize { frames: 8191, ..PoolSize::default() };
    let mut pool = Mempool::new(&eal, "frames", size, Socket(None)).expect("a pool");
    let [near, far] = devices.map(|device| start(&eal, &device, &pool));

    let mut frames: FrameVec<_> = (0..32).map(|mark| frame(&mut pool, mark)).collect();
    let mut tx = near.tx.into_iter().next().expect("a queue").into_queue();
    tx.tx_burst(&mut frames);
    assert!(frames.is_empty(), "the kernel takes a burst");
    assert_eq!(marks_received(far), (0..32).collect::<Vec<u8>>());
    drop((tx, near.rx, near.port));
    assert_eq!(pool.in_use(), 0);
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("iproute2");
    assert!(status.success(), "ip {args}");
}

fn start(eal: &Eal, device: &Device, pool: &Mempool) -> Started {
    let builder = PortBuilder::new(eal, device).expect("the port exists");
    assert_eq!((builder.facts().max_rx_queues, builder.facts().max_tx_queues), (2, 2));
    builder.queues(2, 2).start(&[pool]).expect("the port starts")
}

/// A frame of a protocol for local experiments (IEEE 802, 0x88b5).
fn frame(pool: &mut Mempool, mark: u8) -> dpdk::Mbuf {
    let mut frame = pool.alloc(60).expect("a frame");
    let bytes = frame.bytes_mut();
    bytes[..6].fill(0xff);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14] = mark;
    frame
}

/// The marks of all frames of ours that arrive, on any queue.
fn marks_received(port: Started) -> Vec<u8> {
    let mut queues: Vec<_> = port.rx.into_iter().map(dpdk::RxHandle::into_queue).collect();
    let (mut marks, began) = (Vec::new(), Instant::now());
    while marks.len() < 32 && began.elapsed() < Duration::from_secs(5) {
        for queue in &mut queues {
            let mut frames = FrameVec::new();
            queue.rx_burst(&mut frames);
            let ours = frames.iter().filter(|frame| frame.bytes()[12..14] == [0x88, 0xb5]);
            marks.extend(ours.map(|frame| frame.bytes()[14]));
        }
    }
    marks.sort_unstable();
    marks
}
