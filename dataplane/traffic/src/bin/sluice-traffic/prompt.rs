//! The prompt: start, stop, show, set rate, quit.

use std::io::{BufRead, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::Result;

use crate::News;
use crate::args::Run;
use crate::bench::{Second, Wishes};
use crate::report::{self, Report};

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Start,
    Stop,
    Show,
    Rate(u64),
    Quit,
    Help,
    Nothing,
}

const WORDS: &str = "start | stop | show | set rate PPS | quit";

fn parse(line: &str, is_free: bool) -> Result<Order, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        [] => Ok(Order::Nothing),
        ["start"] => Ok(Order::Start),
        ["stop"] => Ok(Order::Stop),
        ["show"] => Ok(Order::Show),
        ["quit" | "exit"] => Ok(Order::Quit),
        ["help" | "?"] => Ok(Order::Help),
        ["set", "rate", number] => {
            let most = if is_free { 1_000_000_000 } else { 1_000_000 };
            let rate = number.parse().ok().filter(|rate| (1..=most).contains(rate));
            rate.map(Order::Rate).ok_or_else(|| format!("a rate is 1 to {most} packets/s"))
        }
        _ => Err(format!("{line:?} is no command: {WORDS}")),
    }
}

/// What was heard of the lcore so far.
#[derive(Default)]
struct Heard {
    second: Option<Second>,
    report: Option<Box<Report>>,
    running: bool,
    all_held: bool,
}

impl Heard {
    /// Takes one piece of news; a load's end is shown.
    fn take(&mut self, run: &Run, news: News) -> Result<()> {
        match news {
            News::Second(second) => self.second = Some(second),
            News::Line(line) => println!("{line}"),
            News::Report(report) => {
                self.running = false;
                self.all_held &= report.holds(run);
                report::show(run, &report)?;
                self.report = Some(report);
            }
        }
        Ok(())
    }

    fn show(&self, run: &Run) -> Result<()> {
        match (self.running, &self.second, &self.report) {
            (true, Some(second), _) => println!("{}", report::progress(second)),
            (true, None, _) => println!("warming up"),
            (false, _, Some(report)) => report::show(run, report)?,
            (false, _, None) => println!("nothing was started yet"),
        }
        Ok(())
    }
}

/// Talks until `quit` or the end of input. Dropping `orders` ends the lcore.
pub(crate) fn talk(
    run: &Run,
    wishes: &Wishes,
    orders: Sender<()>,
    news: &Receiver<News>,
) -> Result<bool> {
    let mut heard = Heard { all_held: true, ..Heard::default() };
    println!("{WORDS}");
    let lines = lines();
    loop {
        print!("sluice-traffic> ");
        std::io::stdout().flush()?;
        let Some(line) = next(&lines, wishes).transpose()? else { break };
        news.try_iter().try_for_each(|n| heard.take(run, n))?;
        match parse(&line, run.line_rate) {
            Ok(Order::Start) if heard.running => println!("it runs"),
            Ok(Order::Start) => {
                (heard.running, heard.second) = (true, None);
                wishes.stop.store(false, Ordering::Relaxed);
                if orders.send(()).is_err() {
                    break;
                }
            }
            Ok(Order::Stop) => wait_for_end(run, wishes, &mut heard, news)?,
            Ok(Order::Show) => heard.show(run)?,
            Ok(Order::Rate(rate)) => wishes.rate.store(rate, Ordering::Relaxed),
            Ok(Order::Quit) => break,
            Ok(Order::Help) => println!("{WORDS}"),
            Ok(Order::Nothing) => (),
            Err(what) => println!("{what}"),
        }
    }
    wait_for_end(run, wishes, &mut heard, news)?;
    Ok(heard.all_held)
}

/// What is typed: reading cannot be interrupted, waiting for a reader can.
fn lines() -> Receiver<std::io::Result<String>> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || std::io::stdin().lock().lines().try_for_each(|line| to.send(line)));
    from
}

/// The next line; `None`: there is none any more, or a signal wants an end.
fn next(
    lines: &Receiver<std::io::Result<String>>,
    wishes: &Wishes,
) -> Option<std::io::Result<String>> {
    while !wishes.quit() {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) => (),
            line => return line.ok(),
        }
    }
    None
}

/// Stops the load that runs, if one does, and hears it to its end.
fn wait_for_end(
    run: &Run,
    wishes: &Wishes,
    heard: &mut Heard,
    news: &Receiver<News>,
) -> Result<()> {
    if heard.running {
        wishes.stop.store(true, Ordering::Relaxed);
    }
    while heard.running {
        let Ok(next) = news.recv() else { break };
        heard.take(run, next)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_say_what_is() {
        assert_eq!(parse(" start ", false), Ok(Order::Start));
        assert_eq!(parse("", false), Ok(Order::Nothing));
        assert_eq!(parse("set rate 5000", false), Ok(Order::Rate(5000)));
        assert!(parse("set rate 2000000", false).is_err());
        assert_eq!(parse("set rate 2000000", true), Ok(Order::Rate(2_000_000)));
        assert!(parse("set rate x", false).is_err() && parse("go", false).is_err());
    }
}
