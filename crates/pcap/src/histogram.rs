//! Counts of values in buckets of a few per cent, small where there are few values.

use serde::Serialize;
use serde::ser::SerializeSeq as _;

/// At most 1/32 of its values wide.
type Range = knee_units::Bucket<5>;

/// How often which values came, and where first: exact below 64, within 3 % above. At most some thousand buckets, whatever the
/// values are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Buckets in the order of their values.
    buckets: Vec<Entry>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    bucket: u16,
    count: u32,
    first_number: u64,
}

/// Values of a histogram that are about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The smallest value that belongs here.
    pub from: u64,
    /// The largest value that belongs here.
    pub to: u64,
    pub count: u64,
    /// Number of the packet at which the first came.
    pub first_number: u64,
}

impl Histogram {
    /// Counts a value that came at a packet.
    pub fn add(&mut self, value: u64, number: u64) {
        let bucket = Range::of(value).number;
        match self.buckets.binary_search_by_key(&bucket, |entry| entry.bucket) {
            Ok(at) => self.buckets[at].count = self.buckets[at].count.saturating_add(1),
            Err(at) => self.buckets.insert(at, Entry { bucket, count: 1, first_number: number }),
        }
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest, exactly.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest, exactly.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exactly but for its fraction.
    pub fn mean(&self) -> Option<u64> {
        (self.count > 0).then(|| (self.sum / u128::from(self.count)) as u64)
    }

    /// The value that a share of all values does not exceed, within the width of a bucket; `share` from 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen >= wanted {
                let middle = bucket.from + (bucket.to - bucket.from) / 2;
                return Some(middle.clamp(self.min, self.max));
            }
        }
        self.max()
    }

    /// Each bucket that has values, in their order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets.iter().filter_map(|entry| {
            let Range { from, to, .. } = Range::numbered(entry.bucket)?;
            let (count, first_number) = (entry.count.into(), entry.first_number);
            Some(Bucket { from, to, count, first_number })
        })
    }
}

/// Serialises as a list of buckets.
impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.buckets.len()))?;
        for bucket in self.buckets() {
            list.serialize_element(&bucket)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_mean_and_ends_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        let (min, mean, median) = (histogram.min(), histogram.mean(), histogram.quantile(0.5));
        assert_eq!((min, mean, median), (None, None, None));
        (1..=1000).for_each(|value| histogram.add(value * 1000, value));
        assert_eq!((histogram.min(), histogram.max()), (Some(1000), Some(1_000_000)));
        assert_eq!((histogram.count(), histogram.mean()), (1000, Some(500_500)));
        for (share, exact) in
            [(0.5, 500_000_u64), (0.99, 990_000), (0.01, 10_000), (1.0, 1_000_000)]
        {
            let found = histogram.quantile(share).unwrap();
            assert!(found.abs_diff(exact) <= exact / 32, "{share}: {found}");
        }
        let first = histogram.buckets().find(|bucket| bucket.to >= 500_000).unwrap();
        assert_eq!(first.first_number, first.from.div_ceil(1000));
    }
}
