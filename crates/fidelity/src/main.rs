//! `fidelity`: reruns the reference cases and prints where the simulator differs.

use knee_fidelity::cases::{Plan, build};
use knee_fidelity::reference::Reference;
use knee_fidelity::report::Report;
use knee_fidelity::{EXCEPTIONS, Error, REFERENCE, exceptions, pool};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
Reruns the reference cases (the real Linux TCP stack) in the simulator and compares.

Usage: fidelity [options]

  --quick            few seeds and the short cases: under 20 seconds
  --only NAME        only cases whose name contains NAME
  --seeds N          runs per case where chance plays a part (default 20)
  --remarkable       print only lines that are not ok
  --json FILE        write everything as JSON
  --markdown FILE    write everything as a page of documentation
  --reference DIR    reference data other than the project's own copy
  --threads N        default: all cores
  --list             only list the cases

Exit: 0 as it should be, 1 something differs that is no known exception, 2 could not run.
";

#[derive(Default)]
struct Options {
    is_quick: bool,
    is_remarkable: bool,
    is_list: bool,
    only: Option<String>,
    seeds: Option<usize>,
    threads: Option<usize>,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    reference: Option<PathBuf>,
}

fn options(args: impl Iterator<Item = String>) -> Result<Option<Options>, Error> {
    let mut options = Options::default();
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| Error::NoValue(arg.clone()));
        let count = |text: String| match text.parse::<usize>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(Error::NoCount { option: arg.clone(), value: text }),
        };
        match arg.as_str() {
            "--quick" => options.is_quick = true,
            "--remarkable" => options.is_remarkable = true,
            "--list" => options.is_list = true,
            "--only" => options.only = Some(value()?),
            "--seeds" => options.seeds = Some(count(value()?)?),
            "--threads" => options.threads = Some(count(value()?)?),
            "--json" => options.json = Some(value()?.into()),
            "--markdown" => options.markdown = Some(value()?.into()),
            "--reference" => options.reference = Some(value()?.into()),
            "--help" | "-h" => return Ok(None),
            _ => return Err(Error::UnknownOption(arg)),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    let result = options(std::env::args().skip(1)).and_then(|options| match options {
        Some(options) => run(&options, &mut stdout),
        None => print(&mut stdout, HELP).map(|()| true),
    });
    match result {
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
    let reference = options.reference.clone().unwrap_or_else(|| REFERENCE.into());
    let plan = Plan {
        reference: Reference::new(reference),
        seeds: options.seeds.unwrap_or(if options.is_quick { 4 } else { 20 }),
        is_quick: options.is_quick,
        only: options.only.clone(),
    };
    let exceptions = exceptions::read(Path::new(EXCEPTIONS))?;
    let built = build(&plan)?;
    if options.is_list {
        for case in &built.cases {
            print(stdout, &format!("{} ({} runs)\n", case.name, case.runs.len()))?;
        }
        return Ok(true);
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let is_terminal = std::io::stderr().is_terminal();
    let progress = |done: usize, all: usize| {
        if is_terminal && (done == all || done % 16 == 0) {
            let end = if done == all { "\n" } else { "\r" };
            let _ = write!(std::io::stderr(), "{done} of {all} runs{end}");
        }
    };
    let measured = pool::run_all(&built.cases, options.threads.unwrap_or(cores), &progress)?;
    let mut report = Report { skipped: built.skipped, ..Report::default() };
    for (case, runs) in built.cases.iter().zip(&measured) {
        report.add(&case.name, (case.judge)(runs)?, &exceptions);
    }
    print(stdout, &report.text(options.is_remarkable))?;
    print(stdout, &report.summary())?;
    let runs: usize = measured.iter().map(Vec::len).sum();
    print(stdout, &format!("{runs} runs in {:.1} s\n", started.elapsed().as_secs_f64()))?;
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
