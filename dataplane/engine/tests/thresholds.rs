//! Connection thresholds hold for the whole director, to the exact number, and never leak.

mod world_lab;

use engine::addr::L4Proto;
use engine::conn::tcp_state::ConnState;
use engine::sched::SchedulerKind;
use engine::snapshot::Timeouts;
use engine::testkit::World;
use engine::thresholds::Thresholds;
use engine::ticks::TickSpan;
use world_lab::dice::Dice;
use world_lab::packets::{Client, drain, send, slots};
use world_lab::{service, settle, world};

const SHORT: Timeouts = Timeouts { tcp: 30, tcp_fin: 5, udp: 10 };

const fn upper(upper: u32) -> Thresholds {
    Thresholds { upper, lower: 0 }
}

fn client(n: usize) -> Client {
    Client::nth(n, 80, L4Proto::Tcp)
}

/// A SYN and then an ACK of each client, all before their owners at once. Gives the slots that the
/// SYNs went to.
fn connect(w: &mut World, clients: std::ops::Range<usize>) -> Vec<u32> {
    let went = ["S", "A"].map(|flags| {
        for n in clients.clone() {
            let lcore = client(n).owner(w);
            send(w, lcore, &client(n).packet(flags, n as u64));
        }
        settle(w);
        slots(w)
    });
    let [syns, _] = went;
    syns
}

/// Living entries of a slot: all, and those in their first state.
fn entries(w: &World, slot: u32) -> (u32, u32) {
    let generation = w.servers[slot as usize].generation;
    let tables = w.sites.iter().map(|s| s.worker.table());
    let conns = tables.flat_map(|t| (0..).map_while(move |at| t.bucket(at)).flatten());
    let mine = conns.filter(|c| (c.server, c.generation) == (slot, generation));
    mine.fold((0, 0), |(all, half), c| (all + 1, half + u32::from(c.state() == ConnState::SynRecv)))
}

/// The shared word says what the tables hold, and no more than the threshold.
fn assert_exact(w: &World) {
    for (slot, server) in (0..).zip(&w.servers) {
        let to = server.thresholds;
        let told = w.sites[0].live.occupancies().read(slot);
        let (conns, half_open) = entries(w, slot);
        if !to.any() {
            continue;
        }
        let told_conns = if told.generation == server.generation { told.conns } else { 0 };
        assert_eq!(told_conns, conns, "slot {slot}: {told:?}");
        assert!(conns <= to.upper, "slot {slot}: {conns} of {}", to.upper);
        assert!(half_open <= to.half_open(), "slot {slot}: {half_open} half open, {to:?}");
    }
}

fn limited(lcores: u16, kind: SchedulerKind, limits: &[u32]) -> World {
    let mut w = world(lcores, 4_000, SHORT);
    service(&mut w, L4Proto::Tcp, kind, 80, &vec![1; limits.len()]);
    for (slot, limit) in (0..).zip(limits) {
        w.limit(slot, upper(*limit));
    }
    w.publish();
    settle(&mut w);
    w
}

#[test]
fn storms_over_eight_lcores_never_exceed_a_limit_and_leave_nothing_behind() {
    for kind in SchedulerKind::ALL.iter().copied() {
        let mut w = limited(8, kind, &[1, 7]);
        for storm in 0..12 {
            let went = connect(&mut w, storm * 40..(storm + 1) * 40);
            assert!(went.len() <= 8, "{kind:?}");
            assert_exact(&w);
        }
        // Schedulers that look for another server fill both; others keep clients on one.
        let filled = (entries(&w, 0).0, entries(&w, 1).0);
        if matches!(kind.name(), "rr" | "wrr" | "lc" | "wlc" | "sed" | "nq" | "fo") {
            assert_eq!(filled, (1, 7), "{kind:?}");
        }
        assert!(w.totals().drops.iter().sum::<u64>() + w.totals().replied > 0);
        w.now = w.now + TickSpan::from_secs(60);
        (0..2_000).for_each(|_| w.turn());
        assert_eq!((w.totals().entries, entries(&w, 0), entries(&w, 1)), (0, (0, 0), (0, 0)));
        let all = w.sites[0].live.occupancies();
        let left = [0, 1].map(|s| (all.read(s).conns, all.read(s).half_open, all.read(s).full));
        assert_eq!(left, [(0, 0, false); 2], "{kind:?}");
    }
}

#[test]
fn a_full_server_is_passed_over_and_the_last_one_refuses() {
    let mut w = limited(2, SchedulerKind::Wlc, &[1, 1]);
    let went: Vec<u32> = (0..2).flat_map(|n| connect(&mut w, n..n + 1)).collect();
    assert!(went == [0, 1] || went == [1, 0]);
    let before = w.sites.iter().map(|s| s.board.services[0].no_server.get()).sum::<u64>();
    assert_eq!(connect(&mut w, 2..3), []);
    let after = w.sites.iter().map(|s| s.board.services[0].no_server.get()).sum::<u64>();
    assert_eq!(after - before, 1, "the ACK that follows is a stray");
    // A FIN does not free the place (LVS counts inactive connections), its timeout does.
    for n in 0..2 {
        let lcore = client(n).owner(&w);
        send(&mut w, lcore, &client(n).packet("FA", 9));
    }
    settle(&mut w);
    drain(&mut w);
    assert_eq!(connect(&mut w, 3..4), []);
    w.now = w.now + TickSpan::from_secs(6);
    (0..200).for_each(|_| w.turn());
    assert_eq!(connect(&mut w, 4..5).len(), 1);
    assert_exact(&w);
}

/// Opens once the connections are fewer than the lower threshold, or than three quarters of the
/// upper one if there is none; the same on one lcore and on four.
#[test]
fn a_full_server_opens_where_lvs_opens_it() {
    for (lcores, lower, opens_at) in [(1, 0, 5), (4, 0, 5), (1, 3, 2), (4, 3, 2), (4, 8, 7)] {
        let mut w = limited(lcores, SchedulerKind::Wlc, &[8]);
        w.limit(0, Thresholds { upper: 8, lower });
        w.publish();
        settle(&mut w);
        (0..8).for_each(|n| assert_eq!(connect(&mut w, n..n + 1), [0]));
        assert_eq!(connect(&mut w, 8..9), [], "full");
        for n in 0..8 {
            // One more ends: CLOSE lasts 10 s, ESTABLISHED 30.
            let lcore = client(n).owner(&w);
            send(&mut w, lcore, &client(n).packet("R", 1));
            settle(&mut w);
            drain(&mut w);
            w.now = w.now + TickSpan::from_secs(11);
            for kept in n + 1..8 {
                let lcore = client(kept).owner(&w);
                send(&mut w, lcore, &client(kept).packet("A", 2));
            }
            (0..400).for_each(|_| w.turn());
            drain(&mut w);
            let left = entries(&w, 0).0;
            assert_eq!(left, 7 - u32::try_from(n).unwrap());
            let went = connect(&mut w, 100 + n..101 + n);
            assert_eq!(went.is_empty(), left > opens_at, "{lcores} lcores, {lower}: {left}");
            if !went.is_empty() {
                break;
            }
        }
        assert_exact(&w);
    }
}

/// What one lcore fills, the others pass over at once: nobody waits for the control thread. And a
/// place that one lcore gives back, another may take.
#[test]
fn a_limit_of_one_is_one_on_four_lcores_whoever_asks() {
    for kind in [SchedulerKind::Rr, SchedulerKind::Wlc, SchedulerKind::Sed, SchedulerKind::Sh] {
        let mut w = limited(4, kind, &[1]);
        let mut first = vec![None; 4];
        (0..200).for_each(|n| {
            first[client(n).owner(&w)].get_or_insert(n);
        });
        let clients: Vec<usize> = first.into_iter().flatten().collect();
        assert_eq!(clients.len(), 4, "one for each lcore");
        for (lcore, n) in clients.iter().enumerate() {
            send(&mut w, lcore, &client(*n).packet("S", 0));
            w.turn();
        }
        assert_eq!((slots(&mut w), entries(&w, 0)), (vec![0], (1, 1)), "{kind:?}");
        w.now = w.now + TickSpan::from_secs(61);
        (0..400).for_each(|_| w.turn());
        send(&mut w, 3, &client(clients[3]).packet("S", 1));
        w.turn();
        assert_eq!((slots(&mut w), entries(&w, 0)), (vec![0], (1, 1)), "{kind:?}");
        assert_exact(&w);
    }
}

/// A flow that has no entry stays where it is when its server becomes full: nobody sees it end.
#[test]
fn flows_without_an_entry_heed_no_threshold() {
    let mut w = limited(1, SchedulerKind::Rr, &[100]);
    w.flood_guard = 1;
    w.publish();
    settle(&mut w);
    let went = |w: &mut World, n: usize| {
        send(w, 0, &client(n).packet("S", 0));
        w.turn();
        slots(w).len()
    };
    assert_eq!((0..60).map(|n| went(&mut w, n)).sum::<usize>(), 60);
    let with_entry = entries(&w, 0).0;
    assert!(with_entry < 60);
    w.limit(0, upper(with_entry));
    w.publish();
    settle(&mut w);
    assert!(w.sites[0].live.occupancies().read(0).full);
    assert_eq!(went(&mut w, 59), 1, "a SYN again");
    assert_eq!((entries(&w, 0).0, went(&mut w, 1_000)), (with_entry, 0), "a new flow finds nobody");
    assert_exact(&w);
}

/// Datagrams of a one-packet service find a full server closed, and fill none: they have no end.
#[test]
fn one_packet_services_heed_a_threshold_and_take_no_place() {
    let mut w = world(2, 4_000, SHORT);
    service(&mut w, L4Proto::Udp, SchedulerKind::Rr, 80, &[1]);
    w.limit(0, upper(2));
    let datagrams = |w: &mut World, clients: std::ops::Range<usize>| {
        for n in clients {
            let client = Client::nth(n, 80, L4Proto::Udp);
            send(w, client.owner(w), &client.packet("", n as u64));
        }
        settle(w);
        slots(w).len()
    };
    for (one_packet, clients, went) in [(true, 0..9, 9), (false, 10..19, 2), (true, 20..29, 0)] {
        w.services[0].rules.one_packet = one_packet;
        w.publish();
        settle(&mut w);
        assert_eq!(datagrams(&mut w, clients), went, "one packet: {one_packet}");
        assert_exact(&w);
    }
    assert_eq!(entries(&w, 0).0, 2);
}

#[test]
fn half_open_connections_cannot_fill_a_server() {
    let mut w = limited(8, SchedulerKind::Rr, &[100]);
    for n in 0..400 {
        let lcore = client(n).owner(&w);
        send(&mut w, lcore, &client(n).packet("S", n as u64));
    }
    settle(&mut w);
    assert_eq!((slots(&mut w).len(), entries(&w, 0)), (75, (75, 75)));
    assert_exact(&w);
}

#[test]
fn a_limit_set_later_counts_what_is_there_and_a_purge_starts_over() {
    let mut w = limited(8, SchedulerKind::Wlc, &[0, 0]);
    connect(&mut w, 0..40);
    let (first, second) = (entries(&w, 0).0, entries(&w, 1).0);
    assert_eq!(first + second, 40);
    (0..2).for_each(|slot| w.limit(slot, upper(24)));
    w.publish();
    settle(&mut w);
    assert_exact(&w);
    connect(&mut w, 100..120);
    assert_eq!((entries(&w, 0).0, entries(&w, 1).0), (24, 24));
    // The limit goes and comes: nothing is counted twice.
    w.limit(0, upper(0));
    w.publish();
    settle(&mut w);
    assert_eq!(w.sites[0].live.occupancies().read(0).conns, 0);
    connect(&mut w, 200..210);
    w.limit(0, upper(40));
    w.publish();
    settle(&mut w);
    assert_exact(&w);
    w.purge(1);
    w.publish();
    settle(&mut w);
    // Twice: in a burst only three quarters are let in, until their handshakes are over.
    connect(&mut w, 300..330);
    connect(&mut w, 330..360);
    assert_exact(&w);
    assert_eq!(entries(&w, 1).0 + entries(&w, 0).0, 64);
}

/// Chance decides on packets, changes and time; the law holds after every step.
#[test]
fn whatever_happens_the_shared_counts_are_exact() {
    for seed in 0..9 {
        let mut dice = Dice::new(seed);
        let kinds = SchedulerKind::ALL;
        let lcores = [1, 2, 4][usize::try_from(seed % 3).unwrap()];
        let mut w = limited(lcores, *dice.pick(kinds), &[2, 5, 0, 9]);
        for step in 0..150_u64 {
            let n = dice.below(60);
            let flags = *dice.pick(&["S", "S", "S", "A", "A", "FA", "R"]);
            let lcore = dice.below(usize::from(lcores));
            send(&mut w, lcore, &client(n).packet(flags, step));
            let event = dice.below(30);
            match event {
                0 => w.purge(u32::try_from(dice.below(4)).unwrap()),
                1 | 2 => {
                    let slot = u32::try_from(dice.below(4)).unwrap();
                    // Never below what is there: a limit that is lowered ends no connection.
                    let least = entries(&w, slot).0.max(entries(&w, slot).1 * 4 / 3 + 1);
                    let to = least + 40 + u32::try_from(dice.below(8)).unwrap();
                    let limit = if dice.once_in(3) { 0 } else { to };
                    w.limit(slot, Thresholds { upper: limit, lower: limit / 2 });
                }
                3 => w.now = w.now + TickSpan::from_secs(dice.below(40) as u64),
                _ => {}
            }
            if event < 3 {
                w.publish();
            }
            settle(&mut w);
            drain(&mut w);
            assert_exact(&w);
        }
    }
}
