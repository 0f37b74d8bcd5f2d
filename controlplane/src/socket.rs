//! The control socket: lines in, lines out, and never a way to disturb forwarding.
//!
//! One thread accepts; each client has its own, and all of them are bounded: number, length of a
//! line, time of half a line, time to take an answer. A request becomes a [`Job`] of the control
//! thread, and its answer comes back by a channel of its own; a client that is gone by then is
//! simply not written to. No request names a file, and none of this code opens one.

mod client;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Group;
use parking_lot::Mutex;
use serde_json::Value;

use crate::control::Job;
use crate::protocol::{self, Failure};
use crate::session::Bounds;
use client::Client;

/// The group that may use the socket, if it exists.
pub const GROUP: &str = "sluice";

/// How much clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at a time. A further one takes the place of the one that was silent for longest, or,
    /// where none was for long enough, is told so and closed.
    pub clients: usize,
    /// Silence after which a client may lose its place to another.
    pub spare: Duration,
    /// Silence between two requests.
    pub idle: Duration,
    /// From the first byte of a request to its last.
    pub line: Duration,
    /// From the first byte of an answer to its last.
    pub write: Duration,
    /// For the control thread's answer; it has its own, shorter limits.
    pub answer: Duration,
    /// For batches in parts.
    pub batch: Bounds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 64,
            spare: Duration::from_secs(1),
            idle: Duration::from_secs(300),
            line: Duration::from_secs(10),
            write: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            batch: Bounds::default(),
        }
    }
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another director answers there.
    #[error(
        "a director is already running at {0}: stop it with \"sluicectl director stop\", \
         or give this one another socket in [director]"
    )]
    InUse(PathBuf),
    /// Something else lies there.
    #[error("{0} exists and is not a socket: remove it, or give another path in [director]")]
    NotASocket(PathBuf),
    /// The system says no.
    #[error("control socket {0}: {1}")]
    Io(PathBuf, io::Error),
}

/// The running socket. Dropping it closes all clients and removes the path.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// Device and inode of the path, so that a successor's socket is not removed.
    identity: (u64, u64),
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What the threads share.
struct Shared {
    jobs: Sender<Job>,
    limits: Limits,
    stop: AtomicBool,
    /// The clients by their number.
    clients: Mutex<HashMap<u64, Seat>>,
    /// Bytes of all batches in parts.
    held: Arc<AtomicUsize>,
}

/// What others may know of a client.
struct Seat {
    /// Its stream, to wake its thread at the end.
    stream: UnixStream,
    /// Since when it has asked nothing; `None` while a request of its is carried out.
    silent_since: Option<Instant>,
}

impl Shared {
    /// A client asks for something, or has its answer.
    fn set_silent(&self, number: u64, since: Option<Instant>) {
        if let Some(seat) = self.clients.lock().get_mut(&number) {
            seat.silent_since = since;
        }
    }

    /// Makes room for one more client, if that can be.
    fn make_room(&self) -> bool {
        let mut clients = self.clients.lock();
        if clients.len() < self.limits.clients {
            return true;
        }
        let silent = clients.iter().filter_map(|(n, seat)| Some((seat.silent_since?, *n)));
        let Some((since, number)) = silent.min() else { return false };
        if since.elapsed() < self.limits.spare {
            return false;
        }
        if let Some(seat) = clients.remove(&number) {
            let _ = seat.stream.shutdown(std::net::Shutdown::Both);
            tracing::info!(silent = ?since.elapsed(), "a silent client gave its place to another");
        }
        true
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at `path` and sends jobs to the control thread.
    ///
    /// # Errors
    /// When another director is there, or the path cannot be used.
    pub fn start(path: &Path, jobs: Sender<Job>) -> Result<Self, SocketError> {
        Self::start_with(path, jobs, Limits::default())
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(path: &Path, jobs: Sender<Job>, limits: Limits) -> Result<Self, SocketError> {
        let failed = |e| SocketError::Io(path.to_owned(), e);
        clear_stale(path)?;
        let listener = listen(path).map_err(failed)?;
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let shared = Arc::new(Shared {
            jobs,
            limits,
            stop: AtomicBool::new(false),
            clients: Mutex::default(),
            held: Arc::default(),
        });
        let in_thread = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("sluice-accept".into())
            .spawn(move || accept(&listener, &in_thread))
            .map_err(failed)?;
        let identity = (meta.dev(), meta.ino());
        Ok(Self { path: path.to_owned(), identity, shared, accepting: Some(accepting) })
    }

    /// How many clients are connected.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.clients.lock().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ours = |m: fs::Metadata| (m.dev(), m.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        // First only the reading half, so that an answer under way still arrives.
        let end = Instant::now() + Duration::from_secs(1);
        for seat in self.shared.clients.lock().values() {
            let _ = seat.stream.shutdown(std::net::Shutdown::Read);
        }
        while self.clients() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        for seat in self.shared.clients.lock().values() {
            let _ = seat.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Removes the socket of a process that is gone. A director asks first thing, before it touches a
/// device that a running one may use.
///
/// # Errors
/// When another director listens there, or the path is something else.
pub fn clear_stale(path: &Path) -> Result<(), SocketError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing the socket of a process that is gone");
            fs::remove_file(path).map_err(|e| SocketError::Io(path.to_owned(), e))
        }
        Err(e) => Err(SocketError::Io(path.to_owned(), e)),
    }
}

/// Binds closed to all others, then opens to the group: there is no moment in which a stranger
/// could connect.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener?;
    if let Ok(Some(group)) = Group::from_name(GROUP) {
        // Fails where we are not root; then the socket stays with our own group.
        let _ = std::os::unix::fs::chown(path, None, Some(group.gid.as_raw()));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    use std::os::fd::AsFd;
    let mut refused: u64 = 0;
    for number in 0.. {
        let stream = loop {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut ready, PollTimeout::from(100_u8));
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Such as no file descriptor left: the listener stays ready, so do not spin.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        if !shared.make_room() {
            refused += 1;
            if refused.is_power_of_two() {
                tracing::warn!(refused, "too many clients at the control socket");
            }
            turn_away(stream, shared.limits.clients);
            continue;
        }
        if let Err(error) = admit(stream, number, shared) {
            tracing::warn!(%error, "a client of the control socket was not admitted");
        }
    }
}

fn admit(stream: UnixStream, number: u64, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let seat = Seat { stream: stream.try_clone()?, silent_since: Some(Instant::now()) };
    shared.clients.lock().insert(number, seat);
    let in_thread = Arc::clone(shared);
    let spawned =
        std::thread::Builder::new().name(format!("sluice-ctl-{number}")).spawn(move || {
            Client::new(stream, number, &in_thread).serve();
            in_thread.clients.lock().remove(&number);
        });
    if spawned.is_err() {
        shared.clients.lock().remove(&number);
    }
    spawned.map(drop)
}

fn turn_away(mut stream: UnixStream, clients: usize) {
    let what = format!("{clients} clients are connected already");
    let failure = Failure::refused("too_many_clients", what, "try again when one has left");
    let line = protocol::answer_line(&Value::Null, &Err(failure));
    let _ = stream.set_nonblocking(true);
    let _ = io::Write::write_all(&mut stream, &line);
}
