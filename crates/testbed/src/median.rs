//! Medians with confidence intervals. Measurements on a shared machine have long tails, which
//! distort a mean.

/// A median and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    pub median: f64,
    /// Lower and upper end of the 95 % confidence interval. `None` with fewer than six values,
    /// where none exists.
    pub interval: Option<(f64, f64)>,
    pub least: f64,
    pub most: f64,
}

impl Median {
    /// Computes the median of at least one value. The interval lies between order statistics and
    /// holds for any distribution. A value is below the true median with probability 1/2. The r-th
    /// value from either end is therefore beyond it with the probability of fewer than r heads in n
    /// coin tosses.
    pub fn of(values: &[f64]) -> Median {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let rank = rank_of_interval(n);
        let interval = rank.map(|rank| (sorted[rank - 1], sorted[n - rank]));
        Median { median: middle, interval, least: sorted[0], most: sorted[n - 1] }
    }
}

/// Returns the largest r for which n coin tosses give fewer than r heads in at most 2.5 % of cases.
/// `None` if even zero heads is more likely than that.
fn rank_of_interval(n: usize) -> Option<usize> {
    // Probability of exactly so many heads, and of at most so many.
    let mut exactly = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut at_most = exactly;
    let mut rank = 0;
    while at_most <= 0.025 {
        rank += 1;
        exactly *= (n + 1 - rank) as f64 / rank as f64;
        at_most += exactly;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks are those in tables of the sign test (two-sided, 5 %).
    #[test]
    fn ranks_of_the_interval_are_those_of_the_sign_test() {
        let ranks = [5, 6, 8, 9, 15, 20, 30, 40].map(rank_of_interval);
        let wanted = [None, Some(1), Some(1), Some(2), Some(4), Some(6), Some(10), Some(14)];
        assert_eq!(ranks, wanted);
    }

    #[test]
    fn a_wild_value_moves_neither_median_nor_interval() {
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        let median = Median::of(&values);
        assert_eq!((median.median, median.interval), (8.0, Some((4.0, 12.0))));
        let mut wild = values;
        wild[14] = 1e9;
        let with = Median::of(&wild);
        assert_eq!((with.median, with.interval, with.most), (8.0, median.interval, 1e9));
        assert_eq!(Median::of(&[1.0, 2.0]).median, 1.5);
    }
}
