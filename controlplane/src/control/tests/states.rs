//! Health, and what it does to effective weights.

use std::collections::BTreeMap;

use config::spec::NoServer;
use proptest::prelude::*;

use super::*;
use crate::change::ServiceEdit;
use crate::states::{Acting, Why};
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
    rig.lcores[0].board.change(0, 1, 1, 1, 0);
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

/// `web` with the servers .11 to .14; .13 and .14 are backups.
fn with_backups() -> Settings {
    let mut settings = settings();
    let web = &mut settings.services[0];
    web.servers = [11, 12, 13, 14].map(|a| ServerSpec::new(IpAddr::from([10, 0, 0, a]))).into();
    (web.servers[0].weight, web.servers[3].weight) = (3, 2);
    (web.servers[2].backup, web.servers[3].backup) = (true, true);
    *web = web.clone().resolved();
    settings
}

fn mark(rig: &mut Rig, last: u8, health: Health) {
    rig.control.set_health(&server(last), health).unwrap();
}

fn edit_web(rig: &mut Rig, edit: ServiceEdit) {
    let _ = rig.apply(Change::EditService { service: web().into(), edit });
    rig.settle();
}

#[test]
fn backups_stand_in_below_the_quorum_and_step_back() {
    let mut rig = rig_of(with_backups());
    rig.settle();
    assert_eq!(weights(&rig), [3, 1, 0, 0]);
    let snapshot = Arc::clone(rig.control.snapshot());
    mark(&mut rig, 11, Health::Down);
    assert_eq!(weights(&rig), [0, 1, 0, 0]);
    mark(&mut rig, 12, Health::Down);
    assert_eq!(weights(&rig), [0, 0, 1, 2]);
    let shown = &rig.control.services(None).unwrap()[0];
    assert_eq!((shown.acting, shown.quorum_lost, shown.fail_open), (Acting::Backups, true, false));
    mark(&mut rig, 14, Health::Down);
    assert_eq!(weights(&rig), [0, 0, 1, 0]);
    mark(&mut rig, 12, Health::Up);
    assert_eq!(weights(&rig), [0, 1, 0, 0]);
    assert_eq!(view(&rig, 0, 2).why, Some(Why::Standby));
    rig.settle();
    assert!(Arc::ptr_eq(rig.control.snapshot(), &snapshot), "no snapshot was built");

    // A quorum of two: the one that is left is relieved, until the other is back.
    edit_web(&mut rig, ServiceEdit { quorum: Some(2), ..ServiceEdit::default() });
    assert_eq!(weights(&rig), [0, 0, 1, 0]);
    assert_eq!(view(&rig, 0, 1).why, Some(Why::Quorum));
    mark(&mut rig, 13, Health::Down);
    assert_eq!(weights(&rig), [0, 1, 0, 0], "without backups what is up goes on");
    mark(&mut rig, 13, Health::Up);
    mark(&mut rig, 11, Health::Up);
    assert_eq!(weights(&rig), [3, 1, 0, 0]);
    // To take both out for work brings the backups.
    let drain = |last| Change::DrainServer { server: server(last), deadline: None, then: None };
    let _ = rig.apply(drain(11));
    let _ = rig.apply(drain(12));
    rig.settle();
    assert_eq!(weights(&rig), [0, 0, 1, 0]);
}

#[test]
fn who_is_down_serves_where_nobody_else_can() {
    let mut settings = with_backups();
    settings.services[0].no_server = NoServer::FailOpen;
    let mut rig = rig_of(settings);
    rig.settle();
    (11..=14).for_each(|last| mark(&mut rig, last, Health::Down));
    assert_eq!(weights(&rig), [3, 1, 0, 0]);
    let shown = &rig.control.services(None).unwrap()[0];
    assert_eq!((shown.acting, shown.fail_open), (Acting::Servers, true));
    edit_web(&mut rig, ServiceEdit { no_server: Some(NoServer::Backup), ..ServiceEdit::default() });
    assert_eq!(weights(&rig), [0, 0, 1, 2]);
    edit_web(&mut rig, ServiceEdit { no_server: Some(NoServer::Drop), ..ServiceEdit::default() });
    assert_eq!(weights(&rig), [0, 0, 0, 0]);
    assert_eq!(rig.control.services(None).unwrap()[0].acting, Acting::Nobody);
}

#[test]
fn health_survives_a_restart() {
    let state = State::new();
    let mut settings = two_services();
    settings.director.state = Some(state.0.clone());
    let file = state.0.with_extension("health");
    let mut rig = rig_of(settings.clone());
    rig.settle();
    assert!(!file.exists(), "there is nothing to remember");
    mark(&mut rig, 11, Health::Down);
    mark(&mut rig, 12, Health::Up);
    rig.settle();
    drop(rig);
    let mut rig = rig_of(settings.clone());
    assert_eq!(weights(&rig), [0, 1, 0, 1], "from the first packet on");
    assert_eq!((view(&rig, 0, 0).health, view(&rig, 1, 1).health), (Health::Down, Health::Up));
    let del = Change::DelServer { service: web().into(), server: server(11), then: None };
    let _ = rig.apply(del);
    rig.settle();
    let add = ServerSpec { weight: 3, ..ServerSpec::new(IpAddr::from([10, 0, 0, 11])) };
    let _ = rig.apply(Change::AddServer { service: web().into(), server: add });
    rig.settle();
    drop(rig);
    let mut rig = rig_of(settings.clone());
    assert_eq!(weights(&rig), [3, 1, 0, 1], "a server that was removed is forgotten");
    (11..=12).for_each(|last| mark(&mut rig, last, Health::Unknown));
    rig.settle();
    assert!(!file.exists());
    std::fs::write(&file, b"[{}]").unwrap();
    drop(rig);
    assert_eq!(weights(&rig_of(settings)), [3, 1, 3, 1], "a broken file stops nothing");
}

/// However often a service changes, it is told once a second, and in the end as it is.
#[test]
fn news_is_bounded_and_ends_with_the_truth() {
    let mut rig = rig_of(with_backups());
    rig.settle();
    let store = |rig: &Rig| rig.control.store.clone();
    let mut told = Vec::new();
    mark(&mut rig, 12, Health::Down);
    for turn in 0..2_000 {
        let health = if turn % 3 == 0 && turn < 1_500 { Health::Down } else { Health::Up };
        mark(&mut rig, 11, health);
        let store = store(&rig);
        told.extend(rig.control.states.news(&store, 10_000 + turn));
    }
    let acting: Vec<_> = told.iter().map(|(name, stand)| (&name[..], stand.acting)).collect();
    assert_eq!(acting, [("web", Acting::Backups), ("web", Acting::Servers)], "in two seconds");
}

#[derive(Clone, Debug)]
enum Step {
    Health(u8, Health),
    Server(u8, ServerEdit),
    Service(ServiceEdit),
    Drop(u8),
}

fn step() -> impl Strategy<Value = Step> {
    use NoServer::{Backup, Drop, FailOpen, Reset, Unreachable};
    let last = 11..15_u8;
    let admin = prop::sample::select(vec![Admin::Enabled, Admin::Enabled, Admin::Drain]);
    let change =
        (0..3_u32, admin, any::<bool>(), 0..3_u8).prop_map(|(weight, admin, backup, n)| {
            let none = ServerEdit::default();
            match n {
                0 => ServerEdit { weight: Some(weight), ..none },
                1 => ServerEdit { admin: Some(admin), ..none },
                _ => ServerEdit { backup: Some(backup), ..none },
            }
        });
    let policy = prop::sample::select(vec![Unreachable, Reset, Drop, FailOpen, Backup]);
    let quorum = (1..4_u32).prop_flat_map(|q| (Just(q), 0..q));
    let service = (quorum, policy).prop_map(|((quorum, hysteresis), policy)| ServiceEdit {
        quorum: Some(quorum),
        hysteresis: Some(hysteresis),
        no_server: Some(policy),
        ..ServiceEdit::default()
    });
    let health = prop::sample::select(Health::ALL.to_vec());
    prop_oneof![
        6 => (last.clone(), health).prop_map(|(l, h)| Step::Health(l, h)),
        3 => (last.clone(), change).prop_map(|(l, e)| Step::Server(l, e)),
        2 => service.prop_map(Step::Service),
        1 => last.prop_map(Step::Drop),
    ]
}

/// A server of the model.
#[derive(Clone)]
struct Known {
    weight: u32,
    enabled: bool,
    backup: bool,
    health: Health,
}

/// The first group with anybody in it takes everything.
fn who_takes(spec: &ServiceSpec, lost: &mut bool, servers: &BTreeMap<u8, Known>) -> Vec<u8> {
    let group = |backup: bool, down_too: bool| -> Vec<u8> {
        let may = |s: &Known| s.backup == backup && s.enabled && s.weight > 0;
        let may = |s: &Known| may(s) && (down_too || s.health != Health::Down);
        servers.iter().filter(|(_, s)| may(s)).map(|(last, _)| *last).collect()
    };
    let (up, all) = (group(false, false).len(), group(false, true).len());
    let (quorum, hysteresis) = (spec.quorum as usize, spec.hysteresis as usize);
    if up + hysteresis < quorum {
        *lost = true;
    } else if up >= quorum + hysteresis || (up >= quorum && up == all) {
        *lost = false;
    }
    let open = spec.no_server == NoServer::FailOpen;
    let groups = [
        (*lost, group(true, false)),
        (true, group(false, false)),
        (open, group(false, true)),
        (open || spec.no_server == NoServer::Backup, group(true, true)),
    ];
    let first = groups.into_iter().find(|(asked, group)| *asked && !group.is_empty());
    first.map(|(_, group)| group).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever happens, each server's effective weight is what a plain reading of the rules says,
    /// on every lcore: after health in that moment, after a change with its snapshot.
    #[test]
    fn weights_are_what_a_plain_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = rig_of(with_backups());
        rig.settle();
        let mut spec = with_backups().services[0].clone();
        let known = |s: &ServerSpec| {
            let IpAddr::V4(v4) = s.address else { panic!("IPv4") };
            let health = Health::Unknown;
            (v4.octets()[3], Known { weight: s.weight, enabled: true, backup: s.backup, health })
        };
        let mut servers: BTreeMap<u8, Known> = spec.servers.iter().map(known).collect();
        let mut lost = false;
        for step in steps {
            match step.clone() {
                Step::Health(last, health) => {
                    mark(&mut rig, last, health);
                    servers.get_mut(&last).unwrap().health = health;
                }
                Step::Server(last, edited) => {
                    let known = servers.get_mut(&last).unwrap();
                    known.weight = edited.weight.unwrap_or(known.weight);
                    known.enabled = edited.admin.map_or(known.enabled, |a| a == Admin::Enabled);
                    known.backup = edited.backup.unwrap_or(known.backup);
                    let _ = rig.apply(edit(last, edited));
                    rig.step(1, &[0, 1]);
                }
                Step::Service(edit) => {
                    spec.quorum = edit.quorum.unwrap();
                    spec.hysteresis = edit.hysteresis.unwrap();
                    spec.no_server = edit.no_server.unwrap();
                    let _ = rig.apply(Change::EditService { service: web().into(), edit });
                    rig.step(1, &[0, 1]);
                }
                Step::Drop(last) => {
                    // Removed and added again, it is a new one.
                    let (service, server) = (web().into(), server(last));
                    let _ = rig.apply(Change::DelServer { service, server, then: None });
                    rig.step(1, &[0, 1]);
                    let known = servers.remove(&last).unwrap();
                    who_takes(&spec, &mut lost, &servers);
                    let mut back = ServerSpec::new(IpAddr::from([10, 0, 0, last]));
                    (back.weight, back.backup) = (known.weight, known.backup);
                    let _ = rig.apply(Change::AddServer { service: web().into(), server: back });
                    rig.step(1, &[0, 1]);
                    servers.insert(last, Known { enabled: true, health: Health::Unknown, ..known });
                }
            }
            let taking = who_takes(&spec, &mut lost, &servers);
            let live = weights(&rig);
            for member in &rig.control.store.service(&web().into()).unwrap().members {
                let (last, known) = known(&member.spec);
                let wanted = if taking.contains(&last) { known.weight } else { 0 };
                prop_assert_eq!(live[member.slot as usize], wanted, "{} after {:?}", last, step);
            }
            let shown = &rig.control.services(None).unwrap()[0];
            prop_assert_eq!(shown.quorum_lost, lost);
            for s in &shown.servers {
                prop_assert_eq!(s.why.is_none(), s.effective_weight > 0, "{:?}", s);
            }
        }
    }
}
