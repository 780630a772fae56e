//! Sweeps: all runs of an experiment, and their combined statistics.
//!
//! Each run goes into the journal of the results directory when it ends. Rows and summaries are made of that at the end, in the
//! order of runs.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use knee_file::Origin;
use knee_results::{ResultFile, line};
use knee_run::BackEnd;
use knee_run::outcome::{Outcome, Validity, Work};
use knee_run::spec::Run;
use knee_scenario::by_run::ByRun;
use knee_scenario::cases::{Configuration, RunId};
use knee_scenario::claim;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Measured, Metric};
use knee_scenario::over_runs::OverRuns;
use knee_scenario::published::Stat;
use knee_scenario::stored::StoredMeasured;
use serde_json::{Map, Value as Json};

use crate::journal::{JOURNAL, Journal, StoredLimits, StoredRows, StoredRun};
use crate::machine;
use crate::plan;
use crate::results::Results;
use crate::rows::{self, Rows, TextSinks};
use crate::run_name::RunName;
use crate::runs::{Done, ExtraFiles, Options, Plan, begin};
use crate::sweep_result::{Effort, MOST_WARNINGS, Subject, Summaries, SweepResult, Verdict};

/// What a thread leaves of a finished run. The rest is in the journal.
struct Kept {
    /// Name of its flight recording.
    recording: Option<String>,
    /// Whether it has captures.
    is_captured: bool,
}

/// A finished run, as the journal has it.
struct Record {
    id: RunId,
    measured: Vec<Measured>,
    validity: Option<Validity>,
    rows: Rows,
    work: Work,
    /// First fault of an algorithm from a file, and the number of connections with faults.
    warning: Option<String>,
}

/// Evaluates a run, for the journal.
fn stored(experiment: &Experiment, name: RunName, run: &Done) -> io::Result<StoredRun> {
    let measured = run.measure();
    let mut text = TextSinks::default();
    rows::write_rows(experiment, run, &measured, &mut text)?;
    let rows = text.rows()?.into_iter();
    let work = run.ran.outcome.work;
    Ok(StoredRun {
        name: name.bytes().to_vec(),
        label: line(&rows::label(experiment, run.id)),
        index: run.id.index.to_string(),
        measured: measured.iter().map(StoredMeasured::of).collect(),
        limits: run.ran.validity.as_ref().map(|of| StoredLimits { limits: of.limits.clone() }),
        rows: rows.map(|(file, text)| StoredRows { file: file.name().to_owned(), text }).collect(),
        events: work.events,
        data_pkts: work.data_pkts,
        pkt_hops: work.pkt_hops,
        warning: warning(&run.ran.outcome),
    })
}

impl Record {
    /// Reads a run again as that with this number, which may be another one of the same name. `None` if it holds something that
    /// is not known here.
    fn of(experiment: &Experiment, id: RunId, stored: StoredRun) -> Option<Record> {
        let (label, index) = (line(&rows::label(experiment, id)), id.index.to_string());
        let rows = stored.rows.into_iter().map(|rows| {
            let file = ResultFile::ALL.into_iter().find(|file| file.name() == rows.file)?;
            let (from, to) = match file.has_case() {
                true => (&stored.label, &label),
                false => (&stored.index, &index),
            };
            Some((
                file,
                if from == to { rows.text } else { rows::relabelled(&rows.text, from, to) },
            ))
        });
        Some(Record {
            id,
            rows: rows.collect::<Option<_>>()?,
            measured: stored
                .measured
                .into_iter()
                .map(StoredMeasured::measured)
                .collect::<Option<_>>()?,
            validity: stored.limits.map(|of| Validity { limits: of.limits, ..Validity::default() }),
            work: Work {
                events: stored.events,
                data_pkts: stored.data_pkts,
                pkt_hops: stored.pkt_hops,
            },
            warning: stored.warning.map(|warning| {
                let row = experiment.describe(&experiment.row(id.configuration));
                format!("run {} ({row}): {warning}", id.index)
            }),
        })
    }
}

/// Returns a warning about faults of algorithms from files in a run.
fn warning(outcome: &Outcome) -> Option<String> {
    let flows = outcome.flows.iter().enumerate();
    let all = flows.flat_map(|(flow, got)| got.warnings.iter().map(move |found| (flow, found)));
    let all: Vec<_> = all.collect();
    let (flow, first) = *all.iter().min_by_key(|(_, found)| found.first_at_ns)?;
    let more = match all.len() {
        1 => String::new(),
        several => format!("; {} more in this run", several - 1),
    };
    Some(format!("{}: at {}, flow {flow}: {first}{more}", first.path, first.at()))
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
    if options.trace.is_some() && options.captures {
        let why = "recordings and captures are of one run each: choose one of them";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "", why));
    }
    let started = Instant::now();
    let cpu_before = machine::cpu_seconds();
    let has_files = options.trace.is_some() || options.captures;
    let about_runs = plan::about(experiment, &*options.back_end)?;
    let journal = results.journal(&about_runs)?;
    if let Some(changed) = plan::changed(&journal.about, &about_runs) {
        let why = format!(
            "cannot go on, because {changed}: run the experiment as it was, or choose another directory with -o"
        );
        return Err(Error::input(results.dir(), Origin::Nowhere, "", why));
    }
    if has_files && journal.earlier > 0 {
        let why = "recordings and captures are of runs that go on: leave --continue out, and choose another directory with -o";
        return Err(Error::input(results.dir(), Origin::Nowhere, "", why));
    }
    options.going.expect(journal.earlier);
    let names = Arc::new(Names::new(experiment, &options.back_end, journal.clone()));
    let kept = carry_out((experiment, options), results, &names, has_files, progress);
    let (failed, interrupted) = match kept {
        Ok(kept) => kept,
        // The runs are worth something where the disk was full, and nothing where the experiment cannot be carried out.
        Err(why) => {
            if !matches!(why, Error::Io { .. }) {
                results.forget_runs();
            }
            return Err(why);
        }
    };
    let mut gathered = Gathered::new(experiment);
    for index in options.numbers(experiment)? {
        let Some(record) = names.read(results.dir(), index)? else { continue };
        let appended = results.append(experiment, &record.rows);
        appended.map_err(|why| results.with_way_out(why))?;
        gathered.add(&record);
    }
    let Gathered { runs_done, runs_warned, .. } = gathered;
    let warnings = std::mem::take(&mut gathered.warnings);
    let (tables, work) = gathered.finish();
    let mut failed = failed.errors(experiment);
    // No run finished, so there is nothing to keep.
    if runs_done == 0 && !failed.is_empty() {
        results.forget_runs();
        return Err(failed.swap_remove(0));
    }
    let failed = failed.iter().map(Error::to_string).collect();
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
        runs_earlier: names.earlier(),
        runs_same: names.same(),
        interrupted,
        failed,
        warnings,
        runs_warned,
        effort,
        back_end,
        is_model,
        about,
        format: results.format(),
    })
}

/// Carries out what the journal lacks. Repeats come last, so that a sweep that is stopped has seen each row. Returns the runs that
/// failed, and whether it was stopped.
fn carry_out(
    (experiment, options): (&Arc<Experiment>, &Options),
    results: &mut Results,
    names: &Arc<Names>,
    has_files: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<(Failed, bool), Error> {
    let mut order = options.numbers(experiment)?;
    order.sort_by_key(|run| experiment.run_id(*run).repeat);
    let beside = ExtraFiles {
        recording: options.trace.as_deref().map(|entry| results.recording(entry)),
        captures: options.captures.then(|| results.capture_dir()),
    };
    let plan = Plan { order, beside };
    let nothing = || Ok(Kept { recording: None, is_captured: false });
    let (begun, of) = (names.clone(), names.clone());
    // A run whose files are wanted is carried out for them, whoever has its figures.
    let known = move |id: RunId, run: &Run| (!begun.begins(id, run) && !has_files).then(nothing);
    let make = move |run: Done| of.keep(run);
    let mut runs = begin((experiment, options, plan), known, make, |_| 0, progress)?;
    let mut failed = Failed::default();
    while let Some(kept) = runs.next() {
        match kept {
            Err(Error::Simulation { source, .. }) if source.is_of_one_run() => {
                failed.0.push((runs.number_of_last(), source));
            }
            other => {
                let kept = other?.map_err(|why| results.journal_failed(why))?;
                if let Some(name) = kept.recording {
                    results.add_recording(name)?;
                }
                if kept.is_captured {
                    results.add_captures(runs.number_of_last())?;
                }
            }
        }
    }
    let interrupted = runs.is_stopped();
    drop(runs);
    if !interrupted && !failed.0.is_empty() {
        names.add_same(&mut failed, options)?;
    }
    failed.0.sort_by_key(|(run, _)| *run);
    Ok((failed, interrupted))
}

/// Names of the runs, and what the journal has of them.
struct Names {
    experiment: Arc<Experiment>,
    back_end: Arc<dyn BackEnd>,
    journal: Arc<Journal>,
    of: Mutex<Vec<Option<RunName>>>,
}

impl Names {
    fn new(
        experiment: &Arc<Experiment>,
        back_end: &Arc<dyn BackEnd>,
        journal: Arc<Journal>,
    ) -> Names {
        let (experiment, back_end) = (experiment.clone(), back_end.clone());
        let of = Mutex::new(vec![None; experiment.runs()]);
        Names { experiment, back_end, journal, of }
    }

    /// Names a run, and returns whether it shall be carried out.
    fn begins(&self, id: RunId, run: &Run) -> bool {
        let name = RunName::of(run, &self.experiment.modules, &*self.back_end);
        self.of.lock().unwrap_or_else(PoisonError::into_inner)[id.index] = Some(name);
        self.journal.begins(id.index, name)
    }

    fn name(&self, index: usize) -> Result<RunName, Error> {
        let known = self.of.lock().unwrap_or_else(PoisonError::into_inner)[index];
        match known {
            Some(name) => Ok(name),
            None => {
                let run = self.experiment.run(self.experiment.run_id(index))?;
                Ok(RunName::of(&run, &self.experiment.modules, &*self.back_end))
            }
        }
    }

    /// Number of the runs that an earlier process had left.
    fn earlier(&self) -> usize {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.iter().flatten().filter(|name| self.journal.is_earlier(**name)).count()
    }

    /// Number of runs that are the same as another one of a smaller number.
    fn same(&self) -> usize {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let all = of.iter().flatten();
        all.clone().count() - all.collect::<HashSet<_>>().len()
    }

    /// Adds to those that failed the runs that are the same, and were not carried out therefore.
    fn add_same(&self, failed: &mut Failed, options: &Options) -> Result<(), Error> {
        let mut why = HashMap::new();
        for (run, source) in failed.0.drain(..) {
            why.insert(self.name(run)?, source);
        }
        for run in options.numbers(&self.experiment)? {
            failed.0.extend(why.get(&self.name(run)?).map(|source| (run, source.clone())));
        }
        Ok(())
    }

    /// Keeps a finished run.
    fn keep(&self, run: Done) -> io::Result<Kept> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner)[run.id.index];
        let name = of.ok_or_else(|| io::Error::other("a run without a name"))?;
        self.journal.append(name, &stored(&self.experiment, name, &run)?, &run.budget)?;
        Ok(Kept { recording: run.recording, is_captured: run.is_captured })
    }

    /// Returns the record of a run. `None` if it has not finished.
    fn read(&self, dir: &Path, index: usize) -> Result<Option<Record>, Error> {
        let failed = |why| Error::io(&dir.join(JOURNAL), "cannot read", why);
        let Some(stored) = self.journal.read(self.name(index)?).map_err(failed)? else {
            return Ok(None);
        };
        let unknown = || {
            let why =
                "another version of knee wrote it: remove it, or choose another directory with -o";
            failed(io::Error::other(why))
        };
        let record = Record::of(&self.experiment, self.experiment.run_id(index), stored);
        record.map(Some).ok_or_else(unknown)
    }
}

/// Runs that were left out: their numbers, and why.
#[derive(Default)]
struct Failed(Vec<(usize, knee_run::Error)>);

impl Failed {
    fn errors(self, experiment: &Experiment) -> Vec<Error> {
        let error = |(run, source)| {
            let configuration = &experiment.row(experiment.run_id(run).configuration);
            Error::Simulation {
                file: experiment.path.clone(),
                run: experiment.describe(configuration),
                source,
            }
        };
        self.0.into_iter().map(error).collect()
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
    for index in (0..experiment.rows()).filter(|row| experiment.is_checked(*row)) {
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
    /// Figures that claims compare run by run.
    compared: Vec<(&'a str, Metric, Stat)>,
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
            compared: claim::compared(&experiment.claims),
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
        row.add(record, &self.compared);
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
            let configuration = self.experiment.row(row.index);
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
    by_run: Vec<ByRun>,
}

impl Row {
    /// Adds a run. Figures that are `compared` are kept run by run.
    fn add(&mut self, record: &Record, compared: &[(&str, Metric, Stat)]) {
        let validity = record.validity.as_ref();
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
            self.add_values(&record.measured, record.id.seed, compared);
        }
    }

    fn add_values(&mut self, measured: &[Measured], seed: u64, compared: &[(&str, Metric, Stat)]) {
        if self.subjects.is_empty() {
            let new = |first: &Measured| SubjectOverRuns::new(first, compared);
            self.subjects = measured.iter().map(new).collect();
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
            for figure in &mut subject.by_run {
                let of_run = values.values.iter().find(|(of, _)| *of == figure.metric);
                if let Some((_, samples)) = of_run {
                    figure.add(seed, samples);
                }
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
    fn new(first: &Measured, compared: &[(&str, Metric, Stat)]) -> SubjectOverRuns {
        let metrics = first.values.iter();
        let metrics = metrics.map(|(metric, _)| (*metric, OverRuns::of(metric.is_distribution())));
        SubjectOverRuns {
            name: first.subject.clone(),
            kind: first.kind,
            metrics: metrics.collect(),
            by_run: compared
                .iter()
                .filter(|(subject, ..)| *subject == first.subject)
                .map(|(_, metric, stat)| ByRun::new(*metric, *stat))
                .collect(),
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
        Subject {
            name: self.name,
            kind: self.kind,
            metrics,
            unfinished,
            sketches,
            distributions,
            by_run: self.by_run,
        }
    }
}
