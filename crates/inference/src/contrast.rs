//! One figure of two cases.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::student::{student_t, student_t_95, two_sided_p};

/// Least number of pairs whose intervals are better than those of runs. Where seeds share nothing, pairs widen an interval: by 25 % with
/// three, 17 % with four, 13 % with five. With a correlation of 0.5 they narrow it by 8, 15 and 19 %. So from five on they gain more
/// than they cost (`tests/coverage.rs` prints both).
pub const PAIRS: usize = 5;

/// Largest number of runs that [`Contrast::runs_to_tell`] asks for.
pub const MOST_RUNS: u64 = 1000;

/// Point of the normal distribution for a power of 80 %: of five such experiments, four tell.
const Z_OF_POWER: f64 = 0.841_621;

/// What is known of a figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The least that it can be.
    pub low: f64,
    /// The most that it can be. Infinite if it can be any.
    pub high: f64,
}

impl Known {
    /// Makes a figure that is known.
    pub const fn exact(value: f64) -> Known {
        Known { low: value, high: value }
    }

    /// Returns whether it is known, and not just bounded.
    pub fn is_exact(self) -> bool {
        self.low == self.high
    }
}

/// A run of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Seed of the run. Runs of two cases with the same seed are a pair.
    pub seed: u64,
    /// The figure. `None` if it was not measured.
    pub known: Option<Known>,
}

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The value. `None` where figures have bounds only.
    pub value: Option<f64>,
    /// Both ends, of which one may be infinite. `None` if nothing is known of the spread.
    pub ends: Option<(f64, f64)>,
}

impl Interval {
    /// Returns whether all of it is within `low` to `high`.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        self.ends.is_some_and(|ends| ends.0 >= low && ends.1 <= high)
    }
}

/// A case against a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// Runs whose figure counts: of the case, and of the baseline.
    pub runs: (usize, usize),
    /// Mean over these runs, or bounds of it: of the case, and of the baseline.
    pub means: (Known, Known),
    /// Whether the intervals are those of pairs.
    pub is_paired: bool,
    /// The case minus the baseline, of means over runs.
    pub difference: Interval,
    /// The case over the baseline: the typical ratio of a run. `None` unless the figure is positive in every run.
    pub ratio: Option<Interval>,
    /// Chance of such a difference, or a greater one, if there is none. It is that of the ratio if there is a ratio. `None` if nothing is known of
    /// the spread.
    pub p: Option<f64>,
    /// Whether all runs have the same difference, so that nothing in it is random.
    pub is_fixed: bool,
    /// Mean and spread that `p` and `runs_to_tell` use.
    estimate: Estimate,
    /// Whether these are of logarithms.
    is_of_logs: bool,
}

/// A mean difference, or its bounds, and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    low: f64,
    high: f64,
    /// Standard error. `None` with too few runs, or if all are the same.
    error: Option<f64>,
    degrees: f64,
}

impl Estimate {
    fn interval(self, shown: impl Fn(f64) -> f64) -> Interval {
        let ends = self.error.map(|error| {
            let half = student_t_95(self.degrees) * error;
            (shown(self.low - half), shown(self.high + half))
        });
        Interval { value: (self.low == self.high).then(|| shown(self.low)), ends }
    }

    /// Returns how far it is from zero at least.
    fn distance(self) -> f64 {
        self.low.max(-self.high).max(0.0)
    }
}

/// Returns mean and variance (n - 1) of what can be finite.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = match values.iter().all(|value| *value == values[0]) {
        true => values[0],
        false => values.iter().sum::<f64>() / n,
    };
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, if values.len() > 1 && mean.is_finite() { squares / (n - 1.0) } else { 0.0 })
}

/// Returns lower ends, upper ends, and the larger of their variances: where figures have bounds, the spread is not known better.
fn bounds(all: &[Known]) -> (f64, f64, f64) {
    let (low, of_low) = moments(&all.iter().map(|known| known.low).collect::<Vec<_>>());
    let (high, of_high) = moments(&all.iter().map(|known| known.high).collect::<Vec<_>>());
    (low, high, of_low.max(of_high))
}

fn minus(x: Known, y: Known) -> Known {
    Known { low: x.low - y.high, high: x.high - y.low }
}

/// Estimates the mean difference of pairs.
fn paired(pairs: &[(Known, Known)]) -> Estimate {
    let differences: Vec<Known> = pairs.iter().map(|(x, y)| minus(*x, *y)).collect();
    let (low, high, variance) = bounds(&differences);
    let n = pairs.len() as f64;
    Estimate { low, high, error: spread(variance / n, low, high), degrees: n - 1.0 }
}

/// Estimates the difference of two means (Welch).
fn unpaired(x: &[Known], y: &[Known]) -> Estimate {
    let (of_x, of_y) = (bounds(x), bounds(y));
    let (n, m) = (x.len() as f64, y.len() as f64);
    let (a, b) = (of_x.2 / n, of_y.2 / m);
    let (low, high) = (of_x.0 - of_y.1, of_x.1 - of_y.0);
    let of_runs = (x.len() > 1 && y.len() > 1).then_some(a + b);
    let degrees = (a + b).powi(2) / (a * a / (n - 1.0) + b * b / (m - 1.0));
    Estimate { low, high, error: of_runs.and_then(|sum| spread(sum, low, high)), degrees }
}

/// Returns a standard error. `None` if it is zero but for rounding.
fn spread(variance: f64, low: f64, high: f64) -> Option<f64> {
    let finite = [low, high].into_iter().filter(|end| end.is_finite());
    let scale = finite.fold(0.0, |most: f64, end| most.max(end.abs()));
    let error = variance.sqrt();
    (error > 1e-12 * scale).then_some(error)
}

/// Contrasts a case with a baseline.
pub fn contrast(case: &[Run], baseline: &[Run]) -> Contrast {
    let known = |runs: &[Run]| runs.iter().filter_map(|run| run.known).collect::<Vec<_>>();
    let (x, y) = (known(case), known(baseline));
    let by_seed: HashMap<u64, Known> =
        baseline.iter().filter_map(|run| Some((run.seed, run.known?))).collect();
    let pair = |run: &Run| Some((run.known?, *by_seed.get(&run.seed)?));
    let pairs: Vec<_> = case.iter().filter_map(pair).collect();
    let is_paired = pairs.len() >= PAIRS && 2 * pairs.len() >= x.len().min(y.len());
    let (x, y) = match is_paired {
        true => pairs.iter().copied().unzip(),
        false => (x, y),
    };
    let none = Known { low: f64::NEG_INFINITY, high: f64::INFINITY };
    let mean = |all: &[Known]| match all.is_empty() {
        true => none,
        false => Known { low: bounds(all).0, high: bounds(all).1 },
    };
    let means = (mean(&x), mean(&y));
    let runs = (x.len(), y.len());
    if x.is_empty() || y.is_empty() {
        let estimate = Estimate { low: none.low, high: none.high, error: None, degrees: 1.0 };
        let difference = Interval { value: None, ends: None };
        return Contrast {
            runs,
            means,
            is_paired,
            difference,
            ratio: None,
            p: None,
            is_fixed: false,
            estimate,
            is_of_logs: false,
        };
    }
    let of = |shown: fn(f64) -> f64| {
        let all = |known: &Known| Known { low: shown(known.low), high: shown(known.high) };
        match is_paired {
            true => paired(&pairs.iter().map(|(x, y)| (all(x), all(y))).collect::<Vec<_>>()),
            false => {
                let [x, y] = [&x, &y].map(|side| side.iter().map(all).collect::<Vec<_>>());
                unpaired(&x, &y)
            }
        }
    };
    let is_positive = x.iter().chain(&y).all(|known| known.low > 0.0);
    let plain = of(|value| value);
    let logs = is_positive.then(|| of(f64::ln));
    let ratio = logs.map(|logs| logs.interval(f64::exp));
    let of_logs = logs.filter(|logs| logs.error.is_some());
    let estimate = of_logs.unwrap_or(plain);
    let is_exact = plain.low == plain.high && runs.0 > 1 && runs.1 > 1;
    Contrast {
        runs,
        means,
        is_paired,
        difference: plain.interval(|value| value),
        ratio,
        p: estimate.error.map(|error| two_sided_p(estimate.distance() / error, estimate.degrees)),
        is_fixed: plain.error.is_none() && is_exact,
        estimate,
        is_of_logs: of_logs.is_some(),
    }
}

impl Contrast {
    /// Returns on which side of the baseline the case is. `None` if it is the same, or if bounds leave it open.
    pub fn side(&self) -> Option<Ordering> {
        match self.estimate {
            Estimate { low, .. } if low > 0.0 => Some(Ordering::Greater),
            Estimate { high, .. } if high < 0.0 => Some(Ordering::Less),
            _ => None,
        }
    }

    /// Returns how many runs of each case would tell, in four of five experiments: the interval at level `1 - alpha` is then on one side of
    /// zero, or within the tolerance. That is a share of the baseline, such as 0.05. `Err` with [`MOST_RUNS`] if not so many would, and `None` if the
    /// spread is not known.
    pub fn runs_to_tell(&self, alpha: f64, within: f64) -> Option<Result<u64, u64>> {
        let n = self.runs.0.min(self.runs.1) as f64;
        let tolerance = match self.is_of_logs {
            true => within.ln_1p(),
            false => within * self.means.1.low.abs(),
        };
        // The spread of one run of each, and the distance to tell: from zero, or from the tolerance.
        let spread = self.estimate.error? * n.sqrt();
        let value = self.estimate.distance();
        let open = if self.estimate.low == self.estimate.high { tolerance - value } else { 0.0 };
        let distance = value.max(open);
        let tells = |runs: u64| {
            let n = runs as f64;
            let degrees = if self.is_paired { n - 1.0 } else { 2.0 * (n - 1.0) };
            (student_t(alpha, degrees) + Z_OF_POWER) * spread / n.sqrt() <= distance
        };
        if !tells(MOST_RUNS) {
            return Some(Err(MOST_RUNS));
        }
        let (mut low, mut high) = (1, MOST_RUNS);
        while high - low > 1 {
            let middle = (low + high) / 2;
            match tells(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(Ok(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<Run> {
        let known = values.iter().zip(1..);
        known.map(|(value, seed)| Run { seed, known: Some(Known::exact(*value)) }).collect()
    }

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() < within, "{value}, not {expected}");
    }

    #[test]
    fn pairs_by_hand() {
        // Differences 1, 2, 3, 4, 5: mean 3, sd 1.5811, error 0.70711, t of four degrees 2.776: 1.963.
        let of = contrast(
            &runs(&[31.0, 34.0, 37.0, 40.0, 43.0]),
            &runs(&[30.0, 32.0, 34.0, 36.0, 38.0]),
        );
        let (low, high) = of.difference.ends.unwrap();
        assert!(of.is_paired && of.difference.value == Some(3.0));
        near(low, 1.0371, 1e-3);
        near(high, 4.9629, 1e-3);
    }

    #[test]
    fn ratios_without_a_spread_leave_the_difference_to_tell() {
        let of = contrast(
            &runs(&[11.0, 22.0, 33.0, 44.0, 55.0]),
            &runs(&[10.0, 20.0, 30.0, 40.0, 50.0]),
        );
        // t = 3 / 0.70711 = 4.243 of four degrees.
        let ratio = of.ratio.unwrap();
        near(ratio.value.unwrap(), 1.1, 1e-12);
        assert_eq!((ratio.ends, of.is_fixed), (None, false));
        near(of.p.unwrap(), 0.0132, 1e-3);
    }

    #[test]
    fn few_pairs_count_as_runs() {
        // 10, 11, 12 and 14, 16, 18: variances 1 and 4, error sqrt(5/3) = 1.29099, degrees (5/3)^2 / ((1/9 + 16/9) / 2) = 2.941:
        // t 3.217, half 4.153.
        let of = contrast(&runs(&[14.0, 16.0, 18.0]), &runs(&[10.0, 11.0, 12.0]));
        let (low, high) = of.difference.ends.unwrap();
        assert!(!of.is_paired);
        near(low, 5.0 - 4.153, 0.05);
        near(high, 5.0 + 4.153, 0.05);
        assert_eq!(of.means, (Known::exact(16.0), Known::exact(11.0)));
    }

    #[test]
    fn runs_without_a_figure_are_no_zeros() {
        let (mut x, y) = (
            runs(&[5.0, 6.0, 7.0, 5.0, 6.0, 7.0, 5.0]),
            runs(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0]),
        );
        x[2].known = None;
        let of = contrast(&x, &y);
        assert_eq!((of.runs, of.is_paired), ((6, 6), true));
        near(of.means.0.low, 34.0 / 6.0, 1e-9);
        // Without pairs each side counts what it has.
        let others: Vec<Run> = y.iter().map(|run| Run { seed: run.seed + 100, ..*run }).collect();
        assert_eq!((contrast(&x, &others).runs, contrast(&x, &others).is_paired), ((6, 7), false));
        let none = contrast(&[], &y);
        assert_eq!((none.runs, none.difference.ends, none.p), ((0, 7), None, None));
        assert_eq!(none.runs_to_tell(0.05, 0.05), None);
    }

    #[test]
    fn one_run_each_has_no_interval() {
        let of = contrast(&runs(&[2.0]), &runs(&[1.0]));
        assert_eq!((of.difference.value, of.difference.ends, of.p), (Some(1.0), None, None));
        assert!(!of.is_fixed);
    }

    #[test]
    fn what_is_the_same_in_every_run_is_not_random() {
        let of = contrast(&runs(&[0.1; 6]), &runs(&[0.3; 6]));
        assert!(of.is_fixed && of.p.is_none() && of.difference.ends.is_none());
        near(of.ratio.unwrap().value.unwrap(), 1.0 / 3.0, 1e-12);
    }

    #[test]
    fn a_zero_in_a_run_leaves_the_difference() {
        let of = contrast(&runs(&[0.0, 3.0, 4.0, 2.0, 3.0]), &runs(&[0.0, 1.0, 0.0, 1.0, 0.0]));
        assert!(of.ratio.is_none() && of.p.unwrap() < 0.05, "{of:?}");
    }

    #[test]
    fn bounds_tell_only_what_they_cannot_undo() {
        let known = runs(&[1.0, 1.1, 0.9, 1.0, 1.1, 0.9]);
        let bounded = |low: f64, high: f64| -> Vec<Run> {
            let all = known.iter().map(|run| {
                let of = run.known.unwrap().low;
                Run { known: Some(Known { low: of * low, high: of * high }), ..*run }
            });
            all.collect()
        };
        let far = contrast(&bounded(3.0, f64::INFINITY), &known);
        assert_eq!((far.difference.value, far.difference.ends.unwrap().1), (None, f64::INFINITY));
        assert!(far.ratio.unwrap().ends.is_none(), "each is three times as much at least: {far:?}");
        assert!(far.difference.ends.unwrap().0 > 1.5);
        let open = contrast(&bounded(0.5, 2.0), &runs(&[1.0, 1.0, 1.0, 1.1, 1.0, 0.9]));
        assert!(open.p.unwrap() == 1.0 && open.ratio.unwrap().ends.unwrap().0 < 0.6, "{open:?}");
    }

    #[test]
    fn the_number_of_runs_is_that_of_the_formula() {
        // Differences of mean 1 and sd 2: with n runs, (t + 0.84) * 2 / sqrt(n) <= 1 first holds at 34.
        let x = [3.0, -1.0, 3.0, -1.0, 3.0, -1.0, 1.0, 1.0];
        let of = contrast(&runs(&x), &runs(&[0.0; 8]));
        let sd = (24.0_f64 / 7.0).sqrt();
        let n = of.runs_to_tell(0.05, 0.0).unwrap().unwrap();
        let half = |n: u64| (student_t_95(n as f64 - 1.0) + Z_OF_POWER) * sd / (n as f64).sqrt();
        assert!(half(n) <= 1.001 && half(n - 1) > 0.999, "{n}: {} {}", half(n), half(n - 1));
        assert!(of.runs_to_tell(0.005, 0.0).unwrap().unwrap() > n, "a family takes more");
        let none = contrast(&runs(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]), &runs(&[0.0; 6]));
        assert_eq!(none.runs_to_tell(0.05, 0.05), Some(Err(MOST_RUNS)));
    }
}
