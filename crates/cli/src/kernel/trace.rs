//! `knee trace`.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_bpf::policy::Prefix;
use knee_bpf::{TraceFilter, Tracer};
use knee_files::Dir;
use knee_flight::{Ending, Record, Writer};
use serde_json::json;

use super::load::duration;
use crate::replay::lost_json;
use crate::{DONE, Failure, print, stop_on_signals};

/// Longest wait for records, and so the longest delay until a signal is noticed.
const WAIT: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The registered name of one of knee's algorithms (knee status).
    name: String,
    /// Write the recording to this new file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    for_: Option<Duration>,
    /// Stop after this number of calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_records: Option<u64>,
    /// Only connections with this port on this host.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    local_port: Option<u16>,
    /// Only connections to this port of their peer.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    remote_port: Option<u16>,
    /// Only connections to these addresses, as 10.0.0.0/8 or fd00::/8.
    #[arg(long, value_name = "PREFIX")]
    remote: Option<Prefix>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let filter = TraceFilter {
        local_port: args.local_port,
        remote_port: args.remote_port,
        remote: args.remote,
    };
    let failed = |why: &dyn std::fmt::Display| {
        Failure::Says(format!("{}: cannot write: {why}", args.output.display()))
    };
    let (dir, name) = Dir::of(&args.output).map_err(|why| failed(&why))?;
    let file = BufWriter::new(dir.create(name).map_err(|why| failed(&why))?);
    let mut tracer = Tracer::attach(&args.name, &filter).inspect_err(|_| {
        // This command created the file, in the directory that it still holds, and it is empty.
        let _ = dir.remove(name);
    })?;
    let mut writer = Writer::new(file, tracer.header()).map_err(|why| failed(&why))?;
    if !args.json {
        print(&format!("recording {} of {} ...\n", filter, args.name))?;
    }
    let lost = record(args, &stop, &mut tracer, |record| {
        writer.write(record).map_err(|why| failed(&why))
    })?;
    let records = writer.records();
    let mut file = writer.finish(&lost).map_err(|why| failed(&why))?;
    file.flush().map_err(|why| failed(&why))?;
    print(&in_words(args, records, &lost))?;
    Ok(DONE)
}

/// Records until a limit is reached. Dropping the tracer also switches recording off if this ends early.
fn record(
    args: &Args,
    stop: &AtomicBool,
    tracer: &mut Tracer,
    mut write: impl FnMut(&Record) -> Result<(), Failure>,
) -> Result<Ending, Failure> {
    let end = args.for_.map(|time| Instant::now() + time);
    let mut room = args.max_records.unwrap_or(u64::MAX);
    let mut take = |records: &[Record]| {
        for record in records.iter().take(usize::try_from(room).unwrap_or(usize::MAX)) {
            write(record)?;
            room -= 1;
        }
        Ok::<bool, Failure>(room > 0)
    };
    let mut more = true;
    while more && !stop.load(Ordering::Relaxed) {
        let left = end.map_or(WAIT, |end| end.saturating_duration_since(Instant::now()).min(WAIT));
        if left.is_zero() {
            break;
        }
        more = take(&tracer.poll(left)?)?;
    }
    tracer.stop()?;
    while more {
        let rest = tracer.rest()?;
        more = take(&rest)? && !rest.is_empty();
    }
    Ok(tracer.lost())
}

fn in_words(args: &Args, records: u64, lost: &Ending) -> String {
    if args.json {
        let all = json!({
            "name": args.name,
            "file": args.output,
            "records": records,
            "lost": lost_json(lost),
        });
        return format!("{all}\n");
    }
    let mut out = format!("{records} calls in {}, {} lost\n", args.output.display(), lost.lost());
    for (reason, count) in lost.reasons() {
        out.push_str(&format!("  {count} {reason}\n"));
    }
    out
}
