//! Medians with what chance leaves open: measurements beside the work of others have long tails, which a mean follows.

/// The middle of some values, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    pub median: f64,
    /// Lower and upper end of its 95 % confidence interval; `None`: fewer than six values have none.
    pub interval: Option<(f64, f64)>,
    pub least: f64,
    pub most: f64,
}

impl Median {
    /// Median of at least one value. The interval lies between order statistics and holds for any distribution: a value is below
    /// the true median with probability 1/2. So the r-th value from either end lies beyond it with the probability of fewer than
    /// r heads.
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

/// The largest r for which fewer than r heads of n are shown in at most 2.5 % of cases; `None`: not even none is as rare.
fn rank_of_interval(n: usize) -> Option<usize> {
    // Probability of so many heads, and of at most so many.
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

    /// Ranks as tables of the sign test have them (two-sided, 5 %).
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
