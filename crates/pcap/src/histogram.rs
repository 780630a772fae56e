//! Counts of values in buckets of a few per cent, small where there are few values.

use serde::Serialize;
use serde::ser::SerializeSeq as _;

/// Buckets per doubling, as a power of two: a bucket is at most 1/16 of its values wide.
const SUB_BITS: u32 = 4;

/// How often which values came: exact below 16, within 6 % above. At most some thousand buckets, whatever the values are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket and count, in the order of buckets.
    buckets: Vec<(u16, u32)>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

fn bucket(value: u64) -> u16 {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(SUB_BITS);
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as u16
}

fn lower_bound(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    // A bucket has its 16 to 31 sixteenths behind the shifts of those before it.
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    (bucket - (shift << SUB_BITS)) << shift
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        match self.buckets.binary_search_by_key(&bucket, |entry| entry.0) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(1),
            Err(at) => self.buckets.insert(at, (bucket, 1)),
        }
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// How many values came.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
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
        for (from, to, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return Some((from + (to - from) / 2).clamp(self.min, self.max));
            }
        }
        self.max()
    }

    /// Each bucket that has values: its smallest, the largest that it could have, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|(bucket, count)| {
            let from = lower_bound(*bucket);
            let shift = (u64::from(*bucket) >> SUB_BITS).saturating_sub(1);
            (from, from + ((1 << shift) - 1), u64::from(*count))
        })
    }
}

/// As a list of `[smallest, largest, count]`.
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
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for value in (0..100_000).chain((17..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let at = bucket(value);
            let mut one = Histogram::default();
            one.add(value);
            let (from, to, count) = one.buckets().next().unwrap();
            assert!(from <= value && value <= to && count == 1, "{value}: {from} to {to}");
            assert!(to - from <= from / 16, "{value}: {from} to {to}");
            assert!(value >= 100_000 || at == last || at == last + 1 || value == 0, "{value}");
            last = at;
        }
        let (from, to, _) = {
            let mut one = Histogram::default();
            one.add(u64::MAX);
            one.buckets().next().unwrap()
        };
        assert!(from < to && to == u64::MAX);
    }

    #[test]
    fn quantiles_mean_and_ends_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(
            (histogram.min(), histogram.mean(), histogram.quantile(0.5)),
            (None, None, None)
        );
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        assert_eq!((histogram.min(), histogram.max()), (Some(1000), Some(1_000_000)));
        assert_eq!((histogram.count(), histogram.mean()), (1000, Some(500_500)));
        for (share, exact) in [(0.5, 500_000_u64), (0.99, 990_000), (0.01, 10_000)] {
            let found = histogram.quantile(share).unwrap();
            assert!(found.abs_diff(exact) <= exact / 16, "{share}: {found}");
        }
        assert_eq!(
            histogram.quantile(1.0),
            Some(983_040 + (1 << 15) / 2 - 1).map(|at: u64| at.min(1_000_000))
        );
    }
}
