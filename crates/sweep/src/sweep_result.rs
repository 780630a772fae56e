//! Results of a sweep in memory: summaries, verdicts and cost.

use knee_results::Format;
use knee_results::Sketched;
use knee_run::outcome::{Validity, Work};
use knee_scenario::by_run::ByRun;
use knee_scenario::cases::Configuration;
use knee_scenario::metric::{Kind, Metric};
use knee_scenario::published::Stat;
use knee_scenario::stats::Summary;
use serde_json::{Map, Value as Json};

/// Largest number of sentences of one kind to keep. The result files have all.
pub const MOST_WARNINGS: usize = 20;

/// Result of a sweep.
#[derive(Clone, Debug)]
pub struct SweepResult {
    /// Summaries of each configuration with finished runs, in order.
    pub tables: Vec<Summaries>,
    /// Number of finished runs.
    pub runs_done: usize,
    /// How many of them an earlier process had left in the directory.
    pub runs_earlier: usize,
    /// How many of them are the same as another one, and were not carried out again.
    pub runs_same: usize,
    /// Whether it was stopped before all runs had finished.
    pub interrupted: bool,
    /// Runs that code of a file ended, one sentence each.
    pub failed: Vec<String>,
    /// Faults of algorithms from files: the first of each affected run, up to [`MOST_WARNINGS`].
    pub warnings: Vec<String>,
    /// Number of runs with such faults.
    pub runs_warned: usize,
    /// Time and work.
    pub effort: Effort,
    /// Name of the back end.
    pub back_end: &'static str,
    /// The back end's [`Capabilities::is_model`](knee_run::Capabilities::is_model).
    pub is_model: bool,
    /// The back end's description of itself.
    pub about: Map<String, Json>,
    /// Format of the tables.
    pub format: &'static dyn Format,
}

/// What became of the runs that a process carried out for a store.
#[derive(Clone, Debug)]
pub struct Filled {
    /// Number of its runs that are stored now.
    pub runs_done: usize,
    /// How many of them another process had left.
    pub runs_earlier: usize,
    /// How many of them are the same as another one, and were not carried out again.
    pub runs_same: usize,
    /// Whether it was stopped before all runs had finished.
    pub interrupted: bool,
    /// Runs that code of a file ended, one sentence each.
    pub failed: Vec<String>,
    /// Time; of the work nothing.
    pub effort: Effort,
}

/// The work of all runs, and its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Work of the simulator.
    pub work: Work,
    /// CPU time of the process during the sweep, in seconds.
    pub cpu_s: f64,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// Largest resident memory of the process so far, in bytes. `None` if the system does not report it.
    pub peak_rss_bytes: Option<u64>,
}

/// All measurements of one configuration.
#[derive(Clone, Debug)]
pub struct Summaries {
    pub configuration: Configuration,
    pub index: usize,
    /// Summaries of each traffic entry and recorded queue, over the valid runs, or over all if none is valid.
    pub subjects: Vec<Subject>,
    /// Validity by host load. `None` if no host can limit the runs.
    pub verdict: Option<Verdict>,
}

/// Number of valid runs in a configuration, and what limited the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of runs whose results depend on the host instead of algorithms and queues.
    pub limited: usize,
    pub runs: usize,
    /// Reason of the first limited run.
    pub reason: String,
}

impl Verdict {
    /// Counts a run, and notes what limited it.
    pub(crate) fn add(&mut self, run: &Validity) {
        if !run.is_valid() {
            if self.limited == 0 {
                self.reason = run.limits.join("; ");
            }
            self.limited += 1;
        }
    }

    /// Returns whether no run is valid.
    pub fn is_limited(&self) -> bool {
        self.limited == self.runs
    }
}

/// A traffic entry or queue over all runs of a configuration.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the traffic entry or link.
    pub name: String,
    pub kind: Kind,
    /// Measured metrics, in the order of [`Kind::metrics`].
    pub metrics: Vec<(Metric, Summary)>,
    /// Number of transfers or exchanges that the end of a run cut off, in all runs.
    pub unfinished: u64,
    /// Sketches of metrics with many values, over all runs, where results hold them.
    pub sketches: Vec<(Metric, Sketched)>,
    /// All values of a traffic entry's shown metrics with many values, by bucket: those of `metrics`.
    pub distributions: Vec<(Metric, Sketched)>,
    /// Figures of each run, where claims compare them.
    pub by_run: Vec<ByRun>,
}

impl Subject {
    /// Returns a figure of each run, if it is kept.
    pub fn by_run(&self, metric: Metric, stat: Stat) -> Option<&ByRun> {
        self.by_run.iter().find(|of| of.metric == metric && of.stat == stat)
    }

    /// Returns the summary of a metric, if it was measured.
    pub fn metric(&self, metric: Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(m, _)| *m == metric).map(|(_, summary)| summary)
    }
}
