//! Numbers that look random and are the same in every run, and the flows that they pick.

/// SplitMix64 (Steele, Lea, Flood 2014): eight bytes of state, every value once in 2^64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not zero (Lemire 2019, without the correction of a bias
    /// below `end` in 2^32).
    #[inline]
    pub const fn below(&mut self, end: u32) -> u32 {
        (((self.roll() >> 32) * end as u64) >> 32) as u32
    }

    /// A number from 0 to 1, the latter excluded.
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub const fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads every bit of `x` over all of the result.
#[inline]
#[must_use]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Ranks 0, 1, … of which rank k comes in proportion to 1 ÷ (k + 1)^s: few flows carry most of the
/// packets. By rejection-inversion (Hörmann, Derflinger 1996), which needs no table.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// `count` ranks; `exponent` is above 0, 1 is the classic.
    #[must_use]
    pub fn new(count: u32, exponent: f64) -> Self {
        assert!(count > 0 && exponent > 0.0, "Zipf of {count}, {exponent}");
        let mut zipf = Self { count: count.into(), exponent, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.area(1.5) - 1.0;
        zipf.last = zipf.area(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.area_to(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank.
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to count")]
    pub fn draw(&self, dice: &mut Dice) -> u32 {
        loop {
            let area = self.last + dice.fraction() * (self.first - self.last);
            let x = self.area_to(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.sure || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u32 - 1;
            }
        }
    }

    /// x^-s.
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the height from 1 to x: (x^(1-s) - 1) ÷ (1 - s), ln x at s = 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
    }

    /// Its inverse.
    fn area_to(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        let ratio = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (ratio * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_the_law_says() {
        for exponent in [0.5, 1.0, 1.2] {
            let (zipf, mut dice) = (Zipf::new(1000, exponent), Dice::new(7));
            let mut counts = vec![0_u32; 1000];
            (0..200_000).for_each(|_| counts[zipf.draw(&mut dice) as usize] += 1);
            let weight = |k: usize| (k as f64 + 1.0).powf(-exponent);
            let all: f64 = (0..1000).map(weight).sum();
            for k in [0, 1, 2, 9] {
                let (want, got) = (200_000.0 * weight(k) / all, f64::from(counts[k]));
                assert!((got - want).abs() < 5.0 * want.sqrt(), "s {exponent}, {k}: {got}, {want}");
            }
            assert!(counts[500..].iter().sum::<u32>() > 0, "the tail exists");
        }
    }

    #[test]
    fn one_rank_is_always_it() {
        let (zipf, mut dice) = (Zipf::new(1, 1.0), Dice::new(1));
        assert!((0..100).all(|_| zipf.draw(&mut dice) == 0));
    }

    #[test]
    fn numbers_below_stay_below_and_reach_all() {
        let mut dice = Dice::new(3);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[dice.below(7) as usize] = true);
        assert_eq!(seen, [true; 7]);
    }
}
