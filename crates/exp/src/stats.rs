//! Statistics over values and over runs.
//!
//! Values are whole numbers (nanoseconds, bits per second, packets). Sums are thus exact and do not depend on the
//! order in which runs finish. Percentiles come from a histogram with three significant digits. The smallest and the
//! largest value are exact.

use hdrhistogram::Histogram;
use knee_results::{Bucket, Sketch};

use crate::difference::student_t_95;

/// Number of values kept one by one. With more, a histogram holds them.
const KEPT: usize = 4096;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The values of one metric.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    kept: Vec<u64>,
    histogram: Option<Box<Histogram<u64>>>,
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    range: Option<(u64, u64)>,
    /// The values as results hold them, where results hold sketches.
    sketch: Option<Box<Sketch>>,
}

impl Samples {
    /// Returns none yet, of which a sketch is kept.
    pub fn sketched() -> Samples {
        Samples { sketch: Some(Box::default()), ..Samples::default() }
    }

    /// Returns the sketch, if one is kept.
    pub fn sketch(&self) -> Option<&Sketch> {
        self.sketch.as_deref()
    }

    /// Returns all values by bucket, whether a sketch is kept or not.
    pub fn by_bucket(&self) -> Sketch {
        if let Some(kept) = &self.sketch {
            return kept.as_ref().clone();
        }
        let mut all = Sketch::default();
        self.kept.iter().for_each(|value| all.add(*value));
        for counted in self.histogram.iter().flat_map(|histogram| histogram.iter_recorded()) {
            all.add_many(Bucket::of(counted.value_iterated_to()), counted.count_at_value());
        }
        all
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        if let Some(sketch) = &mut self.sketch {
            sketch.add(value);
        }
        self.put(value);
    }

    fn put(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.sum_of_squares =
            self.sum_of_squares.saturating_add(u128::from(value) * u128::from(value));
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
        match &mut self.histogram {
            Some(histogram) => put(histogram, value),
            None => {
                self.kept.push(value);
                if self.kept.len() > KEPT {
                    self.histogram = Some(Box::new(histogram_of(&std::mem::take(&mut self.kept))));
                }
            }
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Samples) {
        if let Some(theirs) = &other.sketch {
            self.sketch.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.histogram {
            let mut ours =
                self.histogram.take().unwrap_or_else(|| Box::new(histogram_of(&self.kept)));
            self.kept.clear();
            // A histogram that resizes itself can hold any other's values.
            let _ = ours.add(theirs.as_ref());
            self.histogram = Some(ours);
            self.count += other.count;
            self.sum += other.sum;
            self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
            self.range = match (self.range, other.range) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (ours, theirs) => ours.or(theirs),
            };
        } else {
            other.kept.iter().for_each(|value| self.put(*value));
        }
    }

    /// Returns the memory of the values in bytes, without that of the struct.
    pub(crate) fn bytes(&self) -> usize {
        let counts = self.histogram.as_ref().map_or(0, |histogram| histogram.distinct_values());
        let sketch = self.sketch.as_ref().map_or(0, |sketch| sketch.bytes());
        (self.kept.capacity() + counts) * size_of::<u64>() + sketch
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values.
    pub fn total(&self) -> u128 {
        self.sum
    }

    /// Returns the mean. `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the standard deviation (n - 1). `None` below two values.
    pub fn sd(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let (n, sum) = (u128::from(self.count), self.sum);
        // n * sum of squares - square of the sum, computed exactly if it fits, else in floats.
        let spread = match n.checked_mul(self.sum_of_squares).zip(sum.checked_mul(sum)) {
            Some((a, b)) => a.saturating_sub(b) as f64,
            None => (n as f64 * self.sum_of_squares as f64 - sum as f64 * sum as f64).max(0.0),
        };
        let n = self.count as f64;
        Some((spread / (n * (n - 1.0))).sqrt())
    }

    /// Returns the smallest and the largest value.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// Returns percentiles for shares from 0 to 1. A percentile that needs more values than there are is `None`, such
    /// as the 99th of fewer than 100.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<u64>; N] {
        let Some((min, max)) = self.range else { return [None; N] };
        let made;
        let histogram = match &self.histogram {
            Some(histogram) => histogram.as_ref(),
            None => {
                made = histogram_of(&self.kept);
                &made
            }
        };
        shares.map(|share| {
            let needed = (1.0 / (1.0 - share).max(f64::MIN_POSITIVE)).round();
            (self.count as f64 >= needed)
                .then(|| histogram.value_at_quantile(share).clamp(min, max))
        })
    }
}

fn histogram_of(values: &[u64]) -> Histogram<u64> {
    let mut histogram =
        Histogram::new(SIGNIFICANT_DIGITS).expect("three significant digits are allowed");
    histogram.auto(true);
    values.iter().for_each(|value| put(&mut histogram, *value));
    histogram
}

fn put(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("a histogram that resizes itself takes every value");
}

/// A metric of one configuration over all its runs, in base units (seconds, bits per second).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of runs in which it was measured.
    pub runs: u64,
    /// Number of values in all runs.
    pub values: u64,
    /// Mean of the runs' means.
    pub mean: Option<f64>,
    /// Half the width of the 95 % confidence interval of `mean`, from the spread over runs. `None` without a spread.
    pub ci95: Option<f64>,
    /// Standard deviation of all values.
    pub sd: Option<f64>,
    /// Standard deviation of the runs' means.
    pub sd_of_runs: Option<f64>,
    /// The smallest value.
    pub min: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// A metric of a row while its runs are added one by one. It grows by a mean of 8 bytes per run, and by up to some
/// 250 kB for all values.
#[derive(Clone, Debug, Default)]
pub struct OverRuns {
    all: Samples,
    means: Vec<f64>,
}

impl OverRuns {
    /// Adds the values of a run.
    pub fn add(&mut self, run: &Samples) {
        self.all.merge(run);
        self.means.extend(run.mean());
    }

    /// Returns the sum of all values.
    pub fn total(&self) -> u128 {
        self.all.total()
    }

    /// Returns the sketch of all values, if one is kept.
    pub fn sketch(&self) -> Option<&Sketch> {
        self.all.sketch()
    }

    /// Returns all values by bucket: those of the summary's percentiles.
    pub fn by_bucket(&self) -> Sketch {
        self.all.by_bucket()
    }

    /// Returns the summary. `scale` is the number of recorded units per base unit.
    pub fn summary(&self, scale: f64) -> Summary {
        let all = &self.all;
        let over_runs = Spread::of(&self.means);
        let [p50, p95, p99, p999] = all.percentiles([0.5, 0.95, 0.99, 0.999]);
        let scaled = |value: Option<u64>| value.map(|value| value as f64 / scale);
        Summary {
            runs: self.means.len() as u64,
            values: all.count(),
            mean: over_runs.mean.map(|mean| mean / scale),
            ci95: over_runs.ci95.map(|ci95| ci95 / scale),
            sd: all.sd().map(|sd| sd / scale),
            sd_of_runs: over_runs.sd.map(|sd| sd / scale),
            min: scaled(all.range().map(|range| range.0)),
            p50: scaled(p50),
            p95: scaled(p95),
            p99: scaled(p99),
            p999: scaled(p999),
            max: scaled(all.range().map(|range| range.1)),
        }
    }
}

/// Mean and spread of a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean. `None` without numbers.
    pub mean: Option<f64>,
    /// Standard deviation (n - 1). `None` below two numbers.
    pub sd: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean (Student's t). `None` below two numbers, or if all
    /// are equal: repeats without randomness say nothing about other runs.
    pub ci95: Option<f64>,
}

impl Spread {
    /// Returns the spread of these numbers.
    pub fn of(numbers: &[f64]) -> Spread {
        let n = numbers.len() as f64;
        if numbers.is_empty() {
            return Spread::default();
        }
        let mean = numbers.iter().sum::<f64>() / n;
        if numbers.len() < 2 {
            return Spread { mean: Some(mean), ..Spread::default() };
        }
        if numbers.iter().all(|x| *x == numbers[0]) {
            return Spread { mean: Some(numbers[0]), sd: Some(0.0), ci95: None };
        }
        let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
        let sd = (squares / (n - 1.0)).sqrt();
        let ci95 = student_t_95(n - 1.0) * sd / n.sqrt();
        Spread { mean: Some(mean), sd: Some(sd), ci95: Some(ci95) }
    }
}

/// Returns Jain's fairness index, from 1/n to 1. `None` below two shares, or if all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Rounds to seven significant digits. Further digits come from the conversion, not from the run.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        values.into_iter().for_each(|value| samples.record(value));
        samples
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("there is a value");
        assert!((value - expected).abs() < 1e-3 * expected.abs().max(1.0), "{value} {expected}");
    }

    #[test]
    fn mean_and_sd_by_hand() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares around it 9+1+1+1+0+0+4+16 = 32.
        let s = samples([2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(s.mean(), Some(5.0));
        near(s.sd(), (32.0_f64 / 7.0).sqrt());
        assert_eq!(s.range(), Some((2, 9)));
        assert_eq!(samples([3]).sd(), None);
        assert_eq!(Samples::default().mean(), None);
    }

    #[test]
    fn the_confidence_interval_uses_students_t() {
        // 10 and 12: sd = sqrt 2, standard error 1, t of one degree 12.706.
        near(Spread::of(&[10.0, 12.0]).ci95, 12.706);
        // 1..5: sd = sqrt 2.5, standard error 0.7071, t of four degrees 2.776.
        near(Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).ci95, 1.963);
        assert_eq!(Spread::of(&[7.0]), Spread { mean: Some(7.0), ..Spread::default() });
        // Three times 0.1 divided by three is not exactly 0.1, but the values count as equal.
        let same = Spread { mean: Some(0.1), sd: Some(0.0), ci95: None };
        assert_eq!(Spread::of(&[0.1, 0.1, 0.1]), same);
        near(Some(student_t_95(40.0)), 2.021);
        near(Some(student_t_95(120.0)), 1.980);
    }

    #[test]
    fn percentiles_that_the_values_cannot_support_are_absent() {
        let s = samples(1..=100);
        assert_eq!(s.percentiles([0.5, 0.95, 0.99, 0.999]), [Some(50), Some(95), Some(99), None]);
        assert_eq!(samples([5]).percentiles([0.5]), [None]);
        assert_eq!(samples([5, 5]).percentiles([0.5, 0.95]), [Some(5), None]);
        assert_eq!(Samples::default().percentiles([0.5]), [None]);
    }

    #[test]
    fn many_values_give_the_same_as_few() {
        let all = samples((0..20_000).map(|i| i * 1000));
        let mut merged = samples((0..3000).map(|i| i * 1000));
        merged.merge(&samples((3000..20_000).map(|i| i * 1000)));
        assert_eq!(merged.mean(), all.mean());
        assert_eq!(merged.sd(), all.sd());
        assert_eq!(merged.percentiles([0.5, 0.99]), all.percentiles([0.5, 0.99]));
        let [median] = all.percentiles([0.5]);
        near(median.map(|x| x as f64), 10_000_000.0);
        assert_eq!(all.range(), Some((0, 19_999_000)));
    }

    #[test]
    fn buckets_have_the_percentiles_of_the_values() {
        for count in [300, 20_000] {
            let all = samples((1..=count).map(|i| i * 1000));
            let by_bucket = all.by_bucket();
            assert_eq!(by_bucket.count(), count);
            for share in [0.5, 0.95, 0.99] {
                let [exact] = all.percentiles([share]);
                let (exact, shown) = (exact.unwrap() as f64, by_bucket.percentile(share).unwrap());
                assert!(
                    (shown / exact - 1.0).abs() < Sketch::ERROR,
                    "{share}: {shown}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn the_mean_is_that_of_the_runs() {
        let (a, b) = (samples([10, 20]), samples([40]));
        let over = |runs: &[&Samples]| {
            let mut over_runs = OverRuns::default();
            runs.iter().for_each(|run| over_runs.add(run));
            over_runs.summary(10.0)
        };
        let summary = over(&[&a, &b, &Samples::default()]);
        // (1.5 + 4) / 2. A run without values does not count.
        assert_eq!((summary.runs, summary.values), (2, 3));
        near(summary.mean, 2.75);
        assert_eq!((summary.min, summary.max), (Some(1.0), Some(4.0)));
        assert_eq!(over(&[&Samples::default()]), Summary::default());
    }

    #[test]
    fn a_run_adds_no_more_than_its_mean() {
        let mut over_runs = OverRuns::default();
        let mut bytes_after = |runs: u64| {
            for run in 0..runs {
                over_runs.add(&samples((0..100).map(|i| (run * 100 + i) % 1_000_000 * 1000)));
            }
            over_runs.all.bytes() + over_runs.means.capacity() * size_of::<f64>()
        };
        let (few, many) = (bytes_after(10_000), bytes_after(10_000));
        assert!(few < 500_000, "{few}");
        assert!(many - few <= 16 * 10_000, "{few} {many}");
        assert_eq!(over_runs.summary(1.0).values, 2_000_000);
    }

    #[test]
    fn jains_index_by_hand() {
        // The DCTCP commit's CUBIC table: mean 521.684, sd 105.891 over 19 flows gives 0.9624.
        near(jain(&[1.0, 1.0, 1.0]), 1.0);
        near(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        near(jain(&[1.0, 3.0]), 16.0 / 20.0);
        assert_eq!(jain(&[1.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
