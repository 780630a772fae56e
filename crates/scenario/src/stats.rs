//! Statistics over values and over runs.
//!
//! Values are whole numbers (nanoseconds, bits per second, packets). Sums are thus exact and do not depend on the
//! order in which runs finish. Percentiles come from a histogram with three significant digits. The smallest and the
//! largest value are exact.
//!
//! Of a value that the end of a run cut off, such as the time of an unfinished transfer, only a lower bound is known:
//! its age. Statistics that such values could change are bounds. A percentile lies between that of all values, with the
//! ages in place of those cut off, and that with them above all others. These bounds hold whatever the values turn out to
//! be: they assume nothing of the values that were cut off.

use std::borrow::Cow;

use hdrhistogram::Histogram;
pub use knee_inference::student_t_95;
use knee_inference::values_needed;
use knee_results::{Bucket, Sketch, Sketched};

use crate::stored_samples::{StoredSamples, StoredSketch};

/// Two-sided 95 % point of the normal distribution.
pub const Z_95: f64 = 1.959_964;
/// Shares of the percentiles of summaries: p50, p95, p99, p99.9.
pub(crate) const SHARES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];
/// Number of values kept one by one. With more, a histogram holds them.
const KEPT: usize = 4096;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What is known of a value, in recorded units: the least that it can be, and the most, or `None` where it can be any.
pub type Bounds = (u64, Option<u64>);

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
    /// Lower bounds of the values that the end of a run cut off. They are in none of the above.
    cut_off: Option<Box<Samples>>,
}

impl Samples {
    /// Returns none yet, of which a sketch is kept.
    pub fn sketched() -> Samples {
        Samples { sketch: Some(Box::default()), ..Samples::default() }
    }

    /// Returns the sketches, if any are kept.
    pub fn sketch(&self) -> Option<Sketched> {
        self.sketch.is_some().then(|| self.by_bucket())
    }

    /// Returns all values by bucket, whether sketches are kept or not.
    pub fn by_bucket(&self) -> Sketched {
        let cut_off = self.cut_off().map(Samples::finished_by_bucket).unwrap_or_default();
        Sketched { finished: self.finished_by_bucket(), cut_off }
    }

    fn finished_by_bucket(&self) -> Sketch {
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

    /// Adds a value that the end of the run cut off, and that is at least as large as `bound`.
    pub fn record_cut_off(&mut self, bound: u64) {
        let is_sketched = self.sketch.is_some();
        let new = || Box::new(if is_sketched { Samples::sketched() } else { Samples::default() });
        self.cut_off.get_or_insert_with(new).record(bound);
    }

    /// Returns the lower bounds of the values that were cut off. `None` without such values.
    pub fn cut_off(&self) -> Option<&Samples> {
        self.cut_off.as_deref()
    }

    /// Returns the number of values that were cut off.
    pub fn count_cut_off(&self) -> u64 {
        self.cut_off.as_ref().map_or(0, |cut_off| cut_off.count)
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
        if let Some(theirs) = &other.cut_off {
            self.cut_off.get_or_insert_default().merge(theirs);
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

    /// Returns the number of values, without those that were cut off.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values.
    pub fn total(&self) -> u128 {
        self.sum
    }

    /// Returns the mean. `None` without values, and if any was cut off.
    pub fn mean(&self) -> Option<f64> {
        self.least_mean().filter(|_| self.cut_off.is_none())
    }

    /// Returns the least that the mean can be: that with the lower bounds in place of what was cut off. `None` without
    /// values.
    pub fn least_mean(&self) -> Option<f64> {
        let cut_off = self.cut_off().map_or((0, 0), |cut_off| (cut_off.count, cut_off.sum));
        let (count, sum) = (self.count + cut_off.0, self.sum + cut_off.1);
        (count > 0).then(|| sum as f64 / count as f64)
    }

    /// Returns the standard deviation (n - 1). `None` below two values, and if any was cut off.
    pub fn sd(&self) -> Option<f64> {
        if self.count < 2 || self.cut_off.is_some() {
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

    /// Returns the smallest and the largest of the values that were not cut off.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// Returns the bounds of the smallest and of the largest value. `None` without values.
    pub(crate) fn range_bounds(&self) -> Option<[(u64, Option<u64>); 2]> {
        let least = |samples: &Samples| samples.range.map(|(min, _)| min);
        let most = |samples: &Samples| samples.range.map(|(_, max)| max);
        let cut_off = self.cut_off();
        let (min, max) = (least(self), most(self));
        let low = [min, cut_off.and_then(least)].into_iter().flatten().min()?;
        let high = [max, cut_off.and_then(most)].into_iter().flatten().max()?;
        Some([(low, min), (high, max.filter(|_| cut_off.is_none()))])
    }

    /// Returns the bounds of percentiles for shares from 0 to 1. Both ends are equal if nothing was cut off. A percentile that needs
    /// more values than there are is `None`, such as the 99th of fewer than 100.
    pub fn percentiles<const N: usize>(&self, shares: [f64; N]) -> [Option<Bounds>; N] {
        let Some([(least, _), (greatest, _)]) = self.range_bounds() else { return [None; N] };
        if self.cut_off.is_none() && self.histogram.is_none() {
            return self.percentiles_of_kept(shares);
        }
        let of_finished = (self.count > 0).then(|| self.histogram_of_all());
        let all = self.cut_off().map(|cut_off| {
            let mut all = cut_off.histogram_of_all().into_owned();
            // A histogram that resizes itself can hold any other's values.
            let _ = of_finished.as_ref().map(|finished| all.add(finished.as_ref()));
            all
        });
        let count = self.count + self.count_cut_off();
        let of_rank = |histogram: &Histogram<u64>, rank: u64| {
            histogram.value_at_quantile((rank as f64 - 0.5) / histogram.len() as f64)
        };
        shares.map(|share| {
            if (count as f64) < values_needed(share) {
                return None;
            }
            let Some(all) = &all else {
                let finished = of_finished.as_ref()?;
                let value = finished.value_at_quantile(share).clamp(least, greatest);
                return Some((value, Some(value)));
            };
            let rank = ((share * count as f64).ceil() as u64).clamp(1, count);
            let low = all.lowest_equivalent(of_rank(all, rank)).max(least);
            let high = of_finished.as_ref().filter(|_| rank <= self.count).zip(self.range);
            let high = high.map(|(finished, (_, max))| of_rank(finished, rank).min(max).max(low));
            Some((low, high))
        })
    }

    /// Returns the same of values that are kept one by one, of which there are some: as a histogram shows them, without making one.
    fn percentiles_of_kept<const N: usize>(&self, shares: [f64; N]) -> [Option<Bounds>; N] {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let (count, greatest) = (sorted.len(), sorted.last().copied().unwrap_or_default());
        shares.map(|share| {
            let rank = ((share * count as f64).ceil() as usize).clamp(1, count);
            let value = highest_of_bucket(sorted[rank - 1]).min(greatest);
            (count as f64 >= values_needed(share)).then_some((value, Some(value)))
        })
    }

    /// Returns the values as a message.
    pub(crate) fn stored(&self) -> StoredSamples {
        let recorded = self.histogram.iter().flat_map(|histogram| histogram.iter_recorded());
        let (values, counts) =
            recorded.map(|counted| (counted.value_iterated_to(), counted.count_at_value())).unzip();
        let exact = |sum: u128| {
            if self.histogram.is_some() { sum.to_le_bytes().into() } else { Vec::new() }
        };
        StoredSamples {
            kept: self.kept.clone(),
            values,
            counts,
            sum: exact(self.sum),
            sum_of_squares: exact(self.sum_of_squares),
            range: self
                .range
                .filter(|_| self.histogram.is_some())
                .map_or(Vec::new(), |(a, b)| vec![a, b]),
            sketch: self.sketch.as_deref().map(StoredSketch::of),
            cut_off: self.cut_off.as_ref().map(|cut_off| Box::new(cut_off.stored())),
        }
    }

    /// Returns the values of a message: those of which it was made. `None` if it is none of [`Samples::stored`].
    pub(crate) fn from_stored(stored: StoredSamples) -> Option<Samples> {
        let mut samples = Samples::default();
        if stored.values.is_empty() {
            stored.kept.iter().for_each(|value| samples.put(*value));
        } else {
            let exact = |bytes: Vec<u8>| Some(u128::from_le_bytes(bytes.try_into().ok()?));
            let mut histogram = histogram_of(&[]);
            for (value, count) in stored.values.iter().zip(&stored.counts) {
                histogram.record_n(*value, *count).ok()?;
            }
            samples.count = histogram.len();
            samples.histogram = Some(Box::new(histogram));
            samples.sum = exact(stored.sum)?;
            samples.sum_of_squares = exact(stored.sum_of_squares)?;
            samples.range = stored.range.first().copied().zip(stored.range.get(1).copied());
        }
        samples.sketch = match stored.sketch {
            Some(sketch) => Some(Box::new(sketch.sketch()?)),
            None => None,
        };
        samples.cut_off = match stored.cut_off {
            Some(cut_off) => Some(Box::new(Samples::from_stored(*cut_off)?)),
            None => None,
        };
        Some(samples)
    }

    /// Returns the memory of the values, bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let counts = self.histogram.as_ref().map_or(0, |histogram| histogram.distinct_values());
        (self.kept.capacity() + counts) * size_of::<u64>()
    }

    fn histogram_of_all(&self) -> Cow<'_, Histogram<u64>> {
        match &self.histogram {
            Some(histogram) => Cow::Borrowed(histogram),
            None => Cow::Owned(histogram_of(&self.kept)),
        }
    }
}

fn histogram_of(values: &[u64]) -> Histogram<u64> {
    let mut histogram =
        Histogram::new(SIGNIFICANT_DIGITS).expect("three significant digits are allowed");
    histogram.auto(true);
    values.iter().for_each(|value| put(&mut histogram, *value));
    histogram
}

/// Returns the largest value that a histogram of three significant digits does not tell from this one.
fn highest_of_bucket(value: u64) -> u64 {
    // Its buckets tell 11 binary digits.
    let untold = (u64::BITS - value.leading_zeros()).saturating_sub(11);
    value | ((1 << untold) - 1)
}

fn put(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("a histogram that resizes itself takes every value");
}

/// What is known of a statistic, in base units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Possible {
    /// The least that it can be.
    pub low: f64,
    /// The most that it can be. `None` if it can be any.
    pub high: Option<f64>,
}

impl Possible {
    /// Returns the bounds of a statistic that is known.
    pub fn exact(value: f64) -> Possible {
        Possible { low: value, high: Some(value) }
    }

    /// Returns whether both ends are the same value.
    pub fn is_exact(self) -> bool {
        self.high == Some(self.low)
    }

    /// Formats the value, `> 39.1`, or `0.49–0.51`.
    pub fn show(self, show: impl Fn(f64) -> String) -> String {
        match self.high {
            None => format!("> {}", show(self.low)),
            Some(_) if self.is_exact() => show(self.low),
            Some(high) => format!("{}–{}", show(self.low), show(high)),
        }
    }
}

/// Values of a metric that the ends of runs cut off, and bounds of the statistics that they could change. A statistic without
/// bounds here is that of the [`Summary`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutOff {
    /// Number of values that were cut off, in all runs.
    pub values: u64,
    /// Mean of the runs' means.
    pub mean: Option<Possible>,
    /// Half the width of the 95 % confidence interval of `mean`'s lower bound, from the spread over runs.
    pub mean_ci95: Option<f64>,
    /// The smallest value.
    pub min: Option<Possible>,
    /// The median.
    pub p50: Option<Possible>,
    /// The 95th percentile.
    pub p95: Option<Possible>,
    /// The 99th percentile.
    pub p99: Option<Possible>,
    /// The 99.9th percentile.
    pub p999: Option<Possible>,
    /// The largest value.
    pub max: Option<Possible>,
}

/// A metric of one configuration over all its runs, in base units (seconds, bits per second). A statistic that values cut off
/// could change is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of runs in which it was measured.
    pub runs: u64,
    /// Number of values in all runs, without those that were cut off.
    pub values: u64,
    /// What the ends of the runs cut off.
    pub cut_off: CutOff,
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
    /// Half the widths of the 95 % intervals of p50, p95, p99 and p99.9, from the spread over runs. Where a percentile has bounds, it
    /// is around either. `None` without a spread.
    pub percentile_ci95: [Option<f64>; SHARES.len()],
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
pub fn rounded(value: f64) -> f64 {
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
    fn students_t_between_whole_degrees() {
        // From tables of fractional degrees: t(4.5) = 2.660, t(9.5) = 2.244.
        let table = [
            (4.0, 2.776, 1e-9),
            (4.5, 2.660, 0.005),
            (9.5, 2.244, 0.002),
            (60.0, 2.000, 1e-3),
            (30.5, 2.041, 2e-3),
        ];
        for (degrees, expected, within) in table {
            let found = student_t_95(degrees);
            assert!((found - expected).abs() < within, "{degrees}: {found}, not {expected}");
        }
    }

    #[test]
    fn percentiles_that_the_values_cannot_support_are_absent() {
        let s = samples(1..=100);
        let exact = |value: u64| Some((value, Some(value)));
        let known = [exact(50), exact(95), exact(99), None];
        assert_eq!(s.percentiles([0.5, 0.95, 0.99, 0.999]), known);
        assert_eq!(samples([5]).percentiles([0.5]), [None]);
        assert_eq!(samples([5, 5]).percentiles([0.5, 0.95]), [exact(5), None]);
        assert_eq!(Samples::default().percentiles([0.5]), [None]);
    }

    /// Whatever values that were cut off turn out to be, the true percentile lies within its bounds.
    #[test]
    fn the_truth_lies_within_the_bounds() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut seen, mut truth) = (Samples::default(), Samples::default());
            let age = 1 + random(2_000);
            for _ in 0..20 + random(200) {
                let value = 1 + random(1_000) + random(2) * random(1_000);
                truth.record(value);
                match value > age {
                    true => seen.record_cut_off(age),
                    false => seen.record(value),
                }
            }
            let shares = [0.1, 0.5, 0.9, 0.95, 0.99];
            for (known, exact) in
                seen.percentiles(shares).into_iter().zip(truth.percentiles(shares))
            {
                let (Some((low, high)), Some((exact, _))) = (known, exact) else {
                    assert_eq!(known.is_some(), exact.is_some());
                    continue;
                };
                // Values below 2048 are exact in a histogram of three digits.
                assert!(
                    low <= exact && high.is_none_or(|high| exact <= high),
                    "{low} {exact} {high:?}"
                );
            }
            assert!(seen.least_mean() <= truth.mean());
        }
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
        near(median.map(|(low, _)| low as f64), 10_000_000.0);
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
                let exact = exact.unwrap().0 as f64;
                let shown = by_bucket.percentile(share).unwrap().0;
                assert!(
                    (shown / exact - 1.0).abs() < Sketch::ERROR,
                    "{share}: {shown}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn percentiles_of_few_values_are_those_of_a_histogram() {
        let mut state = 7_u64;
        for count in [2, 3, 20, 99, 100, 101, 1000, 4000] {
            let mut few = Samples::default();
            for _ in 0..count {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                few.record(state >> (state % 63));
            }
            let mut same = few.clone();
            same.histogram = Some(Box::new(histogram_of(&few.kept)));
            assert_eq!(few.percentiles(SHARES), same.percentiles(SHARES), "{count}");
        }
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
