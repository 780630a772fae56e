//! A quantile sketch: counts of values by bucket, so that many values take as many rows as few.
//!
//! It is DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
//! guarantees", VLDB 2019) with its logarithm interpolated linearly: each power of two is cut into equal
//! buckets. Buckets need whole numbers only, so they are the same on every machine. Counts add up, so a merge gives
//! the same sketch in any order and any grouping.

use std::collections::{BTreeMap, BTreeSet};

/// Counts of whole numbers by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    counts: BTreeMap<u16, u64>,
    count: u64,
}

/// A bucket of a [`Sketch`]: at most 1/64 of its lower end wide, so its middle is off by less than 1/128 = 0.8 %. With 2^5 buckets per
/// power of two it would be 1.6 %.
pub type Bucket = knee_units::Bucket<6>;

impl Sketch {
    /// Largest relative error of a percentile.
    pub const ERROR: f64 = 0.01;

    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_many(Bucket::of(value), 1);
    }

    /// Adds values of a bucket.
    pub fn add_many(&mut self, bucket: Bucket, count: u64) {
        if count > 0 {
            let sum = self.counts.entry(bucket.number).or_default();
            *sum = sum.saturating_add(count);
            self.count = self.count.saturating_add(count);
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Sketch) {
        other.buckets().for_each(|(bucket, count)| self.add_many(bucket, count));
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the buckets that hold values, in the order of values, and their counts.
    pub fn buckets(&self) -> impl Iterator<Item = (Bucket, u64)> + '_ {
        self.counts.iter().filter_map(|(number, count)| Some((Bucket::numbered(*number)?, *count)))
    }

    /// Returns a percentile for a share from 0 to 1, within [`Sketch::ERROR`] of the value of that rank. `None` if it
    /// needs more values than there are, as the 99th percentile of fewer than 100.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        self.of_rank(self.rank(share)?).map(Bucket::middle)
    }

    /// Returns the rank of a percentile. `None` if it needs more values than there are.
    fn rank(&self, share: f64) -> Option<u64> {
        let needed = (1.0 / (1.0 - share).max(f64::MIN_POSITIVE)).round();
        if self.count == 0 || (self.count as f64) < needed {
            return None;
        }
        Some(((share * self.count as f64).ceil() as u64).clamp(1, self.count))
    }

    /// Returns the bucket of the value of a rank from 1 on. `None` beyond the last.
    fn of_rank(&self, rank: u64) -> Option<Bucket> {
        let mut sum = 0;
        for (bucket, count) in self.buckets() {
            sum = count.saturating_add(sum);
            if sum >= rank {
                return Some(bucket);
            }
        }
        None
    }

    /// Memory in bytes, about, without that of the struct.
    pub fn bytes(&self) -> usize {
        self.counts.len() * 2 * size_of::<(u16, u64)>()
    }
}

/// Values of which some were cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketched {
    /// Values that are known.
    pub finished: Sketch,
    /// Lower bounds of those that were cut off.
    pub cut_off: Sketch,
}

impl Sketched {
    /// Number of values, known or cut off.
    pub fn count(&self) -> u64 {
        self.finished.count.saturating_add(self.cut_off.count)
    }

    /// Returns the buckets that hold values, in the order of values, with the number of known ones, and of those cut off there.
    pub fn buckets(&self) -> impl Iterator<Item = (Bucket, u64, u64)> + '_ {
        let (finished, cut_off) = (&self.finished.counts, &self.cut_off.counts);
        let numbers: BTreeSet<u16> = finished.keys().chain(cut_off.keys()).copied().collect();
        let count = |counts: &BTreeMap<u16, u64>, number| counts.get(&number).copied().unwrap_or(0);
        numbers.into_iter().filter_map(move |number| {
            Some((Bucket::numbered(number)?, count(finished, number), count(cut_off, number)))
        })
    }

    /// Returns the bounds of a percentile: the least that it can be, and the most, or `None` where it can be any. They are equal
    /// if the values that were cut off cannot move it to another bucket: it is then as exact as [`Sketch::percentile`]. If not,
    /// they are the ends of buckets, so that the percentile is between them in any case.
    pub fn percentile(&self, share: f64) -> Option<(f64, Option<f64>)> {
        if self.cut_off.count == 0 {
            return self.finished.percentile(share).map(|value| (value, Some(value)));
        }
        let mut all = self.finished.clone();
        all.merge(&self.cut_off);
        let rank = all.rank(share)?;
        let (low, high) = (all.of_rank(rank)?, self.finished.of_rank(rank));
        Some(match high {
            Some(high) if high == low => (low.middle(), Some(low.middle())),
            _ => (low.from as f64, high.map(|high| high.to as f64)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        let all: Vec<Bucket> = (0..Bucket::ALL).filter_map(Bucket::numbered).collect();
        assert_eq!(all.len(), usize::from(Bucket::ALL));
        assert_eq!((all[0].from, all[all.len() - 1].to), (0, u64::MAX));
        assert_eq!(Bucket::numbered(Bucket::ALL), None);
        for pair in all.windows(2) {
            assert_eq!(pair[0].to + 1, pair[1].from);
        }
        for bucket in all {
            assert_eq!(Bucket::of(bucket.from), bucket);
            assert_eq!(Bucket::of(bucket.to), bucket);
            for value in [bucket.from, bucket.to] {
                let off = (bucket.middle() - value as f64).abs();
                assert!(off < Sketch::ERROR * value as f64 || off == 0.0, "{bucket:?}");
            }
        }
    }

    #[test]
    fn percentiles_that_values_cut_off_could_change_have_bounds() {
        let of = |values: Range<u64>| {
            let mut sketch = Sketch::default();
            values.for_each(|value| sketch.add(value));
            sketch
        };
        let some = Sketched { finished: of(1..61), cut_off: of(41..45) };
        // Ranks 32 and 61 of 64: four of 41 to 44 are behind the 32nd, wherever they end.
        assert_eq!(some.percentile(0.5), Some((32.0, Some(32.0))));
        assert_eq!(some.percentile(0.95), Some((57.0, None)));
        // Rank 52: 48 with the four before it, 52 with them behind it.
        assert_eq!(some.percentile(0.8), Some((48.0, Some(52.0))));
        assert_eq!(some.percentile(0.999), None);
        let whole = Sketched { finished: of(1..61), cut_off: Sketch::default() };
        assert_eq!(whole.percentile(0.5), Some((30.0, Some(30.0))));
        assert_eq!(some.buckets().map(|(_, count, cut_off)| count + cut_off).sum::<u64>(), 64);
    }

    #[test]
    fn bounds_of_percentiles_are_the_ends_of_buckets() {
        let of = |values: &[u64]| {
            let mut sketch = Sketch::default();
            values.iter().for_each(|value| sketch.add(*value));
            sketch
        };
        // Buckets of 8: 1000 to 1007, and 1016 to 1023.
        let (low, high) = (Bucket::of(1001), Bucket::of(1022));
        assert_eq!((low.from, low.to, high.from, high.to), (1000, 1007, 1016, 1023));
        // The median is 1001 if both stay there, and 1022 if both end behind it.
        let some = Sketched { finished: of(&[1022, 1022, 1022]), cut_off: of(&[1001, 1001]) };
        assert_eq!(some.percentile(0.4), Some((1000.0, Some(1023.0))));
        assert_eq!(some.percentile(0.9), None, "needs ten values");
        let none = Sketched { finished: Sketch::default(), cut_off: of(&[1001; 4]) };
        assert_eq!(none.percentile(0.5), Some((1000.0, None)));
        // Within one bucket they change nothing that a sketch tells apart.
        let one = Sketched { finished: of(&[1001, 1002, 1003]), cut_off: of(&[1003]) };
        assert_eq!(one.percentile(0.5), Some((1003.5, Some(1003.5))));
    }

    #[test]
    fn percentiles_that_the_values_cannot_support_are_absent() {
        let mut sketch = Sketch::default();
        assert_eq!(sketch.percentile(0.5), None);
        (1..=100).for_each(|value| sketch.add(value));
        assert_eq!(sketch.percentile(0.5), Some(50.0));
        assert_eq!(sketch.percentile(0.999), None);
    }
}
