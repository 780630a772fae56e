//! Sweeps: all runs of an experiment, and their combined statistics.
//!
//! A run's rows are kept until they are written. Each metric of a run is added to its row of the summary.

use std::sync::Arc;
use std::time::Instant;

use knee_file::Origin;
use knee_run::BackEnd;
use knee_run::outcome::{Outcome, Validity, Work};
use knee_scenario::cases::{Configuration, RunId};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Measured, Metric};
use knee_scenario::stats::OverRuns;
use serde_json::{Map, Value as Json};

use crate::csv::{self, Rows};
use crate::machine;
use crate::results::Results;
use crate::runs::{Done, ExtraFiles, Options, begin};
use crate::sweep_result::{Effort, MOST_WARNINGS, Subject, Summaries, SweepResult, Verdict};

/// A finished run, evaluated by the thread that ran it.
struct Record {
    id: RunId,
    measured: Vec<Measured>,
    validity: Option<Validity>,
    rows: Rows,
    work: Work,
    /// First fault of an algorithm from a file, and the number of connections with faults.
    warning: Option<String>,
    /// Name of its flight recording.
    recording: Option<String>,
    /// Whether it has captures.
    is_captured: bool,
}

impl Record {
    fn of(experiment: &Experiment, run: Done) -> Record {
        let measured = run.measure();
        let done = csv::Done {
            ran: &run.ran,
            attempts: run.attempts,
            measured: &measured,
            budget: &run.budget,
        };
        let rows = csv::rows(experiment, &run.scenario, run.id, &run.run, &done);
        Record {
            id: run.id,
            measured,
            validity: run.ran.validity,
            rows,
            work: run.ran.outcome.work,
            warning: warning(experiment, run.id, &run.ran.outcome),
            recording: run.recording,
            is_captured: run.is_captured,
        }
    }

    /// Returns its memory while it waits, in bytes.
    fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(|(_, rows)| rows.len()).sum();
        rows + self.measured.iter().map(Measured::bytes).sum::<usize>()
    }
}

/// Returns a warning about faults of algorithms from files in a run.
fn warning(experiment: &Experiment, id: RunId, outcome: &Outcome) -> Option<String> {
    let flows = outcome.flows.iter().enumerate();
    let all = flows.flat_map(|(flow, got)| got.warnings.iter().map(move |found| (flow, found)));
    let all: Vec<_> = all.collect();
    let (flow, first) = *all.iter().min_by_key(|(_, found)| found.first_at_ns)?;
    let row = experiment.describe(&experiment.configurations[id.configuration]);
    let more = match all.len() {
        1 => String::new(),
        several => format!("; {} more in this run", several - 1),
    };
    Some(format!(
        "run {} ({row}): {}: at {}, flow {flow}: {first}{more}",
        id.index,
        first.path,
        first.at()
    ))
}

/// Runs everything and writes the rows of each run to `results`.
///
/// `progress` receives the number of finished runs several times a second. Once [`Options::stop`] is set, the call
/// returns at once with the finished runs. Threads end after their current run. If code of a file ends a run, the run
/// is left out and noted in [`SweepResult::failed`]. The others continue.
///
/// # Errors
/// [`Error::Simulation`] if a run cannot be carried out, [`Error::Io`] if a row cannot be written. [`Error::Input`]
/// if the back end cannot make a requested recording or captures, or if rows were not checked.
pub fn sweep(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
) -> Result<SweepResult, Error> {
    if options.trace.is_some() && !options.back_end.capabilities().recordings {
        let why = "works only with --on sim; knee trace records calls of a kernel";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "--trace", why));
    }
    if options.captures && !options.back_end.capabilities().captures {
        let name = options.back_end.name();
        let why = format!(
            "--on {name} writes no captures: leave --pcap out, or use --on sim, lab or vkernel"
        );
        return Err(Error::input(&experiment.path, Origin::Nowhere, "--pcap", why));
    }
    let started = Instant::now();
    let cpu_before = machine::cpu_seconds();
    let beside = ExtraFiles {
        recording: options.trace.as_deref().map(|entry| results.recording(entry)),
        captures: options.captures.then(|| results.capture_dir()),
    };
    let of = experiment.clone();
    let make = move |run| Record::of(&of, run);
    let mut runs = begin((experiment, options, beside), make, Record::bytes, progress)?;
    let mut gathered = Gathered::new(experiment);
    let mut failed = Failed::default();
    for record in &mut runs {
        let mut record = match record {
            Err(why) if why.is_of_one_run() => {
                failed.add(why);
                continue;
            }
            other => other?,
        };
        results.append(experiment, &record.rows)?;
        if let Some(name) = record.recording.take() {
            results.add_recording(name)?;
        }
        if record.is_captured {
            results.add_captures(record.id.index)?;
        }
        gathered.add(&record);
    }
    let interrupted = runs.is_stopped();
    let Gathered { runs_done, runs_warned, .. } = gathered;
    let warnings = std::mem::take(&mut gathered.warnings);
    let (tables, work) = gathered.finish();
    let failed = match (failed.first, runs_done) {
        // No run finished, so there is nothing to keep.
        (Some(why), 0) => return Err(why),
        (_, _) => failed.sentences,
    };
    let cpu_s = machine::cpu_seconds() - cpu_before;
    let effort = Effort {
        work,
        cpu_s,
        wall_s: started.elapsed().as_secs_f64(),
        peak_rss_bytes: machine::peak_rss_bytes(),
    };
    let (back_end, about) = (options.back_end.name(), about(experiment, &*options.back_end)?);
    let is_model = options.back_end.capabilities().is_model;
    Ok(SweepResult {
        tables,
        runs_done,
        interrupted,
        failed,
        warnings,
        runs_warned,
        effort,
        back_end,
        is_model,
        about,
    })
}

/// Runs that code of a file ended.
#[derive(Default)]
struct Failed {
    first: Option<Error>,
    sentences: Vec<String>,
}

impl Failed {
    fn add(&mut self, why: Error) {
        self.sentences.push(why.to_string());
        self.first.get_or_insert(why);
    }
}

/// Describes a back end, and the differences of its runs from simulated ones.
fn about(experiment: &Experiment, back_end: &dyn BackEnd) -> Result<Map<String, Json>, Error> {
    let mut about = back_end.about();
    // Other back ends are compared with the simulator.
    if back_end.capabilities().is_model {
        return Ok(about);
    }
    let mut all: Vec<String> = Vec::new();
    for index in 0..experiment.configurations.len() {
        let run = experiment.run(experiment.run_id(index * experiment.repeat as usize))?;
        let new = back_end.differences(&run).into_iter().filter(|new| !all.contains(new));
        all.extend(new.collect::<Vec<_>>());
    }
    if !all.is_empty() {
        about.insert("differences".to_owned(), all.into());
    }
    Ok(about)
}

/// Adds up runs row by row.
struct Gathered<'a> {
    experiment: &'a Experiment,
    tables: Vec<Summaries>,
    row: Option<Row>,
    runs_done: usize,
    warnings: Vec<String>,
    runs_warned: usize,
    work: Work,
}

impl Gathered<'_> {
    fn new(experiment: &Experiment) -> Gathered<'_> {
        Gathered {
            experiment,
            tables: Vec::new(),
            row: None,
            runs_done: 0,
            warnings: Vec::new(),
            runs_warned: 0,
            work: Work::default(),
        }
    }

    fn add(&mut self, record: &Record) {
        let index = record.id.configuration;
        if self.row.as_ref().is_some_and(|row| row.index != index) {
            self.close();
        }
        let row = self.row.get_or_insert_with(|| Row { index, ..Row::default() });
        row.add(&record.measured, record.validity.as_ref());
        self.runs_done += 1;
        if let Some(warning) = &record.warning {
            self.runs_warned += 1;
            if self.warnings.len() < MOST_WARNINGS {
                self.warnings.push(warning.clone());
            }
        }
        self.work.events += record.work.events;
        self.work.data_pkts += record.work.data_pkts;
        self.work.pkt_hops += record.work.pkt_hops;
    }

    fn close(&mut self) {
        if let Some(row) = self.row.take() {
            let configuration = self.experiment.configurations[row.index].clone();
            self.tables.push(row.summaries(configuration));
        }
    }

    fn finish(mut self) -> (Vec<Summaries>, Work) {
        self.close();
        (self.tables, self.work)
    }
}

/// The runs of a row so far.
#[derive(Default)]
struct Row {
    index: usize,
    runs: usize,
    verdict: Option<Verdict>,
    /// Values of valid runs. Values of all runs while none is valid.
    subjects: Vec<SubjectOverRuns>,
}

struct SubjectOverRuns {
    name: String,
    kind: Kind,
    metrics: Vec<(Metric, OverRuns)>,
}

impl Row {
    fn add(&mut self, measured: &[Measured], validity: Option<&Validity>) {
        let is_valid = validity.is_none_or(Validity::is_valid);
        let none_was_valid =
            self.verdict.as_ref().map_or(0, |verdict| verdict.limited) == self.runs;
        self.runs += 1;
        if let Some(validity) = validity {
            self.verdict.get_or_insert_default().add(validity);
        }
        if is_valid && none_was_valid {
            self.subjects.clear();
        }
        if is_valid || none_was_valid {
            self.add_values(measured);
        }
    }

    fn add_values(&mut self, measured: &[Measured]) {
        if self.subjects.is_empty() {
            self.subjects = measured.iter().map(SubjectOverRuns::new).collect();
        }
        for (subject, i) in self.subjects.iter_mut().zip(0..) {
            // Runs of a row usually have the same subjects in the same order.
            let is_it = |values: &&Measured| values.subject == subject.name;
            let at_once = measured.get(i).filter(is_it);
            let Some(values) = at_once.or_else(|| measured.iter().find(is_it)) else {
                continue;
            };
            for (metric, over_runs) in &mut subject.metrics {
                let of_run = values.values.iter().filter(|(of, _)| of == metric);
                of_run.for_each(|(_, samples)| over_runs.add(samples));
            }
        }
    }

    fn summaries(self, configuration: Configuration) -> Summaries {
        let verdict = self.verdict.map(|verdict| Verdict { runs: self.runs, ..verdict });
        let subjects = self.subjects.into_iter().map(SubjectOverRuns::summary).collect();
        Summaries { configuration, index: self.index, subjects, verdict }
    }
}

impl SubjectOverRuns {
    fn new(first: &Measured) -> SubjectOverRuns {
        let metrics = first.values.iter().map(|(metric, _)| (*metric, OverRuns::default()));
        SubjectOverRuns {
            name: first.subject.clone(),
            kind: first.kind,
            metrics: metrics.collect(),
        }
    }

    fn summary(self) -> Subject {
        let unfinished = self.metrics.iter().find(|(metric, _)| *metric == Metric::Unfinished);
        let unfinished = unfinished.map_or(0, |(_, over_runs)| over_runs.total()) as u64;
        let metrics = self.metrics.iter();
        let metrics = metrics
            .map(|(metric, over_runs)| (*metric, over_runs.summary(metric.scale())))
            .filter(|(_, summary)| summary.values + summary.cut_off.values > 0)
            .collect();
        let sketches = self.metrics.iter().filter_map(|(metric, over_runs)| {
            let sketched = over_runs.sketch().filter(|sketched| sketched.count() > 0)?;
            Some((*metric, sketched))
        });
        let sketches = sketches.collect();
        let is_traffic = !matches!(self.kind, Kind::Queue | Kind::Buffer);
        let shown = self.kind.shown();
        // Of a size class tables show the slowdown alone, and charts the completion time, too.
        let is_wanted = |metric: &Metric| *metric == Metric::Completion || shown.contains(metric);
        let drawn = |metric: &Metric| is_traffic && metric.is_distribution() && is_wanted(metric);
        let distributions = self.metrics.iter().filter(|(metric, _)| drawn(metric));
        let distributions = distributions.map(|(metric, all)| (*metric, all.by_bucket())).collect();
        Subject { name: self.name, kind: self.kind, metrics, unfinished, sketches, distributions }
    }
}

#[cfg(test)]
mod tests {
    use knee_queue::time::Duration;

    use super::*;

    #[test]
    fn what_was_measured_is_a_part_of_what_waits() {
        let id = RunId { index: 0, configuration: 0, repeat: 0, seed: 1 };
        let bytes = |values: u64| {
            let mut measured = Measured::new("pings", Kind::Ping, Duration::from_ms(1));
            (0..values).for_each(|value| measured.record(Metric::Rtt, value * value));
            let record = Record {
                id,
                measured: vec![measured],
                validity: None,
                rows: Rows::default(),
                work: Work::default(),
                warning: None,
                recording: None,
                is_captured: false,
            };
            record.bytes()
        };
        let none = bytes(0);
        assert!((100..2000).contains(&none), "{none}");
        assert!(bytes(1000) >= none + 8 * 1000);
        // The values are in a histogram, whose counts reach up to the largest value.
        assert!((100_000..1_000_000).contains(&bytes(100_000)), "{}", bytes(100_000));
    }
}
