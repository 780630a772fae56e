//! The `knee` command, complete and for servers. It holds flags and glue. The library crates do the work.
#![forbid(unsafe_code)]

#[cfg(feature = "kernel")]
mod agent;
mod algorithms;
mod back_ends;
mod cache;
mod check;
mod compare;
mod complete;
mod doctor;
mod experiment_args;
mod explain;
#[cfg(feature = "tools")]
mod first_difference;
mod flight;
#[cfg(feature = "kernel")]
mod host;
#[cfg(feature = "kernel")]
mod kernel;
mod kernel_commands;
#[cfg(not(feature = "kernel"))]
mod left_out;
mod library;
mod man;
mod module_args;
mod new;
#[cfg(feature = "tools")]
mod pcap;
mod profile;
mod progress;
#[cfg(feature = "tools")]
mod random;
#[cfg(feature = "tools")]
mod record;
mod replay;
mod report;
mod reproduce;
mod run;
mod scenarios;
mod schema;
#[cfg(feature = "tools")]
mod script;
mod sweep;
#[cfg(feature = "tools")]
mod vkernel;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use knee_algo::module::Fault;
use knee_sweep::machine::Build;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

#[cfg(not(feature = "tools"))]
use left_out::{self as pcap, self as script, self as vkernel};

/// Exit code of a command that succeeded.
const DONE: u8 = 0;
/// Exit code of a command that ran and whose check failed.
const CHECK_FAILED: u8 = 1;
/// Exit code of a command that could not run or was stopped.
const COULD_NOT: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  knee reproduce
        re-runs published experiments in two minutes and checks their claims
  knee explain bulk-mix
        describes one of these experiments
  knee run bulk-mix
        runs one: short transfers beside bulk transfers, compared with the published figures
  knee run bulk-mix --cc cubic,dctcp --set traffic.short.size='\"100 kB\"'
        two of its cases, and one size of short transfers
  knee run incast --repeat 50 --seed 7 -o /tmp/incast
        more runs, another seed, results in a chosen directory
  knee run bulk-mix --json | jq .simulator
        for programs
  knee run incast --profile running -o /tmp/sim && sudo knee run incast --on lab -o /tmp/lab
        the simulator with the running kernel's profile, and the running kernel
  knee vkernel build && knee run incast --on vkernel -o /tmp/vkernel
        a Linux kernel in virtual time (build it once, some minutes): repeatable, without root
  knee scenarios incast --write .
        writes its file, to be changed; knee scenarios lists all
  knee compare /tmp/sim /tmp/lab
        which figures differ, by how much, and whether chance explains it
  knee compare results/incast --cases cubic,dctcp
        is DCTCP better, by how much, and how sure is that
  knee report results/bulk-mix
        one HTML file: charts, plots over time, published figures
  knee algorithms dctcp
        an algorithm's source, parameters and internal values
  knee run two-flows --trace both -o /tmp/two && knee replay /tmp/two/both-run-0.flight --cc reno
        records every call, and shows what another algorithm would have done
  knee flight show /tmp/two/both-run-0.flight --flow 0 --op ssthresh
        prints these calls: arguments and changed fields
  knee run incast --cc dctcp,./tcp_foo.c
        compares it with a Linux module's source, unmodified (it runs inside knee: trust it first)
  knee new algorithm swift
        a first file, its test and its experiment
  knee script tests/scripts/recovery --linux all
        plays packet scripts, and prints the first difference of each version
  knee script --record incast.toml --cc dctcp -o incast.script
        writes a script of a simulated flow; for a capture: knee script --record FILE.pcapng
  knee pcap web.pcapng
        analyses a capture: flows, round trips, causes of retransmissions
  knee doctor
        what this machine supports, and how to get the rest
  sudo knee load cubic --cgroup /sys/fs/cgroup/web --confirm-within 60s
        an algorithm for the connections of a cgroup, on trial: undone unless knee confirm is run
  sudo knee top
        live connections of loaded algorithms, with their internal values
  sudo knee unload --all
        restores the host

Results go to results/NAME (results/NAME-2 and so on if it exists): tables as CSV or Parquet, and manifest.json.

Exit codes: 0 done; 1 a check failed; 2 could not run, or stopped by Ctrl-C (finished runs are kept).

With --json, a command that fails prints {\"error\": ...} on standard output. The message is also on standard
error.";

/// Data-center TCP congestion avoidance: run experiments, load algorithms into the kernel, look inside.
#[derive(Parser)]
#[command(name = "knee", after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    /// If the kernel refuses a program, also print the output of libbpf and the verifier.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run experiments and print their tables.
    Run(Box<run::Args>),
    /// Run many runs: on all cores, in shards on many machines, or on a Ray cluster. After a crash the same command goes on.
    Sweep(Box<sweep::Args>),
    /// List, check, sort or remove the stores of sweeps.
    #[command(subcommand)]
    Cache(cache::Command),
    /// Re-run published experiments and check their claims.
    Reproduce(reproduce::Args),
    /// Describe an experiment: question, network, traffic, published figures and claims.
    Explain(explain::Args),
    /// List the built-in experiments, show one, or write its file.
    Scenarios(scenarios::Args),
    /// Print the keys of a file as a JSON Schema for editors.
    Schema(schema::Args),
    /// Compare cases: which is better, by how much, how sure. Or results: each figure with its spread, and a verdict.
    Compare(compare::Args),
    /// Write a report of results for a browser, or its figures one by one.
    Report(report::Args),
    /// List the algorithms, or show one in full.
    Algorithms(algorithms::Args),
    /// Write the first file of a new algorithm.
    New(new::Args),
    /// Find constructs in an algorithm's file that BPF refuses, with replacements.
    Check(check::Args),
    /// Replay a recording on the native build and compare.
    Replay(replay::Args),
    /// Show the calls of a recording, or where two recordings differ.
    Flight(flight::Args),
    /// Play packet scripts against the simulator or the running kernel.
    Script(script::Args),
    /// Build kernels for runs in virtual time (--on vkernel).
    Vkernel(vkernel::Args),
    /// Analyse captures of TCP: flows, round trips, packets.
    Pcap(pcap::Args),
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
    /// Obey a knee on another machine.
    #[cfg(feature = "kernel")]
    #[command(hide = true)]
    Agent,
    #[cfg(feature = "kernel")]
    #[command(flatten)]
    Kernel(kernel::Command),
    #[cfg(not(feature = "kernel"))]
    #[command(flatten)]
    Kernel(left_out::Command),
}

/// Reason why a command failed.
enum Failure {
    /// A sentence.
    Says(String),
    /// An error of the experiment library.
    Experiment(knee_scenario::Error),
    /// An error of the kernel side.
    #[cfg(feature = "kernel")]
    Kernel(knee_bpf::Error),
    /// Nobody reads standard output any more.
    ClosedPipe,
    /// Standard output cannot be written.
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Says(text) => f.write_str(text),
            Failure::Experiment(error) => error.fmt(f),
            #[cfg(feature = "kernel")]
            Failure::Kernel(error) => error.fmt(f),
            Failure::ClosedPipe => f.write_str("standard output is closed"),
            Failure::Output(error) => write!(f, "standard output: cannot write: {error}"),
        }
    }
}

impl From<knee_scenario::Error> for Failure {
    fn from(error: knee_scenario::Error) -> Failure {
        Failure::Experiment(error)
    }
}

#[cfg(feature = "kernel")]
impl From<knee_bpf::Error> for Failure {
    fn from(error: knee_bpf::Error) -> Failure {
        Failure::Kernel(error)
    }
}

/// Characters that turn the direction of a text, so that it reads as another one.
const DIRECTIONS: [char; 12] = [
    '\u{061c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Escapes control characters that a terminal would obey, and those that turn the direction of a text. Names, questions and
/// values come from files of unknown origin.
fn plain(text: &str) -> Cow<'_, str> {
    let is_order = |c: char| (c.is_control() && c != '\n' && c != '\t') || DIRECTIONS.contains(&c);
    // Long outputs are mostly of plain bytes, which are quickly checked.
    let is_printed = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_printed) || !text.contains(is_order) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_order(c) {
            // This escape keeps JSON valid.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Prints a text on standard output.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = plain(text);
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Output(error),
    })
}

/// Returns whether a program reads the output. It looks at the raw command line, because parsing may be what failed.
fn is_for_programs() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Tells a program that there is no answer. Its standard output stays JSON in every case.
fn no_answer(why: &str) {
    if is_for_programs() {
        // If this fails too, nobody is left to tell.
        let _ = print(&format!("{}\n", serde_json::json!({ "error": why })));
    }
}

/// Prints a line on standard error. If this fails, nobody is left to tell.
fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// The variable by which a shell asks knee for completions.
const COMPLETE: &str = "KNEE_COMPLETE";

/// Prints what tells a shell to ask knee.
fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    let written = Shells::builtins()
        .completer(&shell.to_string())
        .map(|shell| shell.write_registration(COMPLETE, "knee", "knee", "knee", &mut text));
    // As a file on the path of functions, it is read at the first completion, which it then answers.
    if shell == clap_complete::Shell::Zsh {
        text.extend_from_slice(
            b"[ \"$funcstack[1]\" != _knee ] || _clap_dynamic_completer_knee \"$@\"\n",
        );
    }
    match written {
        Some(Ok(())) => print(&String::from_utf8_lossy(&text)),
        _ => Err(Failure::Says(format!("{shell}: has no completions here"))),
    }
}

/// Returns a flag that the first Ctrl-C, SIGTERM or SIGHUP sets. A second one ends the process at once.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // `nohup` asks the process to ignore SIGHUP.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        let at_once = i32::from(COULD_NOT);
        signal_hook::flag::register_conditional_shutdown(signal, at_once, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|why| Failure::Says(format!("cannot handle Ctrl-C: {why}")))?;
    }
    Ok(stop)
}

/// Returns whether the parent process made this one ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Runs the complete command. Returns the exit code.
pub fn main() -> ExitCode {
    command::<Cli>()
}

/// Runs the command of a server, which has only the kernel side.
#[cfg(feature = "kernel")]
pub fn host_main() -> ExitCode {
    command::<host::Cli>()
}

/// A parsed command line that can be run.
trait Words: CommandFactory + FromArgMatches {
    /// Whether to print the kernel's own output after a refusal.
    #[cfg_attr(not(feature = "kernel"), expect(dead_code, reason = "no kernel refuses anything"))]
    fn is_verbose(&self) -> bool;
    fn run(&self) -> Result<u8, Failure>;
}

impl Words for Cli {
    fn is_verbose(&self) -> bool {
        self.verbose
    }

    fn run(&self) -> Result<u8, Failure> {
        match &self.command {
            Command::Run(args) => run::run(args),
            Command::Sweep(args) => sweep::run(args),
            Command::Cache(command) => cache::run(command),
            Command::Reproduce(args) => reproduce::run(args),
            Command::Explain(args) => explain::run(args).map(|()| DONE),
            Command::Scenarios(args) => scenarios::run(args).map(|()| DONE),
            Command::Schema(args) => schema::run(args).map(|()| DONE),
            Command::Completions { shell } => completions(*shell).map(|()| DONE),
            Command::Man(args) => man::run::<Cli>(args).map(|()| DONE),
            Command::Compare(args) => compare::run(args),
            Command::Report(args) => report::run(args),
            Command::Algorithms(args) => algorithms::run(args).map(|()| DONE),
            Command::New(args) => new::run(args).map(|()| DONE),
            Command::Check(args) => check::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Flight(args) => flight::run(args),
            Command::Script(args) => script::run(args),
            Command::Vkernel(args) => vkernel::run(args),
            Command::Pcap(args) => pcap::run(args),
            Command::Doctor(args) => doctor::run(args, doctor::Parts::All),
            #[cfg(feature = "kernel")]
            Command::Agent => agent::run().map(|()| DONE),
            Command::Kernel(command) => command.run(),
        }
    }
}

/// Runs the command line. A crash of code from a file outside of a run, where nobody catches it, becomes an ordinary
/// failure.
fn run_words(words: &impl Words) -> Result<u8, Failure> {
    let run = AssertUnwindSafe(|| words.run());
    catch_unwind(run).unwrap_or_else(|panic| match Fault::of(panic) {
        Ok(fault) => Err(Failure::Says(fault.to_string())),
        Err(panic) => resume_unwind(panic),
    })
}

fn command<C: Words>() -> ExitCode {
    knee_algo::module::bounded::let_children_be_waited_for();
    #[cfg(feature = "parquet")]
    knee_columns::add();
    CompleteEnv::with_factory(C::command).var(COMPLETE).complete();
    let version = Build::this().to_string();
    let parsed = C::command()
        .version(version)
        .try_get_matches()
        .and_then(|matches| C::from_arg_matches(&matches));
    let words = match parsed {
        Ok(words) => words,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
            } else {
                // It quotes the command line. The first paragraph is the reason. The rest is help.
                let text = error.render().to_string();
                complain(text.trim_end());
                let why = text.split("\n\n").next().unwrap_or_default();
                no_answer(why.trim_start_matches("error: ").trim_end());
            }
            return ExitCode::from(if error.use_stderr() { COULD_NOT } else { DONE });
        }
    };
    match run_words(&words) {
        Ok(code) => ExitCode::from(code),
        // The reader closed the pipe because it has enough: `knee algorithms | head -1`.
        Err(Failure::ClosedPipe) => ExitCode::from(DONE),
        Err(failure) => {
            no_answer(&failure.to_string());
            complain(&format!("knee: {failure}"));
            #[cfg(feature = "kernel")]
            if let (true, Failure::Kernel(error)) = (words.is_verbose(), &failure) {
                complain(error.log());
            }
            ExitCode::from(COULD_NOT)
        }
    }
}
