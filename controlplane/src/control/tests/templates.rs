//! Persistence templates as the control thread sees them.

use config::persistence::PersistenceVoid;
use engine::templates::{Holder, Place, Span};
use engine::ticks::{TickSpan, Ticks};

use super::*;
use crate::change::ServiceEdit;
use crate::states::Health;
use crate::views::TemplateView;

/// `web` is persistent for an hour, by networks of 256 addresses.
fn persistent() -> Rig {
    let mut settings = settings();
    settings.services[0].persistence = Some(3600);
    settings.services[0].persistence_netmask = Some(24);
    let mut rig = rig_of(settings);
    rig.settle();
    rig
}

/// What lcores do: the n-th network gets the server in a slot.
fn stick(rig: &Rig, n: u8, slot: u32) {
    let generation = rig.control.store.slots().all()[slot as usize].generation;
    let holder = Holder { service: 0, client: Addr::v4([198, 51, n, 0]) };
    let span = Span { now: Ticks(rig.now), life: TickSpan::from_secs(3600) };
    let table = &rig.control.setup.templates;
    assert!(table.settle(&holder, Place { slot, generation }, span, |_| true).is_some());
}

fn rows(rig: &Rig, filter: &ConnFilter) -> Vec<TemplateView> {
    let page = rig.control.templates(filter).unwrap();
    assert_eq!(page.next, None);
    page.templates
}

fn states(rig: &Rig) -> Vec<(IpAddr, String)> {
    let mut all: Vec<_> = rows(rig, &ConnFilter::default());
    all.sort_by_key(|row| row.client);
    all.into_iter().map(|row| (row.server, row.state)).collect()
}

fn census(rig: &mut Rig) -> (u64, u64) {
    (0..1_200).for_each(|_| rig.step(1, &[0, 1]));
    let memory = rig.control.memory();
    (memory.templates, memory.templates_peak)
}

#[test]
fn templates_are_listed_with_client_network_and_server() {
    let rig = persistent();
    (0..5).for_each(|n| stick(&rig, n, u32::from(n) % 2));
    let all = rows(&rig, &ConnFilter::default());
    assert_eq!(all.len(), 5);
    let row = all.iter().find(|row| row.client == IpAddr::from([198, 51, 3, 0])).unwrap();
    assert_eq!((row.service.as_str(), row.client_prefix, row.virtual_port), ("web", 24, 80));
    assert_eq!((row.server, row.state.as_str()), (IpAddr::from([10, 0, 0, 12]), "ASSURED"));
    assert!((3600..=3601).contains(&row.expires_secs), "{row:?}");
    let only = |filter: ConnFilter| rows(&rig, &filter).len();
    let client = Some(IpAddr::from([198, 51, 3, 77]));
    assert_eq!(only(ConnFilter { client, ..ConnFilter::default() }), 1);
    assert_eq!(only(ConnFilter { server: Some(server(11)), ..ConnFilter::default() }), 3);
    assert_eq!(only(ConnFilter { service: Some(web().into()), ..ConnFilter::default() }), 5);
    let nobody = ConnFilter { server: Some(server(99)), ..ConnFilter::default() };
    assert!(rig.control.templates(&nobody).is_err());
}

#[test]
fn pages_show_every_template_once() {
    let rig = persistent();
    (0..200).for_each(|n| stick(&rig, n, 0));
    let (mut filter, mut seen) = (ConnFilter { limit: 7, ..ConnFilter::default() }, Vec::new());
    loop {
        let page = rig.control.templates(&filter).unwrap();
        seen.extend(page.templates.iter().map(|row| row.client));
        filter.cursor = page.next;
        if page.next.is_none() {
            break;
        }
        assert!((7..15).contains(&page.templates.len()));
    }
    seen.sort();
    assert_eq!(seen, (0..200).map(|n| IpAddr::from([198, 51, n, 0])).collect::<Vec<_>>());
}

/// Which servers keep their clients, by what the service says and what becomes of the server.
#[test]
fn a_service_says_what_makes_templates_void() {
    let weight = ServerEdit { weight: Some(0), ..ServerEdit::default() };
    let admin = |admin| ServerEdit { admin: Some(admin), ..ServerEdit::default() };
    let keeps = |rig: &Rig| rig.lcores.iter().map(|l| l.live.serves_known(0)).collect::<Vec<_>>();
    for (void, kept) in [
        (PersistenceVoid::Down, [true, true, false]),
        (PersistenceVoid::Drain, [true, false, false]),
        (PersistenceVoid::Weight0, [false, false, false]),
    ] {
        for (change, kept) in
            [weight.clone(), admin(Admin::Drain), admin(Admin::Disabled)].into_iter().zip(kept)
        {
            let mut rig = persistent();
            let edit_web = ServiceEdit { persistence_void: Some(void), ..ServiceEdit::default() };
            rig.apply(Change::EditService { service: web().into(), edit: edit_web });
            rig.settle();
            stick(&rig, 1, 0);
            stick(&rig, 2, 1);
            assert_eq!(keeps(&rig), [true, true]);
            rig.apply(edit(11, change.clone()));
            rig.settle();
            assert_eq!(keeps(&rig), [kept, kept], "{void}: {change:?}");
            let state = if kept { "ASSURED" } else { "VOID" };
            let first = (IpAddr::from([10, 0, 0, 11]), state.to_owned());
            assert_eq!(states(&rig)[0], first, "{void}: {change:?}");
            assert_eq!(states(&rig)[1].1, "ASSURED");
            // Down is down, whatever else it is.
            rig.control.set_health(&server(11), Health::Down).unwrap();
            assert_eq!(keeps(&rig), [false, false]);
        }
    }
}

#[test]
fn a_census_counts_and_ends_what_is_gone() {
    let mut rig = persistent();
    (0..100).for_each(|n| stick(&rig, n, u32::from(n) % 2));
    assert_eq!(census(&mut rig), (100, 100));
    // Removed with its connections still there, it may come back, and its clients with it.
    rig.lcores[0].board.change(0, 0, 0, 1, 0);
    let del = |then| Change::DelServer { service: web().into(), server: server(11), then };
    rig.apply(del(None));
    rig.settle();
    assert_eq!((census(&mut rig), states(&rig)[0].1.as_str()), ((100, 100), "VOID"));
    rig.apply(Change::AddServer {
        service: web().into(),
        server: ServerSpec::new(IpAddr::from([10, 0, 0, 11])),
    });
    rig.settle();
    assert_eq!(states(&rig)[0].1, "ASSURED");
    rig.apply(del(Some(config::spec::OnRemove::Reset)));
    rig.settle();
    assert_eq!((census(&mut rig), rows(&rig, &ConnFilter::default()).len()), ((50, 100), 50));
}

#[test]
fn persistence_beside_wlc_is_said_once() {
    let mut rig = rig();
    rig.settle();
    let mut edit_web = |edit: ServiceEdit| {
        let answer = rig.apply(Change::EditService { service: web().into(), edit });
        rig.settle();
        answer.try_recv().unwrap().unwrap().warnings
    };
    let persistence = |n| ServiceEdit { persistence: Some(n), ..ServiceEdit::default() };
    assert!(edit_web(persistence(300))[0].contains("shares follow clients"));
    assert_eq!(edit_web(persistence(400)), [""; 0]);
    assert_eq!(edit_web(persistence(0)), [""; 0]);
    assert_eq!(edit_web(persistence(300)).len(), 1, "new again");
}
