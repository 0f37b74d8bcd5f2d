//! Backups: who takes a flow when a service's own servers may not, and who does not.

mod world_lab;

use std::collections::BTreeSet;

use engine::addr::{Addr, L4Proto};
use engine::forward::ForwarderKind;
use engine::frame::BURST;
use engine::sched::SchedulerKind;
use engine::snapshot::Timeouts;
use engine::testkit::World;
use proptest::prelude::*;
use world_lab::packets::{Client, Out, drain, send, slots};
use world_lab::{tcp_service, world};

const ROOMY: u32 = 2000;

fn backup(w: &mut World, last: u8, weight: u32) -> u32 {
    w.add_backup(0, (Addr::v4([10, 3, 0, last]), 80), weight, ForwarderKind::Ipip)
}

/// Clients that say something; the slots that their packets went to, in order.
fn say(w: &mut World, clients: std::ops::Range<usize>, flags: &str) -> Vec<u32> {
    let turns = 4 + clients.len() / BURST;
    for n in clients {
        let client = Client::nth(n, 80, L4Proto::Tcp);
        let owner = client.owner(w);
        send(w, owner, &client.packet(flags, 0));
    }
    (0..turns).for_each(|_| w.turn());
    w.look();
    slots(w)
}

/// Backups stand in for the servers, or do not.
fn stand_in(w: &mut World, backups: &[u32], yes: bool) {
    let slots = u32::try_from(w.servers.len()).unwrap();
    (0..slots).for_each(|s| w.set_eligible(s, backups.contains(&s) == yes));
}

#[test]
fn a_backup_takes_new_flows_by_its_own_way_and_gives_them_back() {
    for kind in SchedulerKind::ALL {
        let mut w = world(2, ROOMY, Timeouts::default());
        tcp_service(&mut w, *kind, 80, &[50, 50]);
        let sorry = backup(&mut w, 1, 50);
        w.publish();
        stand_in(&mut w, &[sorry], false);
        let first = say(&mut w, 0..20, "S");
        assert!(first.iter().all(|s| *s != sorry), "{kind}: {first:?}");
        stand_in(&mut w, &[sorry], true);
        assert_eq!(say(&mut w, 20..40, "S"), [sorry; 20], "{kind}");
        assert_eq!(w.counts(sorry).active, 20, "{kind}");
        // Established ones stay where they are, at either end.
        assert_eq!(say(&mut w, 0..20, "A"), first, "{kind}");
        stand_in(&mut w, &[sorry], false);
        assert_eq!(say(&mut w, 20..40, "A"), [sorry; 20], "{kind}");
        let back = say(&mut w, 40..60, "S");
        assert!(back.len() == 20 && back.iter().all(|s| *s != sorry), "{kind}: {back:?}");
    }
}

/// What a service's scheduler picks is the same with backups as without.
#[test]
fn backups_do_not_disturb_turns() {
    for kind in [SchedulerKind::Rr, SchedulerKind::Wrr, SchedulerKind::Mh, SchedulerKind::Sh] {
        let picks = |backups: u8| {
            let mut w = world(1, ROOMY, Timeouts::default());
            tcp_service(&mut w, kind, 80, &[1, 3, 2]);
            let backups: Vec<_> = (0..backups).map(|n| backup(&mut w, n, 7)).collect();
            w.publish();
            stand_in(&mut w, &backups, false);
            let first = say(&mut w, 0..17, "S");
            stand_in(&mut w, &backups, true);
            say(&mut w, 100..107, "S");
            stand_in(&mut w, &backups, false);
            (first, say(&mut w, 17..40, "S"))
        };
        let (with, without) = (picks(3), picks(0));
        assert_eq!(with, without, "{kind}");
    }
}

#[test]
fn several_backups_share_by_weight() {
    let mut w = world(1, ROOMY, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Wlc, 80, &[1, 1]);
    let backups = [backup(&mut w, 1, 1), backup(&mut w, 2, 3)];
    w.publish();
    stand_in(&mut w, &backups, true);
    say(&mut w, 0..400, "S");
    assert_eq!(backups.map(|s| w.counts(s).active), [100, 300]);
    // One that ends tells the backups' scheduler: the next go where room is.
    say(&mut w, 0..400, "A");
    let of_first: Vec<usize> =
        (0..400).filter(|n| say(&mut w, *n..n + 1, "A") == [backups[0]]).collect();
    for n in &of_first[..40] {
        say(&mut w, *n..n + 1, "R");
    }
    let next = say(&mut w, 400..430, "S");
    assert_eq!(next, [backups[0]; 30], "its connections are inactive now");
}

#[test]
fn a_full_table_sends_flows_to_backups_too() {
    let mut w = world(1, 8, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Wlc, 80, &[1, 1]);
    let sorry = backup(&mut w, 1, 1);
    w.publish();
    stand_in(&mut w, &[sorry], true);
    assert_eq!(say(&mut w, 0..100, "S"), [sorry; 100]);
    assert!(w.totals().untracked > 80);
}

#[test]
fn nobody_at_all_is_answered_once() {
    let mut w = world(1, ROOMY, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Wlc, 80, &[1]);
    let sorry = backup(&mut w, 1, 1);
    w.publish();
    [0, sorry].iter().for_each(|s| w.set_eligible(*s, false));
    send(&mut w, 0, &Client::nth(0, 80, L4Proto::Tcp).packet("S", 0));
    w.turn();
    assert!(matches!(drain(&mut w)[..], [(_, Out::Other)]), "an ICMP error");
    assert_eq!(w.sites[0].board.services[0].no_server.get(), 1);
}

proptest! {
    /// Whatever the weights and states, no server of weight 0 gets a new flow, a backup none that
    /// the service's own servers could take, and nobody is refused while somebody is eligible.
    #[test]
    fn only_the_eligible_are_picked(
        kind in prop::sample::select(SchedulerKind::ALL.to_vec()),
        own in prop::collection::vec((0_u32..4, any::<bool>()), 0..5),
        spare in prop::collection::vec((0_u32..4, any::<bool>()), 0..4),
        lcores in 1_u16..4,
    ) {
        let mut w = world(lcores, ROOMY, Timeouts::default());
        let weights: Vec<u32> = own.iter().map(|s| s.0).collect();
        tcp_service(&mut w, kind, 80, &weights);
        for (n, (weight, _)) in (1..).zip(&spare) {
            backup(&mut w, n, *weight);
        }
        w.publish();
        let all: Vec<_> = own.iter().chain(&spare).copied().collect();
        for (slot, (_, eligible)) in (0..).zip(&all) {
            w.set_eligible(slot, *eligible);
        }
        let may = |of: std::ops::Range<usize>| -> BTreeSet<u32> {
            let up = of.filter(|s| all[*s].0 > 0 && all[*s].1);
            up.map(|s| u32::try_from(s).unwrap()).collect()
        };
        let (own_up, spare_up) = (may(0..own.len()), may(own.len()..all.len()));
        let went = say(&mut w, 0..40, "S");
        prop_assert!(went.iter().all(|s| own_up.contains(s) || spare_up.contains(s)));
        let table = matches!(kind, SchedulerKind::Sh | SchedulerKind::Mh | SchedulerKind::Dh);
        // A table refuses the clients of a server that is out; ovf those who find everybody full.
        if !table && kind != SchedulerKind::Ovf {
            let who = if own_up.is_empty() { &spare_up } else { &own_up };
            prop_assert!(went.iter().all(|s| who.contains(s)), "{went:?}");
            prop_assert_eq!(went.len(), if who.is_empty() { 0 } else { 40 });
        }
    }
}
