//! `knee cache`: the stores of sweeps.

use std::path::{Path, PathBuf};

use knee_files::mark;
use knee_scenario::refused;
use knee_sweep::runs::Options;
use knee_sweep::store::{Contents, STORE, Share, Store, Wrong};

use crate::back_ends;
use crate::complete;
use crate::experiment_args::{ExperimentArgs, load};
use crate::run::counted;
use crate::{CHECK_FAILED, DONE, Failure, complain, print, stop_on_signals};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Say what is in stores: parts, runs, bytes.
    Ls {
        /// Stores, or directories of sweeps.
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
        /// Print the name of each run, too.
        #[arg(long)]
        names: bool,
    },
    /// Remove stores with their runs. Tables stay.
    Rm {
        /// Stores, or directories of sweeps.
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
    /// Run a random sample of the runs again, and compare bytes.
    Verify(Box<VerifyArgs>),
    /// Sort all runs by name and join their parts: the bytes are the same, wherever the runs were made.
    Compact {
        /// Stores, or directories of sweeps.
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
}

#[derive(clap::Args)]
pub(crate) struct VerifyArgs {
    /// A store, or the directory of a sweep.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Its experiment, with the flags that it had.
    #[arg(value_name = "FILE", add = complete::experiment())]
    file: PathBuf,
    /// Number of runs.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    #[command(flatten)]
    experiment: ExperimentArgs,
}

pub(crate) fn run(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Ls { dirs, names } => dirs.iter().try_for_each(|dir| list(dir, *names))?,
        Command::Rm { dirs } => {
            for dir in dirs {
                open(dir)?.remove()?;
            }
        }
        Command::Compact { dirs } => {
            for dir in dirs {
                let store = open(dir)?;
                store.compact()?;
                say(&store)?;
            }
        }
        Command::Verify(args) => return verify(args),
    }
    Ok(DONE)
}

/// The store that is meant: itself, or that of a sweep's directory.
fn store_path(dir: &Path) -> PathBuf {
    let inside = dir.join(STORE);
    if inside.is_dir() { inside } else { dir.to_owned() }
}

fn open(dir: &Path) -> Result<Store, Failure> {
    Ok(Store::open_any(&store_path(dir))?)
}

fn list(dir: &Path, names: bool) -> Result<(), Failure> {
    let store = Store::open_to_look(&store_path(dir))?;
    say(&store)?;
    match names {
        true => store.names().iter().try_for_each(|name| print(&format!("{name}\n"))),
        false => Ok(()),
    }
}

fn say(store: &Store) -> Result<(), Failure> {
    let Contents { parts, runs, bytes } = store.contents()?;
    print(&format!(
        "{}: {} in {}, {:.1} MB\n",
        store.path().display(),
        counted(runs, "run"),
        counted(parts, "part"),
        bytes as f64 / 1e6
    ))
}

fn verify(args: &VerifyArgs) -> Result<u8, Failure> {
    let back_end = back_ends::named(&args.experiment.on)?;
    let experiment = load(&args.file, &args.experiment.overrides(&*back_end)?)?;
    refused::check(&experiment, &*back_end)?;
    let path = store_path(&args.dir);
    // What is not there is not made.
    drop(Store::open_to_look(&path)?);
    let store = Store::open(&path, &experiment, &*back_end, Share::Whole)?;
    let salt = mark().ok().and_then(|mark| u64::from_str_radix(&mark, 16).ok()).unwrap_or(1);
    let options = Options { stop: stop_on_signals()?, ..Options::new(back_end) };
    let found = store.verify(&experiment, &options, args.sample as usize, salt)?;
    for Wrong { name, number, file } in &found.wrong {
        complain(&format!(
            "knee: run {number} ({name}) has other results than those in {file}: remove that with its .names, and go on with the \
             sweep"
        ));
    }
    let all = counted(found.stored, "run");
    let what = match found.wrong.len() {
        0 => "all have the same bytes".to_owned(),
        some => format!("{some} have other bytes"),
    };
    print(&format!("{} of {all} run again: {what}\n", found.runs))?;
    if found.interrupted {
        return Err(Failure::Says("stopped before all had run again".to_owned()));
    }
    Ok(if found.wrong.is_empty() { DONE } else { CHECK_FAILED })
}
