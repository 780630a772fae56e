//! `knee report`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knee_pcap::{Input, Options};

use crate::{DONE, Failure, pcap, print, stop_on_signals};

/// Bytes by which it is told whether a file is a capture.
const HEAD_BYTES: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory that knee run, knee reproduce or knee pcap --csv has written.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Write the report here [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each chart and each plot as SVG and PNG, with its numbers as CSV, into this directory, and no report.
    #[arg(long, value_name = "OUTDIR", conflicts_with = "output")]
    figures: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let said = |error: knee_report::Error| Failure::Says(error.to_string());
    if let Some(out) = &args.figures {
        let count = knee_report::write_figures(&args.dir, out).map_err(said)?;
        print(&format!("{count} figures in {}\n", out.display()))?;
        return Ok(DONE);
    }
    let html = args.output.clone().unwrap_or_else(|| args.dir.join("report.html"));
    let mut stop = None;
    let mut analyse = |files: &[PathBuf], dir: &Path| {
        // Captures take their time, and Ctrl-C is to leave nothing behind.
        let stop = match &mut stop {
            Some(stop) => stop,
            none => none.insert(stop_on_signals().map_err(|why| why.to_string())?),
        };
        let unread = analysed(files, dir, stop);
        match stop.load(Ordering::Relaxed) {
            true => Err("stopped: no report was written".to_owned()),
            false => unread.map_err(|why| why.to_string()),
        }
    };
    knee_report::write_analysed(&args.dir, &html, &mut analyse).map_err(said)?;
    print(&format!("report in {}\n", html.display()))?;
    Ok(DONE)
}

/// Analyses the captures of a run into a directory, as `knee pcap --csv --report` does. Gives a sentence for each that cannot be read.
fn analysed(files: &[PathBuf], dir: &Path, stop: &Arc<AtomicBool>) -> Result<Vec<String>, Failure> {
    let open = |file: &PathBuf, most: u64| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let opened = File::open(file).map_err(|why| format!("{name}: cannot read: {why}"))?;
        let source = Source { file: opened.take(most), stop: stop.clone() };
        Ok::<_, String>(Input::Reader(name, Box::new(source)))
    };
    let head = |file: &PathBuf| {
        let head = vec![open(file, HEAD_BYTES)?];
        let read = knee_pcap::analyse(head, &Options::default(), &mut |_| ());
        read.map(drop).map_err(|why| why.to_string())
    };
    let (mut whole, mut unread) = (Vec::new(), Vec::new());
    for file in files {
        match head(file) {
            Ok(()) => whole.push(file),
            Err(why) => unread.push(why),
        }
    }
    let inputs = || whole.iter().map(|file| open(file, u64::MAX)).collect::<Result<Vec<_>, _>>();
    match inputs() {
        // More than may be open at once, it may be.
        Err(why) => unread.push(why),
        Ok(first) if !first.is_empty() => {
            let analysis = pcap::written(first, &Options::default(), Some(dir))?;
            let again = inputs().map_err(Failure::Says)?;
            pcap::report(again, &analysis, &dir.join("report.html"), &dir.join("packets"))?;
        }
        Ok(_) => {}
    }
    Ok(unread)
}

/// A file that ends where the command is stopped.
struct Source {
    file: io::Take<File>,
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
