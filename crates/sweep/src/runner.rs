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
use knee_run::BackEnd;
use knee_run::outcome::Work;
use knee_run::spec::Run;
use knee_scenario::cases::RunId;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::scenario::Scenario;
use serde_json::{Map, Value as Json};

use crate::gathered::Gathered;
use crate::machine;
use crate::plan;
use crate::record::{Record, stored};
use crate::results::Results;
use crate::run_name::RunName;
use crate::run_store::RunStore;
use crate::runs::{Done, ExtraFiles, Options, Plan, begin};
use crate::sweep_result::{Effort, Filled, SweepResult};

/// What a thread leaves of a finished run. The rest is stored.
struct Kept {
    /// Name of its flight recording.
    recording: Option<String>,
    /// Whether it has captures.
    is_captured: bool,
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
    let began = Began::now();
    let (names, failed, interrupted) = carry_out(experiment, options, results, progress)?;
    if !interrupted && failed.0.is_empty() && options.only.is_none() {
        let failed = |why| Error::io(&results.store_path(), "cannot write", why);
        names.store.settle().map_err(failed)?;
    }
    tables(experiment, options, results, &names, (failed, interrupted, began))
}

/// Carries out runs and stores them, without making tables of them: a shard of a sweep.
///
/// # Errors
/// Those of [`sweep`].
pub fn fill(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
) -> Result<Filled, Error> {
    let began = Began::now();
    let (names, failed, interrupted) = carry_out(experiment, options, results, progress)?;
    let effort = began.effort(Work::default());
    names.store.sync().map_err(|why| results.store_failed(why))?;
    Ok(Filled {
        runs_done: names.done(),
        runs_earlier: names.earlier(),
        runs_same: names.same(),
        interrupted,
        failed: failed.errors(experiment).iter().map(Error::to_string).collect(),
        effort,
    })
}

/// When a sweep began.
struct Began {
    at: Instant,
    cpu_s: f64,
}

impl Began {
    fn now() -> Began {
        Began { at: Instant::now(), cpu_s: machine::cpu_seconds() }
    }

    /// Returns what has been spent since.
    fn effort(&self, work: Work) -> Effort {
        Effort {
            work,
            cpu_s: machine::cpu_seconds() - self.cpu_s,
            wall_s: self.at.elapsed().as_secs_f64(),
            peak_rss_bytes: machine::peak_rss_bytes(),
        }
    }
}

/// Carries out the runs that are not stored. Returns names, the runs that failed, and whether it was stopped.
fn carry_out(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &mut Results,
    progress: &mut dyn FnMut(usize),
) -> Result<(Arc<Names>, Failed, bool), Error> {
    let has_files = options.trace.is_some() || options.captures;
    let about_runs = plan::about(experiment, &*options.back_end)?;
    let store = results.store(&about_runs)?;
    if let Some(changed) = plan::changed(store.about(), &about_runs) {
        let why = format!(
            "cannot go on, because {changed}: run the experiment as it was, or choose another directory with -o"
        );
        return Err(Error::input(results.dir(), Origin::Nowhere, "", why));
    }
    if has_files && store.earlier() > 0 {
        let why = "recordings and captures are of runs that go on: leave --continue out, and choose another directory with -o";
        return Err(Error::input(results.dir(), Origin::Nowhere, "", why));
    }
    // Those of other shards may be among them: the time that is left is told as if they were none then.
    options.going.expect(if options.only.is_none() { store.earlier() } else { 0 });
    let names = Arc::new(Names::new(experiment, &options.back_end, store));
    match carry_out_runs((experiment, options), results, &names, has_files, progress) {
        Ok((failed, interrupted)) => Ok((names, failed, interrupted)),
        // The runs are worth something where the disk was full, and nothing where the experiment cannot be carried out.
        Err(why) => {
            if !matches!(why, Error::Io { .. }) {
                results.forget_runs();
            }
            Err(why)
        }
    }
}

/// Writes the rows of the finished runs and adds them up.
fn tables(
    experiment: &Experiment,
    options: &Options,
    results: &mut Results,
    names: &Names,
    (failed, interrupted, began): (Failed, bool, Began),
) -> Result<SweepResult, Error> {
    let mut gathered = Gathered::new(experiment);
    for index in options.numbers(experiment)? {
        let Some(record) = names.read(&results.store_path(), index)? else { continue };
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
    let effort = began.effort(work);
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

/// Carries out runs. Repeats come last, so that a sweep that is stopped has seen each row. Returns the runs that
/// failed, and whether it was stopped.
fn carry_out_runs(
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
    let known = move |id: RunId, scenario: &Scenario, run: &Run| {
        (!begun.begins(id, scenario, run) && !has_files).then(nothing)
    };
    let make = move |run: Done| of.keep(run);
    let store = names.store.clone();
    let progress = |done| {
        store.look();
        progress(done);
    };
    let mut runs = begin((experiment, options, plan), known, make, |_| 0, progress)?;
    let mut failed = Failed::default();
    while let Some(kept) = runs.next() {
        match kept {
            Err(Error::Simulation { source, .. }) if source.is_of_one_run() => {
                failed.0.push((runs.number_of_last(), source));
            }
            other => {
                let kept = other?.map_err(|why| results.store_failed(why))?;
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

/// Names of the runs, and what is stored of them.
struct Names {
    experiment: Arc<Experiment>,
    back_end: Arc<dyn BackEnd>,
    store: Arc<dyn RunStore>,
    of: Mutex<Vec<Option<RunName>>>,
}

impl Names {
    fn new(
        experiment: &Arc<Experiment>,
        back_end: &Arc<dyn BackEnd>,
        store: Arc<dyn RunStore>,
    ) -> Names {
        let (experiment, back_end) = (experiment.clone(), back_end.clone());
        let of = Mutex::new(vec![None; experiment.runs()]);
        Names { experiment, back_end, store, of }
    }

    /// Names a run, and returns whether it shall be carried out.
    fn begins(&self, id: RunId, scenario: &Scenario, run: &Run) -> bool {
        let name = RunName::of(&self.experiment, scenario, run, &*self.back_end);
        self.of.lock().unwrap_or_else(PoisonError::into_inner)[id.index] = Some(name);
        self.store.begins(id.index, name)
    }

    fn name(&self, index: usize) -> Result<RunName, Error> {
        let known = self.of.lock().unwrap_or_else(PoisonError::into_inner)[index];
        match known {
            Some(name) => Ok(name),
            None => Ok(RunName::of_number(&self.experiment, index, &*self.back_end)?.0),
        }
    }

    /// Number of the runs that have finished.
    fn done(&self) -> usize {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.iter().flatten().filter(|name| self.store.has(**name)).count()
    }

    /// Number of the runs that an earlier process had left.
    fn earlier(&self) -> usize {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.iter().flatten().filter(|name| self.store.is_earlier(**name)).count()
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
        self.store.append(stored(&self.experiment, name, &run)?, name, &run.budget)?;
        Ok(Kept { recording: run.recording, is_captured: run.is_captured })
    }

    /// Returns the record of a run. `None` if it has not finished.
    fn read(&self, path: &Path, index: usize) -> Result<Option<Record>, Error> {
        let failed = |why| Error::io(path, "cannot read", why);
        let name = self.name(index)?;
        let Some(stored) = self.store.read(name).map_err(failed)? else {
            let why = "a run that was there is gone: give the same command again";
            return if self.store.has(name) {
                Err(failed(io::Error::other(why)))
            } else {
                Ok(None)
            };
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
