//! Model checks, under every interleaving, of how lcores agree on a client's server.
//! `RUSTFLAGS="--cfg loom" cargo test -p engine --test loom_templates --release`
#![cfg(loom)]

use std::sync::Arc;

use engine::addr::Addr;
use engine::templates::{Holder, Place, Span, Templates};
use engine::ticks::{TickSpan, Ticks};
use loom::model::Builder;
use loom::thread;

const LIFE: TickSpan = TickSpan(10_000);

fn client(n: u8) -> Holder {
    Holder { service: 1, client: Addr::v4([198, 51, 100, n]) }
}

const fn server(slot: u32) -> Place {
    Place { slot, generation: 7 }
}

const fn at(ms: u64) -> Span {
    Span { now: Ticks(ms), life: LIFE }
}

/// What an lcore does with a client's first packet: `pick` is what its scheduler would say.
fn begin(table: &Templates, holder: &Holder, span: Span, pick: u32, down: u32) -> Option<u32> {
    let serves = |place: Place| place.slot != down;
    let found = table.find(holder, span, serves);
    found.or_else(|| table.settle(holder, server(pick), span, serves)).map(|place| place.slot)
}

const NONE_DOWN: u32 = u32::MAX;

/// Runs `lcores`, each (client, when, pick, server that is down), at once on a table that `before`
/// has prepared; gives what each one got.
fn race(
    preemptions: usize,
    before: fn(&Templates),
    lcores: &'static [(u8, u64, u32, u32)],
    check: fn(&Templates, &[Option<u32>]),
) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let table = Arc::new(Templates::new(1, 5));
        before(&table);
        let run = |(n, ms, pick, down): (u8, u64, u32, u32), table: &Templates| {
            begin(table, &client(n), at(ms), pick, down)
        };
        let others: Vec<_> = lcores[1..]
            .iter()
            .map(|lcore| {
                let (lcore, table) = (*lcore, Arc::clone(&table));
                thread::spawn(move || run(lcore, &table))
            })
            .collect();
        let mut got = vec![run(lcores[0], &table)];
        got.extend(others.into_iter().map(|lcore| lcore.join().unwrap()));
        check(&table, &got);
    });
}

/// All got the same, and that is what the next connection gets.
fn all_agree(table: &Templates, got: &[Option<u32>]) {
    let next = table.find(&client(1), at(20_000), |_| true).map(|place| place.slot);
    assert!(next.is_some() && got.iter().all(|slot| *slot == next), "{got:?}, then {next:?}");
}

fn fresh(_: &Templates) {}

/// A template of client 1 for server 3 that ends at 10,112.
fn used(table: &Templates) {
    assert_eq!(begin(table, &client(1), at(0), 3, NONE_DOWN), Some(3));
}

/// The second cell is client 1's and has ended, the first one never was used.
fn second_cell_used(table: &Templates) {
    for (n, slot) in [(8, 8), (1, 3)] {
        assert_eq!(begin(table, &client(n), at(0), slot, NONE_DOWN), Some(slot));
    }
}

#[test]
fn two_lcores_agree_on_a_new_client() {
    race(3, fresh, &[(1, 20_000, 1, NONE_DOWN), (1, 20_000, 2, NONE_DOWN)], all_agree);
}

#[test]
fn three_lcores_agree_on_a_new_client() {
    let lcores = &[(1, 20_000, 1, NONE_DOWN), (1, 20_000, 2, NONE_DOWN), (1, 20_000, 3, NONE_DOWN)];
    race(2, fresh, lcores, all_agree);
}

#[test]
fn two_lcores_agree_when_a_template_has_ended() {
    race(3, used, &[(1, 20_000, 1, NONE_DOWN), (1, 20_000, 2, NONE_DOWN)], all_agree);
}

/// One lcore's clock is before the end, the other's behind it.
#[test]
fn a_template_is_renewed_or_ended_not_both() {
    race(3, used, &[(1, 10_100, 1, NONE_DOWN), (1, 10_200, 2, NONE_DOWN)], |table, got| {
        let next = table.find(&client(1), at(10_300), |_| true).map(|place| place.slot);
        assert!(next.is_some() && got == [next; 2], "{got:?}, then {next:?}");
    });
}

#[test]
fn two_lcores_agree_when_the_server_is_down() {
    race(3, used, &[(1, 5_000, 1, 3), (1, 5_000, 2, 3)], |table, got| {
        let next = table.find(&client(1), at(5_000), |_| true).map(|place| place.slot);
        assert!(next.is_some_and(|slot| slot != 3) && got == [next; 2], "{got:?}, then {next:?}");
    });
}

/// The first cell is another client's, and ends between the two lcores' clocks: one takes the first
/// cell, the other the second.
fn other_ends(table: &Templates) {
    assert_eq!(begin(table, &client(8), at(0), 8, NONE_DOWN), Some(8));
}

#[test]
fn two_lcores_agree_from_different_cells() {
    race(3, other_ends, &[(1, 10_100, 1, NONE_DOWN), (1, 10_200, 2, NONE_DOWN)], all_agree);
}

#[test]
fn three_lcores_agree_from_different_cells() {
    let lcores = &[(1, 10_100, 1, NONE_DOWN), (1, 10_100, 2, NONE_DOWN), (1, 10_200, 3, NONE_DOWN)];
    race(3, other_ends, lcores, all_agree);
}

/// Another client takes the cell that one of them would have taken: cells before and behind.
#[test]
fn other_clients_do_not_part_lcores() {
    let lcores = &[(1, 20_000, 1, NONE_DOWN), (2, 20_000, 9, NONE_DOWN), (1, 20_000, 2, NONE_DOWN)];
    race(2, second_cell_used, lcores, |table, got| {
        let next = table.find(&client(1), at(20_000), |_| true).map(|place| place.slot);
        assert!(next.is_some() && [got[0], got[2]] == [next; 2], "{got:?}, then {next:?}");
        assert_eq!(got[1], Some(9), "a client keeps its own");
    });
}

/// Two clients want the last cell: one has it, the other hears that there is none.
#[test]
fn the_last_cell_is_one_clients() {
    let before = |table: &Templates| {
        let slot = begin(table, &client(8), at(15_000), 8, NONE_DOWN);
        assert_eq!(slot, Some(8));
    };
    race(3, before, &[(1, 20_000, 1, NONE_DOWN), (2, 20_000, 2, NONE_DOWN)], |table, got| {
        assert!([[Some(1), None], [None, Some(2)]].contains(&[got[0], got[1]]), "{got:?}");
        assert_eq!(begin(table, &client(8), at(20_000), 5, NONE_DOWN), Some(8));
    });
}
