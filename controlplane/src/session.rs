//! What one connection remembers between its requests: a batch that comes in parts.
//!
//! `batch.begin`, any number of `batch.chunk` and `batch.commit` make one batch of any length out of
//! requests of at most [`protocol::MAX_LINE`] bytes. Nothing reaches the control thread before the
//! commit. A batch that grows too large or takes too long is thrown away and refused; so is one
//! whose client leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::change::Change;
use crate::command::{NoParams, Work};
use crate::protocol::{self, Failure, Request};

/// The methods of this module.
pub const METHODS: [&str; 4] = ["batch.begin", "batch.chunk", "batch.commit", "batch.abort"];

/// How much a batch in parts may hold, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Changes of one batch.
    pub changes: usize,
    /// Bytes of one batch, as they were on the line.
    pub bytes: usize,
    /// Bytes of all clients' batches together.
    pub bytes_of_all: usize,
    /// From begin to commit.
    pub time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            changes: 1_000_000,
            bytes: 64 << 20,
            bytes_of_all: 128 << 20,
            time: Duration::from_secs(60),
        }
    }
}

/// What to do with a request.
#[derive(Debug)]
pub enum Step {
    /// Answer it at once.
    Answer(Value),
    /// Have the control thread do it.
    Work(Work),
}

/// One connection's memory.
#[derive(Debug)]
pub struct Session {
    bounds: Bounds,
    held_by_all: Arc<AtomicUsize>,
    batch: Option<Parts>,
}

/// A batch that is not yet whole.
#[derive(Debug)]
struct Parts {
    changes: Vec<Change>,
    bytes: usize,
    until: Instant,
    held_by_all: Arc<AtomicUsize>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.held_by_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Session {
    /// A new connection. `held_by_all` counts the bytes of all connections' batches.
    #[must_use]
    pub const fn new(bounds: Bounds, held_by_all: Arc<AtomicUsize>) -> Self {
        Self { bounds, held_by_all, batch: None }
    }

    /// Takes a request whose line was `bytes` long.
    ///
    /// # Errors
    /// The failure to answer with.
    pub fn step(&mut self, request: Request, bytes: usize, now: Instant) -> Result<Step, Failure> {
        if self.batch.as_ref().is_some_and(|b| now > b.until) {
            self.batch = None;
            if request.method.starts_with("batch.") && request.method != "batch.begin" {
                return Err(too_slow(self.bounds.time));
            }
        }
        match request.method.as_str() {
            "batch.begin" => self.begin(request.params, now),
            "batch.chunk" => self.chunk(request.params, bytes),
            "batch.commit" => self.commit(request.params),
            "batch.abort" => self.abort(request.params),
            method => Ok(Step::Work(crate::command::work(method, request.params)?)),
        }
    }

    fn begin(&mut self, params: Value, now: Instant) -> Result<Step, Failure> {
        let NoParams {} = protocol::params(params)?;
        if self.batch.is_some() {
            let hint = "end it with batch.commit or batch.abort";
            return Err(Failure::refused("batch_open", "a batch is open already", hint));
        }
        let Bounds { changes, bytes, time, .. } = self.bounds;
        let held_by_all = Arc::clone(&self.held_by_all);
        self.batch = Some(Parts { changes: Vec::new(), bytes: 0, until: now + time, held_by_all });
        Ok(Step::Answer(json!({
            "max_changes": changes, "max_bytes": bytes, "timeout_secs": time.as_secs(),
        })))
    }

    fn chunk(&mut self, params: Value, bytes: usize) -> Result<Step, Failure> {
        let Some(batch) = self.batch.as_mut() else { return Err(no_batch()) };
        let part: Changes = protocol::params(params)?;
        let held = self.held_by_all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        batch.bytes += bytes;
        let whole = batch.changes.len() + part.changes.len();
        let bounds = &self.bounds;
        let what = if whole > bounds.changes {
            Some(format!("the batch has more than {} changes", bounds.changes))
        } else if batch.bytes > bounds.bytes {
            Some(format!("the batch is longer than {} bytes", bounds.bytes))
        } else if held > bounds.bytes_of_all {
            Some(format!("all open batches are longer than {} bytes", bounds.bytes_of_all))
        } else {
            None
        };
        if let Some(what) = what {
            self.batch = None;
            let hint = "nothing was changed; send it as several batches";
            return Err(Failure::refused("batch_too_large", what, hint));
        }
        batch.changes.extend(part.changes.into_iter().map(|c| c.0));
        Ok(Step::Answer(json!({ "changes": whole })))
    }

    fn commit(&mut self, params: Value) -> Result<Step, Failure> {
        let NoParams {} = protocol::params(params)?;
        let mut batch = self.batch.take().ok_or_else(no_batch)?;
        Ok(Step::Work(Work::Changes(whole(std::mem::take(&mut batch.changes)))))
    }

    fn abort(&mut self, params: Value) -> Result<Step, Failure> {
        let NoParams {} = protocol::params(params)?;
        let batch = self.batch.take().ok_or_else(no_batch)?;
        Ok(Step::Answer(json!({ "dropped": batch.changes.len() })))
    }
}

/// Parameters of `batch` and `batch.chunk`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// In the order in which they are applied.
    pub changes: Vec<OneChange>,
}

/// A change of a batch: a request without the parts that the batch has once.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Plain")]
pub struct OneChange(pub Change);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    method: String,
    #[serde(default)]
    params: Value,
}

impl TryFrom<Plain> for OneChange {
    type Error = Failure;
    fn try_from(plain: Plain) -> Result<Self, Failure> {
        crate::command::to_change(&plain.method, plain.params).map(Self)
    }
}

/// Joins consecutive `restore` changes of a batch, the parts of one long wish, into one.
#[must_use]
pub fn whole(changes: impl IntoIterator<Item = Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::new();
    for change in changes {
        match (joined.last_mut(), change) {
            (Some(Change::Restore(all)), Change::Restore(part)) => {
                all.services.extend(part.services);
                all.timeouts = part.timeouts.or(all.timeouts);
            }
            (_, change) => joined.push(change),
        }
    }
    joined
}

fn no_batch() -> Failure {
    Failure::refused("no_batch", "no batch is open", "begin one with batch.begin")
}

fn too_slow(time: Duration) -> Failure {
    let what = format!("the batch was not committed within {} s", time.as_secs());
    Failure::refused("batch_timeout", what, "nothing was changed; send it again, faster")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Bounds =
        Bounds { changes: 3, bytes: 100, bytes_of_all: 150, time: Duration::from_secs(60) };

    fn ask(session: &mut Session, method: &str, params: Value) -> Result<Step, Failure> {
        ask_at(session, method, params, 10, Instant::now())
    }

    fn ask_at(
        session: &mut Session,
        method: &str,
        params: Value,
        bytes: usize,
        now: Instant,
    ) -> Result<Step, Failure> {
        let request = Request { id: json!(1), method: method.into(), params };
        session.step(request, bytes, now)
    }

    fn flushes(n: usize) -> Value {
        json!({ "changes": vec![json!({"method": "service.flush"}); n] })
    }

    fn code(outcome: Result<Step, Failure>) -> String {
        outcome.unwrap_err().data.code
    }

    #[test]
    fn parts_become_one_batch_at_the_commit() {
        let held = Arc::new(AtomicUsize::new(0));
        let mut s = Session::new(SMALL, Arc::clone(&held));
        assert_eq!(code(ask(&mut s, "batch.chunk", flushes(1))), "no_batch");
        assert_eq!(code(ask(&mut s, "batch.commit", json!({}))), "no_batch");
        ask(&mut s, "batch.begin", json!({})).unwrap();
        assert_eq!(code(ask(&mut s, "batch.begin", json!({}))), "batch_open");
        ask(&mut s, "batch.chunk", flushes(2)).unwrap();
        ask(&mut s, "batch.chunk", flushes(1)).unwrap();
        assert_eq!(held.load(Ordering::Relaxed), 20);
        match ask(&mut s, "batch.commit", json!({})).unwrap() {
            Step::Work(Work::Changes(changes)) => assert_eq!(changes, vec![Change::Flush; 3]),
            other => panic!("{other:?}"),
        }
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_batch_that_grows_or_lasts_too_long_is_thrown_away() {
        let held = Arc::new(AtomicUsize::new(0));
        let mut s = Session::new(SMALL, Arc::clone(&held));
        ask(&mut s, "batch.begin", json!({})).unwrap();
        assert_eq!(code(ask(&mut s, "batch.chunk", flushes(4))), "batch_too_large");
        assert_eq!(code(ask(&mut s, "batch.commit", json!({}))), "no_batch");

        let now = Instant::now();
        ask(&mut s, "batch.begin", json!({})).unwrap();
        let big = ask_at(&mut s, "batch.chunk", flushes(1), 101, now);
        assert_eq!(code(big), "batch_too_large");
        assert_eq!(held.load(Ordering::Relaxed), 0);

        ask(&mut s, "batch.begin", json!({})).unwrap();
        let later = Instant::now() + Duration::from_secs(61);
        assert_eq!(code(ask_at(&mut s, "batch.commit", json!({}), 10, later)), "batch_timeout");
        assert_eq!(code(ask(&mut s, "batch.commit", json!({}))), "no_batch");
    }

    #[test]
    fn all_clients_share_one_bound() {
        let held = Arc::new(AtomicUsize::new(0));
        let now = Instant::now();
        let mut a = Session::new(SMALL, Arc::clone(&held));
        let mut b = Session::new(SMALL, Arc::clone(&held));
        ask(&mut a, "batch.begin", json!({})).unwrap();
        ask_at(&mut a, "batch.chunk", flushes(1), 90, now).unwrap();
        ask(&mut b, "batch.begin", json!({})).unwrap();
        assert_eq!(code(ask_at(&mut b, "batch.chunk", flushes(1), 90, now)), "batch_too_large");
        drop(a);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_wrong_change_in_a_part_leaves_the_batch_as_it_was() {
        let mut s = Session::new(SMALL, Arc::default());
        ask(&mut s, "batch.begin", json!({})).unwrap();
        ask(&mut s, "batch.chunk", flushes(1)).unwrap();
        let wrong = json!({"changes": [{"method": "service.flash"}]});
        let failure = ask(&mut s, "batch.chunk", wrong).unwrap_err();
        assert_eq!(failure.data.code, "bad_params");
        assert!(failure.message.contains("`changes[0]`"), "{failure}");
        let empty = json!({"changes": [{"method": "service.flush", "params": {}}]});
        ask(&mut s, "batch.chunk", empty).unwrap();
        match ask(&mut s, "batch.commit", json!({})).unwrap() {
            Step::Work(Work::Changes(changes)) => assert_eq!(changes, vec![Change::Flush; 2]),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_a_session_panic(
            method in prop::sample::select(
                crate::command::METHODS.iter().copied().chain(METHODS).collect::<Vec<_>>()
            ),
            params in prop::sample::select(vec![
                "{}", "null", r#"{"changes":[]}"#, r#"{"changes":[{}]}"#, r#"{"changes":3}"#,
                r#"{"service":"web"}"#, r#"{"service":"tcp 1"}"#, r#"{"service":[]}"#,
                r#"{"service":"tcp 192.0.2.1:80","server":"10.0.0.1"}"#, r#"{"limit":-1}"#,
                r#"{"tcp":1,"tcpfin":2,"udp":99999999999}"#, r#"{"services":[{"name":""}]}"#,
            ])
        ) {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            if let Ok(request) = protocol::decode(line.as_bytes()) {
                let _ = Session::new(SMALL, Arc::default()).step(request, line.len(), Instant::now());
            }
        }
    }
}
