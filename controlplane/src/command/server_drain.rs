//! `server drain`.

use std::time::Duration;

use config::ServerRef;
use config::spec::OnRemove;

use super::Command;
use super::words::OneOrAll;
use crate::change::Change;
use crate::ctl::{Ctl, Failed, print, read};
use crate::document::Services;
use crate::table::count;
use crate::views::ServerView;

/// Give a real server no new connections, in all its services, and watch the others end
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl server drain SERVER [--deadline TIME [--then WHAT]]")]
pub struct ServerDrain {
    /// The server: its name, ADDRESS or ADDRESS:PORT
    server: ServerRef,
    /// After this time its connections end: 300s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    deadline: Option<u32>,
    /// How they end then: reset, forget or reschedule
    #[arg(long, value_name = "WHAT", requires = "deadline")]
    then: Option<OnRemove>,
    /// Do not watch
    #[arg(long)]
    no_wait: bool,
}

impl Command for ServerDrain {
    const METHOD: &'static str = "server.drain";
    const EXAMPLES: &'static str = "
        sluicectl server drain web-2
        sluicectl server drain web-2 --deadline 300s --then reset";

    fn change(self) -> Result<Change, Failed> {
        let Self { server, deadline, then, .. } = self;
        Ok(Change::DrainServer { server, deadline, then })
    }

    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let (server, watch) = (self.server.clone(), !self.no_wait && !ctl.json());
        ctl.apply(&self.change()?)?;
        if watch { follow(ctl, &server) } else { Ok(()) }
    }
}

/// One line a second, while something changes, until nothing is left or the deadline is over.
fn follow(ctl: &mut Ctl, server: &ServerRef) -> Result<(), Failed> {
    let began = look(ctl, server)?;
    let services: Vec<&str> = began.iter().map(|(service, _)| service.as_str()).collect();
    let deadline = began.iter().find_map(|(_, s)| s.drain.as_ref());
    let until = deadline.map_or_else(String::new, |d| {
        format!(", {} in {} s, by {}", d.then, d.left_ms.div_ceil(1000), d.by)
    });
    let of = config::text::many(services.len() as u64, "service");
    print(&format!("{server} drains in {of}: {}{until}\n", services.join(", ")))?;
    print(&format!("Ctrl-C leaves it draining.   undo: sluicectl server enable {server}\n"))?;
    let mut last = String::new();
    loop {
        let now = look(ctl, server)?;
        let line = progress(&began, &now);
        if line != last {
            print(&format!("{line}\n"))?;
            last = line;
        }
        let ended = deadline.is_some() && now.iter().all(|(_, s)| s.drain.is_none());
        if ended || left(&now) == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

type Seen = Vec<(String, ServerView)>;

fn look(ctl: &mut Ctl, server: &ServerRef) -> Result<Seen, Failed> {
    let doc: Services = read(ctl.client()?.ask("service.list", &OneOrAll::default())?)?;
    let is = |s: &ServerView| match server {
        ServerRef::Address(a, port) => s.address == *a && port.is_none_or(|p| p == s.port),
        ServerRef::Name(name) => s.name == *name,
    };
    let of = |service: crate::views::ServiceView| {
        let found: Vec<_> = service.servers.into_iter().filter(&is).collect();
        found.into_iter().map(move |s| (service.name.clone(), s))
    };
    Ok(doc.services.into_iter().flat_map(of).collect())
}

fn left(seen: &Seen) -> u64 {
    seen.iter().map(|(_, s)| s.active + s.inactive).sum()
}

fn progress(began: &Seen, now: &Seen) -> String {
    let one = |((service, a), (_, b)): (&(String, ServerView), &(String, ServerView))| {
        format!("{service} {} -> {} active", count(a.active), count(b.active))
    };
    let each: Vec<String> = began.iter().zip(now).map(one).collect();
    let (all, left) = (left(began), left(now));
    let done = (all.saturating_sub(left) * 100).checked_div(all).unwrap_or(100);
    format!("{}   {done} %", each.join("   "))
}

fn seconds(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is no time such as 300s, 10m or 2h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let secs = number.checked_mul(unit).filter(|secs| *secs <= config::load::MAX_TIMEOUT);
    secs.ok_or_else(|| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_have_units() {
        for (text, secs) in [("0", 0), ("300s", 300), ("300", 300), ("10m", 600), ("2h", 7200)] {
            assert_eq!(seconds(text), Ok(secs));
        }
        for text in ["", "s", "1d", "-1s", "1.5m", "99999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
