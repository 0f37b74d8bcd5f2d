//! The other end of the socket: asks, waits, and says what to do when nobody answers.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::change::Change;
use crate::lines::{Lines, Next, write_within};
use crate::protocol::{self, Answer, Failure};
use crate::socket::GROUP;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 30;
/// Longest wait for an answer to begin or end, and for a request to be taken.
const PATIENCE: Duration = Duration::from_secs(40);
/// Bytes of changes in one part of a long batch: well below [`protocol::MAX_LINE`].
const PART: usize = protocol::MAX_LINE * 3 / 4;

/// Why a request brought no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The director refused.
    #[error("{0}")]
    Refused(#[from] Failure),
    /// There is no director, or it does not speak to us.
    #[error("{0}")]
    NoDirector(String),
}

/// A connection to a director.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    lines: Lines,
    path: PathBuf,
    last_id: u64,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError::NoDirector`], with what to do about it.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let connected = UnixStream::connect(path).and_then(|s| Ok((s.try_clone()?, s)));
        let (stream, reading) = connected.map_err(|e| unreachable_director(path, &e))?;
        let lines = Lines::new(reading, MAX_ANSWER, PATIENCE, PATIENCE);
        Ok(Self { stream, lines, path: path.to_owned(), last_id: 0 })
    }

    /// Asks and waits for the result.
    ///
    /// # Errors
    /// When the director refuses, or goes away.
    pub fn ask(&mut self, method: &str, params: &impl Serialize) -> Result<Value, ClientError> {
        self.last_id += 1;
        let line = protocol::request_line(self.last_id, method, params);
        if line.len() > protocol::MAX_LINE + 1 {
            return Err(Failure::too_large().into());
        }
        // A director that turns us away answers before it reads: the answer says more than the error.
        let written = write_within(&mut self.stream, &line, PATIENCE);
        let answer = match (self.lines.read(), written) {
            (Next::Line(line), _) => line,
            (_, Err(e)) => return Err(self.lost(&e.to_string())),
            (Next::Idle | Next::HalfSent, _) => return Err(self.lost("no answer in time")),
            (Next::Closed, _) => return Err(self.lost("it closed the connection")),
            (Next::TooLong, _) => return Err(self.lost("the answer is too long")),
        };
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|e| self.lost(&format!("its answer is not ours to read: {e}")))?;
        match answer.error {
            Some(failure) => Err(failure.into()),
            None if answer.id == json!(self.last_id) => Ok(answer.result),
            None => Err(self.lost("it answered another request")),
        }
    }

    /// Applies changes as a whole or not at all, in parts if they are long.
    ///
    /// # Errors
    /// When the director refuses, or goes away.
    pub fn batch(&mut self, changes: &[Change]) -> Result<Value, ClientError> {
        let mut parts: Vec<Vec<Value>> = vec![Vec::new()];
        let mut room = PART;
        for change in changes {
            let change = serde_json::to_value(change).expect("changes have string keys");
            let size = change.to_string().len() + 1;
            if size > room && parts.last().is_some_and(|p| !p.is_empty()) {
                parts.push(Vec::new());
                room = PART;
            }
            room = room.saturating_sub(size);
            parts.last_mut().expect("never empty").push(change);
        }
        if let [whole] = parts.as_slice() {
            return self.ask("batch", &json!({ "changes": whole }));
        }
        self.ask("batch.begin", &json!({}))?;
        for part in parts {
            self.ask("batch.chunk", &json!({ "changes": part }))?;
        }
        self.ask("batch.commit", &json!({}))
    }

    fn lost(&self, why: &str) -> ClientError {
        let path = self.path.display();
        ClientError::NoDirector(format!(
            "the director at {path} gave no answer: {why}; its log says more"
        ))
    }
}

fn unreachable_director(path: &Path, error: &io::Error) -> ClientError {
    let at = path.display();
    ClientError::NoDirector(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
            "no director at {at}: is sluiced running? start it with \
             \"sluiced --config FILE\", or give --socket PATH"
        ),
        ErrorKind::PermissionDenied => format!(
            "no permission to use {at}: run this as root or as a member of the socket's group \
             (\"usermod -aG {GROUP} $USER\", then log in again)"
        ),
        _ => format!("no director at {at}: {error}; give --socket PATH"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_what_to_do() {
        let text = |kind: ErrorKind| {
            unreachable_director(Path::new("/run/x.sock"), &kind.into()).to_string()
        };
        assert!(text(ErrorKind::NotFound).contains("is sluiced running?"));
        assert!(text(ErrorKind::NotFound).contains("--socket PATH"));
        assert!(text(ErrorKind::PermissionDenied).contains("usermod -aG sluice"));
        let none = Client::connect(Path::new("/nonexistent/control.sock")).unwrap_err();
        assert!(none.to_string().starts_with("no director at /nonexistent/control.sock"));
    }
}
