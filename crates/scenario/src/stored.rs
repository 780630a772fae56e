//! Measured values as messages, to be read again exactly.

use knee_results::{Kind, Metric};
use prost::Message;

use crate::metric::Measured;
use crate::stats::Samples;
use crate::stored_samples::StoredSamples;

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
