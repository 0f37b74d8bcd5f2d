//! ARP's state machine, driven by hand: each test says when what is asked, and what is in use.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const ID: HopId = HopId(0);

fn next_hop(mac: Option<Mac>) -> NextHop {
    let (address, source) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 1]));
    NextHop { port: 3, address, mac, source }
}

fn heard(mac: Mac, reply: bool) -> ArpHeard {
    ArpHeard { port: 3, addr: Addr::v4([10, 0, 0, 2]), mac, reply }
}

fn one(mac: Option<Mac>) -> (Neighbours, HopTable) {
    let (mut n, table) = (Neighbours::default(), HopTable::new(2));
    n.follow([(ID, next_hop(mac), 1)].into_iter(), &table, 0);
    (n, table)
}

fn state(n: &Neighbours) -> State {
    n.list()[0].state
}

/// Ticks every 10 ms and gives the times and receivers of questions.
fn asks(n: &mut Neighbours, table: &HopTable, from: u64, to: u64) -> Vec<(u64, Option<Mac>)> {
    let mut all = Vec::new();
    for now in (from..to).step_by(10) {
        all.extend(n.tick(table, now).into_iter().map(|o| (now, o.to)));
    }
    all
}

#[test]
fn a_new_hop_is_asked_for_at_once_by_our_own_address() {
    let (mut n, table) = one(None);
    let orders = n.tick(&table, 0);
    let sender = Addr::v4([10, 0, 0, 1]);
    let target = Addr::v4([10, 0, 0, 2]);
    assert_eq!(orders, [ArpOrder { port: 3, sender, target, to: None }]);
    assert!(!table.hop(ID).is_reachable());
    n.heard(heard(A, true), &table, 5);
    assert_eq!(state(&n), State::Reachable);
    assert_eq!(
        (table.hop(ID).mac(), table.hop(ID).port(), table.hop(ID).is_reachable()),
        (A, 3, true)
    );
}

#[test]
fn silence_is_met_with_ever_rarer_questions() {
    let (mut n, table) = one(None);
    let times: Vec<u64> = asks(&mut n, &table, 0, 60_000).iter().map(|a| a.0).collect();
    assert_eq!(times, [0, 1000, 2000, 3000, 4000, 6000, 10_000, 18_000, 34_000, 50_000]);
    assert_eq!(state(&n), State::Failed);
}

#[test]
fn a_waiting_packet_brings_the_next_question_forward_to_one_a_second() {
    let (mut n, table) = one(None);
    asks(&mut n, &table, 0, 20_000);
    n.wanted(ID);
    assert_eq!(asks(&mut n, &table, 20_000, 20_010).len(), 1);
    let mut count = 0;
    for now in (20_010..30_000).step_by(10) {
        n.wanted(ID);
        count += n.tick(&table, now).len();
    }
    assert_eq!(count, 9);
}

#[test]
fn an_ageing_hop_is_probed_and_stays_in_use_until_everybody_was_asked() {
    let (mut n, table) = one(None);
    n.tick(&table, 0);
    n.heard(heard(A, true), &table, 0);
    let probes = asks(&mut n, &table, 0, 32_500);
    assert_eq!(probes, [(30_000, Some(A)), (31_000, Some(A)), (32_000, Some(A))]);
    assert_eq!(state(&n), State::Probe);
    let broadcasts = asks(&mut n, &table, 32_500, 35_500);
    assert_eq!(broadcasts, [(33_000, None), (34_000, None), (35_000, None)]);
    assert_eq!(state(&n), State::Stale);
    assert!(table.hop(ID).is_reachable());
    asks(&mut n, &table, 35_500, 36_500);
    assert_eq!(state(&n), State::Failed);
    assert!(!table.hop(ID).is_reachable());
    n.heard(heard(A, true), &table, 36_600);
    assert!(table.hop(ID).is_reachable());
}

#[test]
fn an_answered_probe_keeps_it_reachable() {
    let (mut n, table) = one(None);
    n.heard(heard(A, true), &table, 0);
    assert_eq!(asks(&mut n, &table, 0, 30_010).len(), 1);
    n.heard(heard(A, true), &table, 30_010);
    assert_eq!(state(&n), State::Reachable);
    assert_eq!(asks(&mut n, &table, 30_010, 60_000), []);
}

#[test]
fn a_changed_mac_is_taken_over_at_once_and_asked_about() {
    let (mut n, table) = one(None);
    n.heard(heard(A, true), &table, 0);
    n.heard(heard(B, false), &table, 100);
    assert_eq!(table.hop(ID).mac(), B);
    assert_eq!(n.tick(&table, 100)[0].to, None, "of everybody: a liar would confirm itself");
    n.heard(heard(A, true), &table, 101);
    assert_eq!((table.hop(ID).mac(), state(&n)), (A, State::Stale), "one of the two lies");
    assert!(n.tick(&table, 200).is_empty(), "not twice in a second");
    assert_eq!(n.tick(&table, 1100)[0].to, None);
    n.heard(heard(A, true), &table, 1101);
    assert_eq!((table.hop(ID).mac(), state(&n)), (A, State::Reachable));
}

#[test]
fn only_stations_that_we_want_count() {
    let (mut n, table) = one(None);
    n.heard(ArpHeard { addr: Addr::v4([10, 0, 0, 9]), ..heard(A, true) }, &table, 0);
    n.heard(ArpHeard { port: 2, ..heard(A, true) }, &table, 0);
    n.heard(heard(Mac::BROADCAST, true), &table, 0);
    n.heard(heard(Mac([0; 6]), true), &table, 0);
    assert_eq!(state(&n), State::Incomplete);
    assert!(!table.hop(ID).is_reachable());
}

#[test]
fn a_fixed_mac_is_neither_asked_for_nor_changed() {
    let (mut n, table) = one(Some(A));
    n.heard(heard(B, true), &table, 0);
    assert_eq!(asks(&mut n, &table, 0, 100_000), []);
    assert_eq!((table.hop(ID).mac(), state(&n)), (A, State::Permanent));
}

#[test]
fn a_hop_keeps_what_is_known_while_it_is_named() {
    let (mut n, table) = one(None);
    n.heard(heard(A, true), &table, 0);
    n.follow([(ID, next_hop(None), 2)].into_iter(), &table, 10);
    assert_eq!((n.list()[0].mac, n.list()[0].servers), (Some(A), 2));
    let other = NextHop { address: IpAddr::from([10, 0, 0, 7]), ..next_hop(None) };
    n.follow([(ID, other, 1)].into_iter(), &table, 20);
    assert!(!table.hop(ID).is_reachable(), "the number means another station now");
}

#[test]
fn announcements_come_five_times_and_for_new_addresses_only() {
    let mut a = Announcer::default();
    let vip = (IpAddr::from([192, 0, 2, 1]), 0);
    a.follow([vip].into(), 0);
    let mut times = Vec::new();
    for now in 0..40_000 {
        let orders = a.tick(now);
        assert!(orders.iter().all(|o| o.sender == o.target && o.to.is_none()));
        times.extend(orders.iter().map(|_| now));
    }
    assert_eq!(times, [0, 1000, 3000, 7000, 15_000]);
    a.follow([vip].into(), 50_000);
    assert!(a.tick(50_000).is_empty());
    let second = (IpAddr::from([192, 0, 2, 2]), 1);
    a.follow([vip, second].into(), 60_000);
    assert_eq!(a.tick(60_000).len(), 1);
    a.follow([vip].into(), 60_100);
    assert!(a.tick(61_000).is_empty(), "a virtual address that is gone is not announced");
}

#[test]
fn a_claimed_address_is_defended_once_in_ten_seconds() {
    let mut a = Announcer::default();
    let vip = (IpAddr::from([192, 0, 2, 1]), 0);
    a.follow([vip].into(), 0);
    (0..40_000).for_each(|now| drop(a.tick(now)));
    let mut times = Vec::new();
    for now in 40_000..65_000 {
        a.defend(vip, now);
        a.defend((vip.0, 1), now);
        times.extend(a.tick(now).iter().map(|o| (now, o.port)));
    }
    assert_eq!(times, [(40_000, 0), (50_000, 0), (60_000, 0)]);
}

proptest! {
    /// Whatever is heard and wanted: never two questions for one hop within a second, and the table
    /// always says what the list says.
    #[test]
    fn never_more_than_one_question_a_second(
        steps in prop::collection::vec((0..5_u8, 1..900_u64), 1..300)
    ) {
        let (mut n, table) = one(None);
        let (mut now, mut last) = (0, None);
        for (what, wait) in steps {
            match what {
                0 => n.heard(heard(A, true), &table, now),
                1 => n.heard(heard(B, false), &table, now),
                2 => n.wanted(ID),
                3 => now += wait * 10,
                _ => now += wait,
            }
            for _ in n.tick(&table, now) {
                prop_assert!(last.is_none_or(|l| now - l >= ASK_MS));
                last = Some(now);
            }
            let known = n.list()[0];
            prop_assert_eq!(table.hop(ID).is_reachable(), known.mac.is_some());
            prop_assert_eq!(known.mac.unwrap_or_default(), table.hop(ID).mac());
        }
    }
}
