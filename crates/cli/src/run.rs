//! `knee run`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knee_algo::Algorithm;
use knee_exp::results::Results;
use knee_exp::runner::sweep;
use knee_exp::runs::{Options, threads};
use knee_exp::scale::Scale;
use knee_exp::swept::{MOST_WARNINGS, Swept};
use knee_exp::{Experiment, Overrides, memory, overview, refused, report, table};
use knee_run::BackEnd;

use crate::back_ends::{self, On};
use crate::library::{RESULTS, find};
use crate::progress::Line;
use crate::{
    CHECK_FAILED, COULD_NOT, DONE, Failure, complain, plain, print, profile, stop_on_signals,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Experiment files, or names of what is built in (knee scenarios).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Cases of the file, or algorithms, to compare in place of the file's cases; a path, as ./tcp_foo.c, is
    /// compiled: the source of a Linux module, or a file as knee new algorithm writes it.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    cc: Vec<String>,
    #[command(flatten)]
    module: crate::module_args::ModuleArgs,
    /// Sets a key, as network.bottleneck.rate="10 Gbps" or traffic.short.size="10 kB"; of a key that
    /// the file varies, the one value or '["a", "b"]' to use; params.shift_g=5 is for every case whose
    /// algorithm has it. May be given often.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs of each row, each with its own seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: Option<u32>,
    /// Only what the file names as quick: some of its cases, values and repeats.
    #[arg(long)]
    quick: bool,
    /// Seed of the experiment; the same seed gives the same results.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Directory for the results [default: results/NAME, numbered if it is there]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Record every call of the algorithm of a `[[traffic]]` entry of this name, in the first run of each
    /// row, for knee replay: ENTRY-run-N.flight beside the results.
    #[arg(long, value_name = "ENTRY")]
    trace: Option<String>,
    /// Write what each host sends and receives, in the first run of each row, to captures for tcpdump, Wireshark and others:
    /// HOST-run-N.pcapng beside the results.
    #[arg(long, conflicts_with = "trace")]
    pcap: bool,
    /// Run nothing: say of each file whether what --on names can carry it out, or which keys and values it cannot.
    #[arg(long, conflicts_with_all = ["trace", "pcap", "json", "output"])]
    check: bool,
    /// Print JSON, one line for each file.
    #[arg(long)]
    json: bool,
    /// Tables to print: those that fit a screen, which of a study of many rows is one with the means of each row; or one of each
    /// traffic entry and queue.
    #[arg(long, value_name = "WHICH", default_value = "fitting")]
    tables: Tables,
    /// Threads [default: one per core, or as many as there is memory for]; results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// What a run may take of memory, as "8 GiB", where a file asks for more than 4 GiB; what is free bounds it all the same.
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    /// How often a run is tried that the host limited and not what is tested; the last counts. For back ends
    /// that have a host.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    #[command(flatten)]
    on: On,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Tables {
    Fitting,
    All,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let back_end = back_ends::named(&args.on)?;
    if args.attempts > 1 && !back_end.capabilities().has_host {
        return Err(Failure::Says(
            "--attempts is for --on lab and --on hosts=FILE: no host limits what is simulated"
                .to_owned(),
        ));
    }
    let scale = Scale::new(args.on.scale)
        .map_err(|why| Failure::Says(format!("--scale {}: {why}", args.on.scale)))?;
    // What --set says of these keys comes after, and counts.
    let mut set = profile::of(args.on.profile.as_deref(), &*back_end)?;
    set.extend(args.set.clone());
    let overrides = Overrides {
        cc: args.cc.clone(),
        set,
        repeat: args.repeat,
        seed: args.seed,
        scale,
        quick: args.quick,
        memory_bytes: args.memory,
        modules: args.module.options(),
    };
    if args.check {
        // What the command line names is trusted, what a file names may not be yet.
        for experiment in &args.files {
            // As the experiment wants it compiled.
            let options = find(experiment)?.module_options(&overrides.modules)?;
            for file in args.cc.iter().filter(|name| knee_algo::module::is_path(name)) {
                Algorithm::named_with(file, Path::new(""), &options)
                    .map_err(|why| Failure::Says(why.to_string()))?;
            }
        }
        knee_algo::module::only_read();
    }
    // All files are checked before the first of them runs.
    let experiments: Vec<Arc<Experiment>> = args
        .files
        .iter()
        .map(|file| Ok(Arc::new(find(file)?.load(&overrides)?.whole()?)))
        .collect::<Result<_, Failure>>()?;
    if let Some(whole) = experiments.iter().find(|experiment| args.quick && !experiment.is_quick) {
        let path = whole.path.display();
        return Err(Failure::Says(format!("{path}: has no [quick]: leave --quick out")));
    }
    if args.check {
        return check_all(&experiments, &*back_end);
    }
    experiments.iter().try_for_each(|experiment| refused::check(experiment, &*back_end))?;
    say_limits(&experiments);
    let options = Options {
        threads: args.threads.unwrap_or(0) as usize,
        stop: stop_on_signals()?,
        trace: args.trace.clone(),
        captures: args.pcap,
        attempts: args.attempts,
        back_end,
    };
    let code = run_all(args, &experiments, &options);
    options.back_end.leave();
    code
}

/// Says of every file of an algorithm, once, what holds of its runs that its author may not expect.
fn say_limits(experiments: &[Arc<Experiment>]) {
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

/// Says of every file whether it can be run, and how much there is to do.
fn check_all(experiments: &[Arc<Experiment>], back_end: &dyn BackEnd) -> Result<u8, Failure> {
    let mut code = DONE;
    for experiment in experiments {
        match refused::check(experiment, back_end) {
            Ok(()) => print(&format!(
                "{}: {} in {} can be carried out by --on {}{}\n",
                experiment.path.display(),
                counted(experiment.runs(), "run"),
                counted(experiment.configurations.len(), "row"),
                back_end.name(),
                match experiment.memory.is_large() {
                    true => format!(", {}", experiment.memory.words()),
                    false => String::new(),
                }
            ))?,
            Err(refused) => {
                print(&format!("{refused}\n"))?;
                code = CHECK_FAILED;
            }
        }
    }
    Ok(code)
}

fn run_all(args: &Args, experiments: &[Arc<Experiment>], options: &Options) -> Result<u8, Failure> {
    let mut code = DONE;
    for (i, experiment) in experiments.iter().enumerate() {
        match run_one(args, experiment, options, i) {
            Ok(swept) if swept.interrupted => return Ok(COULD_NOT),
            Ok(swept) if swept.failed.is_empty() => {}
            Ok(_) => code = COULD_NOT,
            // What one cannot carry out, as with an algorithm that crashes, is no reason for the others to wait.
            Err(Failure::Experiment(why @ knee_exp::Error::Simulation { .. }))
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
) -> Result<Swept, Failure> {
    let memory = &experiment.memory;
    if memory.is_large() {
        let at_once = match threads(experiment, &*options.back_end, options.threads)? {
            0..=1 => String::new(),
            several => format!("; {several} go on at once"),
        };
        complain(&format!("knee: {}: {}{at_once}", experiment.name, memory.words()));
    }
    let mut results = match &args.output {
        None => Results::numbered(Path::new(RESULTS), &experiment.name)?,
        Some(dir) if args.files.len() == 1 => Results::at(dir)?,
        Some(dir) => Results::numbered(dir, &experiment.name)?,
    };
    let mut progress = Progress::new(experiment);
    let swept = sweep(experiment, options, &mut results, &mut |done| progress.show(done));
    progress.clear();
    let swept = swept?;
    if swept.runs_done == 0 {
        drop(results);
        return Err(Failure::Says("stopped before a run had finished: nothing is kept".into()));
    }
    let dir = results.finish(experiment, &swept)?;
    if swept.interrupted {
        let (done, all) = (swept.runs_done, experiment.runs());
        complain(&format!(
            "knee: stopped: {done} of {all} runs had finished and are kept in {}",
            dir.display()
        ));
    }
    complain_of(&swept, experiment, &dir);
    if args.json {
        print(&format!("{}\n", report::json(experiment, &swept, Some(&dir))))?;
    } else {
        let gap = if number == 0 { "" } else { "\n\n" };
        let shown = match args.tables {
            Tables::Fitting => overview::render(experiment, &swept),
            Tables::All => table::render(experiment, &swept),
        };
        print(&format!("{gap}{shown}{}", closing(&swept, &dir)))?;
    }
    Ok(swept)
}

/// What algorithms of files did that ended runs, or that none should.
fn complain_of(swept: &Swept, experiment: &Experiment, dir: &Path) {
    let shown = swept.failed.iter().take(MOST_WARNINGS);
    shown.for_each(|sentence| complain(&format!("knee: {sentence}")));
    let (failed, all) = (swept.failed.len(), experiment.runs());
    if failed > 0 {
        complain(&format!(
            "knee: {failed} of {all} runs failed so; the others are in {}",
            dir.display()
        ));
    }
    swept.warnings.iter().for_each(|warning| complain(&format!("knee: warning: {warning}")));
    if swept.runs_warned > 0 {
        let runs = counted(swept.runs_warned, "run");
        complain(&format!("knee: {runs} with warnings: {}", dir.join("warnings.csv").display()));
    }
}

/// What it took and where it is.
fn closing(swept: &Swept, dir: &Path) -> String {
    let effort = &swept.effort;
    // Only the simulator counts them.
    let speed = if effort.cpu_s > 0.0 && effort.work.data_pkts > 0 {
        format!(
            ", {:.2} million data packets per CPU second",
            effort.work.data_pkts as f64 / effort.cpu_s / 1e6
        )
    } else {
        String::new()
    };
    format!(
        "{} in {:.1} s ({:.1} s of CPU{speed})\nresults in {}\n",
        counted(swept.runs_done, "run"),
        effort.wall_s,
        effort.cpu_s,
        dir.display()
    )
}

/// How far the sweep is.
struct Progress<'a> {
    experiment: &'a Experiment,
    line: Line,
}

impl Progress<'_> {
    fn new(experiment: &Experiment) -> Progress<'_> {
        Progress { experiment, line: Line::new() }
    }

    fn show(&mut self, done: usize) {
        if !self.line.is_due() {
            return;
        }
        let all = self.experiment.runs();
        let elapsed = self.line.started.elapsed().as_secs_f64();
        let left = match done {
            0 => String::new(),
            done => format!(", {:.0} s left", elapsed / done as f64 * (all - done) as f64),
        };
        let name = plain(&self.experiment.name);
        self.line
            .write(&format!("{name}: {done} of {}, {elapsed:.0} s{left}", counted(all, "run")));
    }

    fn clear(&mut self) {
        self.line.clear();
    }
}

/// A number of things.
fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
