//! Lines from a Unix stream, with a bound on their length and on the time they take.
//!
//! A client may be silent for long between two requests, but not in the middle of one: half a line
//! would keep its thread and its buffer for nothing. A line that is too long is read to its end and
//! thrown away, so that the client gets an answer and may go on.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line beyond the limit, now skipped.
    TooLong,
    /// The other side has closed, perhaps in the middle of a line.
    Closed,
    /// Nothing came for the idle time.
    Idle,
    /// A line began but did not end in time.
    HalfSent,
}

/// Reads lines.
#[derive(Debug)]
pub struct Lines {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that hold no line end.
    searched: usize,
    max: usize,
    idle: Duration,
    line: Duration,
}

impl Lines {
    /// Lines of at most `max` bytes from `stream`; `idle` may pass before one begins, `line` until
    /// it has ended.
    #[must_use]
    pub const fn new(stream: UnixStream, max: usize, idle: Duration, line: Duration) -> Self {
        Self { stream, buffer: Vec::new(), searched: 0, max, idle, line }
    }

    /// Waits for the next line. Errors of the stream count as its end.
    pub fn read(&mut self) -> Next {
        let mut deadline = None;
        let mut skipping = false;
        loop {
            if let Some(line) = self.take_line() {
                let fits = !skipping && line.len() <= self.max;
                return if fits { Next::Line(line) } else { Next::TooLong };
            }
            if self.buffer.len() > self.max {
                skipping = true;
                self.buffer = Vec::new();
                self.searched = 0;
            }
            let begun = skipping || !self.buffer.is_empty();
            if begun && deadline.is_none() {
                deadline = Some(Instant::now() + self.line);
            }
            match self.fill(deadline) {
                Ok(0) => return Next::Closed,
                Ok(_) => {}
                Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) if begun => return Next::HalfSent,
                Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Next::Idle,
                Err(ErrorKind::Interrupted) => {}
                Err(_) => return Next::Closed,
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(self.searched + at + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    fn fill(&mut self, deadline: Option<Instant>) -> Result<usize, ErrorKind> {
        let wait = deadline.map_or(self.idle, |d| d.saturating_duration_since(Instant::now()));
        if wait.is_zero() {
            return Err(ErrorKind::TimedOut);
        }
        self.stream.set_read_timeout(Some(wait)).map_err(|e| e.kind())?;
        let mut chunk = [0; 16 << 10];
        let n = self.stream.read(&mut chunk).map_err(|e| e.kind())?;
        self.buffer.extend_from_slice(&chunk[..n]);
        Ok(n)
    }
}

/// Writes all of `bytes` within `limit`, however slowly the other side takes them.
///
/// # Errors
/// Those of the stream; [`ErrorKind::TimedOut`] when the time is up.
pub fn write_within(
    stream: &mut UnixStream,
    mut bytes: &[u8],
    limit: Duration,
) -> std::io::Result<()> {
    let deadline = Instant::now() + limit;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(80);
    const LONG: Duration = Duration::from_secs(20);

    fn pair(idle: Duration, line: Duration) -> (UnixStream, Lines) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, Lines::new(theirs, 8, idle, line))
    }

    #[test]
    fn lines_come_one_by_one_however_they_are_cut() {
        let (mut to, mut lines) = pair(LONG, LONG);
        to.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.read(), Next::Line(b"one".into()));
        to.write_all(b"o\n\n12345678\nhalf").unwrap();
        assert_eq!(lines.read(), Next::Line(b"two".into()));
        assert_eq!(lines.read(), Next::Line(b"".into()));
        assert_eq!(lines.read(), Next::Line(b"12345678".into()));
        drop(to);
        assert_eq!(lines.read(), Next::Closed);
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_one_read() {
        let (mut to, mut lines) = pair(LONG, LONG);
        let writer = std::thread::spawn(move || {
            to.write_all(&vec![b'x'; 3 << 20]).unwrap();
            to.write_all(b"\n123456789\nnext\n").unwrap();
            to
        });
        assert_eq!(lines.read(), Next::TooLong);
        assert_eq!(lines.read(), Next::TooLong);
        assert_eq!(lines.read(), Next::Line(b"next".into()));
        assert!(lines.buffer.capacity() < 1 << 20, "the skipped line was kept");
        drop(writer.join().unwrap());
    }

    #[test]
    fn silence_and_half_a_line_are_told_apart() {
        let (mut to, mut lines) = pair(SHORT, LONG);
        assert_eq!(lines.read(), Next::Idle);
        to.write_all(b"whole\n").unwrap();
        assert_eq!(lines.read(), Next::Line(b"whole".into()));
        let (mut to, mut lines) = pair(LONG, SHORT);
        to.write_all(b"half").unwrap();
        assert_eq!(lines.read(), Next::HalfSent);
    }

    #[test]
    fn a_reader_that_does_not_read_costs_the_limit_and_no_more() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let start = Instant::now();
        let e = write_within(&mut ours, &vec![0; 8 << 20], SHORT).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() < LONG);
        drop(theirs);
        assert!(write_within(&mut ours, b"x", SHORT).is_err());
    }
}
