//! Sweeps: all runs of an experiment, spread over the cores.
//!
//! Every run is independent and knows its seed, and records are taken up in the order of the runs,
//! so the results are the same for any number of threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration as WallTime, Instant};

use knee_file::Origin;
use knee_run::outcome::{Validity, Work};
use knee_run::spec::Run;
use knee_run::{Ask, BackEnd, Ran};
use serde_json::{Map, Value as Json};

use crate::cases::{Configuration, RunId};
use crate::csv::{self, Rows};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::flight::Recording;
use crate::machine;
use crate::measure::measure;
use crate::memory::{Memory, shown};
use crate::metric::{Measured, Metric};
use crate::results::{CaptureDir, Results, empty_captures};
use crate::stats::{Samples, Summary};
use crate::swept::{Effort, Subject, Summaries, Swept, Verdict};

/// Rows of finished runs that wait for those of a run before them, with what was measured: beyond this nobody begins another but the
/// one waited for.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// And so far ahead of it nobody begins another.
const MOST_AHEAD_RUNS: usize = 1000;

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads; 0: one per core, or as many as there is memory for. The back end may allow less.
    pub threads: usize,
    /// Set to stop: finished runs are kept, those under way are given up.
    pub stop: Arc<AtomicBool>,
    /// What carries out the runs.
    pub back_end: Arc<dyn BackEnd>,
    /// How often a run is tried, at least once, until it is valid; the last counts.
    pub attempts: u32,
    /// A traffic entry: every call of its algorithm is recorded, in the first run of each row.
    pub trace: Option<String>,
    /// What hosts send and receive is captured, in the first run of each row; not together with `trace`.
    pub captures: bool,
}

impl Options {
    /// All runs once, by this back end.
    pub fn new(back_end: Arc<dyn BackEnd>) -> Options {
        Options {
            threads: 0,
            stop: Arc::default(),
            back_end,
            attempts: 1,
            trace: None,
            captures: false,
        }
    }
}

/// A finished run, worked up by the thread that ran it.
struct Record {
    id: RunId,
    measured: Vec<Measured>,
    validity: Option<Validity>,
    rows: Rows,
    work: Work,
    /// Name of its recording.
    recording: Option<String>,
    /// There are captures of it.
    is_captured: bool,
}

impl Record {
    /// What it takes while it waits.
    fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(|(_, rows)| rows.len()).sum();
        rows + self.measured.iter().map(Measured::bytes).sum::<usize>()
    }
}

/// Runs everything and writes the rows of each run to `results`.
///
/// `progress` is told how many runs are done, several times a second. When [`Options::stop`] is set
/// the call returns at once with what has finished; threads end with the run that they are at.
///
/// # Errors
/// [`Error::Simulation`] if a run cannot be carried out, [`Error::Io`] if a row cannot be written,
/// [`Error::Input`] if a recording or captures are asked of what makes none, or rows were not checked.
pub fn sweep(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
) -> Result<Swept, Error> {
    if options.trace.is_some() && !options.back_end.capabilities().recordings {
        let why = "is for the simulator alone: --on sim; of real connections knee trace records";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "--trace", why));
    }
    if options.captures && !options.back_end.capabilities().captures {
        let name = options.back_end.name();
        let why = format!(
            "--on {name} writes no captures: leave --pcap out, or use --on sim, --on lab or --on vkernel"
        );
        return Err(Error::input(&experiment.path, Origin::Nowhere, "--pcap", why));
    }
    if !experiment.is_whole() {
        let why = "has rows that were not checked: Experiment::whole checks them";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "", why));
    }
    let started = Instant::now();
    let cpu_before = machine::cpu_seconds();
    let quit = Arc::new(AtomicBool::new(false));
    let recording = options.trace.as_deref().map(|entry| results.recording(entry));
    let captures = options.captures.then(|| results.capture_dir());
    let threads = threads(experiment, &*options.back_end, options.threads)?;
    let waiting = Arc::new(Waiting::default());
    let records = spawn(experiment, options, threads, (recording, captures), &quit, &waiting);
    let mut gathered = Gathered::new(experiment);
    let outcome =
        gather(experiment, options, (&records, &waiting), results, progress, &mut gathered);
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
    let (back_end, about) = (options.back_end.name(), about(experiment, &*options.back_end)?);
    let is_model = options.back_end.capabilities().is_model;
    Ok(Swept { tables, runs_done, interrupted, effort, back_end, is_model, about })
}

/// What a back end says of itself, and in what runs of this experiment differ there from the simulator's.
fn about(experiment: &Experiment, back_end: &dyn BackEnd) -> Result<Map<String, Json>, Error> {
    let mut about = back_end.about();
    // The simulator is what the others differ from.
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

/// Takes up records in the order of their runs; true if the sweep was stopped.
fn gather(
    experiment: &Experiment,
    options: &Options,
    (records, waiting): (&mpsc::Receiver<Result<Record, Error>>, &Waiting),
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
        if record.is_captured {
            results.add_captures(record.id.index)?;
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
            // All have stopped, each with the run that it was at.
            Err(RecvTimeoutError::Disconnected) if options.stop.load(Ordering::Relaxed) => {}
            // Only a thread that panicked leaves before its run is sent.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Simulation {
                    file: experiment.path.clone(),
                    run: format!("run {next}"),
                    message: format!("{} panicked, which is a bug in it", options.back_end.name()),
                });
            }
        }
        while let Some(record) = early.remove(&next) {
            waiting.bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
            take(record, gathered)?;
            next += 1;
            waiting.next.store(next, Ordering::Relaxed);
        }
        progress(done);
        if options.stop.load(Ordering::Relaxed) && done < experiment.runs() {
            // What has finished and was not yet taken up.
            for record in records.try_iter() {
                let record = record?;
                early.insert(record.id.index, record);
            }
            for record in early.into_values() {
                take(record, gathered)?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// What has finished and is not taken up yet, since runs are taken up in their order.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    /// The run that all others wait for.
    next: AtomicUsize,
}

impl Waiting {
    /// Whether a run may begin. The one that others wait for always may, and somebody has it: runs are handed out in their order.
    fn lets_begin(&self, run: usize) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let has_room = self.bytes.load(Ordering::Relaxed) <= MOST_WAITING_BYTES;
        run <= next || (run < next + MOST_AHEAD_RUNS && has_room)
    }
}

/// Lets all threads end where one panics, so that none waits for its run.
struct EndsOthers(Arc<AtomicBool>);

impl Drop for EndsOthers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn spawn(
    experiment: &Arc<Experiment>,
    options: &Options,
    threads: usize,
    (recording, captures): (Option<Recording>, Option<CaptureDir>),
    quit: &Arc<AtomicBool>,
    waiting: &Arc<Waiting>,
) -> mpsc::Receiver<Result<Record, Error>> {
    // A bound, so that no thread is far ahead of what is written.
    let (sender, receiver) = mpsc::sync_channel(2 * threads);
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..threads {
        let (experiment, next, sender) = (experiment.clone(), next.clone(), sender.clone());
        let (quit, options) = (quit.clone(), options.clone());
        let (recording, captures) = (recording.clone(), captures.clone());
        let waiting = waiting.clone();
        std::thread::spawn(move || {
            let _ends = EndsOthers(quit.clone());
            let stopped = || options.stop.load(Ordering::Relaxed);
            while !quit.load(Ordering::Relaxed) && !stopped() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= experiment.runs() {
                    return;
                }
                while !waiting.lets_begin(index) && !quit.load(Ordering::Relaxed) && !stopped() {
                    std::thread::sleep(WallTime::from_millis(5));
                }
                let id = experiment.run_id(index);
                let record =
                    run_one(&experiment, id, &options, recording.as_ref(), captures.as_ref());
                if let Ok(record) = &record {
                    waiting.bytes.fetch_add(record.bytes(), Ordering::Relaxed);
                }
                // Where the flag went up meanwhile the back end may have cut the run short.
                if stopped() || sender.send(record).is_err() {
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
    options: &Options,
    recording: Option<&Recording>,
    captures: Option<&CaptureDir>,
) -> Result<Record, Error> {
    let configuration = &experiment.configurations[id.configuration];
    let scenario = experiment.scenario(configuration)?;
    let run = scenario.run(experiment.seed, id.repeat);
    let captures = captures.filter(|_| is_captured(id));
    let (ran, attempts, recording) = match recording.filter(|recording| recording.has(id)) {
        None => {
            let dir = captures.map(|captures| captures.make(id.index)).transpose()?;
            let (ran, attempts) =
                attempt(options, &run, dir.as_deref()).map_err(|message| Error::Simulation {
                    file: experiment.path.clone(),
                    run: experiment.describe(configuration),
                    message,
                })?;
            (ran, attempts, None)
        }
        Some(recording) => {
            let by = (&*options.back_end, &*options.stop);
            let (ran, name) = recording.carry_out(experiment, &scenario, id, &run, by)?;
            (ran, 1, Some(name))
        }
    };
    let measured = measure(&scenario, &run, &ran.outcome);
    Ok(Record {
        id,
        rows: csv::rows(
            experiment,
            &scenario,
            id,
            &run,
            &csv::Done { ran: &ran, attempts, measured: &measured },
        ),
        measured,
        is_captured: recording.is_none() && captures.is_some(),
        validity: ran.validity,
        work: ran.outcome.work,
        recording,
    })
}

/// Runs it until it is valid, as often as allowed; the last, and how many there were. Captures are those of the last.
fn attempt(options: &Options, run: &Run, captures: Option<&Path>) -> Result<(Ran, u32), String> {
    let mut attempts = 1;
    loop {
        let ask = Ask { captures, ..Ask::outcome(&options.stop) };
        let ran = options.back_end.run(run, &ask).map_err(|why| why.to_string())?;
        let is_valid = ran.validity.as_ref().is_none_or(Validity::is_valid);
        if is_valid || attempts >= options.attempts || options.stop.load(Ordering::Relaxed) {
            return Ok((ran, attempts));
        }
        attempts += 1;
        if let Some(dir) = captures {
            let again = empty_captures(dir);
            again.map_err(|why| format!("{}: cannot be emptied: {why}", dir.display()))?;
        }
    }
}

/// What is kept of a run until its configuration is complete.
struct GatheredRun {
    measured: Vec<Measured>,
    validity: Option<Validity>,
}

impl GatheredRun {
    fn is_valid(&self) -> bool {
        self.validity.as_ref().is_none_or(Validity::is_valid)
    }
}

/// Adds runs up, one configuration after the other.
struct Gathered {
    configurations: Vec<Configuration>,
    tables: Vec<Summaries>,
    /// The configuration being gathered, and its runs.
    current: Option<(usize, Vec<GatheredRun>)>,
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
        runs.push(GatheredRun { measured: record.measured, validity: record.validity });
        self.runs_done += 1;
        self.work.events += record.work.events;
        self.work.data_pkts += record.work.data_pkts;
        self.work.pkt_hops += record.work.pkt_hops;
    }

    fn close(&mut self) {
        if let Some((index, runs)) = self.current.take() {
            let configuration = self.configurations[index].clone();
            let any_valid = runs.iter().any(GatheredRun::is_valid);
            let counted: Vec<&[Measured]> = runs
                .iter()
                .filter(|run| run.is_valid() || !any_valid)
                .map(|run| run.measured.as_slice())
                .collect();
            let subjects = summarise(&counted);
            let verdicts: Vec<_> = runs.iter().map(|run| run.validity.as_ref()).collect();
            let verdict = Verdict::of(&verdicts);
            self.tables.push(Summaries { configuration, index, subjects, verdict });
        }
    }

    fn finish(mut self) -> (Vec<Summaries>, usize, Work) {
        self.close();
        (self.tables, self.runs_done, self.work)
    }
}

fn summarise(runs: &[&[Measured]]) -> Vec<Subject> {
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

/// Whether this run is captured: the first of each row. Its repeats differ by their seeds alone.
fn is_captured(id: RunId) -> bool {
    id.repeat == 0
}

/// Of the memory that programs could still take, what runs are begun for, in per cent: others want some, too.
const SHARE_PCT: u64 = 75;

/// How many runs go on at once: as many as asked for (0: as there are cores), or as many as fit into memory where nobody asked.
///
/// # Errors
/// [`Error::Input`] if as many as asked for do not fit.
pub fn threads(
    experiment: &Experiment,
    back_end: &dyn BackEnd,
    asked: usize,
) -> Result<usize, Error> {
    threads_in(experiment, back_end, asked, machine::available_memory_bytes())
}

/// With so much memory free, where that is known.
fn threads_in(
    experiment: &Experiment,
    back_end: &dyn BackEnd,
    asked: usize,
    free_bytes: Option<u64>,
) -> Result<usize, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if asked == 0 { cores } else { asked };
    let wanted = wanted.min(back_end.capabilities().threads.unwrap_or(usize::MAX));
    let wanted = wanted.clamp(1, experiment.runs().max(1));
    let Some(free) = free_bytes else { return Ok(wanted) };
    let memory = &experiment.memory;
    // One is what the bound on a run allows, and its estimate is rather too high.
    let fit = fit(memory, free).max(1);
    if fit >= wanted || asked == 0 {
        return Ok(fit.min(wanted));
    }
    let why = format!(
        "{}; {SHARE_PCT} % of the {} that is free is enough for {fit} at once",
        memory.words(),
        shown(free)
    );
    Err(Error::input(&experiment.path, Origin::Nowhere, "--threads", why))
}

/// Runs that fit into memory that is free.
fn fit(memory: &Memory, free_bytes: u64) -> usize {
    let of_runs = (free_bytes / 100 * SHARE_PCT).saturating_sub(memory.kept_bytes);
    usize::try_from(of_runs / memory.run_bytes.max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use knee_queue::time::Duration;

    use super::*;
    use crate::metric::Kind;

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
                recording: None,
                is_captured: false,
            };
            record.bytes()
        };
        let none = bytes(0);
        assert!((100..2000).contains(&none), "{none}");
        assert!(bytes(1000) >= none + 8 * 1000);
        // In a histogram, whose counts go up to the largest value.
        assert!((100_000..1_000_000).contains(&bytes(100_000)), "{}", bytes(100_000));
    }

    #[test]
    fn as_many_runs_as_fit_into_three_quarters_of_what_is_free() {
        let memory = |run_bytes, kept_bytes| Memory { run_bytes, kept_bytes, most: String::new() };
        assert_eq!(fit(&memory(1 << 30, 0), 4 << 30), 2);
        assert_eq!(fit(&memory(1 << 30, 2 << 30), 4 << 30), 0);
        assert_eq!(fit(&memory(0, 0), 4 << 30), 3_221_225_400);
    }
}
