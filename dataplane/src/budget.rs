//! What memory the director will take, said before it is taken.

use std::fs;

use anyhow::{Result, bail};
use config::Settings;
use config::text::many;
use dpdk::PoolSize;
use engine::conn::table::ConnTable;
use engine::live::LiveSlot;
use engine::sched::maglev::DEFAULT_SIZE;
use engine::server::ServerLine;
use engine::stats::ServerCounters;
use engine::templates::Templates;
use engine::thresholds::Occupancies;

/// Next hops that may exist at a time.
pub(crate) fn max_hops(settings: &Settings) -> usize {
    controlplane::control::hop_capacity(settings)
}

/// Connections that one lcore's table holds. Flows spread over lcores by a hash, so no lcore has
/// more than a few per thousand above its share.
pub(crate) fn per_lcore(settings: &Settings) -> Result<u32> {
    let share = settings.director.connections.div_ceil(settings.director.lcores.len() as u64);
    match u32::try_from(share) {
        Ok(n) if n <= ConnTable::MAX => Ok(n.max(1)),
        _ => bail!(
            "connections = {} is more than {} lcores can hold; the most is {} for each",
            settings.director.connections,
            settings.director.lcores.len(),
            ConnTable::MAX
        ),
    }
}

/// Bytes by what they are for. Maglev is counted at the most services that there may be, each with
/// a pool of its own.
pub(crate) fn lines(settings: &Settings, pool: PoolSize) -> Result<Vec<(String, u64)>> {
    let lcores = settings.director.lcores.len() as u64;
    let servers = u64::from(settings.director.max_servers);
    let services = u64::from(settings.director.max_services);
    let table = ConnTable::bytes(per_lcore(settings)?) as u64;
    let templates = usize::try_from(settings.director.templates)?;
    let templates = Templates::bytes(templates) as u64;
    let slot = size_of::<ServerCounters>() + size_of::<LiveSlot>();
    let line = size_of::<ServerLine>() as u64 * 2;
    Ok(vec![
        (format!("connection tables ({})", many(lcores, "lcore")), table * lcores),
        ("persistence templates".to_owned(), templates),
        ("packet buffers".to_owned(), pool.bytes()),
        ("server counters".to_owned(), servers * lcores * slot as u64),
        ("counts of limited servers".to_owned(), Occupancies::bytes(servers)),
        ("server lines, two snapshots".to_owned(), servers * line),
        (format!("maglev ({services} services at most)"), maglev(settings)),
        ("rings of net_af_packet, in the kernel".to_owned(), kernel_rings(settings)),
    ])
}

/// Two bytes a place: a table for `mh` and one for flows without an entry, of each service that there
/// may be; and what services of the config want beyond that.
fn maglev(settings: &Settings) -> u64 {
    let sizes = settings.services.iter().filter_map(|service| service.maglev_size);
    let beyond: u64 = sizes.map(|size| u64::from(size.saturating_sub(DEFAULT_SIZE))).sum();
    2 * (2 * u64::from(settings.director.max_services) * u64::from(DEFAULT_SIZE) + beyond)
}

/// Bytes of the rings that AF_PACKET shares with the kernel: one each way and queue, of frames of
/// 2 KiB.
fn kernel_rings(settings: &Settings) -> u64 {
    let lcores = settings.director.lcores.len() as u64;
    let rings = settings.ports.iter().filter(|p| p.device.starts_with("net_af_packet")).map(|p| {
        let mut args = p.device.split(',');
        let count = args.find_map(|a| a.strip_prefix("framecnt=")?.parse().ok());
        let queues = lcores.min(p.queues.map_or(u64::MAX, u64::from));
        count.unwrap_or(AF_PACKET_FRAMES) * 2048 * 2 * queues
    });
    rings.sum()
}

/// Frames in such a ring unless the device string says otherwise.
const AF_PACKET_FRAMES: u64 = 4096;

/// Refuses what does not fit the machine's free memory.
pub(crate) fn check(lines: &[(String, u64)]) -> Result<()> {
    let need: u64 = lines.iter().map(|(_, bytes)| bytes).sum();
    let have = available();
    if let Some(have) = have
        && need > have
    {
        let list: Vec<String> =
            lines.iter().map(|(what, bytes)| format!("  {:>8}  {what}", show(*bytes))).collect();
        bail!(
            "the director needs {} and {} are free:\n{}\nset a smaller director.connections, \
             director.templates, director.max-servers or director.max-services",
            show(need),
            show(have),
            list.join("\n")
        );
    }
    Ok(())
}

/// Free memory with the hugepages that nobody has taken, in bytes.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let huge = field("HugePages_Free:")? * field("Hugepagesize:")?;
    Some((field("MemAvailable:")? + huge) * 1024)
}

/// Bytes for people.
pub(crate) fn show(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
    let mb = bytes as f64 / 1_048_576.0;
    if mb >= 1024.0 { format!("{:.1} GiB", mb / 1024.0) } else { format!("{mb:.1} MiB") }
}
