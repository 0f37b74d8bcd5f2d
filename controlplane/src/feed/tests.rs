//! The feed of loads, against the sum that it must be: what lcores are told is exact.

use engine::live::LoadView;
use engine::server::Orphans;
use proptest::prelude::*;

use super::*;
use crate::slots::Use;

const SLOTS: usize = 20;

struct Rig {
    boards: Vec<Arc<LcoreBoard>>,
    lives: Vec<Arc<LiveView>>,
    feeder: Feeder,
    slots: Vec<Slot>,
    version: u64,
}

impl Rig {
    fn new(lcores: usize) -> Self {
        let boards: Vec<_> = (0..lcores).map(|_| Arc::new(LcoreBoard::new(SLOTS, 1))).collect();
        let lives: Vec<_> = (0..lcores).map(|_| Arc::new(LiveView::new(SLOTS))).collect();
        let feeder = Feeder::new(boards.iter().cloned().zip(lives.iter().cloned()));
        let (usage, orphans) = (Use::Member, Orphans::default());
        let slot = Slot { generation: 0, service: 0, spec: None, usage, orphans };
        Self { boards, lives, feeder, slots: vec![slot; SLOTS], version: 0 }
    }

    fn count(&self, lcore: usize, slot: u32, active: i32, inactive: i32) {
        let generation = self.slots[slot as usize].generation;
        self.boards[lcore].change(slot, generation, generation, active, inactive);
    }

    fn tick(&mut self) {
        self.feeder.tick(self.version, &self.slots);
    }

    fn view(&self, lcore: usize) -> LoadView<'_> {
        LoadView::new(&self.lives[lcore], &self.boards[lcore])
    }

    fn others(&self, lcore: usize, slot: u32) -> (u32, u32) {
        let (counts, _) = self.view(lcore).others(slot);
        (counts.active, counts.inactive)
    }

    /// The obvious: every board read anew.
    fn expected(&self, lcore: usize, slot: u32) -> (u32, u32) {
        let s = &self.slots[slot as usize];
        let others = (0..self.boards.len()).filter(|other| *other != lcore);
        let counts = others.map(|o| self.boards[o].servers[slot as usize].counts(s.generation));
        counts.fold((0, 0), |sum, c| (sum.0 + c.active, sum.1 + c.inactive))
    }

    fn assert_exact(&self) {
        for lcore in 0..self.boards.len() {
            for slot in (0..).take(SLOTS).filter(|s| self.slots[*s as usize].resolves()) {
                assert_eq!(
                    self.others(lcore, slot),
                    self.expected(lcore, slot),
                    "lcore {lcore} about slot {slot}"
                );
            }
        }
    }
}

#[test]
fn views_are_published_only_when_something_changed() {
    let mut rig = Rig::new(2);
    rig.tick();
    let before = [0, 1].map(|i| rig.view(i).version(false));
    rig.tick();
    assert_eq!([0, 1].map(|i| rig.view(i).version(false)), before, "nothing has changed");
    rig.count(1, 7, 1, 0);
    rig.tick();
    assert_eq!((rig.others(0, 7), rig.others(1, 7)), ((1, 0), (0, 0)));
    let moved = [0, 1].map(|i| rig.view(i).version(false));
    assert_eq!(moved, before.map(|v| v + 1), "who changed it is to stop guessing, too");
    rig.count(1, 7, 1, 0);
    rig.count(1, 7, -1, 0);
    rig.tick();
    assert_eq!([0, 1].map(|i| rig.view(i).version(false)), moved, "it is what it was");
}

#[test]
fn more_changes_than_a_log_holds_are_all_seen() {
    let mut rig = Rig::new(3);
    rig.tick();
    // Far more than the log of 20 slots has places.
    for round in 0..10_u32 {
        (0..).take(SLOTS).for_each(|slot| rig.count(2, (slot * 7 + round) % 20, 1, 1));
    }
    rig.tick();
    rig.assert_exact();
    assert_eq!(rig.others(0, 19), (10, 10));
}

#[test]
fn one_lcore_is_told_nothing() {
    let mut rig = Rig::new(1);
    rig.count(0, 3, 5, 0);
    rig.tick();
    assert_eq!((rig.others(0, 3), rig.view(0).version(false)), ((0, 0), 1));
}

#[derive(Clone, Debug)]
enum Step {
    Begin(usize, u32),
    Close(usize, u32),
    Renew(u32),
    Empty(u32),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || (0..3_usize, 0..u32::try_from(SLOTS).unwrap());
    prop_oneof![
        8 => at().prop_map(|(lcore, slot)| Step::Begin(lcore, slot)),
        4 => at().prop_map(|(lcore, slot)| Step::Close(lcore, slot)),
        1 => at().prop_map(|(_, slot)| Step::Renew(slot)),
        1 => at().prop_map(|(_, slot)| Step::Empty(slot)),
        2 => Just(Step::Tick),
    ]
}

proptest! {
    /// After every tick each view holds what reading all boards gives, whatever began, closed, was
    /// purged or came back.
    #[test]
    fn views_hold_what_the_boards_say(steps in prop::collection::vec(step(), 1..200)) {
        let mut rig = Rig::new(3);
        for step in steps {
            match step {
                Step::Begin(lcore, slot) => rig.count(lcore, slot, 1, 0),
                Step::Close(lcore, slot) => {
                    let s = &rig.slots[slot as usize];
                    let held = rig.boards[lcore].servers[slot as usize].counts(s.generation);
                    if held.active > 0 {
                        rig.count(lcore, slot, -1, 1);
                    }
                }
                Step::Renew(slot) => {
                    let s = &mut rig.slots[slot as usize];
                    (s.generation, s.usage) = (s.generation + 1, Use::Member);
                    rig.version += 1;
                }
                Step::Empty(slot) => {
                    let s = &mut rig.slots[slot as usize];
                    (s.generation, s.usage) = (s.generation + 1, Use::Emptied { since: 0 });
                    rig.version += 1;
                }
                Step::Tick => {
                    rig.tick();
                    rig.assert_exact();
                }
            }
        }
        rig.tick();
        rig.assert_exact();
    }
}
