//! `fidelity`: reruns the reference cases and prints where the simulator differs.

use clap::Parser;
use knee_fidelity::cases::{Plan, build};
use knee_fidelity::reference::Reference;
use knee_fidelity::report::Report;
use knee_fidelity::{EXCEPTIONS, Error, REFERENCE, exceptions, pool};
use std::io::{IsTerminal, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Reruns the reference cases (the real Linux TCP stack) in the simulator and compares.
#[derive(Parser)]
#[command(
    name = "fidelity",
    after_help = "Exit: 0 as it should be, 1 something differs that is no known exception, 2 could not run."
)]
struct Options {
    /// Few seeds and the short cases: under 20 seconds
    #[arg(long)]
    quick: bool,
    /// Only cases whose name contains NAME
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Runs per case where chance plays a part: 20, or 4 of a quick check
    #[arg(long, value_name = "N")]
    seeds: Option<NonZero<usize>>,
    /// Print only lines that are not ok
    #[arg(long)]
    remarkable: bool,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write everything as a page of documentation
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Reference data other than the project's own copy
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// Default: all cores
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Only list the cases
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse(), &mut std::io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "fidelity: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options, stdout: &mut impl Write) -> Result<bool, Error> {
    let started = Instant::now();
    let built = build(&Plan {
        reference: Reference::new(options.reference.as_deref().unwrap_or(Path::new(REFERENCE))),
        seeds: options.seeds.map_or(if options.quick { 4 } else { 20 }, NonZero::get),
        is_quick: options.quick,
        only: options.only.clone(),
    })?;
    if options.list {
        for case in &built.cases {
            print(stdout, &format!("{} ({} runs)\n", case.name, case.runs.len()))?;
        }
        return Ok(true);
    }
    let exceptions = exceptions::read(Path::new(EXCEPTIONS))?;
    let is_terminal = std::io::stderr().is_terminal();
    let progress = |done: usize, all: usize| {
        if is_terminal && (done == all || done % 16 == 0) {
            let end = if done == all { "\n" } else { "\r" };
            let _ = write!(std::io::stderr(), "{done} of {all} runs{end}");
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = options.threads.map_or(cores, NonZero::get);
    let measured = pool::run_all(&built.cases, threads, &progress)?;
    let mut report = Report { skipped: built.skipped, ..Report::default() };
    for (case, runs) in built.cases.iter().zip(&measured) {
        report.add(&case.name, (case.judge)(runs)?, &exceptions);
    }
    let runs: usize = measured.iter().map(Vec::len).sum();
    let took = format!("{runs} runs in {:.1} s\n", started.elapsed().as_secs_f64());
    print(stdout, &(report.text(options.remarkable) + &report.summary() + &took))?;
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report.json())?;
        write_whole(path, &(text + "\n"))?;
    }
    if let Some(path) = &options.markdown {
        write_whole(path, &report.markdown())?;
    }
    Ok(report.differs() == 0)
}

fn print(stdout: &mut impl Write, text: &str) -> Result<(), Error> {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // The reader closed the pipe.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Unprinted(error))
        }
        _ => Ok(()),
    }
}

/// A full disk leaves no half file that looks whole.
fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    knee_files::write(path, text)
        .map_err(|source| Error::Unwritten { path: path.to_owned(), source })
}
