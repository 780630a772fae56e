//! `knee report`.

use std::path::PathBuf;

use crate::{DONE, Failure, print};

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
    knee_report::write(&args.dir, &html).map_err(said)?;
    print(&format!("report in {}\n", html.display()))?;
    Ok(DONE)
}
