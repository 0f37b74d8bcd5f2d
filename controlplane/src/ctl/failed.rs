//! Why a command failed, how it says so, and the exit status.

use std::io::Write;

use serde_json::{Value, json};

use super::DOCUMENT;
use crate::client::ClientError;
use crate::protocol::Failure;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failed {
    /// The director refused.
    Refused(Failure),
    /// There is no director, or it does not answer.
    NoDirector(String),
    /// The command line is wrong, in our words.
    Usage(String),
    /// What was read from stdin is wrong, in words that say where.
    Input(String),
    /// The command line is wrong, in clap's words.
    Clap(clap::Error),
    /// The result could not be written or the input not be read.
    Io(std::io::Error),
}

impl From<ClientError> for Failed {
    fn from(e: ClientError) -> Self {
        match e {
            ClientError::Refused(failure) => Self::Refused(failure),
            ClientError::NoDirector(why) => Self::NoDirector(why),
        }
    }
}

impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(failure) => failure.fmt(f),
            Self::NoDirector(why) | Self::Usage(why) | Self::Input(why) => f.write_str(why),
            Self::Clap(e) => e.fmt(f),
            Self::Io(e) => e.fmt(f),
        }
    }
}

impl Failed {
    /// The exit status of `sluicectl`.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Refused(_) => 1,
            _ => 2,
        }
    }

    /// Says it on stderr: for people, or as one JSON object.
    pub fn report(&self, json: bool) {
        let mut err = anstream::stderr().lock();
        let hint = match self {
            Self::Refused(failure) => failure.data.hint.as_str(),
            Self::Usage(_) => "add --help for the usage and an example",
            _ => "",
        };
        let _ = match self {
            Self::Clap(e) => write!(err, "{}", e.render().ansi()),
            _ if json => writeln!(err, "{}", self.to_json()),
            _ => writeln!(err, "sluicectl: {self}"),
        };
        if !json && !hint.is_empty() {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    fn to_json(&self) -> Value {
        let code = match self {
            Self::Refused(failure) => return json!({ "version": DOCUMENT, "error": failure }),
            Self::NoDirector(_) => "no_director",
            Self::Usage(_) | Self::Clap(_) => "usage",
            Self::Input(_) => "bad_input",
            Self::Io(_) => "io",
        };
        let error = json!({"code": 0, "message": self.to_string(), "data": {"code": code}});
        json!({ "version": DOCUMENT, "error": error })
    }
}
