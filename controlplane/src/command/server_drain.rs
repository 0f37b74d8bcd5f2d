//! `server drain`.

use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::ServerRef;
use config::spec::OnRemove;

use super::Command;
use super::drain_screen::{Place, Progress, headline, left, time_of_day};
use super::words::OneOrAll;
use crate::change::Change;
use crate::ctl::{self, Ctl, Failed, print, read};
use crate::document::Services;
use crate::views::ServerView;

/// Give a real server no new connections, in all its services, and watch the others end
#[derive(Debug, clap::Args)]
#[command(override_usage = "sluicectl server drain SERVER [--deadline TIME [--then WHAT]]")]
pub struct ServerDrain {
    /// The server: its name, ADDRESS or ADDRESS:PORT
    server: ServerRef,
    /// After this time its connections end: 300s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = config::text::seconds)]
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
        let (server, wait) = (self.server.clone(), !self.no_wait);
        let change = self.change()?;
        if ctl.json() {
            return ctl.apply(&change);
        }
        let applied = ctl.ask(&change)?;
        let now_ms = since_1970();
        let (began, by) = look(ctl, &server)?;
        print(&format!(
            "{}\nno new connections since {}.{:03} UTC ({})\n",
            headline(&began, &by, now_ms),
            time_of_day(now_ms),
            now_ms % 1000,
            ctl::applied(&applied)
        ))?;
        if wait { follow(ctl, &server, began) } else { print(&undo(&server)) }
    }
}

fn since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn undo(server: &ServerRef) -> String {
    format!("undo: sluicectl server enable {server}\n")
}

/// Until nothing is left or the deadline is over: on a terminal one line that is drawn anew each
/// second, above how to undo it; elsewhere a line when something has changed.
fn follow(ctl: &mut Ctl, server: &ServerRef, began: Vec<Place>) -> Result<(), Failed> {
    let deadline = began.iter().any(|p| p.drain.is_some());
    let terminal = std::io::stdout().is_terminal();
    let foot = format!("Ctrl-C leaves it draining.   {}", undo(server));
    if !terminal {
        print(&foot)?;
    }
    let mut now = began.clone();
    let mut progress = Progress::new(began, terminal);
    let mut last = String::new();
    loop {
        let line = progress.line(&now);
        if terminal {
            let up = if last.is_empty() { "" } else { "\x1b[2A\x1b[J" };
            print(&format!("{up}{line}\n{foot}"))?;
        } else if line != last {
            print(&format!("{line}\n"))?;
        }
        last = line;
        let ended = deadline && now.iter().all(|p| p.drain.is_none());
        if ended || left(&now) == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
        now = look(ctl, server)?.0;
    }
}

/// The server in all its services, and who changed the director last.
fn look(ctl: &mut Ctl, server: &ServerRef) -> Result<(Vec<Place>, String), Failed> {
    let doc: Services = read(ctl.client()?.ask("service.list", &OneOrAll::default())?)?;
    let is = |s: &ServerView| match server {
        ServerRef::Address(a, port) => s.address == *a && port.is_none_or(|p| p == s.port),
        ServerRef::Name(name) => s.name == *name,
    };
    let places = doc.services.into_iter().flat_map(|service| Place::all(service, is)).collect();
    Ok((places, doc.director.by))
}
