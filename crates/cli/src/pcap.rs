//! `knee pcap`.

use std::path::{Path, PathBuf};

use knee_pcap::{Analysis, Flow, Input, Options, analyse};

use crate::{DONE, Failure, print};

/// Flows whose packets a report shows, and packets of each.
const REPORT_FLOWS: usize = 8;
const REPORT_PACKETS: usize = 200_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Captures: pcap or pcapng, plain or compressed (gzip, zstd, xz); - is standard input. Several are the ends or hops of a path.
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
    /// Write flows.csv, rounds.csv, events.csv, and with --packets packets.csv, into this directory.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write a report with plots of the largest flows, to be opened in a browser. The files are read twice.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Flows of the table, the largest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.report.is_some() && args.files.iter().any(|name| name.as_os_str() == "-") {
        return Err(Failure::Says(
            "--report reads its files twice, which standard input does not allow: save the capture as a file".into(),
        ));
    }
    let inputs = || args.files.iter().map(|name| Input::named(name)).collect();
    let flows = args.flow.filter(|_| args.packets).into_iter().collect();
    let options = Options { flows, ..Options::default() };
    let analysis = written(inputs(), &options, args.csv.as_deref())?;
    if let Some(id) = args.flow.filter(|id| u64::from(*id) > analysis.whole.flows || *id == 0) {
        let flows = analysis.whole.flows;
        return Err(Failure::Says(format!(
            "there is no flow {id}: the capture has {flows}, counted from 1"
        )));
    }
    if let Some(html) = &args.report {
        let name = format!("knee-pcap-{}", std::process::id());
        report(inputs(), &analysis, html, &std::env::temp_dir().join(name))?;
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

/// Analyses captures; with the results as CSV in a directory, if there is one.
pub(crate) fn written(
    inputs: Vec<Input>,
    options: &Options,
    dir: Option<&Path>,
) -> Result<Analysis, Failure> {
    let said = |error: knee_pcap::Error| Failure::Says(error.to_string());
    let mut csv = dir.map(knee_pcap::Csv::create).transpose().map_err(said)?;
    let mut failed = None;
    let mut each = |flow: &Flow| {
        if let (Some(csv), None) = (&mut csv, &failed) {
            failed = csv.flow(flow).err();
        }
    };
    let mut analysis = analyse(inputs, options, &mut each).map_err(said)?;
    analysis.findings = knee_pcap::diagnosis::findings(&analysis);
    if let Some(csv) = csv {
        failed.map_or(Ok(()), Err).map_err(said)?;
        csv.finish(&analysis).map_err(said)?;
    }
    Ok(analysis)
}

/// Writes a report with the packets of the largest flows, which are known only after a first reading. What it is made of is kept in a
/// directory meanwhile, which is not there before.
pub(crate) fn report(
    inputs: Vec<Input>,
    analysis: &Analysis,
    html: &Path,
    dir: &Path,
) -> Result<(), Failure> {
    let mut largest: Vec<_> =
        analysis.whole.briefs.iter().filter(|brief| brief.is_primary).collect();
    largest.sort_by_key(|brief| (std::cmp::Reverse(brief.bytes), brief.id));
    let shown = analysis.findings.iter().filter_map(|finding| finding.flows.first().copied());
    let mut flows: Vec<u32> = Vec::new();
    // Half of the places are for flows that show something.
    for id in shown.take(REPORT_FLOWS / 2).chain(largest.iter().map(|brief| brief.id)) {
        if flows.len() < REPORT_FLOWS && !flows.contains(&id) {
            flows.push(id);
        }
    }
    // One that is there already is somebody else's.
    std::fs::create_dir(dir)
        .map_err(|why| Failure::Says(format!("{}: cannot make: {why}", dir.display())))?;
    let options = Options { flows, most_packets: REPORT_PACKETS, ..Options::default() };
    let made = written(inputs, &options, Some(dir)).and_then(|_| {
        knee_report::write(dir, html).map_err(|error| Failure::Says(error.to_string()))
    });
    // What was asked for is there, or why not is said; a directory that stays is the system's to clean.
    let _ = std::fs::remove_dir_all(dir);
    made
}
