//! Slow start: when it begins, how it grows, when it is over.

use config::spec::SlowStart;

use super::*;
use crate::states::Health;
use crate::views::ServerView;

/// `web` with two servers of weight 10 and ramps of 10 s.
fn slow() -> Settings {
    let mut settings = settings();
    settings.services[0].servers.iter_mut().for_each(|s| s.weight = 10);
    settings.services[0].slow_start = Some(SlowStart { floor: 10, ..SlowStart::new(10) });
    settings
}

fn view(rig: &Rig, server: usize) -> ServerView {
    rig.control.services(None).unwrap()[0].servers[server].clone()
}

/// What is left of each server's ramp, in s.
fn ramps(rig: &Rig) -> Vec<Option<u64>> {
    let servers = rig.control.services(None).unwrap()[0].servers.clone();
    servers.iter().map(|s| s.slow_start_left_ms.map(|ms| ms.div_ceil(1000))).collect()
}

fn add(last: u8, weight: u32) -> Change {
    let server = ServerSpec { weight, ..ServerSpec::new(IpAddr::from([10, 0, 0, last])) };
    Change::AddServer { service: web().into(), server }
}

#[test]
fn a_server_that_is_added_grows_to_its_weight() {
    let mut rig = rig_of(slow());
    rig.settle();
    assert_eq!(ramps(&rig), [None, None], "the whole pool was new");
    let _ = rig.apply(add(13, 20));
    rig.step(1, &[0, 1]);
    assert_eq!(ramps(&rig), [None, None, Some(10)]);
    let mut effective = Vec::new();
    for _ in 0..10 {
        rig.step(1000, &[0, 1]);
        effective.push(view(&rig, 2).effective_weight);
        assert!(rig.lcores.iter().all(|l| l.live.holds(2) == ramps(&rig)[2].is_some()));
    }
    assert_eq!(effective, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
    rig.step(20, &[0, 1]);
    assert_eq!(ramps(&rig), [None; 3], "idle servers are level");
    assert!(rig.lcores.iter().all(|l| !l.live.paces().any() && !l.live.holds(2)));
    assert_eq!(rig.lcores[0].live.weight(2), 20);
}

#[test]
fn a_server_that_comes_back_for_any_reason_starts_slowly() {
    let mut rig = rig_of(slow());
    rig.settle();
    let weight = |weight| edit(11, ServerEdit { weight: Some(weight), ..ServerEdit::default() });
    let drain = Change::DrainServer { server: server(11), deadline: None, then: None };
    for (away, back) in
        [(drain, Change::EnableServer { server: server(11) }), (weight(0), weight(7))]
    {
        let _ = rig.apply(away);
        rig.settle();
        assert_eq!((ramps(&rig)[0], view(&rig, 0).effective_weight), (None, 0));
        let _ = rig.apply(back);
        rig.step(1, &[0, 1]);
        assert_eq!(ramps(&rig), [Some(10), None]);
        rig.step(11_000, &[0, 1]);
    }
    rig.control.set_health(&server(11), Health::Down).unwrap();
    rig.control.set_health(&server(11), Health::Up).unwrap();
    assert_eq!(ramps(&rig), [Some(10), None]);
    rig.step(5_000, &[0, 1]);
    // Another weight is no other start.
    let _ = rig.apply(weight(20));
    rig.settle();
    assert_eq!((ramps(&rig)[0], view(&rig, 0).effective_weight), (Some(5), 10));
    // But being away is.
    rig.control.set_health(&server(11), Health::Down).unwrap();
    assert_eq!(ramps(&rig), [None, None]);
    rig.control.set_health(&server(11), Health::Up).unwrap();
    assert_eq!(ramps(&rig), [Some(10), None]);
}

#[test]
fn nobody_starts_slowly_where_nobody_else_serves() {
    let mut rig = rig_of(slow());
    rig.settle();
    for last in [11, 12] {
        rig.control.set_health(&server(last), Health::Down).unwrap();
    }
    rig.control.set_health(&server(11), Health::Up).unwrap();
    assert_eq!(ramps(&rig), [None, None], "the first of a dead pool takes all");
    rig.control.set_health(&server(12), Health::Up).unwrap();
    assert_eq!(ramps(&rig), [None, Some(10)]);
    let _ = rig.apply(add(13, 10));
    rig.settle();
    let del = Change::DelServer { service: web().into(), server: server(13), then: None };
    let _ = rig.apply(del);
    rig.settle();
    assert!(!rig.lcores[0].live.holds(2), "what is removed starts no more");
    rig.control.set_health(&server(11), Health::Down).unwrap();
    assert_eq!(ramps(&rig), [None, None], "nobody else is left");
    assert!(!rig.lcores[0].live.holds(1));
    rig.step(20, &[0, 1]);
    assert!(!rig.lcores[0].live.paces().any());
}

#[test]
fn a_service_may_end_its_ramps_and_another_scheduler_has_none() {
    let mut rig = rig_of(slow());
    rig.settle();
    let change = |edit| Change::EditService { service: web().into(), edit };
    let off = change(crate::change::ServiceEdit { slow_start: Some(0), ..Default::default() });
    let hashed = change(crate::change::ServiceEdit {
        scheduler: Some(engine::sched::SchedulerKind::Mh),
        ..Default::default()
    });
    for edit in [off, hashed] {
        let on = crate::change::ServiceEdit {
            scheduler: Some(engine::sched::SchedulerKind::Wlc),
            slow_start: Some(10),
            ..Default::default()
        };
        let _ = rig.apply(change(on));
        rig.settle();
        rig.control.set_health(&server(11), Health::Down).unwrap();
        rig.control.set_health(&server(11), Health::Up).unwrap();
        assert_eq!(ramps(&rig), [Some(10), None]);
        let answer = rig.apply(edit);
        rig.settle();
        assert!(answer.try_recv().unwrap().is_ok());
        assert_eq!(ramps(&rig), [None, None]);
        assert!(rig.lcores.iter().all(|l| !l.live.holds(0) && !l.live.paces().any()));
        assert_eq!(rig.control.services(None).unwrap()[0].slow_start, None);
    }
    let shape = crate::change::ServiceEdit { slow_start_floor: Some(5), ..Default::default() };
    let refused = rig.apply(change(shape)).try_recv().unwrap().unwrap_err();
    assert_eq!(refused.code, RefusalCode::BadValue);
}

#[test]
fn a_server_is_held_back_until_it_is_level() {
    let mut rig = rig_of(slow());
    rig.settle();
    let _ = rig.apply(add(13, 10));
    rig.settle();
    (0..2).for_each(|slot| rig.lcores[0].board.change(slot, 0, 0, 50, 0));
    rig.lcores[1].board.change(2, 0, 0, 20, 0);
    rig.step(10_000, &[0, 1]);
    assert_eq!(ramps(&rig)[2], Some(0));
    assert_eq!(view(&rig, 2).effective_weight, 10);
    rig.step(9_000, &[0, 1]);
    assert!(rig.lcores[0].live.holds(2));
    rig.lcores[1].board.change(2, 0, 0, 30, 0);
    rig.step(20, &[0, 1]);
    assert_eq!(ramps(&rig)[2], None);
    // One that never gets there is let go all the same: 5/4 of a third, doubling after 20 s.
    rig.control.set_health(&server(12), Health::Down).unwrap();
    rig.control.set_health(&server(12), Health::Up).unwrap();
    rig.lcores[0].board.change(1, 0, 0, -50, 0);
    (0..29).for_each(|_| rig.step(1_000, &[0, 1]));
    assert_eq!(ramps(&rig)[1], Some(0));
    (0..5).for_each(|_| rig.step(1_000, &[0, 1]));
    assert_eq!(ramps(&rig)[1], None);
}
