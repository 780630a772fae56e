//! Runs published experiments one after the other, all or some of them, into one directory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use knee_file::{Origin, one_of};
use knee_files::Dir;
use knee_results::Manifest;
use knee_results::reproduction::{self, Claimed, Entry, Section};
use knee_run::BackEnd;
use knee_run::spec::{Run, Traffic};
use knee_scenario::error::Error;
use knee_scenario::experiment::{Experiment, Overrides};
use knee_scenario::refused;
use knee_sweep::machine;
use knee_sweep::results::{Results, check_trusted};
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use knee_sweep::sweep_result::SweepResult;

use crate::catalogue::Library;
use crate::judge::{ClaimVerdict, claims, judge};
use crate::table::{Align, Grid, wrapped};

const MAX_NUMBER: u32 = 99_999;

/// Selection of experiments of the library.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Names of experiments. Empty means all.
    pub names: Vec<String>,
    /// Part of a section's title, or a pattern of names with `*` and `?`.
    pub only: Option<String>,
    /// Whether to run whole experiments instead of the quick set.
    pub full: bool,
    /// Settings `key=value` for all experiments.
    pub set: Vec<String>,
    /// Whether to refuse files of algorithms that an experiment names, because nothing will be run.
    pub only_reads: bool,
}

/// Reason why an experiment is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reason, in one sentence.
    pub why: String,
    /// Whether the file or the simulator is at fault, so that the experiment should have run.
    pub is_broken: bool,
}

/// An experiment that is to be run, or the reason why it is not.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Index of its section.
    pub section: usize,
    pub name: String,
    /// The experiment to run, or why it is skipped.
    pub what: Result<Arc<Experiment>, Skipped>,
}

impl Planned {
    /// Estimates the work in packets, as far as possible before the runs.
    pub fn work(&self) -> f64 {
        let Ok(experiment) = &self.what else { return 0.0 };
        let of = |configuration: usize| {
            let run = experiment.run(experiment.run_id(configuration * experiment.repeat as usize));
            run.map_or(0.0, |run| packets(&run))
        };
        let all: f64 = (0..experiment.rows()).map(of).sum();
        all * f64::from(experiment.repeat)
    }
}

/// Estimates the packets of a run: those that its flows send, at most those that its sampled links can carry. All
/// links count if none is sampled. Endless flows do not count if the run ends with the others.
pub fn packets(run: &Run) -> f64 {
    let links = &run.network.links;
    let has_sampled = links.iter().any(|link| link.sampled);
    let counted = links.iter().filter(|link| link.sampled || !has_sampled);
    let bits_per_s: f64 = counted.filter_map(|link| link.rate).map(|rate| rate.bps() as f64).sum();
    let most = bits_per_s * (run.end.ps() as f64 / 1e12) / 12_000.0;
    let bytes = run.flows.iter().map(|flow| match flow.traffic {
        Traffic::Bulk { bytes } => bytes.map(|bytes| bytes as f64),
        Traffic::Rpc { request_bytes, response_bytes, count } => {
            count.map(|count| count as f64 * (request_bytes + response_bytes) as f64)
        }
    });
    let bytes: Vec<Option<f64>> = bytes.collect();
    let told = bytes.iter().flatten().sum::<f64>() / 1500.0;
    let are_enough = match run.until_done {
        true => bytes.iter().any(Option::is_some),
        false => bytes.iter().all(Option::is_some),
    };
    1.0 + if are_enough { told.min(most) } else { most }
}

/// Plans the experiments to run, in the catalogue's order.
///
/// # Errors
/// [`Error::Input`] if nothing matches.
pub fn plan(library: &Library, wanted: &Wanted) -> Result<Vec<Planned>, Error> {
    let wrong =
        |why: String| Error::input(Path::new("scenarios/published"), Origin::Nowhere, "", why);
    let known = || library.sections.iter().flat_map(|section| &section.experiments);
    if let Some(name) = wanted.names.iter().find(|name| !known().any(|known| known == *name)) {
        let names = known().map(String::as_str);
        return Err(wrong(format!("\"{}\": {}", name.escape_debug(), one_of(name, names))));
    }
    let only = wanted.only.as_deref().map(|only| Only::new(only, library));
    let overrides = Overrides {
        quick: !wanted.full,
        set: wanted.set.clone(),
        only_reads: wanted.only_reads,
        ..Overrides::default()
    };
    let mut planned = Vec::new();
    for (i, section) in library.sections.iter().enumerate() {
        for name in &section.experiments {
            let is_named = wanted.names.is_empty() || wanted.names.contains(name);
            let is_meant = only.as_ref().is_none_or(|only| only.means(&section.title, name));
            if !is_named || !is_meant {
                continue;
            }
            // An invalid file does not keep the other experiments from running.
            let what = match library.load(name, &overrides) {
                Ok(experiment) if wanted.full || experiment.is_quick => Ok(experiment),
                Ok(_) => {
                    let why = "not in the quick set: --full runs it".to_owned();
                    Err(Skipped { why, is_broken: false })
                }
                Err(error) => Err(Skipped { why: error.to_string(), is_broken: true }),
            };
            planned.push(Planned { section: i, name: name.clone(), what });
        }
    }
    if planned.is_empty() {
        let titles: Vec<_> = library.sections.iter().map(|s| format!("\"{}\"", s.title)).collect();
        let only = wanted.only.as_deref().unwrap_or_default().escape_debug();
        return Err(wrong(format!(
            "--only {only}: no experiment or section has this name; sections are {}",
            titles.join(", ")
        )));
    }
    Ok(planned)
}

/// Value of `--only`: sections or patterns of names, separated by commas.
struct Only<'a>(Vec<&'a str>);

impl<'a> Only<'a> {
    /// Titles of sections may contain commas, so a text that matches as a whole is not split.
    fn new(text: &'a str, library: &Library) -> Only<'a> {
        let whole = Only(vec![text]);
        let means_something = library.sections.iter().any(|section| {
            section.experiments.iter().any(|name| whole.means(&section.title, name))
        });
        if means_something { whole } else { Only(text.split(',').map(str::trim).collect()) }
    }

    fn means(&self, title: &str, name: &str) -> bool {
        let (title, name) = (title.to_lowercase(), name.chars().collect::<Vec<_>>());
        self.0.iter().filter(|part| !part.is_empty()).any(|part| {
            matches(&part.chars().collect::<Vec<_>>(), &name)
                || title.contains(&part.to_lowercase())
        })
    }
}

/// Returns whether a name matches a pattern: `*` stands for any text, `?` for one character.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            matches(rest, name)
                || name.split_first().is_some_and(|(_, name)| matches(pattern, name))
        }
        ([p, rest @ ..], [n, name @ ..]) => (*p == '?' || p == n) && matches(rest, name),
        _ => false,
    }
}

/// Result of one experiment.
#[derive(Clone, Debug)]
pub struct Done {
    /// Index of its section.
    pub section: usize,
    pub name: String,
    /// Results directory, relative to that of the reproduction.
    pub dir: Option<String>,
    /// Reason why it was not run.
    pub skipped: Option<String>,
    /// Whether it should have run and could not.
    pub is_broken: bool,
    /// Whether it was stopped and has only some of its runs.
    pub is_part: bool,
    /// Wall-clock time in seconds.
    pub wall_s: f64,
    /// CPU time in seconds.
    pub cpu_s: f64,
    pub claims: Vec<(String, ClaimVerdict)>,
}

/// A directory with one results directory per experiment.
#[derive(Debug)]
pub struct Reproduction {
    dir: PathBuf,
    full: bool,
    back_end: &'static str,
    is_model: bool,
    started: Instant,
    cpu_before: f64,
    /// Finished experiments, in order.
    pub done: Vec<Done>,
    /// Whether it was stopped.
    pub interrupted: bool,
}

impl Reproduction {
    /// Starts a reproduction in this directory, created if missing, or in a new `results/reproduce`, `-2`, ...
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be created, or already holds a reproduction.
    pub fn new(
        dir: Option<&Path>,
        full: bool,
        back_end: &dyn BackEnd,
    ) -> Result<Reproduction, Error> {
        let dir = match dir {
            Some(dir) => {
                check_trusted(dir)?;
                Dir::make_all(dir).map_err(|why| Error::io(dir, "cannot make", why))?;
                if dir.join(reproduction::Reproduction::FILE).symlink_metadata().is_ok() {
                    let why = "it already holds a reproduction: choose another directory with -o, \
                        or remove it";
                    return Err(Error::io(dir, "cannot write here", io::Error::other(why)));
                }
                dir.to_owned()
            }
            None => numbered(Path::new("results"), "reproduce")?,
        };
        Ok(Reproduction {
            dir,
            full,
            back_end: back_end.name(),
            is_model: back_end.capabilities().is_model,
            started: Instant::now(),
            cpu_before: machine::cpu_seconds(),
            done: Vec::new(),
            interrupted: false,
        })
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the next experiment and returns its results for display. `None` if it was not run, or if it was stopped
    /// before any run finished.
    ///
    /// # Errors
    /// [`Error::Io`] if results cannot be written. A failed run is a result, not an error.
    pub fn run(
        &mut self,
        planned: &Planned,
        options: &Options,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Option<SweepResult>, Error> {
        let mut done = Done {
            section: planned.section,
            name: planned.name.clone(),
            dir: None,
            skipped: None,
            is_broken: false,
            is_part: false,
            wall_s: 0.0,
            cpu_s: 0.0,
            claims: Vec::new(),
        };
        let experiment = match &planned.what {
            Ok(_) if self.interrupted => {
                Err(Skipped { why: "stopped before".to_owned(), is_broken: false })
            }
            Ok(experiment) => Ok(experiment),
            Err(why) => Err(why.clone()),
        };
        let swept = match experiment {
            Err(Skipped { why, is_broken }) => {
                (done.skipped, done.is_broken) = (Some(why), is_broken);
                None
            }
            Ok(experiment) => {
                let mut results = Results::at(&self.dir.join(&planned.name))?;
                let swept = refused::check(experiment, &*options.back_end)
                    .and_then(|()| sweep(experiment, options, &mut results, progress));
                match swept {
                    Err(Error::Refused { refusals, .. }) => {
                        let all: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                        done.is_broken = self.is_model;
                        done.skipped = Some(all.join("; "));
                        None
                    }
                    Err(Error::Simulation { source, .. }) => {
                        // Only on a real machine can a run fail without a fault of file or simulator.
                        done.is_broken = !options.back_end.capabilities().has_host;
                        done.skipped = Some(source.to_string());
                        None
                    }
                    Err(other) => return Err(other),
                    Ok(swept) => {
                        self.interrupted |= swept.interrupted;
                        (done.wall_s, done.cpu_s) = (swept.effort.wall_s, swept.effort.cpu_s);
                        let judged = experiment.claims.iter();
                        done.claims = judged
                            .map(|claim| {
                                (claim.name.clone(), judge(claim, experiment, &swept).verdict)
                            })
                            .collect();
                        match swept.runs_done {
                            0 => {
                                done.skipped = Some("stopped before a run finished".to_owned());
                                None
                            }
                            _ => {
                                results.finish(experiment, &swept, &claims(experiment, &swept))?;
                                done.is_part = swept.interrupted;
                                done.dir = Some(planned.name.clone());
                                Some(swept)
                            }
                        }
                    }
                }
            }
        };
        self.done.push(done);
        Ok(swept)
    }

    /// Writes the list of all experiments. Returns its path.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn finish(&self, library: &Library) -> Result<PathBuf, Error> {
        let path = self.dir.join(reproduction::Reproduction::FILE);
        let text = serde_json::to_string_pretty(&self.list(library)).expect("keys are texts");
        knee_files::write(&path, text + "\n")
            .map_err(|why| Error::io(&path, "cannot write", why))?;
        Ok(path)
    }

    /// Returns the list as data.
    pub fn list(&self, library: &Library) -> reproduction::Reproduction {
        let mut sections: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
        for done in &self.done {
            let claims = done.claims.iter().map(|(name, verdict)| Claimed {
                name: name.clone(),
                verdict: *verdict,
                blessed: self.blessed(library, &done.name, name).map(str::to_owned),
            });
            sections.entry(done.section).or_default().push(Entry {
                name: done.name.clone(),
                dir: done.dir.clone(),
                skipped: done.skipped.clone(),
                wall_s: Some(done.wall_s),
                cpu_s: Some(done.cpu_s),
                claims: claims.collect(),
            });
        }
        let sections = sections.into_iter().map(|(i, experiments)| {
            let section = &library.sections[i];
            Section { title: section.title.clone(), about: section.about.clone(), experiments }
        });
        let absent = library.absent.iter().map(|absent| reproduction::Absent {
            title: absent.title.clone(),
            source: absent.source.clone(),
            why: absent.why.clone(),
        });
        reproduction::Reproduction {
            format: Manifest::FORMAT,
            full: self.full,
            back_end: self.back_end.into(),
            interrupted: self.interrupted,
            wall_s: Some(self.started.elapsed().as_secs_f64()),
            cpu_s: Some(machine::cpu_seconds() - self.cpu_before),
            sections: sections.collect(),
            absent: absent.collect(),
        }
    }

    /// Returns the golden verdict, if this reproduction is comparable: the quick set in the simulator.
    pub fn blessed<'a>(&self, library: &'a Library, name: &str, claim: &str) -> Option<&'a str> {
        let is_alike = !self.full && self.is_model;
        is_alike.then(|| library.blessed(name, claim)).flatten()
    }

    /// Closing text: experiments not run, changed verdicts, then the table of verdicts and the time taken.
    pub fn table(&self, library: &Library, is_whole: bool) -> String {
        let mut out = self.remarks(library, is_whole);
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "claims by verdict\n{}\n\n{:.0} s, {:.0} s of CPU\nresults in {}",
            self.verdicts(),
            self.started.elapsed().as_secs_f64(),
            machine::cpu_seconds() - self.cpu_before,
            self.dir.display()
        );
        out
    }

    /// Formats the verdicts by experiment.
    fn verdicts(&self) -> String {
        let mut grid = Grid::default();
        grid.head(["experiment".to_owned()], Align::Left);
        grid.head(ClaimVerdict::ALL.iter().map(|verdict| verdict.name().to_owned()), Align::Right);
        grid.head(["CPU, s".to_owned()], Align::Right);
        let count = |claims: &mut dyn Iterator<Item = &(String, ClaimVerdict)>,
                     verdict: ClaimVerdict| {
            match claims.filter(|(_, other)| *other == verdict).count() {
                0 => String::new(),
                n => n.to_string(),
            }
        };
        let mut section = None;
        for done in self.done.iter().filter(|done| done.dir.is_some()) {
            if section.is_some_and(|section| section != done.section) {
                grid.gap();
            }
            section = Some(done.section);
            let mut cells = vec![done.name.clone()];
            cells.extend(
                ClaimVerdict::ALL.iter().map(|verdict| count(&mut done.claims.iter(), *verdict)),
            );
            cells.push(format!("{:.1}", done.cpu_s));
            grid.row(cells);
        }
        grid.gap();
        let mut cells = vec!["all".to_owned()];
        let all =
            || self.done.iter().filter(|done| done.dir.is_some()).flat_map(|done| &done.claims);
        cells.extend(ClaimVerdict::ALL.iter().map(|verdict| count(&mut all(), *verdict)));
        cells.push(format!("{:.1}", machine::cpu_seconds() - self.cpu_before));
        grid.row(cells);
        grid.render()
    }

    /// Remarks besides the table: experiments not run, changed verdicts, and the number of publications that cannot be re-run.
    fn remarks(&self, library: &Library, is_whole: bool) -> String {
        let mut parts: Vec<String> = Vec::new();
        if is_whole && !library.absent.is_empty() {
            let many = if library.absent.len() == 1 { "result" } else { "results" };
            parts.push(format!(
                "not re-runnable: {} published {many}; knee reproduce --list gives the reasons\n",
                library.absent.len()
            ));
        }
        let skipped: String = self
            .done
            .iter()
            .filter_map(|done| {
                let why = done.skipped.as_deref()?;
                Some(wrapped(&format!("{}: {why}", done.name), "  "))
            })
            .collect();
        if !skipped.is_empty() {
            parts.push(format!("not run\n{skipped}"));
        }
        let mut differ = String::new();
        for done in &self.done {
            for (claim, verdict) in &done.claims {
                let blessed = self.blessed(library, &done.name, claim);
                // The verdict of only a part of the runs is not comparable.
                let blessed = blessed.filter(|_| !done.is_part);
                if let Some(was) = blessed.filter(|was| *was != verdict.name()) {
                    let is = verdict.name();
                    let _ = writeln!(differ, "  {}: {claim}: {is}; it was \"{was}\"", done.name);
                }
            }
        }
        if !differ.is_empty() {
            parts.push(format!("changed\n{differ}"));
        }
        parts.join("\n")
    }
}

/// Creates a directory `NAME` below `parent`, or `NAME-2`, `NAME-3`, ... if it exists.
fn numbered(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    check_trusted(parent)?;
    Dir::make_all(parent).map_err(|why| Error::io(parent, "cannot make", why))?;
    for number in 1..=MAX_NUMBER {
        let dir = match number {
            1 => parent.join(name),
            _ => parent.join(format!("{name}-{number}")),
        };
        match knee_files::make_dir(&dir) {
            Ok(_) => return Ok(dir),
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            Err(why) => return Err(Error::io(&dir, "cannot make", why)),
        }
    }
    let why = io::Error::other(format!(
        "{MAX_NUMBER} of them exist: remove some, or choose a directory with -o"
    ));
    Err(Error::io(&parent.join(name), "cannot make", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_titles() {
        let is_meant = |only, title: &str, name: &str| Only(vec![only]).means(title, name);
        assert!(is_meant("nv-*", "TCP-NV", "nv-queue"));
        assert!(!is_meant("nv-?", "BBR", "nv-queue"));
        assert!(is_meant("*mix*", "FreeBSD", "bulk-mix-phases"));
        assert!(is_meant("freebsd", "DCTCP in FreeBSD, 2015", "incast"));
        assert!(
            is_meant("incast", "FreeBSD", "incast") && !is_meant("incast", "FreeBSD", "incast-19")
        );
        assert!(matches(&[], &[]) && !matches(&[], &['a']));
    }
}
