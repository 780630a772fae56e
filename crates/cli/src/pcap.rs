//! `knee pcap`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knee_files::Unreadable;
use knee_pcap::{Analysis, AnalysisOptions, Flow, Input, analyse};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{DONE, Failure, print, stop_on_signals};

/// Number of flows whose packets a report shows, and of packets per flow.
const REPORT_FLOWS: usize = 8;
const REPORT_PACKETS: usize = 200_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Captures: pcap or pcapng, plain or compressed (gzip, zstd, xz); - is standard input. Several captures are ends
    /// or hops of one path.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show one flow in full.
    #[arg(long, value_name = "N")]
    flow: Option<u32>,
    /// List the packets of that flow.
    #[arg(long, requires = "flow")]
    packets: bool,
    /// List the round trips of that flow.
    #[arg(long, requires = "flow")]
    rounds: bool,
    /// Write flows.csv, rounds.csv, events.csv and findings.json into this directory, with --packets also
    /// packets.csv. knee report makes a page of it.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write a report with plots of the largest flows, for a browser. knee reads the files twice.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Number of flows in the table, the largest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let stdins = args.files.iter().filter(|name| name.as_os_str() == "-").count();
    if args.report.is_some() && stdins > 0 {
        return Err(Failure::Says(
            "--report reads its files twice: save standard input as a file first".into(),
        ));
    }
    if stdins > 1 {
        return Err(Failure::Says("standard input can be read only once: give - once".into()));
    }
    if let Some(html) = args.report.as_ref().filter(|html| is_one_of(html, &args.files)) {
        return Err(Failure::Says(format!(
            "--report {}: this is one of the captures: choose another file",
            html.display()
        )));
    }
    let files = Files::new(match args.report {
        // A stopped command removes the report's intermediate files.
        Some(_) => stop_on_signals()?,
        None => Arc::default(),
    });
    let inputs = || match args.report {
        Some(_) => files.open(&args.files, |file| file.display().to_string()),
        None => Ok(args.files.iter().map(|name| Input::named(name)).collect()),
    };
    let flows = args.flow.filter(|_| args.packets).into_iter().collect();
    let options = AnalysisOptions { flows, ..AnalysisOptions::default() };
    let analysis = written(inputs()?, &options, args.csv.as_deref(), &files.stop)?;
    if let Some(id) = args.flow.filter(|id| u64::from(*id) > analysis.whole.flows || *id == 0) {
        let flows = analysis.whole.flows;
        return Err(Failure::Says(format!(
            "there is no flow {id}: the capture has {flows}, counted from 1"
        )));
    }
    let is_kept = |id: u32| analysis.flows.iter().any(|flow| flow.id == id);
    if let Some(id) = args.flow.filter(|id| !args.json && args.csv.is_none() && !is_kept(*id)) {
        let (kept, all) = (analysis.flows.len(), analysis.whole.flows);
        return Err(Failure::Says(format!(
            "flow {id} is not among the {kept} largest of {all} flows, which are kept in full: \
                --csv DIR writes all"
        )));
    }
    if let Some(html) = &args.report {
        let name = html.file_name().unwrap_or_default().to_string_lossy();
        let mark = knee_files::mark().map_err(|why| Failure::Says(why.to_string()))?;
        let name = format!(".{name}-packets.{mark}{}", knee_files::PARTIAL);
        report(inputs()?, &analysis, html, &html.with_file_name(name), &files.stop)?;
    }
    if args.json {
        let text = serde_json::to_string(&analysis)
            .map_err(|why| Failure::Says(format!("no JSON: {why}")))?;
        print(&(text + "\n"))?;
    } else {
        let show = knee_pcap::Show {
            top: args.top,
            flow: args.flow,
            rounds: args.rounds,
            packets: args.packets,
        };
        print(&knee_pcap::text(&analysis, show))?;
    }
    Ok(DONE)
}

/// Returns whether a path is one of these files, under any name.
fn is_one_of(path: &Path, files: &[PathBuf]) -> bool {
    let place = |path: &Path| path.canonicalize().ok();
    place(path).is_some_and(|there| files.iter().any(|file| place(file).as_ref() == Some(&there)))
}

/// Opens captures together. They end early when the command is stopped.
pub(crate) struct Files {
    pub(crate) stop: Arc<AtomicBool>,
}

impl Files {
    /// Raises the limit on open files to the system's maximum, because captures of a path are read side by side.
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Files {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If this fails, the old limit remains, and one file too many is an error.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        Files { stop }
    }

    /// Opens all captures, each under a name.
    pub(crate) fn open(
        &self,
        files: &[PathBuf],
        name: impl Fn(&Path) -> String,
    ) -> Result<Vec<Input>, Failure> {
        let open = |file: &PathBuf| {
            let opened = knee_files::open_file(file, "capture").map_err(|why| {
                let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                let error = match &why {
                    Unreadable::Io(why) => Errno::from_io_error(why),
                    _ => None,
                };
                Failure::Says(match error {
                    Some(Errno::MFILE) => format!(
                        "{} captures are too many, because {most} files may be open: raise ulimit \
                            -n",
                        files.len()
                    ),
                    _ => format!("{}: {why}", name(file)),
                })
            })?;
            let source = Source { file: opened, stop: self.stop.clone() };
            Ok(Input::Reader(name(file), Box::new(source)))
        };
        files.iter().map(open).collect()
    }
}

/// A file that ends early when the command is stopped.
struct Source {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.load(Ordering::Relaxed) {
            true => Ok(0),
            false => self.file.read(buffer),
        }
    }
}

/// Analyses captures, and writes the results as CSV if a directory is given. It checks `stop` between two steps.
pub(crate) fn written(
    inputs: Vec<Input>,
    options: &AnalysisOptions,
    dir: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Analysis, Failure> {
    let said = |error: knee_pcap::Error| Failure::Says(error.to_string());
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Says("stopped: no report was written".into())),
        false => Ok(()),
    };
    let mut csv = dir.map(knee_pcap::Csv::create).transpose().map_err(said)?;
    let mut failed = None;
    let mut each = |flow: &Flow| {
        if let (Some(csv), None) = (&mut csv, &failed) {
            failed = csv.flow(flow).err();
        }
    };
    let analysis = analyse(inputs, options, &mut each);
    // A capture cut short by a stop may look like no capture.
    go_on()?;
    let mut analysis = analysis.map_err(said)?;
    analysis.findings = knee_pcap::diagnosis::findings(&analysis);
    go_on()?;
    if let Some(csv) = csv {
        failed.map_or(Ok(()), Err).map_err(said)?;
        csv.finish(&analysis).map_err(said)?;
    }
    go_on()?;
    Ok(analysis)
}

/// A directory that is removed in every case.
struct Passing<'a>(&'a Path);

impl<'a> Passing<'a> {
    /// Creates the directory. An existing one belongs to somebody else.
    fn make(dir: &'a Path) -> Result<Passing<'a>, Failure> {
        knee_files::make_dir(dir)
            .map_err(|why| Failure::Says(format!("{}: cannot create: {why}", dir.display())))?;
        Ok(Passing(dir))
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        // If the removal fails, the directory's name shows that it is partial.
        let _ = knee_files::remove_tree(self.0);
    }
}

/// Writes a report with the packets of the largest flows, which are known only after a first reading. A new directory
/// holds its intermediate files meanwhile.
pub(crate) fn report(
    inputs: Vec<Input>,
    analysis: &Analysis,
    html: &Path,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut largest: Vec<_> =
        analysis.whole.briefs.iter().filter(|brief| brief.is_primary).collect();
    largest.sort_by_key(|brief| (std::cmp::Reverse(brief.bytes), brief.id));
    let shown = analysis.findings.iter().filter_map(|finding| finding.flows.first().copied());
    let mut flows: Vec<u32> = Vec::new();
    // Half of the places are for flows with findings.
    for id in shown.take(REPORT_FLOWS / 2).chain(largest.iter().map(|brief| brief.id)) {
        if flows.len() < REPORT_FLOWS && !flows.contains(&id) {
            flows.push(id);
        }
    }
    let dir = Passing::make(dir)?;
    let options =
        AnalysisOptions { flows, most_packets: REPORT_PACKETS, ..AnalysisOptions::default() };
    written(inputs, &options, Some(dir.0), stop)?;
    knee_report::write(dir.0, html).map_err(|error| Failure::Says(error.to_string()))
}
