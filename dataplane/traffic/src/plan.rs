//! Which packet is next: flows, their lives, and who of them speaks.
//!
//! A plan has a fixed number of *slots*, the flows that are alive at once. Flow number = slot +
//! round × slots: when a slot's flow has ended, the next round begins there. So the receiver finds
//! a flow's slot without a table. Time is given in nanoseconds.

use crate::dice::{Dice, Zipf};

/// What a flow does in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Opened once, then it sends for good.
    Hits,
    /// SYN, ACK, data, FIN: so many packets in all, at least 3; then its slot has a new flow.
    Cycle(u32),
    /// One SYN and never again: a flood with spoofed sources.
    Syn,
}

/// What a packet is in the life of its flow. UDP has no flags, and all is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The first.
    Syn,
    /// The second.
    Ack,
    /// Any between.
    Data,
    /// The last.
    Fin,
}

impl Life {
    /// The role of a flow's packet number `seq`, from 0.
    #[must_use]
    #[inline]
    pub const fn role(self, seq: u32) -> Role {
        match (self, seq) {
            (_, 0) => Role::Syn,
            (_, 1) => Role::Ack,
            (Self::Cycle(count), _) if seq + 1 == count => Role::Fin,
            _ => Role::Data,
        }
    }
}

/// Who speaks next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// Any, all alike.
    Uniform,
    /// A few most of the time: Zipf's law with this exponent.
    Zipf(f64),
    /// One after the other.
    InTurn,
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flows {
    /// Flows alive at once, 1 to [`MOST_FLOWS`].
    pub count: u32,
    /// Their lives.
    pub life: Life,
    /// Who speaks.
    pub choice: Choice,
    /// Most new flows per second after the opening; 0: as they come.
    pub new_per_second: u32,
    /// Seed of all chance.
    pub seed: u64,
}

/// Most flows alive at once: their state is kept.
pub const MOST_FLOWS: u32 = 1 << 25;

/// One packet, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The flow.
    pub flow: u32,
    /// The packet's number in its flow, from 0.
    pub seq: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Rounds begun.
    rounds: u32,
    /// The next packet's number.
    seq: u32,
}

/// The flows and their state.
#[derive(Debug)]
pub struct Plan {
    flows: Flows,
    slots: Vec<Slot>,
    zipf: Option<Zipf>,
    dice: Dice,
    /// Slots that have been opened; the turn of `InTurn` after that.
    opened: u32,
    turn: u32,
    /// When the next new flow may begin, in nanoseconds.
    next_new: u64,
    begun: u64,
}

impl Plan {
    /// Nothing is open yet.
    #[must_use]
    pub fn new(flows: Flows) -> Self {
        assert!((1..=MOST_FLOWS).contains(&flows.count), "{} flows", flows.count);
        let zipf = match flows.choice {
            Choice::Zipf(exponent) => Some(Zipf::new(flows.count, exponent)),
            _ => None,
        };
        let slots = vec![Slot::default(); flows.count as usize];
        let dice = Dice::new(flows.seed);
        Self { flows, slots, zipf, dice, opened: 0, turn: 0, next_new: 0, begun: 0 }
    }

    /// Flows begun so far.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether flows are still to be opened before the load is what was asked for.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.flows.life == Life::Hits && self.opened < self.flows.count
    }

    /// The next packet, or `None`: no flow has anything to say now.
    #[inline]
    pub fn next(&mut self, now: u64) -> Option<Segment> {
        match self.flows.life {
            Life::Hits if self.is_opening() => {
                self.opened += 1;
                self.begin(self.opened - 1)
            }
            Life::Hits => {
                let slot = self.choose();
                let begins = self.flows.new_per_second > 0 && self.may_begin(now);
                if begins { self.begin(slot) } else { self.go_on(slot) }
            }
            Life::Syn => {
                let slot = self.in_turn();
                self.begin(slot)
            }
            Life::Cycle(packets) => self.cycle(packets, now),
        }
    }

    /// A chosen flow goes on, or begins where its slot is free. While none may begin, others are
    /// looked at, a few only: with all of them waiting nothing is sent.
    fn cycle(&mut self, packets: u32, now: u64) -> Option<Segment> {
        for _ in 0..16 {
            let slot = self.choose();
            let Slot { rounds, seq } = self.slots[slot as usize];
            if rounds > 0 && seq < packets {
                return self.go_on(slot);
            }
            if self.flows.new_per_second == 0 || self.may_begin(now) {
                return self.begin(slot);
            }
        }
        None
    }

    fn choose(&mut self) -> u32 {
        match (&self.zipf, self.flows.choice) {
            (Some(zipf), _) => zipf.draw(&mut self.dice),
            (None, Choice::InTurn) => self.in_turn(),
            _ => self.dice.below(self.flows.count),
        }
    }

    fn in_turn(&mut self) -> u32 {
        let slot = self.turn;
        self.turn = if slot + 1 == self.flows.count { 0 } else { slot + 1 };
        slot
    }

    /// Flow numbers end at 2^32; then nothing new begins.
    fn begin(&mut self, slot: u32) -> Option<Segment> {
        let state = &mut self.slots[slot as usize];
        let flow = state.rounds.checked_mul(self.flows.count)?.checked_add(slot)?;
        *state = Slot { rounds: state.rounds + 1, seq: 1 };
        self.begun += 1;
        Some(Segment { flow, seq: 0 })
    }

    fn go_on(&mut self, slot: u32) -> Option<Segment> {
        let state = &mut self.slots[slot as usize];
        let segment =
            Segment { flow: (state.rounds - 1) * self.flows.count + slot, seq: state.seq };
        state.seq = state.seq.wrapping_add(1).max(1);
        Some(segment)
    }

    /// Spaces new flows evenly; what was missed for more than 10 ms is not made up for.
    fn may_begin(&mut self, now: u64) -> bool {
        let gap = 1_000_000_000 / u64::from(self.flows.new_per_second);
        self.next_new = self.next_new.max(now.saturating_sub(10_000_000));
        let may = self.next_new <= now;
        self.next_new += if may { gap } else { 0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(count: u32, life: Life) -> Flows {
        Flows { count, life, choice: Choice::Uniform, new_per_second: 0, seed: 1 }
    }

    #[test]
    fn hits_open_every_flow_once_and_number_its_packets() {
        let mut plan = Plan::new(flows(50, Life::Hits));
        let mut next = vec![0; 50];
        for n in 0..5000 {
            assert_eq!(plan.is_opening(), n < 50);
            let Segment { flow, seq } = plan.next(0).expect("a packet");
            assert_eq!(seq, next[flow as usize], "flow {flow}");
            next[flow as usize] += 1;
        }
        assert!(next.iter().all(|n| *n > 50), "all alike: {next:?}");
        assert_eq!(plan.begun(), 50);
    }

    #[test]
    fn a_life_is_syn_ack_data_fin_and_then_a_new_flow() {
        let mut plan = Plan::new(flows(1, Life::Cycle(5)));
        let heard: Vec<_> = (0..10).map(|_| plan.next(0).expect("a packet")).collect();
        let roles: Vec<_> = heard.iter().map(|s| Life::Cycle(5).role(s.seq)).collect();
        let life = [Role::Syn, Role::Ack, Role::Data, Role::Data, Role::Fin];
        assert_eq!(roles, [life, life].concat());
        assert_eq!(heard.iter().map(|s| s.flow).collect::<Vec<_>>(), [[0; 5], [1; 5]].concat());
    }

    #[test]
    fn a_flood_never_repeats_a_flow() {
        let mut plan = Plan::new(flows(64, Life::Syn));
        let numbers: Vec<_> = (0..1000).map(|_| plan.next(0).expect("a packet").flow).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn new_flows_keep_their_rate() {
        let limited = Flows { new_per_second: 1000, ..flows(64, Life::Cycle(3)) };
        let mut plan = Plan::new(limited);
        // A second in microseconds, with far more room for packets than three per flow.
        let sent = (0..1_000_000).filter(|us| plan.next(us * 1000).is_some()).count();
        assert!((990..=1001).contains(&plan.begun()), "{}", plan.begun());
        assert!((2950..=3003).contains(&sent), "{sent}");
    }

    #[test]
    fn churn_replaces_flows_that_hit() {
        let churning = Flows { new_per_second: 1000, ..flows(64, Life::Hits) };
        let mut plan = Plan::new(churning);
        (0..100_000).for_each(|n| assert!(plan.next(n * 10_000).is_some()));
        assert!((1050..=1070).contains(&plan.begun()), "64 and 1000: {}", plan.begun());
    }

    #[test]
    fn numbers_end_before_they_repeat() {
        let mut plan = Plan::new(flows(MOST_FLOWS, Life::Syn));
        plan.slots[0].rounds = 128;
        assert_eq!(plan.next(0), None);
    }
}
