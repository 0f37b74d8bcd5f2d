//! One client's thread: reads requests, has the control thread carry them out, writes answers.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{RecvTimeoutError, SendTimeoutError, bounded};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Uid, User};
use serde_json::Value;

use super::{Limits, Shared};
use crate::change::{Refusal, RefusalCode};
use crate::command::director_stop::DirectorStop;
use crate::command::zero::Zero;
use crate::command::{Answer, Command, Respond, Work, answer};
use crate::control::{Control, Job};
use crate::lines::{Lines, Next, write_within};
use crate::protocol::{self, Failure};
use crate::session::{Session, Step};

/// Who is on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    /// The user's name, or `uid 1000`.
    name: String,
    pid: i32,
}

impl Peer {
    fn of(stream: &UnixStream) -> Self {
        let Ok(who) = getsockopt(stream, sockopt::PeerCredentials) else {
            return Self { name: "unknown".into(), pid: 0 };
        };
        let user = User::from_uid(Uid::from_raw(who.uid())).ok().flatten();
        let name = user.map_or_else(|| format!("uid {}", who.uid()), |u| u.name);
        Self { name, pid: who.pid() }
    }
}

/// One client, on its own thread.
pub(super) struct Client<'a> {
    stream: UnixStream,
    number: u64,
    peer: Peer,
    session: Session,
    shared: &'a Shared,
}

impl<'a> Client<'a> {
    pub(super) fn new(stream: UnixStream, number: u64, shared: &'a Shared) -> Self {
        let peer = Peer::of(&stream);
        let session = Session::new(shared.limits.batch, Arc::clone(&shared.held));
        Self { stream, number, peer, session, shared }
    }

    pub(super) fn serve(&mut self) {
        let Limits { idle, line, write, .. } = self.shared.limits;
        let Ok(reading) = self.stream.try_clone() else { return };
        let mut lines = Lines::new(reading, protocol::MAX_LINE, idle, line);
        loop {
            let next = lines.read();
            self.shared.set_silent(self.number, None);
            let (id, outcome) = match next {
                Next::Line(line) => self.handle(&line),
                Next::TooLong => (Value::Null, Err(Failure::too_large())),
                Next::HalfSent => {
                    tracing::info!(by = self.peer.name, pid = self.peer.pid, "half a request");
                    return;
                }
                Next::Closed | Next::Idle => return,
            };
            let line = protocol::answer_line(&id, &outcome);
            if let Err(error) = write_within(&mut self.stream, &line, write) {
                tracing::debug!(by = self.peer.name, pid = self.peer.pid, %error, "not answered");
                return;
            }
            self.shared.set_silent(self.number, Some(Instant::now()));
        }
    }

    fn handle(&mut self, line: &[u8]) -> (Value, Result<Value, Failure>) {
        let request = match protocol::decode(line) {
            Ok(request) => request,
            Err((id, failure)) => {
                self.note("?", None, Err(&failure));
                return (id, Err(failure));
            }
        };
        let (id, method) = (request.id.clone(), request.method.clone());
        let what = brief(&request.params, line.len());
        let (changes, outcome) = match self.session.step(request, line.len(), Instant::now()) {
            Ok(Step::Answer(value)) => (false, Ok(value)),
            Ok(Step::Work(work)) => {
                let acts = matches!(work, Work::Changes(_)) || ACTS.contains(&method.as_str());
                (acts, self.ask(work))
            }
            Err(failure) => (false, Err(failure)),
        };
        self.note(&method, changes.then_some(what), outcome.as_ref());
        (id, outcome)
    }

    /// Has the control thread do it, and waits for the answer.
    fn ask(&self, work: Work) -> Result<Value, Failure> {
        let (to_us, answer) = bounded::<Result<Answer, Refusal>>(1);
        let respond: Respond = Box::new(move |outcome| {
            // Fails when the client has gone, or gave up waiting: nobody wants to know.
            let _ = to_us.try_send(outcome);
        });
        let by = self.peer.name.clone();
        let job: Job = Box::new(move |control| carry_out(work, control, &by, respond));
        let wait = self.shared.limits.answer;
        self.shared.jobs.send_timeout(job, wait).map_err(|e| match e {
            SendTimeoutError::Disconnected(_) => stopping(),
            SendTimeoutError::Timeout(_) => silent(wait),
        })?;
        match answer.recv_timeout(wait) {
            Ok(Ok(answer)) => Ok(answer()),
            Ok(Err(refusal)) => Err(refusal.into()),
            Err(RecvTimeoutError::Timeout) => Err(silent(wait)),
            Err(RecvTimeoutError::Disconnected) => Err(stopping()),
        }
    }

    /// `changed`: what the request asked to change, if it did.
    fn note(&self, method: &str, changed: Option<String>, outcome: Result<&Value, &Failure>) {
        let Peer { name, pid } = &self.peer;
        match (outcome, changed) {
            (Ok(_), Some(what)) => tracing::info!(by = name, pid, method, %what, "changed"),
            (Ok(_), None) => tracing::debug!(by = name, pid, method, "answered"),
            (Err(f), _) => {
                tracing::debug!(by = name, pid, method, code = f.data.code, "refused: {f}")
            }
        }
    }
}

/// Methods that change no setting, but that somebody will ask about later.
const ACTS: [&str; 2] = [DirectorStop::METHOD, Zero::METHOD];

/// The longest request, in bytes, whose parameters the log repeats.
const BRIEF: usize = 512;

/// A request's parameters for the log. JSON has no raw control characters: it stays one line.
fn brief(params: &Value, len: usize) -> String {
    if len <= BRIEF { params.to_string() } else { format!("{len} bytes") }
}

fn carry_out(work: Work, control: &mut Control, by: &str, respond: Respond) {
    match work {
        Work::Ask(job) => job(control, respond),
        Work::Changes(changes) => {
            let done = Box::new(move |outcome: Result<_, _>| respond(outcome.map(answer)));
            control.apply(&changes, by, done);
        }
    }
}

fn stopping() -> Failure {
    Refusal::new(RefusalCode::Stopping, "the director is stopping").into()
}

fn silent(wait: Duration) -> Failure {
    let what = format!("the control thread did not answer within {} s", wait.as_secs());
    Failure::refused("control_silent", what, "forwarding goes on; look at the log of sluiced")
}
