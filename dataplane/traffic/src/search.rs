//! Searches for a limit by trials, each of which holds or fails.

/// Halves the range between what held and what failed until they are near enough (the search of
/// RFC 2544 26.1). A trial that fails by chance costs height, never truth: the answer has held.
#[derive(Clone, Debug)]
pub struct Search {
    held: f64,
    failed: f64,
    /// Whether a trial at `held` has held.
    is_known: bool,
    near: f64,
    next: f64,
}

impl Search {
    /// Between `low` and `high`, which is tried first; ends when held and failed differ by less
    /// than the part `near` of `high`.
    #[must_use]
    pub fn new(low: f64, high: f64, near: f64) -> Self {
        assert!(0.0 < low && low <= high && near > 0.0, "{low} to {high} by {near}");
        Self { held: low, failed: high, is_known: false, near: near * high, next: high }
    }

    /// The next trial, or `None`: the search has ended.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        (self.next > 0.0).then_some(self.next)
    }

    /// What came of it.
    pub fn tell(&mut self, has_held: bool) {
        let at = self.next;
        if has_held {
            (self.held, self.is_known) = (at, true);
        } else {
            self.failed = at;
        }
        let is_over = has_held && at >= self.failed || !has_held && at <= self.held;
        let gap = self.failed - self.held;
        self.next = match (is_over, gap <= self.near) {
            (true, _) => 0.0,
            (false, true) if self.is_known => 0.0,
            (false, true) => self.held,
            (false, false) => self.held + gap / 2.0,
        };
    }

    /// The highest that held; `None`: not even the lowest did.
    #[must_use]
    pub fn answer(&self) -> Option<f64> {
        self.is_known.then_some(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device under test that takes so much, and how often it was tried.
    fn find(limit: f64) -> (Option<f64>, u32) {
        let (mut search, mut trials) = (Search::new(1000.0, 1_000_000.0, 0.01), 0);
        while let Some(load) = search.next() {
            search.tell(load <= limit);
            trials += 1;
            assert!(trials < 30, "no end");
        }
        (search.answer(), trials)
    }

    #[test]
    fn finds_the_limit_as_near_as_asked() {
        for limit in [12_345.0, 500_000.0, 777_777.0, 999_999.0] {
            let (answer, trials) = find(limit);
            let answer = answer.expect("it holds something");
            assert!(answer <= limit && limit - answer <= 10_000.0, "{answer} for {limit}");
            assert!(trials <= 9, "{trials}");
        }
    }

    #[test]
    fn the_ends_are_answers_too() {
        assert_eq!(find(2_000_000.0), (Some(1_000_000.0), 1));
        assert_eq!(find(1_500.0).0, Some(1000.0));
        assert_eq!(find(10.0).0, None);
    }
}
