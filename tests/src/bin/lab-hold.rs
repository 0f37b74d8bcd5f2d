//! Opens connections, asks one request on each, and holds them open until stdin closes.
//!
//! `lab-hold 192.0.2.10:80 150` prints `held 150 failed 0` once all are open, then waits. When stdin
//! closes it asks a second request on each, prints `alive 150`, and ends: a connection that the
//! director lost meanwhile is missing from that number.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

/// Longer than a first SYN that is lost and sent again.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let to: SocketAddr = words.next().context("usage: lab-hold ADDRESS:PORT COUNT")?.parse()?;
    let count: usize = words.next().context("usage: lab-hold ADDRESS:PORT COUNT")?.parse()?;

    let mut held: Vec<_> = (0..count).filter_map(|_| open(to).map_err(complain).ok()).collect();
    println!("held {} failed {}", held.len(), count - held.len());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let alive = held.iter_mut().filter_map(|c| ask(c).map_err(complain).ok()).count();
    println!("alive {alive}");
    Ok(())
}

fn complain(error: anyhow::Error) {
    eprintln!("{error:#}");
}

fn open(to: SocketAddr) -> anyhow::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut connection = BufReader::new(stream);
    ask(&mut connection)?;
    Ok(connection)
}

/// One GET on a kept-alive connection, its answer read to the end.
fn ask(connection: &mut BufReader<TcpStream>) -> anyhow::Result<()> {
    connection.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n").context("request")?;
    let mut line = String::new();
    connection.read_line(&mut line).context("status line")?;
    anyhow::ensure!(line.starts_with("HTTP/1.1 200"), "answer {line:?}");
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        anyhow::ensure!(connection.read_line(&mut line).context("header")? > 0, "cut short");
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse()?;
        }
    }
    connection.read_exact(&mut vec![0; length]).context("body")
}
