//! Random changes against a plain model; and the cases that have bitten others.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use config::settings::{Port, Settings};
use config::spec::OnRemove;
use config::spec::{Admin, ServerRef};
use proptest::prelude::*;

use super::*;
use crate::change::{ServerEdit, ServiceEdit};
use crate::slots::Use;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.director.max_servers = 12;
    settings.director.max_services = 4;
    let mut port = Port::new("p0", "net_null0");
    port.addresses = vec!["10.0.0.1/16".parse().unwrap()];
    settings.ports = vec![port];
    settings
}

fn endpoint(i: u8) -> Endpoint {
    format!("tcp 192.0.2.{i}:80").parse().unwrap()
}

fn server(j: u8, weight: u32) -> ServerSpec {
    let backup = is_backup(weight);
    ServerSpec { weight, backup, ..ServerSpec::new(IpAddr::from([10, 0, 1, j])) }
}

/// The heavy ones are backups here.
const fn is_backup(weight: u32) -> bool {
    weight > 6
}

fn server_ref(j: u8) -> ServerRef {
    ServerRef::Address(IpAddr::from([10, 0, 1, j]), None)
}

fn add_service(i: u8) -> Change {
    Change::AddService(ServiceSpec::new(endpoint(i)))
}

fn add_server(i: u8, j: u8) -> Change {
    Change::AddServer { service: endpoint(i).into(), server: server(j, 1) }
}

fn del_server(i: u8, j: u8, purge: bool) -> Change {
    Change::DelServer {
        service: endpoint(i).into(),
        server: server_ref(j),
        then: purge.then_some(OnRemove::Reset),
    }
}

fn store_with(changes: &[Change]) -> Store {
    let mut store = Store::new(&settings()).unwrap();
    store.apply(changes).unwrap();
    store
}

fn refused(store: &mut Store, change: Change) -> RefusalCode {
    let before = store.version();
    let refusal = store.apply(&[change]).expect_err("it must be refused");
    assert_eq!(store.version(), before);
    assert!(!refusal.message.is_empty());
    refusal.code
}

fn slot_of(store: &Store, i: u8, j: u8) -> (u32, u16) {
    let entry = store.service(&endpoint(i).into()).unwrap();
    let at = IpAddr::from([10, 0, 1, j]);
    let slot = entry.members.iter().find(|m| m.spec.address == at).unwrap().slot;
    (slot, store.slots().all()[slot as usize].generation)
}

#[test]
fn refusals_have_stable_codes_and_change_nothing() {
    let mut s = store_with(&[add_service(1), add_server(1, 1)]);
    assert_eq!(refused(&mut s, add_service(1)), RefusalCode::ServiceExists);
    assert_eq!(refused(&mut s, add_server(1, 1)), RefusalCode::ServerExists);
    assert_eq!(refused(&mut s, add_server(2, 1)), RefusalCode::NoSuchService);
    assert_eq!(refused(&mut s, del_server(1, 2, false)), RefusalCode::NoSuchServer);
    let heavy = Change::AddServer { service: endpoint(1).into(), server: server(2, 1 << 31) };
    assert_eq!(refused(&mut s, heavy), RefusalCode::BadValue);
    let v6 = ServerSpec::new("2001:db8::1".parse().unwrap());
    let v6 = Change::AddServer { service: endpoint(1).into(), server: v6 };
    assert_eq!(refused(&mut s, v6), RefusalCode::Unsupported);
    let long = Timeouts { tcp: u32::MAX, tcpfin: 0, udp: 0 };
    assert_eq!(refused(&mut s, Change::SetTimeouts(long)), RefusalCode::BadValue);
    let mut vip = ServiceSpec::new("tcp 10.0.1.1:80".parse().unwrap());
    assert_eq!(refused(&mut s, Change::AddService(vip.clone())), RefusalCode::BadValue);
    vip.address = "192.0.2.9".parse().unwrap();
    vip.name = s.services().next().unwrap().spec.name.clone();
    assert_eq!(refused(&mut s, Change::AddService(vip)), RefusalCode::NameTaken);
}

#[test]
fn a_batch_is_applied_as_a_whole_or_not_at_all() {
    let mut s = store_with(&[add_service(1)]);
    let batch = [add_service(2), add_server(2, 1), add_server(3, 1)];
    let refusal = s.apply(&batch).unwrap_err();
    assert_eq!((refusal.code, refusal.change), (RefusalCode::NoSuchService, Some(2)));
    assert_eq!(s.services().len(), 1);
    assert_eq!(s.slots().used(), 0);
    assert_eq!(s.apply(&batch[..2]), Ok(3), "one version for the whole batch");
}

#[test]
fn limits_are_counted_with_what_still_leaves() {
    let mut s = store_with(&[add_service(1), add_service(2), add_service(3), add_service(4)]);
    assert_eq!(refused(&mut s, add_service(5)), RefusalCode::LimitReached);
    for j in 1..=12 {
        s.apply(&[add_server(1, j)]).unwrap();
    }
    assert_eq!(refused(&mut s, add_server(2, 1)), RefusalCode::LimitReached);
    s.apply(&[del_server(1, 1, false)]).unwrap();
    assert_eq!(refused(&mut s, add_server(2, 1)), RefusalCode::LimitReached);
    s.reclaim(s.version(), |_, _| true);
    s.apply(&[add_server(2, 1)]).unwrap();
}

#[test]
fn a_server_that_comes_back_takes_its_connections_back_at_the_newest_place() {
    let mut s = store_with(&[add_service(1), add_server(1, 1), add_server(1, 2)]);
    let before = slot_of(&s, 1, 1);
    s.apply(&[del_server(1, 1, false)]).unwrap();
    s.reclaim(s.version(), |_, _| false);
    s.apply(&[add_server(1, 1)]).unwrap();
    assert_eq!(slot_of(&s, 1, 1), before);
    let pool = &s.services().next().unwrap().pool;
    assert_eq!(pool.servers[0].slot, before.0, "newest first");
}

#[test]
fn a_purge_or_the_end_of_its_service_ends_a_generation_at_once() {
    let mut s = store_with(&[add_service(1), add_server(1, 1), add_server(1, 2)]);
    let (slot, generation) = slot_of(&s, 1, 1);
    let (other, other_generation) = slot_of(&s, 1, 2);
    s.apply(&[del_server(1, 1, true)]).unwrap();
    let state = &s.slots().all()[slot as usize];
    assert_eq!((state.generation, state.resolves()), (generation + 1, false));
    s.apply(&[Change::DelService { service: endpoint(1).into() }]).unwrap();
    let state = &s.slots().all()[other as usize];
    assert_eq!((state.generation, state.resolves()), (other_generation + 1, false));
    assert!(s.reclaim(s.version() - 2, |_, _| true).slots.is_empty(), "lcores may still count");
    assert_eq!(s.reclaim(s.version(), |_, _| false).slots.len(), 2);
}

#[test]
fn a_leaving_slot_waits_for_its_connections_and_for_every_lcore() {
    let mut s = store_with(&[add_service(1), add_server(1, 1)]);
    let (slot, generation) = slot_of(&s, 1, 1);
    s.apply(&[del_server(1, 1, false)]).unwrap();
    assert!(s.reclaim(s.version() - 1, |_, _| true).slots.is_empty());
    assert!(s.reclaim(s.version(), |_, _| false).slots.is_empty());
    assert!(s.slots().all()[slot as usize].resolves());
    assert_eq!(s.reclaim(s.version(), |at, g| (at, g) == (slot, generation)).slots.len(), 1);
    assert_eq!(s.slots().all()[slot as usize].generation, generation + 1);
}

#[test]
fn a_service_index_means_another_service_only_after_all_lcores_have_left_it() {
    let mut s = store_with(&[add_service(1), add_server(1, 1)]);
    let old = s.services().next().unwrap();
    let (id, trail) = (old.id, old.pool.version);
    s.apply(&[Change::Flush, add_service(2)]).unwrap();
    assert_ne!(s.services().next().unwrap().id, id);
    assert_eq!(s.reclaim(s.version(), |_, _| true).services, [id]);
    s.apply(&[add_service(3), add_server(3, 1)]).unwrap();
    let new = s.services().last().unwrap();
    assert_eq!(new.id, id);
    assert!(new.pool.changes_since(trail).is_none(), "an old cursor cannot fit");
}

#[test]
fn edits_touch_only_what_they_name() {
    let mut s = store_with(&[add_service(1), add_server(1, 1), add_service(2)]);
    let other = Arc::clone(s.services().last().unwrap());
    let before = slot_of(&s, 1, 1);
    let trail = s.services().next().unwrap().pool.version;
    let drain = ServerEdit { admin: Some(Admin::Drain), ..ServerEdit::default() };
    let edit =
        |edit| Change::EditServer { service: endpoint(1).into(), server: server_ref(1), edit };
    s.apply(&[edit(drain)]).unwrap();
    let entry = s.services().next().unwrap();
    assert_eq!(entry.pool.version, trail, "no change for the scheduler");
    assert_eq!((entry.members[0].spec.admin, entry.members[0].spec.weight), (Admin::Drain, 1));
    s.apply(&[edit(ServerEdit { weight: Some(7), ..ServerEdit::default() })]).unwrap();
    let entry = s.services().next().unwrap();
    assert_eq!(entry.pool.version, trail + 1);
    assert_eq!((entry.members[0].spec.admin, entry.pool.servers[0].weight), (Admin::Drain, 7));
    assert_eq!(slot_of(&s, 1, 1), before);
    assert!(Arc::ptr_eq(&other, s.services().last().unwrap()));
    let rr = ServiceEdit { scheduler: "rr".parse().ok(), ..ServiceEdit::default() };
    s.apply(&[Change::EditService { service: endpoint(1).into(), edit: rr }]).unwrap();
    assert!(s.services().next().unwrap().pool.changes_since(trail + 1).is_none());
    s.apply(&[Change::SetTimeouts(Timeouts { tcp: 0, tcpfin: 5, udp: 0 })]).unwrap();
    assert_eq!(s.timeouts(), Timeouts { tcp: 900, tcpfin: 5, udp: 300 });
}

#[test]
fn a_restore_of_the_same_changes_nothing_for_schedulers() {
    let mut s = store_with(&[add_service(1), add_server(1, 1), add_server(1, 2), add_service(2)]);
    let pool = s.services().next().unwrap().pool.clone();
    let slots = (slot_of(&s, 1, 1), slot_of(&s, 1, 2));
    let mut services: Vec<ServiceSpec> = s.services().map(|e| e.full_spec()).collect();
    let wanted = |services: &[ServiceSpec]| {
        Change::Restore(Wanted { services: services.to_vec(), timeouts: None })
    };
    services.reverse();
    services[1].servers[0].name = "renamed".to_owned();
    s.apply(&[wanted(&services)]).unwrap();
    let entry = s.services().last().unwrap();
    assert_eq!(entry.full_spec(), services[1]);
    assert_eq!((entry.pool.version, &entry.pool.servers), (pool.version, &pool.servers));
    assert_eq!((slot_of(&s, 1, 1), slot_of(&s, 1, 2)), slots);
    services[1].servers.remove(0);
    s.apply(&[wanted(&services)]).unwrap();
    assert_eq!(slot_of(&s, 1, 2), slots.1, "connections of what stays live on");
    assert!(matches!(s.slots().all()[slots.0.0 as usize].usage, Use::Leaving { .. }));
}

/// One random step.
#[derive(Clone, Debug)]
enum Step {
    AddService(u8),
    DelService(u8),
    AddServer(u8, u8, u32),
    EditServer(u8, u8, u32),
    DelServer(u8, u8, bool),
    Flush,
    RestoreWithout(u8),
    Reclaim { behind: u64, idle: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let (i, j) = (1..5_u8, 1..5_u8);
    prop_oneof![
        3 => i.clone().prop_map(Step::AddService),
        1 => i.clone().prop_map(Step::DelService),
        8 => (i.clone(), j.clone(), 0..9_u32).prop_map(|(i, j, w)| Step::AddServer(i, j, w)),
        4 => (i.clone(), j.clone(), 0..9_u32).prop_map(|(i, j, w)| Step::EditServer(i, j, w)),
        6 => (i.clone(), j, any::<bool>()).prop_map(|(i, j, p)| Step::DelServer(i, j, p)),
        1 => Just(Step::Flush),
        1 => i.prop_map(Step::RestoreWithout),
        4 => (0..3_u64, any::<u32>()).prop_map(|(behind, idle)| Step::Reclaim { behind, idle }),
    ]
}

/// Services and their servers with weights, in the order of addition.
type Model = BTreeMap<u8, Vec<(u8, u32)>>;

impl Step {
    /// The change and what it makes of the model; `None` if it must be refused.
    fn change(&self, model: &Model) -> (Change, Option<Model>) {
        let mut next = model.clone();
        let service = |i: u8| endpoint(i).into();
        match *self {
            Self::AddService(i) => {
                let ok = next.insert(i, Vec::new()).is_none();
                (add_service(i), ok.then_some(next))
            }
            Self::DelService(i) => {
                let ok = next.remove(&i).is_some();
                (Change::DelService { service: service(i) }, ok.then_some(next))
            }
            Self::AddServer(i, j, weight) => {
                let servers = next.get_mut(&i).filter(|s| s.iter().all(|(k, _)| *k != j));
                let ok = servers.map(|s| s.push((j, weight))).is_some();
                let server = server(j, weight);
                (Change::AddServer { service: service(i), server }, ok.then_some(next))
            }
            Self::EditServer(i, j, weight) => {
                let servers = next.get_mut(&i);
                let at = servers.as_ref().and_then(|s| s.iter().position(|(k, _)| *k == j));
                let ok = at.zip(servers).map(|(at, servers)| {
                    let moves = is_backup(servers[at].1) != is_backup(weight);
                    servers[at].1 = weight;
                    if moves {
                        servers[at..].rotate_left(1);
                    }
                });
                let ok = ok.is_some();
                let backup = Some(is_backup(weight));
                let edit = ServerEdit { weight: Some(weight), backup, ..ServerEdit::default() };
                let change =
                    Change::EditServer { service: service(i), server: server_ref(j), edit };
                (change, ok.then_some(next))
            }
            Self::DelServer(i, j, purge) => {
                let at = next.get(&i).and_then(|s| s.iter().position(|(k, _)| *k == j));
                let ok = at.and_then(|at| Some(next.get_mut(&i)?.remove(at))).is_some();
                (del_server(i, j, purge), ok.then_some(next))
            }
            Self::Flush => (Change::Flush, Some(Model::new())),
            Self::RestoreWithout(i) => {
                next.remove(&i);
                let spec = |(i, servers): (&u8, &Vec<(u8, u32)>)| ServiceSpec {
                    servers: servers.iter().map(|(j, w)| server(*j, *w)).collect(),
                    ..ServiceSpec::new(endpoint(*i))
                };
                let services = next.iter().map(spec).collect();
                (Change::Restore(Wanted { services, timeouts: None }), Some(next))
            }
            Self::Reclaim { .. } => (Change::Flush, None),
        }
    }
}

/// What must hold after every step, and what may never have been different before.
fn check(
    store: &Store,
    model: &Model,
    lives: &mut HashMap<(u32, u16), (ServiceId, IpAddr)>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(store.services().len(), model.len());
    let mut taken = HashSet::new();
    for (i, servers) in model {
        let entry = store.service(&endpoint(*i).into()).unwrap();
        let now = entry.members.iter().map(|m| (m.spec.address, m.spec.weight));
        let wish = servers.iter().map(|(j, w)| (IpAddr::from([10, 0, 1, *j]), *w));
        prop_assert!(now.eq(wish), "{:?} is not {:?}", entry.members, servers);
        for (pool, backup) in [(&entry.pool, false), (&entry.backups, true)] {
            let members = entry.members.iter().rev().filter(|m| m.spec.backup == backup);
            let inside = pool.servers.iter().map(|s| (s.slot, s.weight));
            prop_assert!(inside.eq(members.map(|m| (m.slot, m.spec.weight))));
            prop_assert!(pool.servers.is_sorted_by(|a, b| a.seq > b.seq));
        }
        for member in &entry.members {
            prop_assert!(taken.insert(member.slot), "two servers in one slot");
            let slot = &store.slots().all()[member.slot as usize];
            prop_assert_eq!((slot.usage, slot.service), (Use::Member, entry.id));
        }
    }
    for (n, slot) in (0_u32..).zip(store.slots().all()).filter(|(_, s)| s.resolves()) {
        let who = (slot.service, slot.spec.as_ref().unwrap().address);
        let was = *lives.entry((n, slot.generation)).or_insert(who);
        prop_assert_eq!(was, who, "a life of a slot belongs to one server for ever");
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_does_what_a_plain_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let mut store = Store::new(&settings()).unwrap();
        let (mut model, mut lives) = (Model::new(), HashMap::new());
        for step in steps {
            if let Step::Reclaim { behind, idle } = step {
                let applied = store.version().saturating_sub(behind);
                store.reclaim(applied, |slot, _| idle >> (slot % 32) & 1 == 1);
            } else {
                let (change, next) = step.change(&model);
                let before = store.version();
                match (store.apply(&[change]), next) {
                    (Ok(version), Some(next)) => {
                        prop_assert_eq!(version, before + 1);
                        model = next;
                    }
                    (Err(r), None) => prop_assert_ne!(r.code, RefusalCode::LimitReached),
                    (Err(r), Some(_)) => prop_assert_eq!(r.code, RefusalCode::LimitReached),
                    (Ok(_), None) => prop_assert!(false, "{:?} was not refused", step),
                }
            }
            check(&store, &model, &mut lives)?;
        }
    }
}
