//! `knee report`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::complete;
use crate::library::results;
use crate::{DONE, Failure, print, stop_on_signals};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory of knee run, knee reproduce or knee pcap --csv, or its name below results.
    #[arg(value_name = "DIR", add = complete::results())]
    dir: PathBuf,
    /// Write the report here [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write no report, but each chart and plot as SVG and PNG, with its numbers as CSV, into this directory.
    #[arg(long, value_name = "OUTDIR", conflicts_with = "output")]
    figures: Option<PathBuf>,
    /// Width of the figures on paper, 2 to 20 inches: a column has some 3.5, a page 7. Their titles are left out.
    #[arg(long, value_name = "INCHES", requires = "figures", value_parser = inches)]
    width: Option<f64>,
}

/// The width of a figure.
fn inches(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches("in").trim_end().parse::<f64>().ok();
    number
        .filter(|inches| (2.0..=20.0).contains(inches))
        .ok_or_else(|| "must be from 2 to 20 inches, as in 3.5".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let dir = results(&args.dir);
    if let Some(out) = &args.figures {
        return figures(&dir, out, args.width);
    }
    let html = args.output.clone().unwrap_or_else(|| dir.join("report.html"));
    // The signal handler comes first: captures take time to read, and Ctrl-C must leave nothing behind.
    let stop = stop_on_signals()?;
    let mut analyse = |files: &[PathBuf], dir: &Path| {
        let unread = analysed(files, dir, &stop);
        match stop.load(Ordering::Relaxed) {
            true => Err("stopped: no report was written".to_owned()),
            false => unread.map_err(|why| why.to_string()),
        }
    };
    knee_report::write_analysed(&dir, &html, &mut analyse).map_err(said)?;
    print(&format!("report in {}\n", html.display()))?;
    Ok(DONE)
}

fn said(why: knee_report::Error) -> Failure {
    Failure::Says(why.to_string())
}

#[cfg(feature = "tools")]
fn figures(dir: &Path, out: &Path, inches: Option<f64>) -> Result<u8, Failure> {
    let painter = knee_png::Painter::new();
    let draw = |svg: &str| if inches.is_some() { painter.paper(svg) } else { painter.png(svg) };
    let count = knee_report::write_figures(dir, out, inches, &draw).map_err(said)?;
    print(&format!("{count} figures in {}\n", out.display()))?;
    Ok(DONE)
}

#[cfg(not(feature = "tools"))]
fn figures(_: &Path, _: &Path, _: Option<f64>) -> Result<u8, Failure> {
    Err(Failure::Says(format!("--figures: {}", crate::left_out::TOOLS)))
}

#[cfg(not(feature = "tools"))]
fn analysed(_: &[PathBuf], _: &Path, _: &Arc<AtomicBool>) -> Result<Vec<String>, Failure> {
    Err(Failure::Says(format!("captures: {}", crate::left_out::TOOLS)))
}

/// Analyses the captures of a run into a directory, as `knee pcap --csv --report` does. Returns a sentence for each
/// unreadable one.
#[cfg(feature = "tools")]
fn analysed(files: &[PathBuf], dir: &Path, stop: &Arc<AtomicBool>) -> Result<Vec<String>, Failure> {
    use std::io::Read as _;

    use crate::pcap::{self, Files};
    use knee_pcap::{AnalysisOptions, Input};

    /// Bytes read to decide whether a file is a capture.
    const HEAD_BYTES: u64 = 1 << 20;
    let opener = Files::new(stop.clone());
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let head = |file: &Path| {
        let opened = knee_files::open_file(file, "capture");
        let opened = opened.map_err(|why| format!("{}: {why}", name(file)))?;
        let head = vec![Input::Reader(name(file), Box::new(opened.take(HEAD_BYTES)))];
        let read = knee_pcap::analyse(head, &AnalysisOptions::default(), &mut |_| ());
        read.map(drop).map_err(|why| why.to_string())
    };
    let (mut whole, mut unread) = (Vec::new(), Vec::new());
    for file in files {
        match head(file) {
            Ok(()) => whole.push(file.clone()),
            Err(why) => unread.push(why),
        }
    }
    if !whole.is_empty() {
        let inputs = || opener.open(&whole, name);
        let options = AnalysisOptions::default();
        let analysis = pcap::written(inputs()?, &options, Some(dir), stop)?;
        pcap::report(inputs()?, &analysis, &dir.join("report.html"), &dir.join("packets"), stop)?;
    }
    Ok(unread)
}
