//! Sweeps: all runs of an experiment, spread over the cores.
//!
//! Every run is independent and knows its seed, and records are taken up in the order of the runs,
//! so the results are the same for any number of threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration as WallTime, Instant};

use knee_sim::outcome::{Outcome, Work};
use knee_sim::spec::Run;

use crate::csv::{self, Rows};
use crate::error::Error;
use crate::experiment::{Configuration, Experiment, RunId};
use crate::flight::Recording;
use crate::machine;
use crate::metrics::{Kind, Measured, Metric, measure};
use crate::results::Results;
use crate::stats::{Samples, Summary};

/// What turns a run into its outcome: [`knee_sim::simulate`], but in tests.
pub type Simulate = fn(&Run) -> Result<Outcome, knee_sim::Error>;

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads; 0: one per core.
    pub threads: usize,
    /// Set to stop: finished runs are kept, those under way are given up.
    pub stop: Arc<AtomicBool>,
    /// The simulator, of runs that are not recorded.
    pub simulate: Simulate,
    /// A traffic entry: every call of its algorithm is recorded, in the first run of each row.
    pub trace: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { threads: 0, stop: Arc::default(), simulate: knee_sim::simulate, trace: None }
    }
}

/// What came of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// One per configuration that has finished runs, in order.
    pub tables: Vec<Summaries>,
    /// Runs that finished.
    pub runs_done: usize,
    /// Whether it was stopped before all of them had.
    pub interrupted: bool,
    /// What the simulator did.
    pub effort: Effort,
}

/// The work of all runs and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Of the simulator.
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
    /// Which.
    pub configuration: Configuration,
    /// Its index.
    pub index: usize,
    /// One per traffic entry and recorded queue.
    pub subjects: Vec<Subject>,
}

/// One traffic entry or queue over all runs of a configuration.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The entry's name, or the link's.
    pub name: String,
    /// What it is.
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

/// A finished run, worked up by the thread that ran it.
struct Record {
    id: RunId,
    measured: Vec<Measured>,
    rows: Rows,
    work: Work,
    /// Name of its recording.
    recording: Option<String>,
}

/// Runs everything and writes the rows of each run to `results`.
///
/// `progress` is told how many runs are done, several times a second. When [`Options::stop`] is set
/// the call returns at once with what has finished; threads end with the run that they are at.
///
/// # Errors
/// [`Error::Simulation`] if a run cannot be simulated, [`Error::Io`] if a row cannot be written.
pub fn sweep(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
) -> Result<Swept, Error> {
    let started = Instant::now();
    let cpu_before = machine::cpu_seconds();
    let quit = Arc::new(AtomicBool::new(false));
    let recording = options.trace.as_deref().map(|entry| results.recording(entry));
    let records = spawn(experiment, options, recording, &quit);
    let mut gathered = Gathered::new(experiment);
    let outcome = gather(experiment, options, &records, results, progress, &mut gathered);
    quit.store(true, Ordering::Relaxed);
    let interrupted = outcome?;
    let (tables, runs_done, work) = gathered.finish();
    let cpu_s = machine::cpu_seconds() - cpu_before;
    let effort = Effort {
        work,
        cpu_s,
        wall_s: started.elapsed().as_secs_f64(),
        peak_rss_bytes: machine::peak_rss_bytes(),
    };
    Ok(Swept { tables, runs_done, interrupted, effort })
}

/// Takes up records in the order of their runs; true if the sweep was stopped.
fn gather(
    experiment: &Experiment,
    options: &Options,
    records: &mpsc::Receiver<Result<Record, Error>>,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
    gathered: &mut Gathered,
) -> Result<bool, Error> {
    let mut early: BTreeMap<usize, Record> = BTreeMap::new();
    let (mut next, mut done) = (0, 0);
    let mut take = |mut record: Record, gathered: &mut Gathered| {
        results.append(experiment, &record.rows)?;
        if let Some(name) = record.recording.take() {
            results.add_recording(name)?;
        }
        gathered.add(record);
        Ok::<_, Error>(())
    };
    while done < experiment.runs() {
        match records.recv_timeout(WallTime::from_millis(50)) {
            Ok(record) => {
                let record = record?;
                early.insert(record.id.index, record);
                done += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Only a thread that panicked leaves before its run is sent.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Simulation {
                    file: experiment.path.clone(),
                    run: format!("run {next}"),
                    message: "the simulator panicked, which is a bug in it".into(),
                });
            }
        }
        while let Some(record) = early.remove(&next) {
            take(record, gathered)?;
            next += 1;
        }
        progress(done);
        if options.stop.load(Ordering::Relaxed) && done < experiment.runs() {
            for record in early.into_values() {
                take(record, gathered)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

fn spawn(
    experiment: &Arc<Experiment>,
    options: &Options,
    recording: Option<Recording>,
    quit: &Arc<AtomicBool>,
) -> mpsc::Receiver<Result<Record, Error>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 { cores } else { options.threads };
    let threads = threads.clamp(1, experiment.runs().max(1));
    // A bound, so that no thread is far ahead of what is written.
    let (sender, receiver) = mpsc::sync_channel(2 * threads);
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..threads {
        let (experiment, next, sender) = (experiment.clone(), next.clone(), sender.clone());
        let (quit, stop, simulate) = (quit.clone(), options.stop.clone(), options.simulate);
        let recording = recording.clone();
        std::thread::spawn(move || {
            while !quit.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= experiment.runs() {
                    return;
                }
                let id = experiment.run_id(index);
                let record = run_one(&experiment, id, simulate, recording.as_ref());
                if sender.send(record).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

fn run_one(
    experiment: &Experiment,
    id: RunId,
    simulate: Simulate,
    recording: Option<&Recording>,
) -> Result<Record, Error> {
    let configuration = &experiment.configurations[id.configuration];
    let scenario = experiment.scenario(configuration)?;
    let run = scenario.run(experiment.seed, id.repeat);
    let failed = |why: knee_sim::Error| Error::Simulation {
        file: experiment.path.clone(),
        run: experiment.describe(configuration),
        message: why.to_string(),
    };
    let (outcome, recording) = match recording.filter(|recording| recording.has(id)) {
        None => (simulate(&run).map_err(failed)?, None),
        Some(recording) => {
            let (outcome, name) = recording.simulate(experiment, &scenario, id, &run)?;
            (outcome, Some(name))
        }
    };
    Ok(Record {
        id,
        measured: measure(&scenario, &run, &outcome),
        rows: csv::rows(experiment, &scenario, id, &run, &outcome),
        work: outcome.work,
        recording,
    })
}

/// Adds runs up, one configuration after the other.
struct Gathered {
    configurations: Vec<Configuration>,
    tables: Vec<Summaries>,
    /// The configuration being gathered, and what its runs measured.
    current: Option<(usize, Vec<Vec<Measured>>)>,
    runs_done: usize,
    work: Work,
}

impl Gathered {
    fn new(experiment: &Experiment) -> Gathered {
        Gathered {
            configurations: experiment.configurations.clone(),
            tables: Vec::new(),
            current: None,
            runs_done: 0,
            work: Work::default(),
        }
    }

    fn add(&mut self, record: Record) {
        if self.current.as_ref().is_some_and(|(index, _)| *index != record.id.configuration) {
            self.close();
        }
        let (_, runs) = self.current.get_or_insert_with(|| (record.id.configuration, Vec::new()));
        runs.push(record.measured);
        self.runs_done += 1;
        self.work.events += record.work.events;
        self.work.data_pkts += record.work.data_pkts;
        self.work.pkt_hops += record.work.pkt_hops;
    }

    fn close(&mut self) {
        if let Some((index, runs)) = self.current.take() {
            let configuration = self.configurations[index].clone();
            self.tables.push(Summaries { configuration, index, subjects: summarise(&runs) });
        }
    }

    fn finish(mut self) -> (Vec<Summaries>, usize, Work) {
        self.close();
        (self.tables, self.runs_done, self.work)
    }
}

fn summarise(runs: &[Vec<Measured>]) -> Vec<Subject> {
    let Some(first) = runs.first() else { return Vec::new() };
    first
        .iter()
        .map(|subject| {
            let of_runs: Vec<&Measured> = runs
                .iter()
                .flat_map(|run| run.iter().find(|m| m.subject == subject.subject))
                .collect();
            let samples = |metric: Metric| -> Vec<&Samples> {
                let values = of_runs.iter().flat_map(|run| run.values.iter());
                values.filter(|(m, _)| *m == metric).map(|(_, samples)| samples).collect()
            };
            let metrics = subject.values.iter().map(|(metric, _)| *metric);
            let metrics: Vec<_> = metrics
                .map(|metric| (metric, Summary::of(&samples(metric), metric.scale())))
                .filter(|(_, summary)| summary.values > 0)
                .collect();
            let unfinished = samples(Metric::Unfinished).iter().map(|s| s.total()).sum::<u128>();
            Subject {
                name: subject.subject.clone(),
                kind: subject.kind,
                metrics,
                unfinished: unfinished as u64,
            }
        })
        .collect()
}
