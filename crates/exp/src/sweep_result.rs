//! Results of a sweep in memory: summaries, verdicts and what it cost.

use knee_run::outcome::{Validity, Work};
use serde_json::{Map, Value as Json};

use crate::cases::Configuration;
use crate::metric::{Kind, Metric};
use crate::stats::Summary;

/// As many sentences of one kind are kept; the results have all.
pub const MOST_WARNINGS: usize = 20;

/// Result of a sweep.
#[derive(Clone, Debug)]
pub struct SweepResult {
    /// One per configuration that has finished runs, in order.
    pub tables: Vec<Summaries>,
    /// Runs that finished.
    pub runs_done: usize,
    /// Whether it was stopped before all of them had.
    pub interrupted: bool,
    /// Runs that code of a file ended, each in a sentence.
    pub failed: Vec<String>,
    /// Faults of algorithms from files: the first of each affected run, up to [`MOST_WARNINGS`].
    pub warnings: Vec<String>,
    /// Runs with such.
    pub runs_warned: usize,
    /// Time and work.
    pub effort: Effort,
    /// Name of the back end.
    pub back_end: &'static str,
    /// [`Capabilities::is_model`](knee_run::Capabilities::is_model) of it.
    pub is_model: bool,
    /// Description by the back end.
    pub about: Map<String, Json>,
}

/// The work of all runs and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Work of the simulator.
    pub work: Work,
    /// CPU time of the process during the sweep.
    pub cpu_s: f64,
    /// Wall-clock time.
    pub wall_s: f64,
    /// Largest resident memory of the process so far; `None` where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
}

/// Everything measured in one configuration.
#[derive(Clone, Debug)]
pub struct Summaries {
    pub configuration: Configuration,
    pub index: usize,
    /// One per traffic entry and recorded queue: of the valid runs, or of all if none is.
    pub subjects: Vec<Subject>,
    /// Validity by host load; `None`: no host can limit it.
    pub verdict: Option<Verdict>,
}

/// How many runs of a configuration are valid, and what limited the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Runs whose results are those of the host, and not of algorithms and queues.
    pub limited: usize,
    pub runs: usize,
    /// Reason of the first limited run.
    pub reason: String,
}

impl Verdict {
    /// Counts what limited a run, if anything did.
    pub(crate) fn add(&mut self, run: &Validity) {
        if !run.is_valid() {
            if self.limited == 0 {
                self.reason = run.limits.join("; ");
            }
            self.limited += 1;
        }
    }

    /// Whether there is no valid run.
    pub fn is_limited(&self) -> bool {
        self.limited == self.runs
    }
}

/// One traffic entry or queue over all runs of a configuration.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The entry's name, or the link's.
    pub name: String,
    pub kind: Kind,
    /// Metrics that were measured, in the order of [`Kind::metrics`].
    pub metrics: Vec<(Metric, Summary)>,
    /// Transfers or exchanges that the end of a run cut off, in all runs.
    pub unfinished: u64,
}

impl Subject {
    /// The summary of a metric, if it was measured.
    pub fn metric(&self, metric: Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(m, _)| *m == metric).map(|(_, summary)| summary)
    }
}
