//! `knee sweep`.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use knee_scenario::{Experiment, refused};
use knee_sweep::results::Results;
use knee_sweep::runner::fill;
use knee_sweep::runs::Options;
use knee_sweep::store::{STORE, Share, Store};
use knee_sweep::sweep_result::{Filled, MOST_WARNINGS};

use crate::back_ends;
use crate::complete;
use crate::experiment_args::{ExperimentArgs, load};
use crate::run::{Asked, Progress, SweepArgs, counted, say_limits, say_too_short, sweep_and_show};
use crate::{COULD_NOT, DONE, Failure, complain, plain, print, stop_on_signals};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Experiment file, or name of a built-in experiment (knee scenarios).
    #[arg(value_name = "FILE", add = complete::experiment())]
    file: PathBuf,
    /// Directory of the sweep: its finished runs in DIR/store, and at the end its tables. The same command goes on with what is
    /// there.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Carry out one of N equal shards of the runs, as 3/100, into the same DIR/store. When all are done, the command without
    /// --shard writes the tables.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["until", "json", "format", "tables", "stat"])]
    shard: Option<Share>,
    /// Spread the runs over a Ray cluster: auto for that of this node, or its HOST:PORT. Needs knee's Python package, and Ray.
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,
    /// Keep finished runs here: a folder that all machines reach, or a URL as s3://bucket/sweep. DIR/store gets a copy at the end.
    /// Needs knee's Python package; a URL also obstore.
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
    #[command(flatten)]
    sweep: SweepArgs,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Python's interpreter, unless KNEE_PYTHON names another.
const PYTHON: &str = "python3";

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.ray.is_some() || args.store.is_some() {
        return Err(by_python());
    }
    let back_end = back_ends::named(&args.experiment.on)?;
    let mut overrides = args.experiment.overrides(&*back_end)?;
    args.sweep.apply(&mut overrides);
    let experiment = load(&args.file, &overrides)?;
    refused::check(&experiment, &*back_end)?;
    say_limits(std::slice::from_ref(&experiment));
    say_too_short(&experiment);
    let threads = args.sweep.threads();
    let options = Options { threads, stop: stop_on_signals()?, ..Options::new(back_end) };
    let code = match args.shard {
        Some(shard) => run_shard(args, &experiment, options.clone(), shard),
        None => run_whole(args, &experiment, &options),
    };
    options.back_end.leave();
    code
}

/// Becomes the same command of the Python package, which has Ray and stores at URLs. Returns why it cannot.
fn by_python() -> Failure {
    let words = std::env::args_os().skip_while(|word| word != "sweep");
    let python = std::env::var_os("KNEE_PYTHON").unwrap_or_else(|| PYTHON.into());
    let has_package = Command::new(&python)
        .args(["-P", "-c", "import knee.__main__"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_package {
        return Failure::Says(format!(
            "--ray and --store need knee's Python package, and {} has it not: install its wheel (docs/sweep.md), or set KNEE_PYTHON \
             to another Python from 3.11 on",
            Path::new(&python).display()
        ));
    }
    let why = Command::new(&python).args(["-P", "-m", "knee"]).args(words).exec();
    Failure::Says(format!("{}: {why}", Path::new(&python).display()))
}

/// Opens the place of the runs and tables.
fn place(
    args: &Args,
    experiment: &Experiment,
    options: &Options,
    share: Share,
) -> Result<Results, Failure> {
    let open = |path: &Path| Store::open(path, experiment, &*options.back_end, share);
    Ok(args.sweep.in_format(Store::results(&args.output, open)?))
}

fn run_whole(args: &Args, experiment: &Arc<Experiment>, options: &Options) -> Result<u8, Failure> {
    let results = |_: Option<&Path>| place(args, experiment, options, Share::Whole);
    let asked = Asked { args: &args.sweep, most: args.experiment.repeat(), is_first: true };
    let swept = sweep_and_show(experiment, options, &results, &asked)?;
    Ok(if swept.interrupted || !swept.failed.is_empty() { COULD_NOT } else { DONE })
}

fn run_shard(
    args: &Args,
    experiment: &Arc<Experiment>,
    mut options: Options,
    shard: Share,
) -> Result<u8, Failure> {
    let numbers = shard.numbers(experiment, &*options.back_end)?;
    let all = numbers.len();
    options.only = Some(numbers.into());
    let mut results = place(args, experiment, &options, shard)?;
    let mut progress = Progress::new(experiment, &options.going).of(all);
    let filled = fill(experiment, &options, &mut results, &mut |done| progress.show(done));
    progress.clear();
    let filled = filled?;
    drop(results);
    for sentence in filled.failed.iter().take(MOST_WARNINGS) {
        complain(&format!("knee: {sentence}"));
    }
    print(&closing(args, experiment, &filled, all))?;
    Ok(if filled.interrupted || !filled.failed.is_empty() { COULD_NOT } else { DONE })
}

/// What became of a shard, and how to go on.
fn closing(args: &Args, experiment: &Experiment, filled: &Filled, all: usize) -> String {
    let Filled { runs_done, runs_earlier, failed, effort, .. } = filled;
    let also = match failed.len() {
        0 => String::new(),
        some => format!(", {some} failed"),
    };
    let next = match filled.interrupted {
        true => "stopped: the same command goes on",
        false => "when all shards are done, the command without --shard writes the tables",
    };
    format!(
        "{}: {runs_done} of {} of this shard, of {}, are in {} ({runs_earlier} of them from before{also}) after {:.1} s ({:.1} s of CPU)\n{next}\n",
        plain(&experiment.name),
        counted(all, "run"),
        counted(experiment.runs(), "run"),
        args.output.join(STORE).display(),
        effort.wall_s,
        effort.cpu_s,
    )
}
