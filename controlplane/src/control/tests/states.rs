//! Health, and what it does to effective weights.

use super::*;
use crate::states::Why;
use crate::views::ServerView;

/// `web` and `api` with the servers .11 and .12, weights 3 and 1.
fn two_services() -> Settings {
    let mut settings = settings();
    settings.services[0].servers[0].weight = 3;
    let mut api = settings.services[0].clone();
    (api.name, api.port) = ("api".to_owned(), 81);
    api.servers.iter_mut().for_each(|s| s.port = Some(81));
    settings.services.push(api);
    settings
}

fn weights(rig: &Rig) -> Vec<u32> {
    let slots = u32::try_from(rig.control.store.slots().all().len()).unwrap();
    let of = |lcore: &Lcore| (0..slots).map(|s| lcore.live.weight(s)).collect::<Vec<_>>();
    assert_eq!(of(&rig.lcores[0]), of(&rig.lcores[1]), "all lcores know the same");
    of(&rig.lcores[0])
}

fn view(rig: &Rig, service: usize, server: usize) -> ServerView {
    rig.control.services(None).unwrap()[service].servers[server].clone()
}

#[test]
fn a_server_that_is_down_gets_nothing_from_that_moment_in_all_services() {
    let mut rig = rig_of(two_services());
    rig.settle();
    assert_eq!(weights(&rig), [3, 1, 3, 1]);
    let before = (rig.control.header().config, Arc::clone(rig.control.snapshot()));
    let marked = rig.control.set_health(&server(11), Health::Down).unwrap();
    assert_eq!(weights(&rig), [0, 1, 0, 1], "without a turn of anybody");
    assert_eq!(marked.services, ["web", "api"]);
    rig.step(5_000, &[0, 1]);
    let down = view(&rig, 0, 0);
    assert_eq!((down.health, down.health_secs), (Health::Down, Some(5)));
    assert_eq!((down.weight, down.effective_weight, down.why), (3, 0, Some(Why::Down)));
    let other = view(&rig, 1, 1);
    assert_eq!((other.health, other.health_secs, other.why), (Health::Unknown, None, None));
    // Said again, it is down since then.
    rig.control.set_health(&server(11), Health::Down).unwrap();
    assert_eq!(view(&rig, 0, 0).health_secs, Some(5));
    rig.control.set_health(&server(11), Health::Up).unwrap();
    assert_eq!(weights(&rig), [3, 1, 3, 1]);
    rig.control.set_health(&server(11), Health::Unknown).unwrap();
    assert_eq!(weights(&rig), [3, 1, 3, 1], "unknown is taken to be up");
    rig.settle();
    assert_eq!(rig.control.header().config, before.0, "no configuration has changed");
    assert!(Arc::ptr_eq(rig.control.snapshot(), &before.1), "no snapshot was built");
    assert!(rig.control.header().as_file);
    let nobody = rig.control.set_health(&server(99), Health::Down).unwrap_err();
    assert_eq!(nobody.code, RefusalCode::NoSuchServer);
}

#[test]
fn a_full_server_has_no_effective_weight_until_it_is_free_again() {
    let mut settings = two_services();
    settings.services[0].servers[0].u_threshold = 1;
    let mut rig = rig_of(settings);
    rig.settle();
    assert_eq!(weights(&rig), [3, 1, 3, 1]);
    let (to, generation) = (rig.control.snapshot().servers[0].thresholds, 0);
    let counted = rig.lcores[0].live.occupancies();
    assert!(counted.enter(0, generation, to, false));
    let full = view(&rig, 0, 0);
    assert_eq!((full.weight, full.effective_weight, full.why), (3, 0, Some(Why::Full)));
    assert_eq!((view(&rig, 1, 0).why, weights(&rig)), (None, vec![3, 1, 3, 1]));
    rig.lcores[0].live.occupancies().leave(0, generation, to, false);
    assert_eq!((view(&rig, 0, 0).effective_weight, view(&rig, 0, 0).why), (3, None));
}

#[test]
fn health_lasts_through_changes_and_leaves_with_its_server() {
    let mut rig = rig();
    rig.settle();
    rig.control.set_health(&server(11), Health::Down).unwrap();
    let _ = rig.apply(edit(11, ServerEdit { weight: Some(9), ..ServerEdit::default() }));
    rig.settle();
    assert_eq!(weights(&rig), [0, 1]);
    let drain = ServerEdit { admin: Some(Admin::Drain), ..ServerEdit::default() };
    let _ = rig.apply(edit(11, drain));
    rig.settle();
    assert_eq!(view(&rig, 0, 0).why, Some(Why::Drain));
    let _ = rig.apply(Change::EnableServer { server: server(11) });
    rig.settle();
    assert_eq!(view(&rig, 0, 0).why, Some(Why::Down), "an operator's word heals nobody");
    // Its connections end, it stays what it is.
    let end = Change::EndConnections {
        service: web().into(),
        server: server(11),
        then: config::spec::OnRemove::Reset,
    };
    let _ = rig.apply(end);
    rig.settle();
    assert_eq!(weights(&rig), [0, 1]);
    // A connection keeps the slot; the server that comes back is a new one all the same.
    rig.lcores[0].board.servers[0].change(1, 1, 1, 0);
    let del = Change::DelServer { service: web().into(), server: server(11), then: None };
    let _ = rig.apply(del);
    rig.settle();
    assert_eq!(rig.control.memory().server_slots, 2);
    let spec = ServerSpec::new(IpAddr::from([10, 0, 0, 11]));
    let _ = rig.apply(Change::AddServer { service: web().into(), server: spec });
    rig.settle();
    assert_eq!(weights(&rig), [1, 1]);
    assert_eq!(view(&rig, 0, 1).health, Health::Unknown);
}

#[test]
fn health_may_be_told_before_lcores_know_the_server() {
    let mut rig = rig();
    rig.settle();
    let spec = ServerSpec::new(IpAddr::from([10, 0, 0, 13]));
    let _ = rig.apply(Change::AddServer { service: web().into(), server: spec });
    rig.control.set_health(&server(13), Health::Down).unwrap();
    rig.settle();
    assert_eq!(weights(&rig), [1, 1, 0]);
}
