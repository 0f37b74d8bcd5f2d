//! Drains with a deadline, and services that are rebalanced.

use config::spec::OnRemove;

use super::*;
use crate::views::ServerView;

impl State {
    fn rig(&self) -> Rig {
        let mut settings = settings();
        settings.director.state = Some(self.0.clone());
        let mut api = settings.services[0].clone();
        (api.name, api.port) = ("api".to_owned(), 81);
        api.servers.iter_mut().for_each(|s| s.port = Some(81));
        settings.services.push(api);
        let mut rig = rig_of(settings);
        rig.settle();
        rig
    }
}

fn drain(last: u8, deadline: Option<u32>, then: Option<OnRemove>) -> Change {
    Change::DrainServer { server: server(last), deadline, then }
}

/// Admin state and seconds to the deadline of a server, in both services.
fn drains(rig: &Rig, n: usize) -> Vec<(Admin, Option<u64>)> {
    let services = rig.control.services(None).unwrap();
    let one = |s: &ServerView| (s.admin, s.drain.as_ref().map(|d| d.left_ms.div_ceil(1000)));
    services.iter().map(|s| one(&s.servers[n])).collect()
}

fn generations(rig: &Rig, n: usize) -> Vec<u16> {
    let slots = rig.control.store.slots().all();
    rig.control.store.services().map(|e| slots[e.members[n].slot as usize].generation).collect()
}

#[test]
fn a_drain_ends_connections_at_its_deadline_in_all_services() {
    let state = State::new();
    let mut rig = state.rig();
    let _ = rig.apply(drain(11, Some(300), Some(OnRemove::Reschedule)));
    rig.settle();
    assert_eq!(drains(&rig, 0), [(Admin::Drain, Some(300)); 2]);
    assert_eq!(drains(&rig, 1), [(Admin::Enabled, None); 2]);
    assert!(state.0.exists());
    rig.step(299_000, &[0, 1]);
    assert_eq!(generations(&rig, 0), [0, 0]);
    rig.step(1_000, &[0, 1]);
    rig.settle();
    assert_eq!((generations(&rig, 0), generations(&rig, 1)), (vec![1, 1], vec![0, 0]));
    assert_eq!(drains(&rig, 0), [(Admin::Drain, None); 2], "it stays out");
    let line = rig.lcores[1].current.servers[0];
    assert_eq!((line.generation, line.orphans), (1, engine::server::Orphans::Reschedule));
    assert!(!state.0.exists(), "nothing is left to remember");
}

#[test]
fn enabling_a_server_voids_its_deadline() {
    let state = State::new();
    let mut rig = state.rig();
    let _ = rig.apply(drain(11, Some(5), None));
    rig.settle();
    let _ = rig.apply(Change::EnableServer { server: server(11) });
    rig.settle();
    assert_eq!(drains(&rig, 0), [(Admin::Enabled, None); 2]);
    rig.step(10_000, &[0, 1]);
    assert_eq!(generations(&rig, 0), [0, 0]);
    // Draining again without one has none.
    let _ = rig.apply(drain(11, Some(5), None));
    rig.settle();
    let _ = rig.apply(drain(11, None, None));
    rig.step(10_000, &[0, 1]);
    assert_eq!(
        (drains(&rig, 0), generations(&rig, 0)),
        (vec![(Admin::Drain, None); 2], vec![0, 0])
    );
    let none = rig.apply(drain(99, Some(5), None)).try_recv().unwrap().unwrap_err();
    assert_eq!(none.code, RefusalCode::NoSuchServer);
}

#[test]
fn a_deadline_survives_a_restart() {
    let state = State::new();
    let mut rig = state.rig();
    let _ = rig.apply(drain(11, Some(300), None));
    rig.settle();
    drop(rig);
    let mut rig = state.rig();
    let left = drains(&rig, 0);
    assert!(left.iter().all(|d| d.0 == Admin::Drain && d.1.is_some_and(|s| s > 290)), "{left:?}");
    assert_eq!(rig.lcores[0].live.weight(0), 0);
    rig.step(301_000, &[0, 1]);
    rig.settle();
    assert_eq!(generations(&rig, 0), [1, 1]);
    assert!(!state.0.exists());
}

#[test]
fn a_broken_state_file_stops_nothing() {
    let state = State::new();
    std::fs::write(&state.0, b"[{\"service\":7}]").unwrap();
    let rig = state.rig();
    assert_eq!(drains(&rig, 0), [(Admin::Enabled, None); 2]);
}

#[test]
fn the_fullest_servers_give_up_what_is_above_their_share() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].board.change(0, 0, 0, 300, 0);
    rig.lcores[1].board.change(0, 0, 0, 100, 0);
    rig.step(1, &[]);
    let plan = rig.control.rebalance(&web().into(), 50).unwrap();
    assert_eq!((plan.connections, plan.servers, plan.seconds), (200, 1, 4));
    let given = |rig: &Rig, i: usize| rig.lcores[i].thinned.iter().map(|t| t.count).sum::<u32>();
    (0..10).for_each(|_| rig.step(100, &[0, 1]));
    let (a, b) = (given(&rig, 0), given(&rig, 1));
    assert_eq!(a + b, 50, "in the first second");
    assert!(a >= b, "from where most of them are: {a}");
    (0..100).for_each(|_| rig.step(100, &[0, 1]));
    assert_eq!(given(&rig, 0) + given(&rig, 1), 200, "and no more");
    let _ = rig.control.rebalance(&web().into(), 50).unwrap();
    let stopped = rig.control.rebalance(&web().into(), 0).unwrap();
    (0..10).for_each(|_| rig.step(100, &[0, 1]));
    assert_eq!((stopped.connections, given(&rig, 0) + given(&rig, 1)), (0, 200));
}

/// 1,500 connections in portions of several orders, more than a ring holds.
#[test]
fn a_portion_that_finds_no_room_is_given_again() {
    let mut rig = rig();
    rig.settle();
    rig.lcores[0].board.change(0, 0, 0, 3_000, 0);
    rig.step(1, &[]);
    let plan = rig.control.rebalance(&web().into(), 200).unwrap();
    assert_eq!(plan.connections, 1_500);
    (0..100).for_each(|_| rig.step(100, &[1]));
    let given = |rig: &Rig| rig.lcores[0].thinned.iter().map(|t| t.count).sum::<u32>();
    rig.lcores[0].turn();
    assert!(given(&rig) < 1_500, "all of it went into one ring");
    let declined = *rig.lcores[0].thinned.last().unwrap();
    rig.lcores[0].end.events.push(Event::Declined(declined)).unwrap();
    (0..100).for_each(|_| rig.step(100, &[0, 1]));
    assert_eq!(given(&rig), 1_500 + declined.count);
    assert!(rig.control.rebalances.is_empty(), "done");
}
