//! What `server drain` shows while connections end: text only.
//!
//! ```text
//! web-2 (10.0.1.12) drains in 2 services: web, api. By alice, until 14:05:00 UTC. Serving weight left 70 %
//! no new connections since 14:00:00.004 UTC (config #119 on 3 lcores)
//! web 5,987 -> 1,204 active   api 310 -> 12   ####################......  80 %   at this pace empty in 62 s
//! Ctrl-C leaves it draining.   undo: sluicectl server enable web-2
//! ```

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::table::count;
use crate::views::{DrainView, ServerView, ServiceView};

/// Characters of the bar.
const BAR: u64 = 26;
/// Services that are named; a long line could not be drawn again in place.
const NAMED: usize = 3;
/// Looks that the pace is measured over, one a second.
const PACE: usize = 10;

/// The server in one of its services.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) service: String,
    name: String,
    address: IpAddr,
    active: u64,
    inactive: u64,
    pub(super) drain: Option<DrainView>,
    /// Of all servers of the service: as configured, and as they serve now.
    weight: (u64, u64),
}

impl Place {
    /// The servers of a service that are meant.
    pub(super) fn all(service: ServiceView, is: impl Fn(&ServerView) -> bool) -> Vec<Self> {
        let ServiceView { name: service, servers, .. } = service;
        let weight = servers.iter().map(|s| u64::from(s.weight)).sum();
        let serving = servers.iter().map(|s| u64::from(s.effective_weight)).sum();
        let place = |s: ServerView| Self {
            service: service.clone(),
            name: s.name,
            address: s.address,
            active: s.active,
            inactive: s.inactive,
            drain: s.drain,
            weight: (weight, serving),
        };
        servers.into_iter().filter(is).map(place).collect()
    }
}

/// Connections that are not ended yet.
pub(super) fn left(seen: &[Place]) -> u64 {
    seen.iter().map(|p| p.active + p.inactive).sum()
}

fn active(seen: &[Place]) -> u64 {
    seen.iter().map(|p| p.active).sum()
}

/// Where it drains, on whose word, until when, and what is left to serve: in the service that has
/// the smallest share left.
pub(super) fn headline(seen: &[Place], by: &str, now_ms: u64) -> String {
    let Some(first) = seen.first() else { return "drains nowhere: it is gone".to_owned() };
    let services: Vec<&str> = seen.iter().map(|p| p.service.as_str()).collect();
    let many = config::text::many(services.len() as u64, "service");
    let mut text =
        format!("{} ({}) drains in {many}: {}.", first.name, first.address, services.join(", "));
    let drain = seen.iter().find_map(|p| p.drain.as_ref());
    let by = drain.map_or(by, |d| d.by.as_str());
    if !by.is_empty() {
        text += &format!(" By {by}");
        if let Some(drain) = drain {
            text += &format!(
                ", until {} UTC, then {}",
                time_of_day(now_ms + drain.left_ms),
                drain.then
            );
        }
        text += ".";
    }
    let share = |p: &Place| (p.weight.1 * 100).checked_div(p.weight.0);
    if let Some((percent, place)) =
        seen.iter().filter_map(|p| Some((share(p)?, p))).min_by_key(|s| s.0)
    {
        text += &format!(" Serving weight left {percent} %");
        if seen.len() > 1 {
            text += &format!(" in {}", place.service);
        }
    }
    text
}

/// How far each service came, the whole, and how long the rest takes.
#[derive(Debug)]
pub(super) struct Progress {
    began: Vec<Place>,
    /// Active connections at the last looks, the newest first.
    looks: VecDeque<u64>,
    bar: bool,
}

impl Progress {
    /// From what there was at first; with a bar on a terminal.
    pub(super) const fn new(began: Vec<Place>, bar: bool) -> Self {
        Self { began, looks: VecDeque::new(), bar }
    }

    /// The line of one look; looks are a second apart.
    pub(super) fn line(&mut self, now: &[Place]) -> String {
        let (all, active) = (active(&self.began), active(now));
        self.looks.push_front(active);
        self.looks.truncate(PACE + 1);
        let done = (all.saturating_sub(active) * 100).checked_div(all).unwrap_or(100);
        let bar = if self.bar { bar(done) + "  " } else { String::new() };
        format!("{}   {bar}{done} %{}", self.each(now), self.rest(active, left(now)))
    }

    fn each(&self, now: &[Place]) -> String {
        let there = |a: &Place| now.iter().find(|b| b.service == a.service).map_or(0, |b| b.active);
        let named = self.began.iter().take(NAMED).enumerate().map(|(i, a)| {
            let unit = if i == 0 { " active" } else { "" };
            format!("{} {} -> {}{unit}", a.service, count(a.active), count(there(a)))
        });
        let mut each: Vec<String> = named.collect();
        if let Some(others) = self.began.get(NAMED..).filter(|o| !o.is_empty()) {
            let now = count(others.iter().map(there).sum());
            each.push(format!("{} others {} -> {now}", others.len(), count(active(others))));
        }
        each.join("   ")
    }

    fn rest(&self, active: u64, left: u64) -> String {
        if active == 0 {
            let closing =
                if left > 0 { format!("   {} closing", count(left)) } else { String::new() };
            return closing;
        }
        let before = self.looks.back().copied().unwrap_or(active);
        let ended = before.saturating_sub(active);
        let secs = (active * (self.looks.len() as u64 - 1)).div_ceil(ended.max(1));
        if ended > 0 { format!("   at this pace empty in {secs} s") } else { String::new() }
    }
}

fn bar(percent: u64) -> String {
    let full = usize::try_from(percent.min(100) * BAR / 100).unwrap_or_default();
    format!("{}{}", "#".repeat(full), ".".repeat(BAR as usize - full))
}

/// `14:05:00` of a time since 1970.
pub(super) fn time_of_day(unix_ms: u64) -> String {
    let secs = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

#[cfg(test)]
mod tests {
    use config::spec::OnRemove;

    use super::*;

    fn place(service: &str, active: u64, inactive: u64, weight: (u64, u64)) -> Place {
        Place {
            service: service.to_owned(),
            name: "web-2".to_owned(),
            address: IpAddr::from([10, 0, 1, 12]),
            active,
            inactive,
            drain: None,
            weight,
        }
    }

    fn two(web: u64, api: u64) -> [Place; 2] {
        [place("web", web, 0, (500, 400)), place("api", api, 0, (100, 70))]
    }

    #[test]
    fn it_says_where_until_when_and_what_is_left_to_serve() {
        let mut seen = two(5987, 310);
        assert_eq!(
            headline(&seen, "bob", 0),
            "web-2 (10.0.1.12) drains in 2 services: web, api. By bob. Serving weight left 70 % in api"
        );
        let drain = DrainView { left_ms: 300_000, then: OnRemove::Reset, by: "alice".to_owned() };
        seen[0].drain = Some(drain);
        assert_eq!(
            headline(&seen[..1], "bob", (14 * 3600 * 1000) + 86_400_000),
            "web-2 (10.0.1.12) drains in 1 service: web. By alice, until 14:05:00 UTC, then reset. \
             Serving weight left 80 %"
        );
        assert!(!headline(&[place("web", 1, 0, (0, 0))], "", 0).contains('%'), "no weight at all");
        assert_eq!(headline(&[], "", 0), "drains nowhere: it is gone");
    }

    #[test]
    fn bar_and_pace_follow_what_ends() {
        let mut progress = Progress::new(two(5987, 310).into(), true);
        assert_eq!(
            progress.line(&two(5987, 310)),
            "web 5,987 -> 5,987 active   api 310 -> 310   ..........................  0 %"
        );
        for active in [4000, 3000, 2000] {
            progress.line(&two(active, 100));
        }
        // 6,297 active 4 s before.
        assert_eq!(
            progress.line(&two(1204, 12)),
            "web 5,987 -> 1,204 active   api 310 -> 12   ####################......  80 %   \
             at this pace empty in 1 s"
        );
        assert!(progress.line(&two(600, 0)).ends_with("90 %   at this pace empty in 1 s"));
        let closing = [place("web", 0, 1500, (1, 1)), place("api", 0, 0, (1, 1))];
        assert!(progress.line(&closing).ends_with("##  100 %   1,500 closing"));
        assert!(progress.line(&[]).ends_with("100 %"), "removed meanwhile");
    }

    /// The pace is that of the last ten seconds, and nothing is said while nothing ends.
    #[test]
    fn an_old_pace_is_forgotten() {
        let mut progress = Progress::new(two(1000, 0).into(), false);
        progress.line(&two(1000, 0));
        assert!(progress.line(&two(900, 0)).ends_with("   10 %   at this pace empty in 9 s"));
        let mut line = String::new();
        (0..10).for_each(|_| line = progress.line(&two(900, 0)));
        assert_eq!(line, "web 1,000 -> 900 active   api 0 -> 0   10 %");
    }

    #[test]
    fn many_services_are_summed() {
        let began: Vec<_> = (0..20).map(|i| place(&format!("s{i}"), 10, 0, (1, 1))).collect();
        let now: Vec<_> = (5..20).map(|i| place(&format!("s{i}"), 4, 0, (1, 1))).collect();
        let line = Progress::new(began, false).line(&now);
        assert_eq!(
            line,
            "s0 10 -> 0 active   s1 10 -> 0   s2 10 -> 0   17 others 170 -> 60   70 %"
        );
    }
}
