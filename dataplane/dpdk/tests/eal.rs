//! The wrapper against DPDK's software devices. EAL starts once per process, so this is one test: it
//! runs the same under `cargo test` and under `cargo nextest`.

use dpdk::{
    Clock, Device, Eal, EalSettings, Error, Hugepages, Mbuf, Memory, Mempool, PoolSize,
    PortBuilder, RxQueue, Socket, Started, TxQueue, spawn_lcore,
};
use dpdk_sys::{SLUICE_OFF_NB_SEGS, SLUICE_OFF_NEXT, SLUICE_OFF_PKT_LEN, fast::at, rte_mbuf};
use engine::{
    frame::{Frame, FramePool, FrameVec, NoHeadroom},
    queue::{RxQueue as _, TxQueue as _},
};
use std::{fs, path::Path, ptr::NonNull, time::Duration};

/// The headroom of a fresh frame, in bytes.
const HEADROOM: usize = 128;

#[test]
fn dpdk_is_wrapped_whole() {
    let dir = std::env::temp_dir().join(format!("sluice-eal-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for captures");
    fs::write(dir.join("in.pcap"), capture(&[60, 4000, 61])).expect("a capture");
    let pcap = format!("net_pcap0,rx_pcap={0}/in.pcap,tx_pcap={0}/out.pcap", dir.display());

    let eal = start(&["net_ring0", "net_null0", &pcap]);
    second_start_is_refused();
    wrong_devices_are_named(&eal);
    clock_runs(&eal);
    let pool = pool(&eal);
    frames_grow_and_shrink(&pool);
    let ring = port(&eal, "net_ring0", &pool);
    lcore_round_trip(&eal, ring, &pool);
    assert_eq!(pool.in_use(), 0, "every frame is freed once");
    capture_is_forwarded(&eal, &pcap, &pool);
    let sent = fs::read(dir.join("out.pcap")).expect("what was sent");
    assert_eq!(captured(&sent), captured(&capture(&[60, 61])));
    assert_eq!(pool.in_use(), 0);
    many_queues_are_refused_with_numbers(&eal, &pool);
    lcore_on_a_missing_core_is_refused(&eal);

    let run_dir = run_dir();
    assert!(run_dir.exists(), "EAL's files lie there while it runs");
    drop((pool, eal));
    assert!(!run_dir.exists(), "nothing is left behind");
    second_start_is_refused();
    fs::remove_dir_all(dir).expect("our directory");
}

fn settings(devices: &[&str]) -> EalSettings {
    let devices = devices.iter().map(|d| Device::parse(d).expect("a device string")).collect();
    EalSettings { hugepages: Hugepages::No, memory_mb: 64, devices, ..EalSettings::default() }
}

fn run_dir() -> std::path::PathBuf {
    let prefix = settings(&[]).file_prefix;
    let as_user = std::env::var("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("dpdk"));
    let places = [Ok(Path::new("/var/run/dpdk").to_owned()), as_user];
    let mut found = places.into_iter().flatten().map(|place| place.join(&prefix));
    let fallback = Path::new("/tmp/dpdk").join(&prefix);
    found.find(|dir| dir.exists()).unwrap_or(fallback)
}

fn start(devices: &[&str]) -> Eal {
    let before = cores();
    let eal = Eal::start(&settings(devices)).expect("EAL starts without hugepages");
    assert_eq!(cores(), before, "the caller keeps its cores");
    assert!(matches!(eal.memory(), Memory::Plain { .. }));
    assert!(eal.version().starts_with("DPDK "));
    eal
}

fn cores() -> Vec<usize> {
    core_affinity::get_core_ids().expect("own cores").iter().map(|core| core.id).collect()
}

fn pool(eal: &Eal) -> Mempool {
    let size = PoolSize { frames: 1023, cache: 64, frame_len: 2048 };
    let too_much = PoolSize { cache: 900, ..size };
    let refused = Mempool::new(eal, "refused", too_much, Socket(None)).err();
    assert!(matches!(refused, Some(Error::Setting(_))), "{refused:?}");
    let pool = Mempool::new(eal, "frames", size, Socket(None)).expect("a pool");
    let twice = Mempool::new(eal, "frames", size, Socket(None)).err();
    assert!(matches!(twice, Some(Error::Call { .. })), "{twice:?}");
    buffers_lie_in_one_piece(pool.clone(), 1023);
    pool
}

/// What AF_XDP's driver shares with the kernel ends after `count` times the size of a buffer.
fn buffers_lie_in_one_piece(mut pool: Mempool, count: usize) {
    let frames: Vec<Mbuf> = (0..count).map(|_| pool.alloc(1).expect("a frame")).collect();
    let places = || frames.iter().map(|frame| frame.bytes().as_ptr().addr());
    let span = places().max().unwrap() - places().min().unwrap();
    // mbuf, headroom, data, the pool's header, and at most four lines to spread memory channels.
    assert!(span < count * (128 + 128 + 2048 + 64 + 4 * 64), "{span} bytes for {count} frames");
}

fn port(eal: &Eal, device: &str, pool: &Mempool) -> Started {
    let device = Device::parse(device).expect("a device string");
    let builder = PortBuilder::new(eal, &device).expect("the port exists");
    let taken = PortBuilder::new(eal, &device).err();
    assert!(matches!(taken, Some(Error::Device { .. })), "{taken:?}");
    assert!(builder.facts().driver.starts_with("net_"));
    builder.start(&[pool]).expect("the port starts")
}

fn queues(mut started: Started) -> (RxQueue, TxQueue, dpdk::Port) {
    (started.rx.remove(0).into_queue(), started.tx.remove(0).into_queue(), started.port)
}

fn second_start_is_refused() {
    assert!(matches!(Eal::start(&settings(&[])), Err(Error::StartedBefore)));
    if cfg!(feature = "static") {
        let plugins = vec!["/usr/lib/a.so".into()];
        let refused = Eal::start(&EalSettings { plugins, ..settings(&[]) }).err();
        let text = refused.expect("refused").to_string();
        assert!(text.contains("--no-default-features"), "{text}");
    }
}

fn wrong_devices_are_named(eal: &Eal) {
    for name in ["net_null7", "0000:ff:1f.7"] {
        let device = Device::parse(name).expect("a device string");
        let error = PortBuilder::new(eal, &device).err().expect("no such port").to_string();
        assert!(error.contains(name), "{error}");
    }
    for name in ["net_nope0", "net_af_packet7,iface=nowhere"] {
        let device = Device::parse(name).expect("a device string");
        let error = eal.add(&device).expect_err("no such device").to_string();
        assert!(error.contains(name), "{error}");
    }
}

fn clock_runs(eal: &Eal) {
    let clock = Clock::new(eal);
    let before = clock.now();
    std::thread::sleep(Duration::from_millis(50));
    let passed = clock.now().since(before).0;
    assert!((45..5000).contains(&passed), "{passed} ms");
}

fn frames_grow_and_shrink(pool: &Mempool) {
    let mut pool = pool.clone();
    assert!(pool.alloc(2049).is_none(), "longer than a buffer");
    let mut frame = pool.alloc(60).expect("a frame");
    assert_eq!(frame.bytes(), [0; 60]);
    frame.bytes_mut()[0] = 7;
    assert_eq!(frame.grow_front(HEADROOM + 1).err(), Some(NoHeadroom));
    let grown = frame.grow_front(HEADROOM).expect("headroom");
    assert_eq!((grown.len(), grown[HEADROOM]), (60 + HEADROOM, 7));
    frame.trim_front(HEADROOM);
    assert_eq!((frame.bytes().len(), frame.bytes()[0]), (60, 7));
    frame.truncate(100);
    assert_eq!(frame.bytes().len(), 60);
    frame.truncate(14);
    assert_eq!(frame.bytes().len(), 14);
    assert_eq!(frame.head::<15>(), None);
    assert_eq!(pool.in_use(), 1);
    drop(frame);

    let mut burst = FrameVec::new();
    assert!(pool.alloc_bulk(&mut burst, 30, 64) && burst.iter().all(|f| f.bytes().len() == 64));
    assert!(!pool.alloc_bulk(&mut burst, 3, 64), "more than there is room for");
    assert!(!pool.alloc_bulk(&mut burst, 1, 2049), "longer than a buffer");
    assert_eq!((burst.len(), pool.in_use()), (30, 30));
    Mbuf::free_bulk(&mut burst);

    let mut all: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc(1)).collect();
    assert_eq!(all.len(), 1023, "an empty pool says so");
    let mut some: FrameVec<Mbuf> = all.drain(..32).collect();
    Mbuf::free_bulk(&mut some);
    assert_eq!((some.len(), pool.in_use()), (0, 1023 - 32));
    drop(all);
    // SAFETY: the mbuf comes from `into_raw` and is given up by it.
    let back = unsafe { Mbuf::from_raw(pool.alloc(1).expect("a frame").into_raw()) };
    drop(back);
    assert_eq!(pool.in_use(), 0);
}

/// A ring device gives back what it is sent.
fn lcore_round_trip(eal: &Eal, ring: Started, pool: &Mempool) {
    let (port, pool) = (ring.port.clone(), pool.clone());
    let core = cores()[0];
    let lcore = spawn_lcore(eal, core, "lcore-test", move || {
        assert_eq!(cores(), [core], "bound to its core");
        let (mut rx, mut tx, _port) = queues(ring);
        burst_comes_back_in_order(&mut rx, &mut tx, pool.clone());
        full_device_leaves_the_rest(&mut rx, &mut tx, pool.clone());
        segments_are_joined_or_counted(&mut rx, &mut tx, pool);
    });
    lcore.expect("an lcore").join().expect("it does not panic");
    let stats = port.stats().expect("counters");
    assert!(stats.rx_frames > 32 && stats.rx_frames == stats.tx_frames, "{stats:?}");
    let xstats = port.xstats().expect("counters");
    let received = xstats.iter().find(|(name, _)| name == "rx_good_packets");
    assert_eq!(received.map(|&(_, count)| count), Some(stats.rx_frames));
    assert!(port.link().expect("a state").is_up);
}

fn burst_comes_back_in_order(rx: &mut RxQueue, tx: &mut TxQueue, mut pool: Mempool) {
    let mut frames = FrameVec::new();
    for length in 60..92 {
        frames.push(pool.alloc(length).expect("a frame"));
    }
    tx.tx_burst(&mut frames);
    assert!(frames.is_empty());
    rx.rx_burst(&mut frames);
    assert!(frames.iter().map(|f| f.bytes().len()).eq(60..92));
    rx.rx_burst(&mut frames);
    assert_eq!(frames.len(), 32, "a full vector takes nothing");
    Mbuf::free_bulk(&mut frames);
    assert_eq!(rx.take_unusable(), 0);
}

fn full_device_leaves_the_rest(rx: &mut RxQueue, tx: &mut TxQueue, mut pool: Mempool) {
    let mut sent: u32 = 0;
    // A ring of the device has room for less than the pool holds; each frame carries its number.
    let rest = loop {
        let mut frames: FrameVec<Mbuf> = FrameVec::new();
        while let (false, Some(mut frame)) = (frames.is_full(), pool.alloc(4)) {
            let number = sent + u32::try_from(frames.len()).expect("a burst is 32");
            frame.bytes_mut().copy_from_slice(&number.to_be_bytes());
            frames.push(frame);
        }
        let offered = frames.len();
        tx.tx_burst(&mut frames);
        sent += u32::try_from(offered - frames.len()).expect("a burst is 32");
        if !frames.is_empty() || offered == 0 {
            break frames;
        }
    };
    let number = |frame: &Mbuf| u32::from_be_bytes(*frame.head::<4>().expect("its number"));
    assert!(rest.iter().map(number).eq((sent..).take(rest.len())), "the rest stays in order");
    drop(rest);
    let mut came = 0;
    loop {
        let mut frames = FrameVec::new();
        rx.rx_burst(&mut frames);
        if frames.is_empty() {
            break;
        }
        for frame in &frames {
            assert_eq!(number(frame), came);
            came += 1;
        }
    }
    assert_eq!(came, sent);
}

fn segments_are_joined_or_counted(rx: &mut RxQueue, tx: &mut TxQueue, mut pool: Mempool) {
    let mut frames = FrameVec::new();
    for (first, second) in [(100, 200), (1500, 1500)] {
        let (mut head, mut tail) =
            (pool.alloc(first).expect("a frame"), pool.alloc(second).expect("a frame"));
        head.bytes_mut().fill(1);
        tail.bytes_mut().fill(2);
        let chained = chain(head.into_raw(), tail.into_raw(), first + second);
        // SAFETY: nobody else has it; it goes straight to a device that passes segments on.
        frames.push(unsafe { Mbuf::from_raw(chained) });
    }
    tx.tx_burst(&mut frames);
    rx.rx_burst(&mut frames);
    assert_eq!(frames.len(), 1, "the second does not fit one buffer");
    assert_eq!(frames[0].bytes(), [[1; 100].as_slice(), &[2; 200]].concat());
    assert_eq!((rx.take_unusable(), rx.take_unusable()), (1, 0));
}

fn chain(head: NonNull<rte_mbuf>, tail: NonNull<rte_mbuf>, len: usize) -> NonNull<rte_mbuf> {
    // SAFETY: both mbufs are ours and single; the fields have these C types.
    unsafe {
        *at(head.as_ptr(), SLUICE_OFF_NEXT) = tail.as_ptr();
        *at::<u16>(head.as_ptr(), SLUICE_OFF_NB_SEGS) = 2;
        *at(head.as_ptr(), SLUICE_OFF_PKT_LEN) = u32::try_from(len).expect("two buffers");
    }
    head
}

/// The capture's frames, without the one that is longer than a buffer.
fn capture_is_forwarded(eal: &Eal, device: &str, pool: &Mempool) {
    let (mut rx, mut tx, port) = queues(port(eal, device, pool));
    let mut frames = FrameVec::new();
    for _ in 0..3 {
        rx.rx_burst(&mut frames);
    }
    assert_eq!((frames.len(), rx.take_unusable()), (2, 1));
    let copies = frames.iter().map(|frame| frame.bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(copies, [vec![60; 60], vec![61; 61]]);
    tx.tx_burst(&mut frames);
    assert!(frames.is_empty());
    // The last of these closes the device, which writes the rest of the file.
    drop((rx, tx, port));
}

fn many_queues_are_refused_with_numbers(eal: &Eal, pool: &Mempool) {
    let device = Device::parse("net_null0").expect("a device string");
    let builder = PortBuilder::new(eal, &device).expect("the port exists");
    let most = builder.facts().max_rx_queues;
    let error = builder.queues(most + 1, 1).start(&[pool]).err().expect("refused").to_string();
    assert!(error.contains(&format!("{} receive queues", most + 1)), "{error}");
    assert!(error.contains(&format!("at most {most}")), "{error}");
}

fn lcore_on_a_missing_core_is_refused(eal: &Eal) {
    let error = spawn_lcore(eal, 1000, "nowhere", || ()).err().expect("refused");
    assert!(matches!(error, Error::Core { core: 1000, .. }), "{error}");
}

/// A capture of frames with these lengths, each filled with its length.
fn capture(lengths: &[usize]) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for &len in lengths {
        let length = u32::try_from(len).expect("a frame");
        for word in [0, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        #[allow(clippy::cast_possible_truncation, reason = "a mark, not a number")]
        file.extend(std::iter::repeat_n(len as u8, len));
    }
    file
}

/// The frames of a capture.
fn captured(file: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    let mut rest = &file[24..];
    while let Some((header, data)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        frames.push(&data[..len]);
        rest = &data[len..];
    }
    frames
}
