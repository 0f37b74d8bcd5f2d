//! Differences of pairs, and how sure they are on a noisy machine.

/// Pairs that an upper bound needs.
pub(crate) const FEWEST: usize = 5;

/// The median of values, and the value that their distribution's median exceeds with a probability
/// of at most 5 %, whatever that distribution is: an order statistic.
///
/// # Panics
/// With fewer than [`FEWEST`] values.
pub(crate) fn median_and_bound(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (sorted[sorted.len() / 2], sorted[rank(sorted.len())])
}

/// The least `k` for which k or fewer of `n` tossed coins show heads with at least 95 %: then the
/// median lies above `sorted[k]` in at most 5 % of all cases.
fn rank(n: usize) -> usize {
    assert!(n >= FEWEST, "no bound from {n} values");
    let mut chance = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut sum = 0.0;
    for k in 0..n {
        sum += chance;
        if sum >= 0.95 {
            return k;
        }
        #[allow(clippy::cast_precision_loss, reason = "few values")]
        let step = (n - k) as f64 / (k + 1) as f64;
        chance *= step;
    }
    n - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        // At most 7 heads in 10 tosses: 0.945, 8: 0.989. At most 3 in 5: 0.81, 4: 0.969.
        assert_eq!((rank(5), rank(10), rank(20), rank(30)), (4, 8, 14, 19));
    }

    #[test]
    fn one_outlier_moves_nothing() {
        let mut values: Vec<f64> = (0..21).map(f64::from).collect();
        let (median, bound) = median_and_bound(&values);
        values[20] = 1e9;
        assert_eq!(median_and_bound(&values), (median, bound));
        assert_eq!((median, bound), (10.0, 14.0));
    }
}
