//! `knee sweep`.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use knee_results::Format;
use knee_scenario::{Experiment, refused};
use knee_sweep::results::Results;
use knee_sweep::runner::fill;
use knee_sweep::runs::Options;
use knee_sweep::store::{STORE, Share, Store};
use knee_sweep::sweep_result::{Filled, MOST_WARNINGS};

use crate::back_ends;
use crate::complete;
use crate::experiment_args::{ExperimentArgs, load};
use crate::run::{
    Progress, Shown, Tables, counted, format, in_format, say_limits, say_too_short, sweep_and_show,
};
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
    #[arg(long, value_name = "I/N", conflicts_with_all = ["until", "json", "format"])]
    shard: Option<Share>,
    /// Spread the runs over a Ray cluster: auto for that of this node, or its HOST:PORT. Needs the Python package with Ray: pip
    /// install 'knee[ray]'.
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,
    /// Keep finished runs here: a folder that all machines reach, or a URL as s3://bucket/sweep. DIR/store gets a copy at the end.
    /// Needs the Python package.
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
    /// Add repeats until half of a figure's 95 % interval over runs is below this share of it in every row. As "p99 of short
    /// within 5 %". --repeat is the most then [default: 100].
    #[arg(long, value_name = "FIGURE")]
    until: Option<String>,
    /// Format of the tables: csv or parquet [default: csv, or that of the directory]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<&'static dyn Format>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Tables to print: what fits a screen, or a table per traffic entry and queue.
    #[arg(long, value_name = "WHICH", default_value = "fitting")]
    tables: Tables,
    /// Threads for runs and within large runs [default: one per core, fewer if memory is short]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
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
    // With --until it is the most.
    overrides.repeat = overrides.repeat.filter(|_| args.until.is_none());
    let experiment = load(&args.file, &overrides)?;
    refused::check(&experiment, &*back_end)?;
    say_limits(std::slice::from_ref(&experiment));
    say_too_short(&experiment);
    let threads = args.threads.unwrap_or(0) as usize;
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
            "--ray and --store need the Python package of knee for {}, which has it not: pip install 'knee[ray]', or name another \
             interpreter by KNEE_PYTHON",
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
    Ok(in_format(args.format, Store::results(&args.output, open)?))
}

fn run_whole(args: &Args, experiment: &Arc<Experiment>, options: &Options) -> Result<u8, Failure> {
    let results = |_: Option<&Path>| place(args, experiment, options, Share::Whole);
    let shown = Shown {
        until: args.until.as_deref(),
        most: args.experiment.repeat(),
        is_json: args.json,
        tables: args.tables,
        is_first: true,
    };
    let swept = sweep_and_show(experiment, options, &results, &shown)?;
    Ok(if swept.interrupted || !swept.failed.is_empty() { COULD_NOT } else { DONE })
}

fn run_shard(
    args: &Args,
    experiment: &Arc<Experiment>,
    mut options: Options,
    shard: Share,
) -> Result<u8, Failure> {
    options.only = shard.numbers(experiment, &*options.back_end)?;
    let mut results = place(args, experiment, &options, shard)?;
    let all = options.only.as_ref().map_or(experiment.runs(), |only| only.len());
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
