//! `sluicectl` from the inside: the command line, how results are printed, how it ends.
//!
//! Results go to stdout, all else to stderr. Exit status: 0 done, 1 refused by the director, 2 wrong
//! usage or no director.

mod failed;

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anstyle::Style;
use clap::{Arg, ArgAction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::change::Change;
use crate::client::Client;
use crate::command;
use crate::table::Table;
use crate::views::HeaderView;
pub use failed::Failed;

/// The version of the `--json` documents.
pub const DOCUMENT: u32 = 1;

/// What a command has at hand: the director and the two ways to print.
#[derive(Debug)]
pub struct Ctl {
    socket: PathBuf,
    json: bool,
    client: Option<Client>,
}

impl Ctl {
    /// For the director at `socket`; nothing is connected before it is needed.
    #[must_use]
    pub fn new(socket: &Path, json: bool) -> Self {
        Self { socket: socket.to_owned(), json, client: None }
    }

    /// Whether `--json` was given.
    #[must_use]
    pub const fn json(&self) -> bool {
        self.json
    }

    /// The director.
    ///
    /// # Errors
    /// When there is none.
    pub fn client(&mut self) -> Result<&mut Client, Failed> {
        if self.client.is_none() {
            self.client = Some(Client::connect(&self.socket)?);
        }
        self.client.as_mut().ok_or_else(|| Failed::Usage("not connected".into()))
    }

    /// Asks for a document and prints it: as it is with `--json`, else as `show` writes it.
    ///
    /// # Errors
    /// Those of the request and of stdout.
    pub fn show<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        show: impl FnOnce(&T) -> String,
    ) -> Result<(), Failed> {
        let document = self.client()?.ask(method, params)?;
        if self.json {
            return self.print_json(&document);
        }
        print(&show(&read(document)?))
    }

    /// Sends a change and says what became of it.
    ///
    /// # Errors
    /// Those of the request and of stdout.
    pub fn apply(&mut self, change: &Change) -> Result<(), Failed> {
        let done = self.ask(change)?;
        self.applied(&done)
    }

    /// Sends a change; what became of it.
    ///
    /// # Errors
    /// Those of the request.
    pub fn ask(&mut self, change: &Change) -> Result<Value, Failed> {
        let whole = serde_json::to_value(change).expect("changes have string keys");
        let params = whole.get("params").cloned().unwrap_or_else(|| json!({}));
        let method = whole["method"].as_str().unwrap_or_default().to_owned();
        Ok(self.client()?.ask(&method, &params)?)
    }

    /// Says what became of changes.
    ///
    /// # Errors
    /// Those of stdout.
    pub fn applied(&self, done: &Value) -> Result<(), Failed> {
        if self.json {
            return self.print_json(done);
        }
        for warning in done["warnings"].as_array().into_iter().flatten() {
            eprintln!("sluicectl: {}", warning.as_str().unwrap_or_default());
        }
        print(&format!("{}\n", applied(done)))
    }

    /// Prints a document, with its version.
    ///
    /// # Errors
    /// Those of stdout.
    pub fn print_json(&self, document: &Value) -> Result<(), Failed> {
        let mut whole = json!({ "version": DOCUMENT });
        if let (Value::Object(whole), Value::Object(fields)) = (&mut whole, document) {
            whole.extend(fields.clone());
        }
        print(&format!("{whole}\n"))
    }
}

/// `config #119 on 3 lcores`.
#[must_use]
pub fn applied(done: &Value) -> String {
    let number = |key: &str| done[key].as_u64().unwrap_or(0);
    format!("config #{} on {}", number("config"), config::text::many(number("lcores"), "lcore"))
}

/// Reads a document as the director's views.
///
/// # Errors
/// When the director speaks of things in another shape.
pub fn read<T: DeserializeOwned>(document: Value) -> Result<T, Failed> {
    serde_json::from_value(document).map_err(|e| {
        Failed::NoDirector(format!(
            "the director's answer has another shape ({e}): it is of another version than this \
             sluicectl; see \"sluicectl version\""
        ))
    })
}

/// Writes to stdout. A closed pipe (`| head`) is a normal end.
///
/// # Errors
/// Those of stdout.
pub fn print(text: &str) -> Result<(), Failed> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// Asks before something that takes service away.
///
/// # Errors
/// When the answer is not yes, or there is nobody to ask.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failed> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failed::Usage(format!("{question} Add --yes: there is no terminal to ask at")));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failed::Usage("nothing was changed".into()))
    }
}

/// The titles' style.
pub const BOLD: Style = Style::new().bold();

/// The first line of every list, then a table.
#[must_use]
pub fn listing(header: &HeaderView, table: &Table) -> String {
    format!("{}\n{}", header_line(header), table.render(BOLD))
}

/// `lb1 ready 41d | config #118 alice 2d ago = sluice.toml | 3/3 lcores, busiest 31 % | conns …`
#[must_use]
pub fn header_line(h: &HeaderView) -> String {
    use crate::table::{count, share, span};
    let ready = if h.lcores_current == h.lcores { "ready" } else { "updating" };
    let by = match h.by.as_str() {
        "" => String::new(),
        by => format!(" {by} {} ago", span(h.changed_secs)),
    };
    let relation = if h.as_file { "=" } else { "differs from" };
    let file = Path::new(&h.file)
        .file_name()
        .map_or_else(|| h.file.as_str().into(), |n| n.to_string_lossy());
    format!(
        "{} {ready} {} | config #{}{by} {relation} {file} | {}/{} lcores, busiest {:.0} % | \
         conns {} of {} ({})",
        h.name,
        span(h.uptime_secs),
        h.config,
        h.lcores_current,
        h.lcores,
        h.busiest_percent,
        count(h.connections),
        config::text::show_count(h.connections_max),
        share(h.connections, h.connections_max, 0),
    )
}

/// The whole command line.
#[must_use]
pub fn cli() -> clap::Command {
    let socket = Arg::new("socket")
        .long("socket")
        .value_name("PATH")
        .env("SLUICE_SOCKET")
        .default_value(config::settings::DEFAULT_SOCKET)
        .value_parser(clap::value_parser!(PathBuf))
        .global(true)
        .hide_env_values(true)
        .help_heading("Everywhere")
        .help("Where the director listens");
    let json = Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .global(true)
        .help_heading("Everywhere")
        .help("Print one JSON document instead of a table");
    let root = clap::Command::new("sluicectl")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Controls a running Sluice director over its socket")
        .after_help(
            "Commands may be shortened as long as they are unambiguous: sluicectl serv l\n\
             A service is named by its name or by what clients address: tcp 192.0.2.10:80.\n\
             Exit status: 0 done, 1 refused by the director, 2 wrong usage or no director.",
        )
        .arg(socket)
        .arg(json);
    command::tree(root)
}

/// What ipvsadm's options for services and servers are here.
const INSTEAD: &[(&str, &str)] = &[
    ("-t", "a service is named without -t: tcp 192.0.2.10:80"),
    ("-u", "a service is named without -u: udp 192.0.2.10:53"),
    ("-r", "a server is named without -r, after its service: tcp 192.0.2.10:80 10.0.0.11"),
];

/// Says what to write in place of ipvsadm's options. clap knows nothing better for an unknown option
/// than to write `--` before it.
fn words_instead(e: &mut clap::Error) {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(option)) = e.get(ContextKind::InvalidArg) else { return };
    if let Some((_, tip)) = INSTEAD.iter().find(|(known, _)| option == known) {
        let tips = vec![clap::builder::StyledStr::from(*tip)];
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// Runs a command line; the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = match cli().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(mut e) => {
            words_instead(&mut e);
            let _ = e.print();
            return u8::try_from(e.exit_code()).unwrap_or(2);
        }
    };
    let Some((words, leaf)) = command::chosen(&matches) else { return 2 };
    let json = leaf.get_flag("json");
    let socket = leaf.get_one::<PathBuf>("socket").cloned().unwrap_or_default();
    match command::run(&words, leaf, &mut Ctl::new(&socket, json)) {
        Ok(()) => 0,
        Err(failed) => {
            failed.report(json);
            failed.status()
        }
    }
}
