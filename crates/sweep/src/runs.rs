//! The runs of an experiment as a stream: spread over the cores, and returned in order.
//!
//! Every run is independent and knows its seed. Runs are returned in order, so results are the same for any number of
//! threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration as WallTime;

use knee_file::Origin;
use knee_run::outcome::Validity;
use knee_run::spec::Run;
use knee_run::{BackEnd, Budget, Room, RunOptions, RunResult};
use knee_scenario::cases::{Configuration, RunId};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::memory::shown;
use knee_scenario::scenario::Scenario;

pub use crate::done::Done;
use crate::flight::Recording;
use crate::going::Going;
use crate::machine;
use crate::results::{CaptureDir, empty_captures};
use crate::run_name::has_idle_thresholds;

/// Memory for results that wait for an earlier run, bytes. Above it, threads start only that earlier run.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// Largest lead over that earlier run, in runs.
const MOST_AHEAD_RUNS: usize = 1000;

/// Options of a sweep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads. 0 means one per core. The back end may allow fewer. If memory is short, fewer runs go on at once,
    /// each with more threads.
    pub threads: usize,
    /// Stops the sweep when set. Finished runs are kept, and current ones are abandoned.
    pub stop: Arc<AtomicBool>,
    /// Back end of the runs.
    pub back_end: Arc<dyn BackEnd>,
    /// Number of attempts for a run, at least one, until it is valid. The last one counts.
    pub attempts: u32,
    /// Traffic entry to record: every call of its algorithm, in the first run of each row.
    pub trace: Option<String>,
    /// Whether to capture packets of hosts in the first run of each row. Conflicts with `trace`.
    pub captures: bool,
    /// How far the runs are that go on.
    pub going: Arc<Going>,
    /// Numbers of the runs to carry out, whose rows must be checked. `None`: all.
    pub only: Option<Arc<[usize]>>,
}

impl Options {
    /// Returns options that carry out every run once, on this back end.
    pub fn new(back_end: Arc<dyn BackEnd>) -> Options {
        Options {
            threads: 0,
            stop: Arc::default(),
            back_end,
            attempts: 1,
            trace: None,
            captures: false,
            going: Arc::default(),
            only: None,
        }
    }
}

impl Options {
    /// Returns the numbers of the runs to carry out, without duplicates, in their order.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such run.
    pub(crate) fn numbers(&self, experiment: &Experiment) -> Result<Vec<usize>, Error> {
        let Some(only) = &self.only else { return Ok((0..experiment.runs()).collect()) };
        let mut numbers = only.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        match numbers.last().filter(|last| **last >= experiment.runs()) {
            None => Ok(numbers),
            Some(last) => {
                let why = format!("has no run {last}: its runs are 0 to {}", experiment.runs() - 1);
                Err(Error::input(&experiment.path, Origin::Nowhere, "", why))
            }
        }
    }
}

/// Additional files of runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraFiles {
    pub(crate) recording: Option<Recording>,
    pub(crate) captures: Option<CaptureDir>,
}

impl ExtraFiles {
    /// Removes what an abandoned run has written: it begins again.
    fn remove(&self, id: RunId) {
        if let Some(recording) = self.recording.as_ref().filter(|to| to.has(id)) {
            let _ = knee_files::remove_file(&recording.path(id));
        }
        if let Some(captures) = &self.captures {
            let _ = knee_files::remove_tree(&captures.of(id.index));
        }
    }
}

/// Starts all runs of an experiment. The thread of a run passes it to `make`, and the iterator returns the results of
/// `make` in order. At most 1,000 results wait for earlier runs, or 64 MiB of memory by the sizes that `bytes` returns.
///
/// [`Options::trace`] and [`Options::captures`] need a directory. Only [`sweep`](crate::runner::sweep) accepts them, and
/// this function refuses them.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use knee_scenario::{Experiment, Overrides};
/// use knee_sweep::runs::{Options, runs};
///
/// let text = r#"
///     question = "When has a short transfer arrived beside others?"
///     cc = ["cubic", "dctcp"]
///     [network]
///     topology = "many-to-one"
///     senders = 4
///     access = { rate = "10 Gbps", delay = "5 us" }
///     bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }
///     [[traffic]]
///     name = "short"
///     kind = "bulk"
///     from = "s1..s4"
///     to = "r"
///     size = "20 kB"
///     start_jitter = "100 us"
///     [run]
///     duration = "20 ms"
///     repeat = 50
/// "#;
/// let experiment = Arc::new(Experiment::parse(Path::new("short.toml"), text, &Overrides::default())?);
/// let options = Options::new(Arc::new(knee_sim::Simulator));
/// let last = |run: knee_sweep::runs::Done| {
///     let done = run.ran.outcome.flows.iter().map(|flow| flow.done_at).max().flatten();
///     (run.id.configuration, done)
/// };
/// // A hundred runs, and nothing is held but the slowest of each algorithm.
/// let mut slowest = [None; 2];
/// for run in runs(&experiment, &options, last, |_| 0)? {
///     let (configuration, done) = run?;
///     slowest[configuration] = slowest[configuration].max(done);
/// }
/// assert!(slowest.iter().all(|at| at.is_some_and(|at| at.ps() > 700_000_000)), "{slowest:?}");
/// # Ok::<(), knee_scenario::Error>(())
/// ```
///
/// # Errors
/// [`Error::Input`] if rows were not checked, or if recordings or captures are requested.
pub fn runs<T: Send + 'static>(
    experiment: &Arc<Experiment>,
    options: &Options,
    make: impl Fn(Done) -> T + Send + Sync + 'static,
    bytes: fn(&T) -> usize,
) -> Result<Runs<'static, T>, Error> {
    if options.trace.is_some() || options.captures {
        let why = "recordings and captures want a directory: knee_sweep::runner::sweep has one; here leave trace and captures out";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "", why));
    }
    let order = options.numbers(experiment)?;
    let plan = Plan { order, beside: ExtraFiles::default() };
    begin((experiment, options, plan), |_, _, _| None, make, bytes, |_| {})
}

/// Which runs to carry out, in which order, with which files.
pub(crate) struct Plan {
    /// Numbers of the runs.
    pub(crate) order: Vec<usize>,
    pub(crate) beside: ExtraFiles,
}

/// Starts the runs of a plan. A run of which `known` knows the result is not carried out. `progress` receives the number of
/// finished runs several times a second.
pub(crate) fn begin<'a, T: Send + 'static>(
    (experiment, options, plan): (&Arc<Experiment>, &Options, Plan),
    known: impl Fn(RunId, &Scenario, &Run) -> Option<T> + Send + Sync + 'static,
    make: impl Fn(Done) -> T + Send + Sync + 'static,
    bytes: fn(&T) -> usize,
    progress: impl FnMut(usize) + 'a,
) -> Result<Runs<'a, T>, Error> {
    let is_checked = |run: &usize| experiment.is_checked(experiment.run_id(*run).configuration);
    if !plan.order.iter().all(is_checked) {
        let why = "has rows that were not checked: Experiment::whole and with_rows check them";
        return Err(Error::input(&experiment.path, Origin::Nowhere, "", why));
    }
    let (cores, threads) = threads(plan.order.len(), options);
    let free = machine::memory_for_runs_bytes();
    let work = Arc::new(Work {
        experiment: experiment.clone(),
        options: options.clone(),
        order: plan.order,
        beside: plan.beside,
        known: Box::new(known),
        make: Box::new(make),
        bytes,
        threads: cores,
        at_once: Mutex::new(AtOnce { now: 0, most: threads }),
        room_bytes: free,
        room: Room::new(usize::try_from(free).unwrap_or(usize::MAX)),
        quit: Arc::default(),
        make_panicked: Arc::default(),
        handed_out: AtomicUsize::new(0),
        waiting_bytes: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
    });
    // The bound keeps threads from running far ahead of the consumer.
    let (sender, records) = mpsc::sync_channel(2 * threads);
    for _ in 0..threads {
        let (work, sender) = (work.clone(), sender.clone());
        std::thread::spawn(move || work.run_all(&sender));
    }
    let (early, progress) = (BTreeMap::new(), Box::new(progress));
    Ok(Runs { work, records, early, finished: 0, last: 0, state: State::Going, progress })
}

/// Iterates over finished runs in order: see [`runs()`]. When it is dropped, threads end after their current run.
///
/// Once [`Options::stop`] is set, it returns the finished runs at once, perhaps with gaps, and ends. It also ends
/// after an error: [`Error::Simulation`] if a run cannot be carried out. If that [is of one
/// run](Error::is_of_one_run), the other runs follow.
pub struct Runs<'a, T> {
    work: Arc<Work<T>>,
    records: mpsc::Receiver<Result<(usize, Made<T>), Error>>,
    /// Results that wait for an earlier run.
    early: BTreeMap<usize, Made<T>>,
    finished: usize,
    /// Place of the result that was returned last.
    last: usize,
    state: State,
    progress: Box<dyn FnMut(usize) + 'a>,
}

/// Result of a run, or its error.
type Made<T> = Result<T, Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Going,
    /// Stopped: only finished runs are returned.
    Stopped,
    Failed,
}

impl<T> std::fmt::Debug for Runs<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (finished, state) = (self.finished, self.state);
        f.debug_struct("Runs")
            .field("finished", &finished)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

impl<T> Runs<'_, T> {
    /// Returns whether it was stopped before all runs had finished.
    pub fn is_stopped(&self) -> bool {
        self.state == State::Stopped
    }

    /// Returns the number of the run whose result was returned last.
    pub(crate) fn number_of_last(&self) -> usize {
        self.work.number(self.last)
    }

    /// Takes the next result in order. If no more will finish, takes the first of the finished ones.
    fn take(&mut self) -> Option<Made<T>> {
        let next = self.work.next.load(Ordering::Relaxed);
        let made;
        (self.last, made) = match self.state {
            State::Going => (next, self.early.remove(&next)?),
            State::Stopped => self.early.pop_first()?,
            State::Failed => return None,
        };
        if let Ok(made) = &made {
            self.work.waiting_bytes.fetch_sub((self.work.bytes)(made), Ordering::Relaxed);
        }
        self.work.next.store(next + 1, Ordering::Relaxed);
        Some(made)
    }

    /// Waits briefly for another run to finish.
    fn wait(&mut self) -> Result<(), Error> {
        match self.records.recv_timeout(WallTime::from_millis(50)) {
            Ok(record) => self.add(record?),
            Err(RecvTimeoutError::Timeout) => {}
            // All threads have stopped after their current run.
            Err(RecvTimeoutError::Disconnected) if self.work.is_stopped() => {}
            // A thread leaves before it sends its run only if it panics.
            Err(RecvTimeoutError::Disconnected) => {
                let by_make = self.work.make_panicked.load(Ordering::Relaxed);
                let name = self.work.options.back_end.name();
                let who = if by_make { "what is made of runs here" } else { name };
                let why = format!("{who} panicked: this is a bug");
                return Err(Error::Simulation {
                    file: self.work.experiment.path.clone(),
                    run: format!(
                        "run {}",
                        self.work.number(self.work.next.load(Ordering::Relaxed))
                    ),
                    source: knee_run::Error::Failed(why),
                });
            }
        }
        self.work.room.note();
        (self.progress)(self.finished);
        if self.work.is_stopped() && self.finished < self.work.order.len() {
            while let Ok(record) = self.records.try_recv() {
                self.add(record?);
            }
            self.state = State::Stopped;
        }
        Ok(())
    }

    fn add(&mut self, (index, made): (usize, Made<T>)) {
        self.early.insert(index, made);
        self.finished += 1;
    }
}

impl<T> Iterator for Runs<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(made) = self.take() {
                return Some(made);
            }
            if self.state != State::Going || self.finished == self.work.order.len() {
                return None;
            }
            if let Err(why) = self.wait() {
                self.state = State::Failed;
                // Nobody takes the results that the threads would still produce.
                self.work.quit.store(true, Ordering::Relaxed);
                return Some(Err(why));
            }
        }
    }
}

impl<T> Drop for Runs<'_, T> {
    fn drop(&mut self) {
        self.work.quit.store(true, Ordering::Relaxed);
    }
}

/// Returns the result of a run if it is known without carrying it out.
type Known<T> = Box<dyn Fn(RunId, &Scenario, &Run) -> Option<T> + Send + Sync>;

/// State that threads share.
struct Work<T> {
    experiment: Arc<Experiment>,
    options: Options,
    /// Numbers of the runs, in the order in which they begin. Their places in it are counted below.
    order: Vec<usize>,
    beside: ExtraFiles,
    known: Known<T>,
    make: Box<dyn Fn(Done) -> T + Send + Sync>,
    bytes: fn(&T) -> usize,
    /// Number of threads of all runs together.
    threads: usize,
    at_once: Mutex<AtOnce>,
    /// Memory of all runs together, bytes.
    room_bytes: u64,
    room: Arc<Room>,
    /// Nobody takes results any more, so threads quit.
    quit: Arc<AtomicBool>,
    /// Whether `make` panicked, and not the back end.
    make_panicked: Arc<AtomicBool>,
    /// Number of runs handed out to threads.
    handed_out: AtomicUsize,
    /// Memory of finished results not taken yet, bytes.
    waiting_bytes: AtomicUsize,
    /// The run for which all others wait.
    next: AtomicUsize,
}

/// What became of a run.
enum Ran<T> {
    /// It was carried out.
    Now(Box<Done>),
    /// Its result was known.
    Before(T),
}

/// Runs that go on at once.
struct AtOnce {
    now: usize,
    /// How many may: fewer once they did not fit into memory together.
    most: usize,
}

/// Sets its flag if its thread panics.
struct OnPanic(Arc<AtomicBool>);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> Work<T> {
    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    /// Returns the number of the run at this place of the order.
    fn number(&self, place: usize) -> usize {
        self.order.get(place).copied().unwrap_or(place)
    }

    fn is_over(&self) -> bool {
        self.is_stopped() || self.quit.load(Ordering::Relaxed)
    }

    /// Returns whether a run may begin. The run for which others wait always may. Some thread has it, because runs
    /// are handed out in order.
    fn lets_begin(&self, run: usize) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let has_room = self.waiting_bytes.load(Ordering::Relaxed) <= MOST_WAITING_BYTES;
        run <= next || (run < next + MOST_AHEAD_RUNS && has_room)
    }

    /// Loop of one thread.
    fn run_all(&self, sender: &mpsc::SyncSender<Result<(usize, Made<T>), Error>>) {
        // If one thread panics, all end, so that none waits for its run.
        let _ends = OnPanic(self.quit.clone());
        while !self.is_over() {
            let index = self.handed_out.fetch_add(1, Ordering::Relaxed);
            let Some(run) = self.order.get(index) else { return };
            while !self.lets_begin(index) && !self.is_over() {
                std::thread::sleep(WallTime::from_millis(5));
            }
            if self.is_over() {
                return;
            }
            let Some(made) = self.make_in_memory(self.experiment.run_id(*run)) else { return };
            if let Ok(made) = &made {
                self.waiting_bytes.fetch_add((self.bytes)(made), Ordering::Relaxed);
            }
            let made = match made {
                Err(why) if !why.is_of_one_run() => Err(why),
                of_this_run => Ok((index, of_this_run)),
            };
            if sender.send(made).is_err() {
                return;
            }
        }
    }

    /// Carries out a run and makes something of it. A run for which memory is short beside others begins again when fewer go on.
    /// `None` if it is over.
    fn make_in_memory(&self, id: RunId) -> Option<Made<T>> {
        loop {
            let at_once = self.begin()?;
            let most_bytes = usize::try_from(self.experiment.most_bytes()).unwrap_or(usize::MAX);
            let budget = Budget::new(most_bytes, &self.room);
            let ran = self.run_one(id, &budget, self.threads / at_once);
            // The back end may have cut the run short.
            if self.is_stopped() {
                self.at_once().now -= 1;
                return None;
            }
            let tells = OnPanic(self.make_panicked.clone());
            let made = ran.map(|ran| match ran {
                Ran::Now(done) => (self.make)(*done),
                Ran::Before(known) => known,
            });
            drop(tells);
            let is_exceeded = budget.is_exceeded();
            let is_last_try = at_once == 1 || budget.is_own_exceeded();
            if !is_exceeded {
                self.at_once().now -= 1;
                return Some(made);
            }
            let why = is_last_try.then(|| self.too_large(id, &budget, &made));
            // Its memory is free before another run begins.
            drop(made);
            self.room.is_made();
            let mut at_once = self.at_once();
            at_once.now -= 1;
            if let Some(why) = why {
                return Some(Err(why));
            }
            at_once.most = at_once.most.min(at_once.now).max(1);
            self.beside.remove(id);
        }
    }

    /// Waits until one more run may go on, and returns how many may. `None` if it is over.
    fn begin(&self) -> Option<usize> {
        while !self.is_over() {
            let mut at_once = self.at_once();
            if at_once.now < at_once.most {
                at_once.now += 1;
                return Some(at_once.most);
            }
            drop(at_once);
            std::thread::sleep(WallTime::from_millis(5));
        }
        None
    }

    fn at_once(&self) -> MutexGuard<'_, AtOnce> {
        self.at_once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a run that takes too much memory, even alone.
    fn too_large(&self, id: RunId, budget: &Budget, made: &Made<T>) -> Error {
        let mostly = match made {
            Err(Error::Simulation { source: knee_run::Error::Memory { mostly, .. }, .. }) => mostly,
            _ => "the rows of its results (output)",
        };
        let limit = match (budget.is_own_exceeded(), self.experiment.most_bytes()) {
            (true, most) => {
                format!("the {} of memory that a run may take (knee run --memory)", shown(most))
            }
            (false, _) => format!(
                "the {} of memory that are free for it and the values of earlier runs",
                shown(self.room_bytes)
            ),
        };
        let source = knee_run::Error::Memory { limit, mostly: mostly.to_owned() };
        self.failed(&self.experiment.row(id.configuration), source)
    }

    fn run_one(&self, id: RunId, budget: &Arc<Budget>, threads: usize) -> Result<Ran<T>, Error> {
        let (experiment, options) = (&*self.experiment, &self.options);
        let configuration = &experiment.row(id.configuration);
        let scenario = experiment.scenario(configuration)?;
        let run = scenario.run(experiment.seed, id.repeat);
        if let Some(known) = (self.known)(id, &scenario, &run) {
            options.going.pass();
            return Ok(Ran::Before(known));
        }
        let is_model = options.back_end.capabilities().is_model;
        let has_idle = is_model && has_idle_thresholds(&run);
        let begun = options.going.begin(&run);
        let reached = Some(begun.reached());
        if let Some(recording) = self.beside.recording.as_ref().filter(|to| to.has(id)) {
            let ask =
                RunOptions { budget: Some(budget), reached, ..RunOptions::outcome(&options.stop) };
            let by = (&*options.back_end, &ask);
            let (ran, name) = recording.carry_out(experiment, &scenario, id, &run, by)?;
            let recording = Some(name);
            let (run, ran) = self.in_window(configuration, &scenario, (run, ran), &ask)?;
            let budget = budget.clone();
            let is_captured = false;
            let attempts = 1;
            let done = Done {
                id,
                run,
                ran,
                attempts,
                scenario,
                recording,
                is_captured,
                has_idle_thresholds: has_idle,
                budget,
            };
            return Ok(Ran::Now(Box::new(done)));
        }
        let captures = self.beside.captures.as_ref().filter(|_| is_captured(id));
        let dir = captures.map(|captures| captures.make(id.index)).transpose()?;
        let ask = RunOptions {
            captures: dir.as_deref(),
            threads: threads.max(1),
            budget: Some(budget),
            reached,
            ..RunOptions::outcome(&options.stop)
        };
        let (ran, attempts) =
            attempt(options, &run, &ask).map_err(|source| self.failed(configuration, source))?;
        let (run, ran) = self.in_window(configuration, &scenario, (run, ran), &ask)?;
        let (is_captured, budget) = (dir.is_some(), budget.clone());
        let done = Done {
            id,
            run,
            ran,
            attempts,
            scenario,
            recording: None,
            is_captured,
            has_idle_thresholds: has_idle,
            budget,
        };
        Ok(Ran::Now(Box::new(done)))
    }
}

impl<T> Work<T> {
    fn failed(&self, configuration: &Configuration, source: knee_run::Error) -> Error {
        Error::Simulation {
            file: self.experiment.path.clone(),
            run: self.experiment.describe(configuration),
            source,
        }
    }

    /// Carries out a run again if its measured window follows from it: back ends count a window only if they know it. The
    /// second run is the first one, since only back ends that repeat a run to the byte take such a window.
    fn in_window(
        &self,
        configuration: &Configuration,
        scenario: &Scenario,
        (mut run, ran): (Run, RunResult),
        ask: &RunOptions<'_>,
    ) -> Result<(Run, RunResult), Error> {
        if !scenario.measures_while_all_run() {
            return Ok((run, ran));
        }
        let window = scenario.while_all_run(&run, &ran.outcome);
        run.sampling.window = Some(window);
        if window.from == window.until {
            return Ok((run, ran));
        }
        // The first outcome is measured no more.
        drop(ran);
        let (ran, _) = attempt(&self.options, &run, &RunOptions { captures: None, ..*ask })
            .map_err(|source| self.failed(configuration, source))?;
        Ok((run, ran))
    }
}

/// Carries out a run until it is valid or attempts are used up. Returns the last attempt and their number. Captures
/// are those of the last one.
fn attempt(
    options: &Options,
    run: &Run,
    ask: &RunOptions<'_>,
) -> Result<(RunResult, u32), knee_run::Error> {
    let mut attempts = 1;
    loop {
        let ran = options.back_end.run(run, ask)?;
        let is_valid = ran.validity.as_ref().is_none_or(Validity::is_valid);
        if is_valid || attempts >= options.attempts || options.stop.load(Ordering::Relaxed) {
            return Ok((ran, attempts));
        }
        attempts += 1;
        if let Some(dir) = ask.captures {
            let what = format!("{}: cannot be emptied", dir.display());
            empty_captures(dir).map_err(knee_run::error::failed(what))?;
        }
    }
}

/// Returns whether this run is captured: the first of each row. Repeats differ only by their seeds.
fn is_captured(id: RunId) -> bool {
    id.repeat == 0
}

/// Returns the number of threads of all runs together, as requested (0 means one per core), and the number of parallel
/// runs.
fn threads(runs: usize, options: &Options) -> (usize, usize) {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if options.threads == 0 { cores() } else { options.threads };
    let at_once = wanted.min(options.back_end.capabilities().threads.unwrap_or(usize::MAX));
    (wanted, at_once.clamp(1, runs.max(1)))
}
