//! Every history that was recorded from a real Linux kernel, replayed on the schedulers.
//!
//! `data/ipvs_oracle.json` says how it was recorded; `data/ipvs_histories.json` holds histories that
//! `sched_kernel` drew. What `replay_oracle` replays goes through a whole lcore.

mod sched_lab;

use sched_lab::history::History;
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    recorded: Vec<History>,
}

/// Reports how many of the cases agree, and fails with the first that does not.
#[track_caller]
fn all_agree(histories: &[History]) {
    let wrong: Vec<_> = histories.iter().filter_map(|history| history.replay().err()).collect();
    println!("{} of {} reproduced", histories.len() - wrong.len(), histories.len());
    assert!(!histories.is_empty());
    assert!(wrong.is_empty(), "{} differ; {}", wrong.len(), wrong[0]);
}

#[test]
fn picks_of_recorded_histories() {
    let oracle: Oracle = serde_json::from_str(include_str!("data/ipvs_oracle.json")).unwrap();
    all_agree(&oracle.recorded);
}

#[test]
fn picks_of_drawn_histories() {
    all_agree(&serde_json::from_str::<Vec<_>>(include_str!("data/ipvs_histories.json")).unwrap());
}
