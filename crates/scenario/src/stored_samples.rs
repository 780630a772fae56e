//! Values of a metric as messages.

use knee_results::{Bucket, Sketch};
use prost::Message;

/// Values of a metric: one by one, or the counts of a histogram.
#[derive(Clone, PartialEq, Message)]
pub struct StoredSamples {
    #[prost(uint64, repeated, tag = "1")]
    pub kept: Vec<u64>,
    /// Values of the histogram's buckets, and their counts.
    #[prost(uint64, repeated, tag = "2")]
    pub values: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub counts: Vec<u64>,
    /// Exact statistics of what the histogram holds, where it does.
    #[prost(bytes = "vec", tag = "4")]
    pub sum: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub sum_of_squares: Vec<u8>,
    #[prost(uint64, repeated, tag = "6")]
    pub range: Vec<u64>,
    /// Buckets of the sketch and their counts.
    #[prost(message, optional, tag = "7")]
    pub sketch: Option<StoredSketch>,
    #[prost(message, optional, boxed, tag = "8")]
    pub cut_off: Option<Box<StoredSamples>>,
}

/// Counts of a sketch by bucket.
#[derive(Clone, PartialEq, Message)]
pub struct StoredSketch {
    #[prost(uint32, repeated, tag = "1")]
    pub buckets: Vec<u32>,
    #[prost(uint64, repeated, tag = "2")]
    pub counts: Vec<u64>,
}

impl StoredSketch {
    pub(crate) fn of(sketch: &Sketch) -> StoredSketch {
        let (buckets, counts) =
            sketch.buckets().map(|(bucket, count)| (u32::from(bucket.number), count)).unzip();
        StoredSketch { buckets, counts }
    }

    pub(crate) fn sketch(&self) -> Option<Sketch> {
        let mut sketch = Sketch::default();
        for (number, count) in self.buckets.iter().zip(&self.counts) {
            sketch.add_many(Bucket::numbered(u16::try_from(*number).ok()?)?, *count);
        }
        Some(sketch)
    }
}
