//! `knee run`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_evidence::until::{Distance, LEAST_REPEATS, MOST_REPEATS, Until};
use knee_evidence::{judge, overview, table};
use knee_file::one_of;
use knee_results::{Format, ResultFile, format};
use knee_run::BackEnd;
use knee_scenario::cases::MAX_RUNS;
use knee_scenario::published::Stat;
use knee_scenario::{Experiment, Overrides, refused, remarks};
use knee_sweep::going::{Going, Reached};
use knee_sweep::report;
use knee_sweep::results::Results;
use knee_sweep::run_name::RunName;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use knee_sweep::sweep_result::{MOST_WARNINGS, SweepResult};

use crate::back_ends;
use crate::complete;
use crate::experiment_args::{ExperimentArgs, load};
use crate::library::RESULTS;
use crate::progress::Line;
use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, plain, print, stop_on_signals};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Experiment files, or names of built-in experiments (knee scenarios).
    #[arg(required = true, value_name = "FILE", add = complete::experiment())]
    files: Vec<PathBuf>,
    /// Directory for the results [default: results/NAME, numbered if it exists]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with the sweep in the directory of -o: carry out only the runs that it lacks. With a larger --repeat it adds
    /// repeats. Without a sweep there it begins one.
    #[arg(long = "continue", requires = "output", conflicts_with_all = ["trace", "pcap"])]
    goes_on: bool,
    /// Run nothing. Print the name of each run: equal for runs that compute the same.
    #[arg(long, conflicts_with_all = ["trace", "pcap", "json", "output", "format", "until", "check"])]
    hash: bool,
    /// Record every call of the algorithm of this `[[traffic]]` entry, in the first run of each row. knee replay
    /// reads the results' ENTRY-run-N.flight.
    #[arg(long, value_name = "ENTRY", conflicts_with = "until")]
    trace: Option<String>,
    /// Capture the packets of each host, in the first run of each row, for tcpdump or Wireshark: HOST-run-N.pcapng in
    /// the results.
    #[arg(long, conflicts_with_all = ["trace", "until"])]
    pcap: bool,
    /// Run nothing. Check whether the back end can run each file, and list unsupported keys and values.
    #[arg(long, conflicts_with_all = ["trace", "pcap", "json", "output", "format", "until"])]
    check: bool,
    /// Attempts for a run that the host limited; the last one counts. For --on lab and --on hosts=FILE.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    #[command(flatten)]
    sweep: SweepArgs,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// How runs are carried out and their tables shown.
#[derive(clap::Args)]
pub(crate) struct SweepArgs {
    /// Format of the tables: csv, or parquet for Polars, pandas and DuckDB: a tenth of the size, read faster. [default: csv,
    /// or that of results that are continued]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<&'static dyn Format>,
    /// Add repeats until half of a figure's 95 % interval over runs is below this share of it in every row. As "p99 of short
    /// within 5 %", or "mean of goodput of bulk within 1 %". --repeat is the most then [default: 100].
    #[arg(long, value_name = "FIGURE")]
    pub(crate) until: Option<String>,
    /// Print JSON, one line per file.
    #[arg(long)]
    json: bool,
    /// Tables to print: what fits a screen (for many rows: one table of means), or a table per traffic entry and
    /// queue.
    #[arg(long, value_name = "WHICH", default_value = "fitting")]
    tables: Tables,
    /// Threads for runs and within large runs [default: one per core, fewer if memory is short]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Statistic of tables: mean, sd, min, p50, p95, p99, p999 or max, with its 95 % interval over runs. Repeat it for
    /// more. Default: output.stats of the file.
    #[arg(long, value_name = "STAT", value_parser = Stat::named)]
    stat: Vec<Stat>,
}

impl SweepArgs {
    /// Changes an experiment as these ask for.
    pub(crate) fn apply(&self, overrides: &mut Overrides) {
        overrides.stats.clone_from(&self.stat);
        // With --until it is the most.
        overrides.repeat = overrides.repeat.filter(|_| self.until.is_none());
    }

    /// Returns the number of threads; 0: one per core.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or(0) as usize
    }

    /// Returns results in the format that is asked for.
    pub(crate) fn in_format(&self, results: Results) -> Results {
        match self.format {
            Some(format) => results.in_format(format),
            None => results,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Tables {
    Fitting,
    All,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let back_end = back_ends::named(&args.experiment.on)?;
    if args.attempts > 1 && !back_end.capabilities().has_host {
        return Err(Failure::Says(
            "--attempts is for --on lab and --on hosts=FILE: no host limits a simulation"
                .to_owned(),
        ));
    }
    let mut overrides = args.experiment.overrides(&*back_end)?;
    args.sweep.apply(&mut overrides);
    // Files on the command line are trusted. Those that an experiment names may not be yet.
    overrides.only_reads = args.check;
    // All files are checked before the first one runs.
    let experiments: Vec<Arc<Experiment>> =
        args.files.iter().map(|file| load(file, &overrides)).collect::<Result<_, Failure>>()?;
    if args.check {
        return check_all(&experiments, &*back_end);
    }
    if args.hash {
        return print_names(&experiments, &*back_end);
    }
    experiments.iter().try_for_each(|experiment| refused::check(experiment, &*back_end))?;
    say_limits(&experiments);
    experiments.iter().for_each(|experiment| say_too_short(experiment));
    if let Some(text) = &args.sweep.until {
        experiments.iter().try_for_each(|experiment| read_until(text, experiment).map(drop))?;
    }
    let options = Options {
        threads: args.sweep.threads(),
        stop: stop_on_signals()?,
        trace: args.trace.clone(),
        captures: args.pcap,
        attempts: args.attempts,
        back_end,
        going: Arc::default(),
        only: None,
    };
    let code = run_all(args, &experiments, &options);
    options.back_end.leave();
    code
}

/// Prints, once per algorithm file, limits of its runs that the author may not expect.
pub(crate) fn say_limits(experiments: &[Arc<Experiment>]) {
    let mut said = BTreeSet::new();
    for module in experiments.iter().flat_map(|experiment| &experiment.modules) {
        let Some(module) = module.module() else { continue };
        for limit in module.limits() {
            let line = format!("knee: {} {limit}", module.path().display());
            if said.insert(line.clone()) {
                complain(&line);
            }
        }
    }
}

/// Prints which runs end before a retransmission timeout could.
pub(crate) fn say_too_short(experiment: &Experiment) {
    for remark in remarks::remarks(experiment) {
        if remark.topic == remarks::Topic::Timeouts {
            complain(&format!("knee: note: {}: {}", plain(&experiment.name), remark.words()));
        }
    }
}

/// Prints for each file whether it can be run, and how much work it is.
fn check_all(experiments: &[Arc<Experiment>], back_end: &dyn BackEnd) -> Result<u8, Failure> {
    let mut code = DONE;
    for experiment in experiments {
        match refused::check(experiment, back_end) {
            Ok(()) => print(&format!(
                "{}: {} in {} can run with --on {}{}\n{}",
                experiment.path.display(),
                counted(experiment.runs(), "run"),
                counted(experiment.rows(), "row"),
                back_end.name(),
                match experiment.memory.is_large() {
                    true => format!(", {}", experiment.memory.words()),
                    false => String::new(),
                },
                remarks::remarks(experiment)
                    .iter()
                    .map(|remark| format!("  {}\n", remark.words()))
                    .collect::<String>()
            ))?,
            Err(refused) => {
                print(&format!("{refused}\n"))?;
                code = CHECK_FAILED;
            }
        }
    }
    Ok(code)
}

/// Prints a line for each run: its name, number and row.
fn print_names(experiments: &[Arc<Experiment>], back_end: &dyn BackEnd) -> Result<u8, Failure> {
    for experiment in experiments {
        for index in 0..experiment.runs() {
            let id = experiment.run_id(index);
            let row = experiment.describe(&experiment.row(id.configuration));
            let (name, _) = RunName::of_number(experiment, index, back_end)?;
            let experiment = plain(&experiment.name);
            print(&format!("{name}  {experiment} {index}: {row}, repeat {}\n", id.repeat))?;
        }
    }
    Ok(DONE)
}

fn run_all(args: &Args, experiments: &[Arc<Experiment>], options: &Options) -> Result<u8, Failure> {
    let mut code = DONE;
    for (i, experiment) in experiments.iter().enumerate() {
        match run_one(args, experiment, options, i) {
            Ok(swept) if swept.interrupted => return Ok(COULD_NOT),
            Ok(swept) if swept.failed.is_empty() => {}
            Ok(_) => code = COULD_NOT,
            // If one file fails, for example because an algorithm crashes, the others still run.
            Err(Failure::Experiment(why @ knee_scenario::Error::Simulation { .. }))
                if experiments.len() > 1 =>
            {
                complain(&format!("knee: {why}"));
                code = COULD_NOT;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(code)
}

fn run_one(
    args: &Args,
    experiment: &Arc<Experiment>,
    options: &Options,
    number: usize,
) -> Result<SweepResult, Failure> {
    let results = |before: Option<&Path>| {
        let results = match (before, &args.output) {
            (Some(dir), _) => Results::continued(dir)?,
            (None, None) => Results::numbered(Path::new(RESULTS), &experiment.name)?,
            (None, Some(dir)) if args.files.len() > 1 && args.goes_on => {
                Results::continued(&dir.join(&experiment.name))?
            }
            (None, Some(dir)) if args.goes_on => Results::continued(dir)?,
            (None, Some(dir)) if args.files.len() == 1 => Results::at(dir)?,
            (None, Some(dir)) => Results::numbered(dir, &experiment.name)?,
        };
        Ok(args.sweep.in_format(results))
    };
    let asked = Asked { args: &args.sweep, most: args.experiment.repeat(), is_first: number == 0 };
    sweep_and_show(experiment, options, &results, &asked)
}

/// How a sweep is carried out and shown.
pub(crate) struct Asked<'a> {
    pub(crate) args: &'a SweepArgs,
    /// Most repeats with `--until`.
    pub(crate) most: Option<u32>,
    /// Whether nothing was shown before.
    pub(crate) is_first: bool,
}

/// Carries out an experiment and prints its tables. `results` opens the place of its results, with those of an earlier part of the
/// same sweep if there was one.
pub(crate) fn sweep_and_show(
    experiment: &Arc<Experiment>,
    options: &Options,
    results: &dyn Fn(Option<&Path>) -> Result<Results, Failure>,
    asked: &Asked<'_>,
) -> Result<SweepResult, Failure> {
    let memory = &experiment.memory;
    if memory.is_large() {
        complain(&format!("knee: {}: {}", experiment.name, memory.words()));
    }
    let until = asked.args.until.as_deref().map(|text| read_until(text, experiment)).transpose()?;
    let mut place = results(None)?;
    let most = asked.most.unwrap_or(MOST_REPEATS);
    let mut experiment = experiment.clone();
    if until.is_some() {
        experiment = with_repeat(&experiment, experiment.repeat.max(LEAST_REPEATS).min(most))?;
    }
    let (swept, claims, dir) = loop {
        let mut progress = Progress::new(&experiment, &options.going);
        let swept = sweep(&experiment, options, &mut place, &mut |done| progress.show(done));
        progress.clear();
        let swept = swept?;
        if swept.runs_done == 0 {
            drop(place);
            return Err(Failure::Says("stopped before a run finished: nothing is kept".into()));
        }
        let claims = judge::claims(&experiment, &swept);
        let dir = place.finish(&experiment, &swept, &claims)?;
        let distance = until.as_ref().map(|until| until.distance(&experiment, &swept, most));
        match distance {
            Some(of) if of.repeat > experiment.repeat && !swept.interrupted => {
                experiment = with_repeat(&experiment, of.repeat)?;
                place = results(Some(&dir))?;
            }
            of => {
                until.zip(of).iter().for_each(|(until, of)| say_until(until, of, &experiment));
                break (swept, claims, dir);
            }
        }
    };
    let experiment = &*experiment;
    if swept.interrupted {
        let (done, all) = (swept.runs_done, experiment.runs());
        complain(&format!(
            "knee: stopped: {done} of {all} runs finished and are kept in {}",
            dir.display()
        ));
    }
    complain_of(&swept, experiment, &dir);
    if asked.args.json {
        print(&format!("{}\n", report::json(experiment, &swept, &claims, Some(&dir))))?;
    } else {
        let gap = if asked.is_first { "" } else { "\n\n" };
        let tables = match asked.args.tables {
            Tables::Fitting => overview::render(experiment, &swept),
            Tables::All => table::render(experiment, &swept),
        };
        print(&format!("{gap}{tables}{}", closing(&swept, &dir)))?;
    }
    Ok(swept)
}

/// Parses a format of tables.
fn format(name: &str) -> Result<&'static dyn Format, String> {
    format::named(name).ok_or_else(|| match name {
        format::PARQUET => format::WITHOUT_PARQUET.to_owned(),
        _ => one_of(name, [format::CSV.name(), format::PARQUET].into_iter()).to_string(),
    })
}

fn read_until(text: &str, experiment: &Experiment) -> Result<Until, Failure> {
    let wrong = |why| Failure::Says(format!("{}: --until: {why}", experiment.path.display()));
    Until::read(text, experiment).map_err(wrong)
}

/// Returns the experiment with so many repeats.
fn with_repeat(experiment: &Experiment, repeat: u32) -> Result<Arc<Experiment>, Failure> {
    let runs = experiment.rows().saturating_mul(repeat as usize);
    if runs > MAX_RUNS {
        let why = format!(
            "--until: {repeat} repeats are {runs} runs, but at most {MAX_RUNS} are allowed: give a --repeat below"
        );
        return Err(Failure::Says(why));
    }
    let mut more = experiment.clone();
    more.repeat = repeat;
    Ok(Arc::new(more))
}

/// Prints whether every row has reached what was wanted.
fn say_until(until: &Until, of: &Distance, experiment: &Experiment) {
    let (name, repeats) = (until.name(), counted(experiment.repeat as usize, "repeat"));
    if of.rows.is_empty() {
        complain(&format!("knee: {name} is as narrow as asked in every row after {repeats}"));
        return;
    }
    complain(&format!("knee: {name} is not as narrow as asked after {repeats}, in:"));
    of.rows.iter().take(MOST_WARNINGS).for_each(|row| complain(&format!("knee:   {row}")));
    if let Some(more @ 1..) = of.rows.len().checked_sub(MOST_WARNINGS) {
        complain(&format!("knee:   and {} more", counted(more, "row")));
    }
}

/// Prints failures and warnings of algorithms from files.
fn complain_of(swept: &SweepResult, experiment: &Experiment, dir: &Path) {
    let shown = swept.failed.iter().take(MOST_WARNINGS);
    shown.for_each(|sentence| complain(&format!("knee: {sentence}")));
    let (failed, all) = (swept.failed.len(), experiment.runs());
    if failed > 0 {
        complain(&format!(
            "knee: {failed} of {all} runs failed; the others are in {}",
            dir.display()
        ));
    }
    swept.warnings.iter().for_each(|warning| complain(&format!("knee: warning: {warning}")));
    if swept.runs_warned > 0 {
        let runs = counted(swept.runs_warned, "run");
        let path = ResultFile::Warning.path(dir).ok().flatten();
        let path = path.unwrap_or_else(|| dir.join(ResultFile::Warning.name()));
        complain(&format!("knee: {runs} with warnings: {}", path.display()));
    }
}

/// Time taken, and the results directory.
fn closing(swept: &SweepResult, dir: &Path) -> String {
    let effort = &swept.effort;
    let also = match (swept.runs_earlier, swept.runs_same) {
        (0, 0) => String::new(),
        (0, same) => format!(" ({same} of them the same as others)"),
        (earlier, 0) => format!(" ({earlier} of them from before)"),
        (earlier, same) => {
            format!(" ({earlier} of them from before, {same} the same as others)")
        }
    };
    // Only the simulator counts packets. Those of runs that were not carried out took no time here.
    let speed = if effort.cpu_s > 0.0 && effort.work.data_pkts > 0 && also.is_empty() {
        format!(
            ", {:.2} million data packets per CPU second",
            effort.work.data_pkts as f64 / effort.cpu_s / 1e6
        )
    } else {
        String::new()
    };
    format!(
        "{}{also} in {:.1} s ({:.1} s of CPU{speed})\nresults in {}\n",
        counted(swept.runs_done, "run"),
        effort.wall_s,
        effort.cpu_s,
        dir.display()
    )
}

/// Progress of the sweep.
pub(crate) struct Progress<'a> {
    experiment: &'a Experiment,
    going: &'a Going,
    /// Number of runs.
    all: usize,
    line: Line,
}

impl Progress<'_> {
    pub(crate) fn new<'a>(experiment: &'a Experiment, going: &'a Going) -> Progress<'a> {
        Progress { experiment, going, all: experiment.runs(), line: Line::new() }
    }

    /// Counts so many runs only.
    pub(crate) fn of(mut self, all: usize) -> Self {
        self.all = all;
        self
    }

    pub(crate) fn show(&mut self, done: usize) {
        if !self.line.is_due() {
            return;
        }
        let all = self.all;
        let elapsed = self.line.started.elapsed().as_secs_f64();
        let name = plain(&self.experiment.name);
        self.line.write(&format!("{name}: {}", progress(self.going.reached(), done, all, elapsed)));
    }

    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}

/// Formats progress: `0 of 1 run, simulated 2.5 of 10 s, 8 s, 24 s left`.
fn progress(reached: Reached, done: usize, all: usize, elapsed: f64) -> String {
    let simulated =
        reached.of_one.filter(|_| done + 1 == all).map_or(String::new(), |(now, end)| {
            let (end, unit, factor) = match end {
                end if end >= 1.0 => (end, "s", 1.0),
                end => (end * 1e3, "ms", 1e3),
            };
            let now = now * factor;
            let digits = if end >= 100.0 { 0 } else { 1 };
            let end = format!("{:.1}", end);
            format!(", simulated {now:.digits$} of {} {unit}", end.trim_end_matches(".0"))
        });
    let at_most = if reached.may_end_early && !simulated.is_empty() { "at most " } else { "" };
    let left = reached
        .left_s(done, all, elapsed)
        .map_or_else(String::new, |left| format!(", {at_most}{left:.0} s left"));
    format!("{done} of {}{simulated}, {elapsed:.0} s{left}", counted(all, "run"))
}

/// Formats a number of things.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_run_that_is_left_shows_its_simulated_time() {
        let one = Reached { runs: 0.25, of_one: Some((2.5, 10.0)), ..Reached::default() };
        assert_eq!(progress(one, 0, 1, 8.0), "0 of 1 run, simulated 2.5 of 10 s, 8 s, 24 s left");
        let short = Reached { of_one: Some((0.05, 0.2)), may_end_early: true, ..one };
        let line = progress(short, 0, 1, 8.0);
        assert_eq!(line, "0 of 1 run, simulated 50 of 200 ms, 8 s, at most 24 s left");
        let two = Reached { runs: 0.5, ..Reached::default() };
        assert_eq!(progress(two, 1, 4, 3.0), "1 of 4 runs, 3 s, 5 s left");
        assert_eq!(progress(Reached::default(), 0, 4, 3.0), "0 of 4 runs, 3 s");
    }
}
