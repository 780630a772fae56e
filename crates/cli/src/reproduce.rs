//! `knee reproduce`: re-runs published experiments and shows their figures beside ours, with a verdict on each claim.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use knee_catalogue::PUBLISHED;
use knee_evidence::catalogue::Library;
use knee_evidence::reproduce::{Planned, Reproduction, Wanted, plan};
use knee_evidence::table::wrapped;
use knee_evidence::{beside, golden};
use knee_files::Dir;
use knee_run::BackEnd as _;
use knee_scenario::Experiment;
use knee_scenario::built_in::Resolved;
use knee_sim::Simulator;
use knee_sweep::runs::Options;

use crate::complete;
use crate::library::find;
use crate::progress::Line;
use crate::{COULD_NOT, DONE, Failure, back_ends, complain, print, profile, stop_on_signals};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Experiments: files, or names of built-in ones [default: all that --list shows]
    #[arg(value_name = "NAME", add = complete::experiment())]
    names: Vec<String>,
    /// Only a section (part of its title), or names that match a pattern, as nv-*. Separate several with commas.
    #[arg(long, value_name = "SECTION or PATTERN")]
    only: Option<String>,
    /// Run all cases, values and repeats, not only the quick set
    #[arg(long)]
    full: bool,
    /// Back end: sim (simulator); vkernel or vkernel=6.12 (Linux in virtual time, see knee vkernel build); lab (the
    /// running kernel, in namespaces). vkernel and lab skip experiments that they cannot run.
    #[arg(long, value_name = "sim|vkernel|lab", default_value = "sim")]
    on: String,
    /// Print JSON, as in reproduce.json.
    #[arg(long)]
    json: bool,
    /// Directory for the results [default: results/reproduce, numbered if it exists]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Threads [default: one per core]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// List the experiments, and those that cannot be re-run and why. Run nothing.
    #[arg(long)]
    list: bool,
    /// Write the results of the quick set to this folder, one file per experiment (tests/golden).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["full", "list"])]
    bless: Option<PathBuf>,
}

impl Args {
    /// Returns whether the whole catalogue is selected.
    fn is_whole(&self) -> bool {
        self.names.is_empty() && self.only.is_none()
    }
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let mut library = knee_catalogue::library()?;
    let names = names(&mut library, &args.names)?;
    // Listing experiments needs no kernel.
    let on = if args.list { Simulator.name() } else { &args.on };
    if args.bless.is_some() && on != Simulator.name() {
        return Err(Failure::Says("--bless keeps results of the simulator: use --on sim".into()));
    }
    if let Some(dir) = &args.bless {
        // Before anything runs.
        let made = Dir::make_all(dir).map(drop);
        made.map_err(|why| Failure::Says(format!("{}: cannot write: {why}", dir.display())))?;
    }
    let back_end = back_ends::for_published(on)?;
    let wanted = Wanted {
        names: names.clone(),
        only: args.only.clone(),
        full: args.full,
        set: profile::of(None, &*back_end)?,
        only_reads: args.list,
    };
    let planned = plan(&library, &wanted)?;
    if args.list {
        return print(&list(&library, &planned, args.is_whole())).map(|()| DONE);
    }
    let options = Options {
        threads: args.threads.unwrap_or(0) as usize,
        stop: stop_on_signals()?,
        ..Options::new(back_end)
    };
    let code = run_all(args, &library, &names, &planned, &options);
    options.back_end.leave();
    code
}

/// Names of the experiments of the command line in the library; adds unpublished ones to it.
fn names(library: &mut Library, words: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for word in words {
        names.push(match find(Path::new(word)) {
            Ok(Resolved::BuiltIn(one)) if one.group == PUBLISHED => one.name.to_owned(),
            Ok(found) => {
                let (path, text) = found.read()?;
                library.put(&path, text)
            }
            // The error of the lookup lists what can be reproduced.
            Err(_) => word.clone(),
        });
    }
    Ok(names)
}

fn run_all(
    args: &Args,
    library: &Library,
    names: &[String],
    planned: &[Planned],
    options: &Options,
) -> Result<u8, Failure> {
    let on = &*options.back_end;
    let mut reproduction = Reproduction::new(args.output.as_deref(), args.full, on)?;
    let mut progress = Progress::new(planned);
    for (i, one) in planned.iter().enumerate() {
        let swept = reproduction.run(one, options, &mut |done| progress.show(i, done))?;
        progress.clear();
        let (Ok(experiment), Some(swept)) = (&one.what, swept) else { continue };
        if let Some(dir) = args.bless.as_deref().filter(|_| !swept.interrupted) {
            bless(dir, experiment, &golden::summary(experiment, &swept))?;
        }
        if !args.json {
            let blessed = |claim: &str| reproduction.blessed(library, &one.name, claim);
            print(&format!("{}\n\n", beside::show(experiment, &swept, &blessed)))?;
        }
    }
    reproduction.finish(library)?;
    let html = reproduction.dir().join("report.html");
    // Results are kept even if the report fails.
    let report = knee_report::write(reproduction.dir(), &html);
    match args.json {
        true => print(&format!("{}\n", serde_json::json!(reproduction.list(library))))?,
        false => print(&reproduction.table(library, args.is_whole()))?,
    }
    match report {
        Ok(()) if !args.json => print(&format!("report in {}\n", html.display()))?,
        Ok(()) => {}
        Err(why) => complain(&format!("knee: no report: {why}; run knee report to write it")),
    }
    if reproduction.interrupted {
        complain(&stopped(&reproduction, planned.len()));
        return Ok(COULD_NOT);
    }
    // A failed claim is a result. A broken file, a failed simulator run, or a named experiment that did not run is a
    // failure.
    let is_named = |name: &String| names.contains(name);
    let is_broken = reproduction
        .done
        .iter()
        .any(|done| done.is_broken || (done.skipped.is_some() && is_named(&done.name)));
    Ok(if is_broken { COULD_NOT } else { DONE })
}

/// Description of the results of a stopped reproduction.
fn stopped(reproduction: &Reproduction, all: usize) -> String {
    let kept = || reproduction.done.iter().filter(|done| done.dir.is_some());
    let part = kept().find(|done| done.is_part);
    let whole = kept().count() - usize::from(part.is_some());
    let verb = if whole == 1 { "is" } else { "are" };
    let part = part.map_or_else(String::new, |done| format!(", with part of {}", done.name));
    let dir = reproduction.dir().display();
    format!(
        "knee: stopped: {whole} of {all} experiments had finished and {verb} kept in {dir}{part}"
    )
}

fn bless(dir: &Path, experiment: &Experiment, text: &str) -> Result<(), Failure> {
    let path = dir.join(format!("{}.txt", experiment.name));
    let written = Dir::make_all(dir).and_then(|_| knee_files::write(&path, text));
    written.map_err(|why| Failure::Says(format!("{}: cannot write: {why}", path.display())))
}

fn list(library: &Library, planned: &[Planned], is_whole: bool) -> String {
    let mut out = String::new();
    for (i, section) in library.sections.iter().enumerate() {
        let of_section: Vec<_> = planned.iter().filter(|one| one.section == i).collect();
        if of_section.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{}", section.title);
        let widest = of_section.iter().map(|one| one.name.len()).max().unwrap_or(0);
        for one in of_section {
            let words = match &one.what {
                Ok(experiment) => experiment.question.clone(),
                Err(skipped) => format!("({})", skipped.why),
            };
            let _ = writeln!(out, "  {:<widest$}  {words}", one.name);
        }
        out.push('\n');
    }
    if is_whole && !library.absent.is_empty() {
        out.push_str("Not re-runnable\n");
        for absent in &library.absent {
            let text = format!("{} ({}): {}", absent.title, absent.source, absent.why);
            out.push_str(&wrapped(&text, "  "));
        }
    }
    out
}

/// Progress of the whole reproduction.
struct Progress<'a> {
    planned: &'a [Planned],
    work: Vec<f64>,
    line: Line,
}

impl Progress<'_> {
    fn new(planned: &[Planned]) -> Progress<'_> {
        let work = planned.iter().map(Planned::work).collect();
        Progress { planned, work, line: Line::new() }
    }

    fn show(&mut self, at: usize, done: usize) {
        let Ok(experiment) = &self.planned[at].what else { return };
        if !self.line.is_due() {
            return;
        }
        let elapsed = self.line.started.elapsed().as_secs_f64();
        let share = done as f64 / experiment.runs().max(1) as f64;
        let behind: f64 = self.work[..at].iter().sum::<f64>() + share * self.work[at];
        let all: f64 = self.work.iter().sum();
        let left = match behind > 0.0 {
            true => format!(", about {:.0} s left", elapsed * (all - behind) / behind),
            false => String::new(),
        };
        let (runs, name, n) = (experiment.runs(), &self.planned[at].name, self.planned.len());
        self.line.write(&format!(
            "{} of {n}: {name}: {done} of {runs} runs, {elapsed:.0} s{left}",
            at + 1
        ));
    }

    fn clear(&mut self) {
        self.line.clear();
    }
}
