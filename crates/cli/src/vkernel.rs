//! `knee vkernel`: kernels for `--on vkernel`.

use std::path::PathBuf;

use clap::Subcommand;
use knee_vkernel::kernel::{self, Built};

use crate::{DONE, Failure, complain, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build a kernel for --on vkernel in the user's cache, or update it.
    Build(BuildArgs),
    /// List the built kernels.
    List,
}

#[derive(clap::Args)]
struct BuildArgs {
    /// A source tree of Linux, or an archive of one [default: the package linux-source-VERSION of Debian].
    #[arg(long, value_name = "TREE_OR_ARCHIVE")]
    source: Option<PathBuf>,
    /// The version, as 6.1 [default: that of the source, or 6.1]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Ticks per second, as hosts.hz: 100, 250, 300 or 1000. Each needs its own kernel. [default: 1000]
    #[arg(long, value_name = "HZ")]
    hz: Option<u32>,
    /// Parallel compilers [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

fn of_kernel(why: knee_vkernel::Error) -> Failure {
    Failure::Says(format!("vkernel: {why}"))
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Build(args) => build(args),
        Command::List => list(),
    }?;
    Ok(DONE)
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
        return print("no kernel: knee vkernel build builds one\n");
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
