//! `knee pcap`.

use std::path::PathBuf;

use knee_pcap::{Flow, Input, Options, analyse};

use crate::{DONE, Failure, print};

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
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Flows of the table, the largest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let said = |error: knee_pcap::Error| Failure::Says(error.to_string());
    let inputs = args.files.iter().map(|name| Input::named(name)).collect();
    let mut csv = args.csv.as_deref().map(knee_pcap::Csv::create).transpose().map_err(said)?;
    let options = Options { flow: args.flow.filter(|_| args.packets), ..Options::default() };
    let mut failed = None;
    let mut each = |flow: &Flow| {
        if let (Some(csv), None) = (&mut csv, &failed) {
            failed = csv.flow(flow).err();
        }
    };
    let analysis = analyse(inputs, &options, &mut each).map_err(said)?;
    if let Some(csv) = csv {
        failed.map_or(Ok(()), Err).map_err(said)?;
        csv.finish(&analysis.packets).map_err(said)?;
    }
    if let Some(id) = args.flow.filter(|id| u64::from(*id) > analysis.whole.flows || *id == 0) {
        let flows = analysis.whole.flows;
        return Err(Failure::Says(format!(
            "there is no flow {id}: the capture has {flows}, counted from 1"
        )));
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
