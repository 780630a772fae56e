//! Measured values as messages, to be read again exactly.

use knee_results::{Bucket, Kind, Metric, Sketch};
use prost::Message;

use crate::metric::Measured;
use crate::stats::Samples;

/// Values of a traffic entry or queue in one run.
#[derive(Clone, PartialEq, Message)]
pub struct StoredMeasured {
    #[prost(string, tag = "1")]
    pub subject: String,
    #[prost(string, tag = "2")]
    pub kind: String,
    #[prost(message, repeated, tag = "3")]
    pub metrics: Vec<StoredMetric>,
}

/// Values of one metric, by its name.
#[derive(Clone, PartialEq, Message)]
pub struct StoredMetric {
    #[prost(string, tag = "1")]
    pub metric: String,
    #[prost(message, optional, tag = "2")]
    pub samples: Option<StoredSamples>,
}

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

impl StoredMeasured {
    /// Returns the message of these values, without those that waited for a timer: only rows have them.
    pub fn of(measured: &Measured) -> StoredMeasured {
        let metrics = measured.values.iter().map(|(metric, samples)| StoredMetric {
            metric: metric.name().to_owned(),
            samples: Some(samples.stored()),
        });
        StoredMeasured {
            subject: measured.subject.clone(),
            kind: format!("{:?}", measured.kind),
            metrics: metrics.collect(),
        }
    }

    /// Returns the values. `None` if a name is not known here.
    pub fn measured(self) -> Option<Measured> {
        let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == self.kind)?;
        let values = self.metrics.into_iter().map(|stored| {
            let metric = Metric::by_name(&stored.metric)?;
            Some((metric, Samples::from_stored(stored.samples.unwrap_or_default())?))
        });
        Some(Measured::read_again(self.subject, kind, values.collect::<Option<_>>()?))
    }
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
