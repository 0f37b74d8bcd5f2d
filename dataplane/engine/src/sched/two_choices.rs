//! The power of two choices: of two servers drawn at random by weight, the less loaded wins.
//! (Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12(10), 2001.)

use super::{Arrival, Cursor, SchedFlags, Schedule};
use crate::live::LoadView;
use crate::pace::Offer;
use crate::pool::Pool;

/// Has nothing to compute beforehand.
#[derive(Clone, Copy, Debug)]
pub struct TwoChoices;

impl Schedule for TwoChoices {
    fn build(_: &Pool, _: SchedFlags) -> Self {
        Self
    }

    #[inline]
    fn pick(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
    ) -> Option<usize> {
        let weights = pool.servers.iter().map(|s| u64::from(load.weight(s.slot)));
        let total = weights.clone().sum();
        let [first, second] = [0; 2].map(|_| {
            let mut ticket = random(cursor, arrival.who.lcore, total);
            let hit = |weight: u64| {
                let hit = ticket < weight;
                ticket = ticket.saturating_sub(weight);
                hit
            };
            // Weights may fall while they are looked at; then anybody eligible will do.
            let at =
                weights.clone().position(hit).or_else(|| weights.clone().position(|w| w > 0))?;
            Some((at, pool.servers[at].slot))
        });
        let ((first, slot), (second, other)) = (first?, second?);
        Some(if load.compare(slot, other).is_gt() { second } else { first })
    }

    /// One of two: its turns come by its weight, and the other is the less loaded of two.
    fn offer(
        &self,
        pool: &Pool,
        arrival: Arrival<'_>,
        cursor: &mut Cursor,
        load: LoadView<'_>,
        offer: Offer,
    ) -> bool {
        let quotient = |slot| (load.overhead(slot), load.nominal_weight(slot));
        let rival = self.pick(pool, arrival, cursor, load);
        rival.is_none_or(|at| offer.is_least(quotient(offer.slot), quotient(pool.servers[at].slot)))
    }
}

/// A random number below `end`, of this lcore's own sequence.
#[allow(clippy::cast_possible_truncation, reason = "below `end`")]
fn random(cursor: &mut Cursor, lcore: u16, end: u64) -> u64 {
    // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014); lcores start 2^48 steps apart.
    cursor.seq = cursor.seq.wrapping_add(1);
    let step = cursor.seq.wrapping_add(u64::from(lcore) << 48);
    let mut z = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * u128::from(end)) >> 64) as u64
}
