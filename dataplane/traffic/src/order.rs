//! All numbers below 2^k in random order, each once per round, from eight bytes of state.

/// A full-period linear congruential generator (Hull and Dobell: odd increment, multiplier 1
/// modulo 4) whose low bits, which repeat early, are mixed with its high ones.
#[derive(Clone, Debug)]
pub struct Order {
    mask: u64,
    half: u32,
    state: u64,
}

impl Order {
    /// The numbers below 2^`bits`, which is at most 32.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        assert!(bits <= 32, "an order of 2^{bits}");
        Self { mask: (1 << bits) - 1, half: bits.div_ceil(2), state: 0 }
    }

    /// The next number.
    #[inline(always)]
    pub fn draw(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x2545_f491) & self.mask;
        self.state ^ (self.state >> self.half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_per_round() {
        for bits in [0, 1, 2, 5, 10, 16] {
            let mut order = Order::new(bits);
            for _ in 0..2 {
                let mut seen = vec![false; 1 << bits];
                for _ in 0..1 << bits {
                    let n = usize::try_from(order.draw()).expect("16 bits");
                    assert!(!std::mem::replace(&mut seen[n], true), "{n} twice in 2^{bits}");
                }
            }
        }
    }

    #[test]
    fn neighbours_in_time_are_no_neighbours() {
        let mut order = Order::new(20);
        let numbers: Vec<_> = (0..1000).map(|_| order.draw()).collect();
        let near = numbers.windows(2).filter(|w| w[0].abs_diff(w[1]) < 1000).count();
        assert!(near < 20, "{near} of 1000 steps are short");
    }
}
