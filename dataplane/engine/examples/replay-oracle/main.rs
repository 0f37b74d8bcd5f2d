//! Replays choices recorded from Linux IPVS on the engine, packet by packet, and lists what differs.
//!
//! `scripts/replay-oracle FILE.json` runs it; that script's help tells the format.

mod recording;
mod replay;

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use recording::{Case, Recording};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(file), None) = (args.next(), args.next()) else {
        eprintln!("replay-oracle: which file? scripts/replay-oracle FILE.json");
        return ExitCode::from(2);
    };
    let recording = match load(&file) {
        Ok(recording) => recording,
        Err(why) => {
            eprintln!("replay-oracle: {file}: {why}");
            return ExitCode::from(2);
        }
    };
    if differences(&recording) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The largest file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file, or says why it cannot be read.
fn load(path: &str) -> Result<Recording, String> {
    let (mut file, mut bytes) = (File::open(path).map_err(|e| e.to_string())?, Vec::new());
    file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("byte {MAX_BYTES}: the file is larger than that"));
    }
    recording::read(&bytes)
}

/// Replays all cases, prints what differs and the sum, and returns how many differ.
fn differences(recording: &Recording) -> usize {
    for case in &recording.random {
        println!("{case}: left out, for its choices are random");
    }
    let differ = recording.cases.iter().filter(|case| !agrees(case)).count();
    let all = recording.cases.len();
    println!("{} of {all} reproduced", all - differ);
    differ
}

fn agrees(case: &Case) -> bool {
    let ours = replay::picks(case);
    let wrong: Vec<_> = (0..ours.len()).filter(|i| ours[*i] != case.picks[*i]).collect();
    let Some(first) = wrong.first() else { return true };
    println!(
        "{}: {} of {} choices differ, from connection {first} on",
        case.title,
        wrong.len(),
        ours.len()
    );
    for i in wrong {
        println!(
            "  connection {i} from {}: {}, recorded {}",
            case.opens[i].client, ours[i], case.picks[i]
        );
    }
    false
}
