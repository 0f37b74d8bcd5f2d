//! What creates a connection, what does not, and what an old one does with a packet: one test per
//! row of the table in ARCHITECTURE.md, in its order, and the settings that change it.

mod world_lab;

use engine::addr::L4Proto;
use engine::mailbox::Query;
use engine::sched::SchedulerKind;
use engine::server::Orphans;
use engine::service::{Rules, StrayPolicy};
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::ticks::TickSpan;
use engine::verdict::DropReason;
use world_lab::packets::{Client, Out, drain, send, slots};
use world_lab::{service, settle, tcp_service, world};

const ROOMY: u32 = 2000;
const SECOND: TickSpan = TickSpan::from_secs(1);

fn client(n: usize) -> Client {
    Client::nth(n, 80, L4Proto::Tcp)
}

/// Two servers that take turns; the newest, slot 1, is first.
fn pair() -> World {
    let mut w = world(1, ROOMY, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Rr, 80, &[1, 1]);
    w.publish();
    settle(&mut w);
    w
}

fn pair_with(rules: Rules) -> World {
    let mut w = pair();
    w.services[0].rules = rules;
    publish(&mut w);
    w
}

fn publish(w: &mut World) {
    w.publish();
    settle(w);
}

/// One packet goes in; what comes out.
fn push(w: &mut World, client: &Client, flags: &str) -> Vec<Out> {
    send(w, 0, &client.packet(flags, 0));
    w.turn();
    drain(w).into_iter().map(|(_, out)| out).collect()
}

/// The server that one packet goes to.
fn to(w: &mut World, client: &Client, flags: &str) -> Option<u32> {
    send(w, 0, &client.packet(flags, 0));
    w.turn();
    slots(w).first().copied()
}

fn is_reset(out: &[Out]) -> bool {
    matches!(out, [Out::Reset { .. }])
}

/// All connections: state and seconds left.
fn states(w: &mut World) -> Vec<(String, u32)> {
    w.rows.clear();
    w.ended.clear();
    w.ask(0, Query { limit: u32::MAX, ..Query::default() });
    while w.ended.is_empty() {
        w.turn();
        w.look();
    }
    w.rows.iter().map(|(_, row)| (row.state.to_string(), row.expires_secs)).collect()
}

fn state(w: &mut World) -> String {
    let all = states(w);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].0.clone()
}

fn open(w: &mut World, n: usize) -> u32 {
    let first = to(w, &client(n), "S").expect("scheduled");
    assert_eq!(to(w, &client(n), "A"), Some(first));
    first
}

#[test]
fn a_syn_begins_a_connection() {
    let mut w = pair();
    assert_eq!(to(&mut w, &client(0), "S"), Some(1));
    assert_eq!(state(&mut w), "SYN_RECV");
    assert_eq!(to(&mut w, &client(0), "A"), Some(1));
    assert_eq!(state(&mut w), "ESTABLISHED");
}

#[test]
fn a_syn_again_stays_where_the_first_went() {
    let mut w = pair();
    let first = to(&mut w, &client(0), "S");
    assert_eq!(to(&mut w, &client(0), "S"), first);
    assert_eq!(w.sites[0].board.servers[1].syn_retransmits.get(), 1);
    assert_eq!(w.totals().created, 1);
}

#[test]
fn a_syn_to_an_open_connection_stays() {
    let mut w = pair();
    let first = open(&mut w, 0);
    assert_eq!(to(&mut w, &client(0), "S"), Some(first));
    assert_eq!((state(&mut w), w.totals().created), ("ESTABLISHED".into(), 1));
}

#[test]
fn a_syn_to_a_closing_connection_begins_anew() {
    for end in ["FA", "R"] {
        let mut w = pair();
        let first = open(&mut w, 0);
        to(&mut w, &client(0), end);
        let second = to(&mut w, &client(0), "S").expect("the first SYN is not lost");
        assert_ne!(second, first, "rr gives it to the next: {end}");
        assert_eq!((w.totals().created, w.totals().ended, w.totals().entries), (2, 1, 1));
    }
}

#[test]
fn a_syn_leaves_a_server_that_takes_nothing_new() {
    type Act = fn(&mut World, u32);
    let acts: [(&str, Act); 3] = [
        ("draining or down", |w, slot| w.set_eligible(slot, false)),
        ("weight 0", |w, slot| w.edit(slot, 0)),
        ("removed", |w, slot| w.remove(slot)),
    ];
    for (what, act) in acts {
        let mut w = pair();
        let first = open(&mut w, 0);
        act(&mut w, first);
        publish(&mut w);
        assert_eq!(to(&mut w, &client(0), "A"), Some(first), "the old one stays: {what}");
        assert_eq!(to(&mut w, &client(0), "S"), Some(1 - first), "{what}");
        assert_eq!(w.totals().entries, 1, "in place: {what}");
    }
}

#[test]
fn a_syn_leaves_a_server_that_is_gone() {
    for orphans in [Orphans::Reset, Orphans::Forget, Orphans::Reschedule] {
        let (mut w, first) = removed(orphans);
        assert_eq!(to(&mut w, &client(0), "S"), Some(1 - first));
        assert_eq!(w.totals().purged, 1);
    }
}

#[test]
fn a_syn_ack_is_nothing_a_client_sends() {
    for sloppy in [false, true] {
        let mut w = pair_with(Rules { sloppy, ..Rules::default() });
        assert!(push(&mut w, &client(0), "SA").is_empty());
        let drops = w.totals().drops[DropReason::SynAck as usize];
        assert_eq!((drops, w.totals().created), (1, 0));
    }
}

#[test]
fn a_syn_with_fin_or_rst_begins_nothing() {
    for flags in ["SF", "SR"] {
        let mut w = pair_with(Rules { sloppy: true, ..Rules::default() });
        assert_eq!(to(&mut w, &client(0), flags), None);
        assert_eq!(w.totals().created, 0, "{flags}");
    }
}

#[test]
fn a_stray_segment_is_answered_by_a_reset() {
    for flags in ["A", "PA", "FA"] {
        let mut w = pair();
        assert!(is_reset(&push(&mut w, &client(0), flags)), "{flags}");
        assert_eq!((w.totals().created, w.sites[0].board.services[0].stray.get()), (0, 1));
    }
}

#[test]
fn a_stray_segment_may_be_dropped() {
    let mut w = pair_with(Rules { stray: StrayPolicy::Drop, ..Rules::default() });
    assert!(push(&mut w, &client(0), "A").is_empty());
    assert_eq!(w.totals().drops[DropReason::Stray as usize], 1);
}

#[test]
fn a_sloppy_service_accepts_flows_in_their_middle() {
    for (flags, then) in [("A", "ESTABLISHED"), ("PA", "ESTABLISHED"), ("FA", "CLOSE")] {
        let mut w = pair_with(Rules { sloppy: true, ..Rules::default() });
        assert_eq!(to(&mut w, &client(0), flags), Some(1));
        assert_eq!(state(&mut w), then);
    }
}

#[test]
fn a_reset_begins_nothing_and_is_not_answered() {
    for sloppy in [false, true] {
        let mut w = pair_with(Rules { sloppy, ..Rules::default() });
        for flags in ["R", "RA"] {
            assert!(push(&mut w, &client(0), flags).is_empty(), "{flags}");
        }
        assert_eq!(w.totals().created, 0);
    }
}

#[test]
fn a_reset_closes_an_open_connection_and_not_a_half_open_one() {
    let mut w = pair();
    open(&mut w, 0);
    assert!(to(&mut w, &client(0), "R").is_some());
    assert_eq!(state(&mut w), "CLOSE");
    let mut w = pair();
    to(&mut w, &client(0), "S");
    to(&mut w, &client(0), "R");
    assert_eq!(state(&mut w), "SYN_RECV", "as in LVS's input-only table");
}

/// One open connection whose server was removed with its connections.
fn removed(orphans: Orphans) -> (World, u32) {
    let mut w = pair_with(Rules { stray: StrayPolicy::Drop, ..Rules::default() });
    let first = open(&mut w, 0);
    w.servers[first as usize].orphans = orphans;
    w.remove(first);
    w.purge(first);
    publish(&mut w);
    (w, first)
}

#[test]
fn removed_with_reset_answers_a_reset_even_where_strays_are_dropped() {
    let (mut w, _) = removed(Orphans::Reset);
    assert!(is_reset(&push(&mut w, &client(0), "A")));
    assert!(push(&mut w, &client(0), "A").is_empty(), "then it is a stray like others");
    assert_eq!((w.totals().purged, w.totals().entries), (1, 0));
}

#[test]
fn removed_with_forget_leaves_a_stray() {
    let (mut w, _) = removed(Orphans::Forget);
    assert!(push(&mut w, &client(0), "A").is_empty());
    assert_eq!(w.totals().drops[DropReason::Stray as usize], 1);
}

#[test]
fn removed_with_reschedule_moves_to_another_server() {
    let (mut w, first) = removed(Orphans::Reschedule);
    assert_eq!(to(&mut w, &client(0), "PA"), Some(1 - first));
    assert_eq!(to(&mut w, &client(0), "A"), Some(1 - first));
    assert_eq!((state(&mut w), w.totals().created), ("ESTABLISHED".into(), 2));
}

/// In one burst, the packets of several connections, each by its own server's word.
#[test]
fn what_becomes_of_orphans_is_theirs_alone() {
    let mut w = pair_with(Rules { stray: StrayPolicy::Drop, ..Rules::default() });
    let at: Vec<u32> = (0..4).map(|n| open(&mut w, n)).collect();
    assert_eq!(at, [1, 0, 1, 0]);
    w.add_server(0, (engine::addr::Addr::v4([10, 0, 0, 13]), 80), 1);
    (w.servers[0].orphans, w.servers[1].orphans) = (Orphans::Reschedule, Orphans::Reset);
    for slot in [0, 1] {
        w.remove(slot);
        w.purge(slot);
    }
    publish(&mut w);
    for n in 0..5 {
        send(&mut w, 0, &client(n).packet("A", 0));
    }
    w.turn();
    let out: Vec<Out> = drain(&mut w).into_iter().map(|(_, out)| out).collect();
    let resets = out.iter().filter(|o| matches!(o, Out::Reset { .. })).count();
    let moved = out.iter().filter(|o| matches!(o, Out::Forwarded { slot: 2, .. })).count();
    assert_eq!((resets, moved, out.len()), (2, 2, 4), "{out:?}");
    assert_eq!(w.totals().drops[DropReason::Stray as usize], 1, "the one that was never open");
}

#[test]
fn a_removed_server_that_comes_back_has_its_connections() {
    let mut w = pair();
    let first = open(&mut w, 0);
    w.remove(first);
    publish(&mut w);
    assert_eq!(to(&mut w, &client(0), "A"), Some(first));
    let at = w.servers[first as usize].at;
    assert_eq!(w.add_server(0, at, 1), first);
    publish(&mut w);
    assert_eq!(to(&mut w, &client(0), "A"), Some(first));
    assert_eq!((w.counts(first).active, w.totals().created), (1, 1));
}

#[test]
fn a_datagram_begins_a_flow() {
    let mut w = world(1, ROOMY, Timeouts::default());
    service(&mut w, L4Proto::Udp, SchedulerKind::Rr, 53, &[1, 1]);
    publish(&mut w);
    let client = Client::nth(0, 53, L4Proto::Udp);
    assert_eq!((to(&mut w, &client, ""), to(&mut w, &client, "")), (Some(1), Some(1)));
    assert_eq!((state(&mut w), w.counts(1).inactive), ("UDP".into(), 1));
}

#[test]
fn one_packet_scheduling_keeps_nothing() {
    let mut w = world(1, ROOMY, Timeouts::default());
    service(&mut w, L4Proto::Udp, SchedulerKind::Rr, 53, &[1, 1]);
    w.services[0].rules.one_packet = true;
    publish(&mut w);
    let client = Client::nth(0, 53, L4Proto::Udp);
    for n in 0..6 {
        send(&mut w, 0, &client.packet("", n));
    }
    w.turn();
    assert_eq!(slots(&mut w), [1, 0, 1, 0, 1, 0]);
    let counters = &w.sites[0].board.servers[1];
    assert_eq!((counters.conns.get(), counters.in_packets.get()), (3, 3));
    assert_eq!((w.counts(1).inactive, w.totals().created, w.totals().untracked), (0, 0, 0));
}

#[test]
fn above_the_flood_guard_flows_go_without_an_entry() {
    let mut w = pair();
    w.flood_guard = 100;
    publish(&mut w);
    w.now = w.now + SECOND;
    let mut first = Vec::new();
    for n in 0..30 {
        first.push(to(&mut w, &client(n), "S").expect("forwarded"));
    }
    let t = w.totals();
    assert_eq!((t.created, t.flood_guarded, t.untracked), (10, 20, 20), "a tenth of a second's");
    for (n, first) in first.iter().enumerate().skip(10) {
        assert_eq!(to(&mut w, &client(n), "A"), Some(*first), "the hash is one for all packets");
    }
    w.flood_guard = 0;
    publish(&mut w);
    assert!(to(&mut w, &client(99), "S").is_some());
    assert_eq!(w.totals().created, 11);
}

#[test]
fn half_open_entries_go_first_where_the_table_is_full() {
    let mut w = world(1, 64, Timeouts::default());
    tcp_service(&mut w, SchedulerKind::Rr, 80, &[1, 1]);
    publish(&mut w);
    let kept: Vec<u32> = (0..16).map(|n| open(&mut w, n)).collect();
    for n in 100..400 {
        to(&mut w, &client(n), "S");
    }
    let full = w.totals();
    assert_eq!((full.entries, full.half_open_evicted), (64, 0), "too young to go");
    w.now = w.now + TickSpan::from_secs(3);
    for n in 400..440 {
        to(&mut w, &client(n), "S");
    }
    let t = w.totals();
    assert!(t.half_open_evicted >= 20, "{t:?}");
    assert!(t.entries <= 64 && t.created - full.created == t.half_open_evicted);
    for (n, server) in kept.iter().enumerate() {
        assert_eq!(to(&mut w, &client(n), "A"), Some(*server), "open ones stay");
    }
    assert_eq!(w.totals().purged, 0);
}

#[test]
fn each_service_has_its_own_idle_times() {
    let mut w = pair();
    tcp_service(&mut w, SchedulerKind::Rr, 81, &[1]);
    let own = Timeouts { tcp: 30, ..Timeouts::default() };
    w.services[1].rules.timeouts = Some(own);
    publish(&mut w);
    open(&mut w, 0);
    let other = Client::nth(1, 81, L4Proto::Tcp);
    assert!(to(&mut w, &other, "S").is_some() && to(&mut w, &other, "A").is_some());
    let mut left: Vec<u32> = states(&mut w).into_iter().map(|(_, secs)| secs).collect();
    left.sort_unstable();
    assert_eq!(left, [30, 900]);
    // SYN_RECV armed it for 60 s; the shorter time that came with ESTABLISHED counts.
    pass(&mut w, 32);
    assert_eq!(states(&mut w).len(), 1, "30 s are over");
    pass(&mut w, 900);
    assert_eq!(states(&mut w).len(), 0, "and so are 900");
}

/// Time goes by, and the lcore turns meanwhile.
fn pass(w: &mut World, secs: u64) {
    for _ in 0..secs * 20 {
        w.now = w.now + TickSpan(50);
        w.turn();
    }
}

#[test]
fn shorter_idle_times_count_for_old_connections_too() {
    let mut w = pair();
    for n in 0..200 {
        open(&mut w, n);
    }
    pass(&mut w, 100);
    w.timeouts = Timeouts { tcp: 50, ..Timeouts::default() };
    publish(&mut w);
    pass(&mut w, 2);
    assert_eq!(w.totals().entries, 0, "idle for 100 s, and 50 are allowed");
    for n in 0..20 {
        open(&mut w, n);
    }
    w.services[0].rules.timeouts = Some(Timeouts { tcp: 10, ..Timeouts::default() });
    publish(&mut w);
    pass(&mut w, 8);
    assert_eq!(w.totals().entries, 20);
    pass(&mut w, 4);
    assert_eq!(w.totals().entries, 0, "a service's own as well");
}

#[test]
fn longer_idle_times_count_for_old_connections_too() {
    let mut w = pair();
    open(&mut w, 0);
    w.timeouts = Timeouts { tcp: 2000, ..Timeouts::default() };
    publish(&mut w);
    pass(&mut w, 1990);
    assert_eq!(w.totals().entries, 1);
    pass(&mut w, 20);
    assert_eq!(w.totals().entries, 0);
}

/// A server that gives connections up: so many and no more, each by a reset to its client's next
/// segment, and counted as inactive at once.
#[test]
fn a_thinned_server_gives_up_as_many_as_it_is_told() {
    let mut w = pair();
    let at: Vec<u32> = (0..100).map(|n| open(&mut w, n)).collect();
    w.thin(0, 1, 20);
    pass(&mut w, 2);
    assert_eq!((w.counts(1).active, w.counts(1).inactive, w.counts(0).active), (30, 20, 50));
    let mut resets = 0;
    for (n, server) in at.iter().enumerate() {
        let out = push(&mut w, &client(n), "PA");
        if is_reset(&out) {
            resets += 1;
            assert_eq!(*server, 1);
            assert!(to(&mut w, &client(n), "S").is_some(), "and may come again at once");
        } else {
            assert!(matches!(out[..], [Out::Forwarded { slot, .. }] if slot == *server));
        }
    }
    assert_eq!((resets, w.totals().given_up), (20, 20));
}
