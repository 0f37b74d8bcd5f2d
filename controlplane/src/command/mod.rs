//! The commands: what they ask on the socket, what the director does, what `sluicectl` prints.
//!
//! A command is one file with one type that implements [`Command`], and one line in the registry
//! below. From the line come the words on the command line, the help text (the type's own doc
//! comment), completions, man page, the method on the socket, and its place in the tests.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::change::{Change, Refusal};
use crate::control::Control;
use crate::ctl::{Ctl, Failed};
use crate::protocol::{self, Failure};

/// One command. Its doc comment is its help text, its fields are its arguments.
pub trait Command: clap::Args {
    /// The method on the socket. Empty: it needs no director, or asks by another's method.
    const METHOD: &'static str;

    /// Example lines for the help text; each must parse.
    const EXAMPLES: &'static str;

    /// On the director: what the method's parameters ask for. Runs on the client's own thread; by
    /// default the method is a [`Change`].
    ///
    /// # Errors
    /// When the parameters are not the method's.
    fn work(params: Value) -> Result<Work, Failure> {
        Ok(Work::Changes(vec![to_change(Self::METHOD, params)?]))
    }

    /// In `sluicectl`: the change that the arguments ask for, of commands that change something.
    ///
    /// # Errors
    /// When the arguments do not make one.
    fn change(self) -> Result<Change, Failed> {
        Err(Failed::Usage("this command changes nothing".into()))
    }

    /// In `sluicectl`: asks the director and prints. By default sends the change.
    ///
    /// # Errors
    /// When there is no director, it refuses, or the arguments are wrong.
    fn run(self, ctl: &mut Ctl) -> Result<(), Failed> {
        let change = self.change()?;
        ctl.apply(&change)
    }
}

/// What a request asks of the control thread.
pub enum Work {
    /// Changes, applied as a whole or not at all.
    Changes(Vec<Change>),
    /// Anything else; runs on the control thread and must not wait.
    Ask(Question),
}

/// Runs on the control thread.
pub type Question = Box<dyn FnOnce(&mut Control, Respond) + Send>;

/// An answer as the control thread gives it: its JSON is made where there is time for it.
pub type Answer = Box<dyn FnOnce() -> Value + Send>;

/// Takes the answer to [`Work`], at once or later.
pub type Respond = Box<dyn FnOnce(Result<Answer, Refusal>) + Send>;

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changes(changes) => f.debug_tuple("Changes").field(changes).finish(),
            Self::Ask(_) => f.write_str("Ask"),
        }
    }
}

/// Wraps a value as an [`Answer`].
pub fn answer<T: Serialize + Send + 'static>(value: T) -> Answer {
    Box::new(move || serde_json::to_value(value).expect("views have string keys"))
}

/// [`Work`] that reads parameters of type `P` and answers at once.
///
/// # Errors
/// When the parameters are not a `P`.
pub fn ask<P, T>(
    params: Value,
    read: impl FnOnce(P, &mut Control) -> Result<T, Refusal> + Send + 'static,
) -> Result<Work, Failure>
where
    P: DeserializeOwned + Send + 'static,
    T: Serialize + Send + 'static,
{
    let params: P = protocol::params(params)?;
    Ok(Work::Ask(Box::new(move |control, respond| respond(read(params, control).map(answer)))))
}

/// Reads a change as it stands in a batch: `method` and `params`.
///
/// # Errors
/// When the parameters are not the method's.
pub fn to_change(method: &str, params: Value) -> Result<Change, Failure> {
    // A change without parameters has none on the line; an empty object says the same.
    let none = params.is_null() || params.as_object().is_some_and(serde_json::Map::is_empty);
    let bare: Option<Change> =
        none.then(|| serde_json::from_value(json!({ "method": method })).ok()).flatten();
    match bare {
        Some(change) => Ok(change),
        None => protocol::params(json!({ "method": method, "params": params })),
    }
}

/// Parameters of a method that takes none.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Declares the commands: `words => module::Type, about its group`.
///
/// A line `"service add" => service_add::ServiceAdd` expands to the module, one arm of
/// [`work`] (method to work), one entry of [`tree`] (words to a clap command with help and
/// examples), and one arm each of [`run`] and [`change`] (parsed words to the type's functions).
macro_rules! commands {
    ($($words:literal => $module:ident::$ty:ident,)*) => {
        $(pub mod $module;)*

        /// The words of all commands, in the order of the help text.
        pub const WORDS: &[&str] = &[$($words,)*];

        /// What a request asks of the control thread.
        ///
        /// # Errors
        /// When there is no such method, or the parameters are not the method's.
        pub fn work(method: &str, params: Value) -> Result<Work, Failure> {
            $(if !method.is_empty() && method == <$module::$ty as Command>::METHOD {
                return <$module::$ty as Command>::work(params);
            })*
            Err(no_such_method(method))
        }

        /// The methods of the socket.
        pub const METHODS: &[&str] = &[$(<$module::$ty as Command>::METHOD,)*];

        fn leaves() -> Vec<(&'static str, clap::Command)> {
            vec![$(($words, leaf::<$module::$ty>($words)),)*]
        }

        /// Runs the command with these words.
        ///
        /// # Errors
        /// See [`Command::run`].
        pub fn run(words: &str, matches: &clap::ArgMatches, ctl: &mut Ctl) -> Result<(), Failed> {
            match words {
                $($words => parsed::<$module::$ty>(matches)?.run(ctl),)*
                _ => Err(Failed::Usage(format!("no command {words:?}"))),
            }
        }

        /// The change that the command with these words asks for.
        ///
        /// # Errors
        /// See [`Command::change`].
        pub fn change(words: &str, matches: &clap::ArgMatches) -> Result<Change, Failed> {
            match words {
                $($words => parsed::<$module::$ty>(matches)?.change(),)*
                _ => Err(Failed::Usage(format!("no command {words:?}"))),
            }
        }
    };
}

mod drain_screen;
mod occupancy;
pub mod words;

commands! {
    "service list" => service_list::ServiceList,
    "service add" => service_add::ServiceAdd,
    "service edit" => service_edit::ServiceEdit,
    "service del" => service_del::ServiceDel,
    "service maglev" => service_maglev::ServiceMaglev,
    "service rebalance" => service_rebalance::ServiceRebalance,
    "service flush" => service_flush::ServiceFlush,
    "server list" => server_list::ServerList,
    "server add" => server_add::ServerAdd,
    "server edit" => server_edit::ServerEdit,
    "server del" => server_del::ServerDel,
    "server drain" => server_drain::ServerDrain,
    "server enable" => server_enable::ServerEnable,
    "server health" => server_health::ServerHealth,
    "stats" => stats::Stats,
    "connections" => connections::Connections,
    "timeouts show" => timeouts_show::TimeoutsShow,
    "timeouts set" => timeouts_set::TimeoutsSet,
    "neighbours" => neighbours::Neighbours,
    "ports" => ports::Ports,
    "lcores" => lcores::Lcores,
    "zero" => zero::Zero,
    "save" => save::Save,
    "restore" => restore::Restore,
    "batch" => batch::Batch,
    "director show" => director_show::DirectorShow,
    "director stop" => director_stop::DirectorStop,
    "version" => version::Version,
    "completions" => completions::Completions,
    "man" => man::Man,
}

/// Groups of commands: their word, what they are about, a short form that would be ambiguous.
const GROUPS: &[(&str, &str, Option<&str>)] = &[
    ("service", "Virtual services: what clients address", Some("serv")),
    ("server", "Real servers: what the services are made of", None),
    ("timeouts", "Idle times after which a connection ends", None),
    ("director", "The director as a whole", None),
];

/// The commands as a tree of words below `root`, with help and examples.
#[must_use]
pub fn tree(mut root: clap::Command) -> clap::Command {
    let mut groups: Vec<clap::Command> = Vec::new();
    for (words, leaf) in leaves() {
        let Some((group, _)) = words.split_once(' ') else {
            groups.push(leaf);
            continue;
        };
        match groups.iter_mut().find(|g| g.get_name() == group) {
            Some(found) => *found = std::mem::take(found).subcommand(leaf),
            None => groups.push(group_command(group).subcommand(leaf)),
        }
    }
    for group in groups {
        root = root.subcommand(group);
    }
    root.subcommand_required(true).arg_required_else_help(true).infer_subcommands(true)
}

fn group_command(word: &'static str) -> clap::Command {
    let found = GROUPS.iter().find(|g| g.0 == word);
    let &(_, about, short) = found.expect("each group has its line in GROUPS");
    let mut command = clap::Command::new(word).about(about);
    if let Some(short) = short {
        command = command.alias(short);
    }
    command.subcommand_required(true).arg_required_else_help(true).infer_subcommands(true)
}

fn leaf<C: Command>(words: &'static str) -> clap::Command {
    let name = words.rsplit(' ').next().unwrap_or(words);
    let lines = C::EXAMPLES.lines().map(|l| format!("  {}", l.trim()));
    let examples = lines.filter(|l| !l.trim().is_empty()).collect::<Vec<_>>().join("\n");
    C::augment_args(clap::Command::new(name)).after_help(format!("Examples:\n{examples}"))
}

fn parsed<C: Command>(matches: &clap::ArgMatches) -> Result<C, Failed> {
    C::from_arg_matches(matches).map_err(Failed::Clap)
}

fn no_such_method(method: &str) -> Failure {
    let known: Vec<_> = METHODS.iter().copied().filter(|m| !m.is_empty()).collect();
    let mut known: Vec<_> = known.into_iter().chain(crate::session::METHODS).collect();
    known.sort_unstable();
    known.dedup();
    let hint = format!("methods: {}", known.join(", "));
    let message = format!("there is no method {method:?}");
    Failure::new(protocol::NO_SUCH_METHOD, "no_such_method", message, &hint)
}

/// The words of the command that was parsed, and its own matches.
#[must_use]
pub fn chosen(matches: &clap::ArgMatches) -> Option<(String, &clap::ArgMatches)> {
    let (first, inner) = matches.subcommand()?;
    match inner.subcommand() {
        Some((second, leaf)) => Some((format!("{first} {second}"), leaf)),
        None => Some((first.to_owned(), inner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_knows_its_parameters() {
        for method in METHODS.iter().filter(|m| !m.is_empty()) {
            let wrong = work(method, json!({"no-such-field": 1})).unwrap_err();
            assert_eq!(wrong.data.code, "bad_params", "{method}: {wrong}");
            assert!(wrong.message.contains('`'), "{method}: {wrong}");
        }
        assert_eq!(work("", json!({})).unwrap_err().data.code, "no_such_method");
        let hint = work("fly", json!({})).unwrap_err().data.hint;
        assert!(hint.contains("batch.begin") && hint.contains("server.add"), "{hint}");
    }

    #[test]
    fn a_wrong_value_in_a_change_is_named() {
        for (method, params, part) in [
            ("service.add", json!({"protocol": "tcp"}), "`address`"),
            (
                "service.add",
                json!({"protocol": "tcp", "address": "192.0.2.1", "port": "80"}),
                "`params.port`",
            ),
            (
                "server.edit",
                json!({"service": "web", "server": "a", "edit": {"weight": -1}}),
                "`params.edit.weight`",
            ),
            ("server.delete", json!({"service": "web"}), "`server`"),
            ("timeouts.set", json!({"tcp": 1, "tcpfin": 2}), "`udp`"),
        ] {
            let wrong = work(method, params).unwrap_err();
            assert!(wrong.message.contains(part), "{method}: {wrong}");
        }
    }
}
