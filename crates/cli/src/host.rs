//! The `knee` of a server: what works on the running kernel, and no experiments.

use clap::{Parser, Subcommand};

use crate::{DONE, Failure, Words, completions, doctor, kernel, man};

const EXAMPLES: &str = "\
Examples:
  knee doctor
        what this machine can do, and how to get the rest
  sudo knee load cubic --cgroup /sys/fs/cgroup/web --confirm-within 60s
        an algorithm for the connections of a cgroup, gone again unless knee confirm is run
  sudo knee top
        connections under loaded algorithms, with what these hold inside
  sudo knee unload --all
        the host as it was

This knee is the host's side alone. Experiments, simulator and reports are in the package knee.

Exit codes: 0 done, 1 a check failed, 2 could not.

With --json, a command that fails prints {\"error\": ...} on standard output instead of its result. The message is
also on standard error.";

/// Data-center TCP congestion avoidance on this host: load algorithms into the kernel, look inside.
#[derive(Parser)]
#[command(name = "knee", after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// After a refusal of the kernel's, print also what libbpf and the verifier said.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what this machine can do, and how to get the rest.
    Doctor(doctor::Args),
    /// Print what a shell needs to complete this command's words.
    Completions {
        /// bash, zsh, fish or elvish.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write the pages of the manual into a directory.
    #[command(hide = true)]
    Man(man::Args),
    #[command(flatten)]
    Kernel(kernel::Command),
}

impl Words for Cli {
    fn is_verbose(&self) -> bool {
        self.verbose
    }

    fn run(&self) -> Result<u8, Failure> {
        match &self.command {
            Command::Doctor(args) => doctor::run(args, doctor::Parts::Host).map(|()| DONE),
            Command::Completions { shell } => completions::<Cli>(*shell).map(|()| DONE),
            Command::Man(args) => man::run::<Cli>(args).map(|()| DONE),
            Command::Kernel(command) => command.run(),
        }
    }
}
