//! The `knee` command of a server. It works on the running kernel and has no experiments.

use clap::{Parser, Subcommand};

use crate::{DONE, Failure, Words, completions, doctor, kernel, man};

const EXAMPLES: &str = "\
Examples:
  knee doctor
        what this machine supports, and how to get the rest
  sudo knee load cubic --cgroup /sys/fs/cgroup/web --confirm-within 60s
        an algorithm for the connections of a cgroup, on trial: undone unless knee confirm is run
  sudo knee top
        live connections of loaded algorithms, with their internal values
  sudo knee unload --all
        restores the host

This knee has only the commands for a host. The package knee has experiments, simulator and reports.

Exit codes: 0 done, 1 a check failed, 2 could not.

With --json, a command that fails prints {\"error\": ...} on standard output. The message is also on standard
error.";

/// Data-center TCP congestion avoidance on this host: load algorithms into the kernel, look inside.
#[derive(Parser)]
#[command(name = "knee", after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// If the kernel refuses a program, also print the output of libbpf and the verifier.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what this machine supports, and how to get the rest.
    Doctor(doctor::Args),
    /// Print a completion script for a shell.
    Completions {
        /// bash, zsh, fish or elvish.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
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
            Command::Doctor(args) => doctor::run(args, doctor::Parts::Host),
            Command::Completions { shell } => completions(*shell).map(|()| DONE),
            Command::Man(args) => man::run::<Cli>(args).map(|()| DONE),
            Command::Kernel(command) => command.run(),
        }
    }
}
