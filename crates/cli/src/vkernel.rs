//! `knee vkernel`, and `--on vkernel`: a Linux kernel in virtual time as a back end of experiments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Subcommand;
use knee_exp::back_end::{BackEnd, Ran};
use knee_run::Run;
use knee_vkernel::boot::wait_until_gone;
use knee_vkernel::kernel::{self, Built, DEFAULT_HZ};
use knee_vkernel::plan::{Plan, differences};
use knee_vkernel::{Algorithms, Options, hz, run, run_captured};
use serde_json::{Map, Value, json};

use crate::on::{On, Which};
use crate::profile::RUNNING;
use crate::{Failure, complain, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build a kernel for --on vkernel into the user's cache, or bring it up to date.
    Build(BuildArgs),
    /// List the kernels that are built.
    List,
}

#[derive(clap::Args)]
struct BuildArgs {
    /// A source tree of Linux, or an archive of one [default: the package linux-source-VERSION of Debian].
    #[arg(long, value_name = "TREE_OR_ARCHIVE")]
    source: Option<PathBuf>,
    /// The version, as 6.1 [default: the source's, or 6.1]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Ticks per second, as hosts.hz of experiments: 100, 250, 300 or 1000; each a kernel of its own [default: 1000]
    #[arg(long, value_name = "HZ")]
    hz: Option<u32>,
    /// Compilers at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

fn of_kernel(why: knee_vkernel::Error) -> Failure {
    Failure::Says(format!("vkernel: {why}"))
}

pub(crate) fn main(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Build(args) => build(args),
        Command::List => list(),
    }
}

fn build(args: &BuildArgs) -> Result<(), Failure> {
    let options = kernel::Options {
        source: args.source.clone(),
        version: args.version.clone(),
        hz: args.hz,
        jobs: args.jobs.unwrap_or(0) as usize,
    };
    let built = kernel::build(&options, &mut |step| complain(&format!("knee: {step}")));
    print(&show(&built.map_err(of_kernel)?))
}

fn list() -> Result<(), Failure> {
    let cache = kernel::cache().map_err(of_kernel)?;
    let all = kernel::built(&cache);
    if all.is_empty() {
        return print("none: knee vkernel build makes one\n");
    }
    print(&all.iter().map(show).collect::<String>())
}

fn show(built: &Built) -> String {
    format!(
        "Linux {} (--version {} --hz {}) in {}\n",
        built.release,
        built.version,
        built.hz,
        built.directory.display()
    )
}

/// The kernel in virtual time, as the command line asks for it.
///
/// # Errors
/// Why there is none.
pub(crate) fn back_end(on: &On, version: Option<&str>) -> Result<Arc<dyn BackEnd>, Failure> {
    if on.offloads.is_some() {
        return Err(Failure::Says(
            "--offloads is for --on lab; of hosts of the kernel in virtual time hosts.gso_max_segs says it".to_owned(),
        ));
    }
    // Who wants a version and names no other kernel means that one.
    let profile = on.profile.as_deref().filter(|profile| *profile != RUNNING);
    with(version.or(profile), on.algorithms)
}

/// The same as it is if nothing but a version is asked for.
///
/// # Errors
/// Why there is none.
pub(crate) fn plain(version: Option<&str>) -> Result<Arc<dyn BackEnd>, Failure> {
    with(version, None)
}

fn with(version: Option<&str>, algorithms: Option<Which>) -> Result<Arc<dyn BackEnd>, Failure> {
    let of_back_end = |why: knee_vkernel::Error| Failure::Says(format!("--on vkernel: {why}"));
    // Runs ask for a kernel with their own ticks, which are these as a rule.
    let usual = kernel::find(version, Some(DEFAULT_HZ));
    let built = usual.or_else(|_| kernel::find(version, None)).map_err(of_back_end)?;
    let algorithms = match algorithms {
        Some(Which::Kernel) => Algorithms::Kernels,
        _ => Algorithms::Ours,
    };
    let options = Options { algorithms, ..Options::default() };
    Ok(Arc::new(Kernel { version: built.version, options, used: Mutex::default() }))
}

/// The keys, as `--set` takes them, that make hosts what the kernel of this back end is.
pub(crate) fn keys(about: &Map<String, Value>) -> Vec<String> {
    let version = about.get("version").and_then(Value::as_str).unwrap_or_default();
    vec![format!("hosts.linux={version:?}")]
}

/// The kernels of one version.
#[derive(Debug)]
struct Kernel {
    version: String,
    options: Options,
    /// Those that runs have asked for, by their ticks per second.
    used: Mutex<BTreeMap<u32, Built>>,
}

impl Kernel {
    /// The kernel with the ticks that the hosts of a run have; the same for all runs, whatever is built meanwhile.
    fn built(&self, wanted: &Run) -> Result<Built, knee_vkernel::Error> {
        let hz = hz(wanted)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = used.get(&hz) {
            return Ok(built.clone());
        }
        let built = kernel::find(Some(&self.version), Some(hz))?;
        used.insert(hz, built.clone());
        Ok(built)
    }
}

/// What a manifest says of a kernel.
fn values(built: &Built) -> Map<String, Value> {
    let text = built.values().into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
    text.chain([("hz".to_owned(), json!(built.hz))]).collect()
}

impl BackEnd for Kernel {
    fn name(&self) -> &'static str {
        "vkernel"
    }

    fn threads(&self) -> Option<usize> {
        None
    }

    fn check(&self, wanted: &Run) -> Result<(), String> {
        // What no kernel can do is said before one is asked for.
        let plan = Plan::new(wanted, self.options.algorithms, &self.version);
        plan.and_then(|_| self.built(wanted)).map(drop).map_err(|why| why.to_string())
    }

    fn differences(&self, wanted: &Run) -> Vec<String> {
        differences(wanted).into_iter().map(str::to_owned).collect()
    }

    fn run(&self, wanted: &Run, stop: &AtomicBool) -> Result<Ran, String> {
        let outcome = self.built(wanted).and_then(|built| run(wanted, &built, &self.options, stop));
        Ok(Ran { outcome: outcome.map_err(|why| why.to_string())?, validity: None })
    }

    fn run_captured(&self, wanted: &Run, stop: &AtomicBool, dir: &Path) -> Result<Ran, String> {
        let outcome = self
            .built(wanted)
            .and_then(|built| run_captured(wanted, &built, &self.options, (stop, dir)));
        Ok(Ran { outcome: outcome.map_err(|why| why.to_string())?, validity: None })
    }

    /// Whoever stops a sweep does not wait for its runs, and their guests are to leave nothing behind.
    fn leave(&self) {
        wait_until_gone();
    }

    fn about(&self) -> Map<String, Value> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kernels: Vec<_> = used.values().map(values).collect();
        let mut about = match kernels.len() {
            0 | 1 => kernels.pop().unwrap_or_default(),
            _ => Map::from_iter([("kernels".to_owned(), json!(kernels))]),
        };
        let algorithms = match self.options.algorithms {
            Algorithms::Ours => "knee",
            Algorithms::Kernels => "kernel",
        };
        about.insert("version".to_owned(), json!(self.version));
        about.insert("algorithms".to_owned(), json!(algorithms));
        about
    }
}
