//! Histories as `scripts/ask-ipvs` plays them against a Linux kernel, replayed on the schedulers.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Lab;

/// One service from its beginning. See `scripts/ask-ipvs` for the steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct History {
    pub(crate) scheduler: String,
    pub(crate) flags: Option<String>,
    #[serde(default)]
    pub(crate) port: u16,
    /// The service takes all virtual addresses, not one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) any_destination: bool,
    /// `300 -M 255.255.255.0`: what stands behind ipvsadm's `-p`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) persistent: Option<String>,
    pub(crate) steps: Vec<String>,
}

impl History {
    /// Makes the same choices again.
    ///
    /// # Errors
    /// At the first choice that differs from the kernel's.
    pub(crate) fn replay(&self) -> Result<(), String> {
        let kind = self.scheduler.parse()?;
        let mut lab = Lab::new(kind, self.flags.as_deref().unwrap_or(""));
        for (n, step) in self.steps.iter().enumerate() {
            let words: Vec<_> = step.split_whitespace().collect();
            match words[..] {
                ["open", client, kernel, ref vip @ ..] => {
                    let client = client.parse().map_err(|e| format!("{client}: {e}"))?;
                    let vip = vip.first().map(|v| v.parse::<IpAddr>().expect("an address"));
                    let ours = match vip {
                        Some(vip) => lab.open_to(client, vip.into()),
                        None => lab.open(client),
                    };
                    let ours = ours.map_or("refused".to_owned(), |s| s.to_string());
                    if ours != kernel {
                        let title = format!("{} {:?}", self.scheduler, self.flags);
                        let so_far = &self.steps[..n];
                        return Err(format!("{title} after {so_far:#?}: {ours}, kernel {kernel}"));
                    }
                }
                ["close", connection] => lab.close(connection.parse().expect("a number")),
                _ => change(&mut lab, step)?,
            }
        }
        Ok(())
    }
}

/// Runs one of ipvsadm's changes of a server or of the scheduler.
///
/// # Errors
/// When the scheduler is none of ours.
pub(crate) fn change(lab: &mut Lab, line: &str) -> Result<(), String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let option = |name: &str| {
        let at = words.iter().position(|w| *w == name)?;
        words.get(at + 1).copied()
    };
    let number = |name| option(name).map_or(0, |n| n.parse().expect("a number"));
    if words[0] == "-E" {
        lab.reschedule(option("-s").unwrap_or("wlc").parse()?, option("-b").unwrap_or(""));
        return Ok(());
    }
    let server: SocketAddr = option("-r").expect("a server").parse().expect("an address");
    match words[0] {
        "-a" => lab.add(server, number("-w"), number("-x")),
        "-e" => lab.edit(server, number("-w"), number("-x")),
        "-d" => lab.delete(server),
        other => panic!("unknown command {other}"),
    }
    Ok(())
}

/// The same histories with the kernel's picks; `None` where there is no kernel to ask.
pub(crate) fn ask(histories: &[History]) -> Option<Vec<History>> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("histories-{}.json", std::process::id()));
    fs::write(&file, serde_json::to_string(histories).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/ask-ipvs");
    let output = Command::new(script).arg(&file).output().expect("bash runs it");
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(serde_json::from_slice(&output.stdout).expect("histories")),
        Some(3) => {
            println!("skipped: {said}");
            None
        }
        _ => panic!("{said}"),
    }
}
