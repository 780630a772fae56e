//! A case: runs, what is taken from each, and how that is judged.

use crate::Error;
use crate::compare::{self, Line};
use crate::stats::percentile;
use knee_run::outcome::{FlowOutcome, Outcome, QueueOutcome};
use knee_run::spec::Run;
use std::collections::BTreeMap;

/// Measurements of one run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Run-level values by name; one that was not measured is absent.
    pub values: BTreeMap<&'static str, f64>,
    /// The whole outcome, for the few cases that compare series.
    pub outcome: Option<Box<Outcome>>,
}

impl Measured {
    /// Notes a value.
    pub fn set(&mut self, name: &'static str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.values.insert(name, value);
        }
    }
}

/// One value of all runs; runs without it are left out.
pub fn all(runs: &[Measured], name: &str) -> Vec<f64> {
    runs.iter().filter_map(|run| run.values.get(name).copied()).collect()
}

/// Takes what matters from a run, on the thread that made it.
pub type Measure = Box<dyn Fn(Outcome) -> Measured + Send + Sync>;
/// Judges all runs of a case, in their order.
pub type Judge = Box<dyn Fn(&[Measured]) -> Result<Vec<Line>, Error> + Send + Sync>;

/// A reference case: its runs, measurements and comparison.
pub struct Case {
    /// Table and row, e.g. `incast10/dctcp-10kB`.
    pub name: String,
    /// Runs to simulate.
    pub runs: Vec<Run>,
    /// Measurement of each run.
    pub measure: Measure,
    /// Comparison with the reference.
    pub judge: Judge,
}

/// Names of metrics, and what percentages are of at least: 1 for counters, as one event per run.
pub type Metrics = [(f64, &'static [&'static str])];

/// Compares the metrics that both sides have, run-level values of theirs with those of ours.
pub fn lines(theirs: impl Fn(&str) -> Vec<f64>, ours: &[Measured], metrics: &Metrics) -> Vec<Line> {
    let of = |(at_least, names): &(f64, &[&'static str])| {
        let line = |name: &&str| compare::values(name, &theirs(name), &all(ours, name), *at_least);
        names.iter().filter_map(line).collect::<Vec<_>>()
    };
    metrics.iter().flat_map(of).collect()
}

/// Counters of all flows, under the names of the reference tables: `rto`, `tlp`, `retrans`, and `drops`
/// of the bottleneck.
pub fn counters(measured: &mut Measured, outcome: &Outcome) {
    let sum = |count: fn(&FlowOutcome) -> Option<u64>| {
        outcome.flows.iter().map(count).sum::<Option<u64>>().map(|sum| sum as f64)
    };
    measured.set("rto", sum(|flow| flow.counters.timeouts));
    measured.set("tlp", sum(|flow| flow.counters.tail_loss_probes));
    measured.set("retrans", sum(|flow| flow.counters.retransmitted_segs));
    let lost = |queue: &QueueOutcome| (queue.dropped_pkts() + queue.lost_pkts) as f64;
    measured.set("drops", outcome.queues.first().map(lost));
}

/// Queue lengths in packets sampled in a span of time, seconds.
pub fn queue_lengths(outcome: &Outcome, from_s: f64, to_s: f64) -> Vec<f64> {
    let inside = |at: f64| at > from_s && at <= to_s;
    let samples = outcome.queue_samples.iter().filter(|sample| inside(sample.at.as_secs_f64()));
    samples.map(|sample| f64::from(sample.len_pkts)).collect()
}

/// Completion times in ms of the flows that completed.
pub fn completions_ms<'a>(flows: impl IntoIterator<Item = &'a FlowOutcome>) -> Vec<f64> {
    let times = flows.into_iter().filter_map(FlowOutcome::completion_time);
    times.map(|time| time.as_secs_f64() * 1e3).collect()
}

/// A completion above this took a tail loss probe or a timeout.
pub const SLOW_MS: f64 = 190.0;

/// The statistics of completion times within a run that the `runs_*` tables have.
pub fn completion_statistics(measured: &mut Measured, times_ms: &[f64]) {
    measured.set("fct_mean_ms", crate::stats::mean(times_ms));
    measured.set("fct_min_ms", percentile(times_ms, 0.0));
    measured.set("fct_p50_ms", percentile(times_ms, 50.0));
    measured.set("fct_max_ms", percentile(times_ms, 100.0));
    measured.set("slow", times_ms.iter().filter(|time| **time > SLOW_MS).count() as f64);
    measured.set("completed", times_ms.len() as f64);
}

/// Payload received in bits per second over the run.
pub fn goodput_mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds / 1e6
}
