//! `knee top`.

mod app;
mod json;
mod live;
mod rows;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use knee_units::aligned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::json::Object;
use self::rows::{Column, Row, Sampler};
use super::select::{FilterArgs, NetnsArgs};
use crate::{DONE, Failure, is_ignored, print, stop_on_signals};

/// Interval between checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the table once and exit.
    #[arg(long)]
    once: bool,
    /// Print JSON: one line per reading, with --once a single line.
    #[arg(long)]
    json: bool,
    /// Show connections of all algorithms, not only knee's.
    #[arg(long)]
    all: bool,
    /// Only connections of this algorithm.
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    netns: NetnsArgs,
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    show(args).map(|()| DONE)
}

fn show(args: &Args) -> Result<(), Failure> {
    if !args.once && !args.json && !std::io::stdout().is_terminal() {
        return Err(Failure::Says(
            "knee top needs a terminal: knee top --once prints the table, knee top --json one line per \
             reading"
                .to_owned(),
        ));
    }
    let mut sampler = Sampler::open(args.filter.filter(args.algorithm.as_deref()))?;
    // A named algorithm is shown even if it is not knee's.
    let all = args.all || args.algorithm.is_some();
    if args.json && !args.once {
        return stream(sampler, args, all);
    }
    if !args.once {
        return live::run(sampler, &args.netns, all, Duration::from_secs(args.interval.into()));
    }
    let mut rows = sampler.sample(&args.netns, all)?;
    rows.sort_by(|a, b| Column::Delivery.order(a, b));
    if args.json {
        return print(&line(&rows));
    }
    if rows.is_empty() {
        return print(match all {
            true => "no matching connections\n",
            false => "no connections of knee's algorithms (--all shows others)\n",
        });
    }
    print(&table(&rows, args.netns.are_several()))
}

/// Prints a line of JSON per reading, until a signal arrives or nobody reads any more.
fn stream(mut sampler: Sampler, args: &Args, all: bool) -> Result<(), Failure> {
    // A write waits for as long as its reader likes: a signal ends this there, too.
    let is_writing = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register_conditional_default(signal, is_writing.clone())
            .map_err(|why| Failure::Says(format!("cannot handle signals: {why}")))?;
    }
    let stop = stop_on_signals()?;
    let interval = Duration::from_secs(args.interval.into());
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            std::thread::sleep(LOOK_EVERY.min(due - now));
            continue;
        }
        let mut rows = sampler.sample(&args.netns, all)?;
        rows.sort_by(|a, b| Column::Delivery.order(a, b));
        let line = line(&rows);
        is_writing.store(true, Ordering::Relaxed);
        print(&line)?;
        is_writing.store(false, Ordering::Relaxed);
        // A late reading is skipped, not made up for.
        due = now + interval;
    }
    Ok(())
}

fn line(rows: &[Row]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.map_or(0.0, |now| (now.as_secs_f64() * 1e3).round() / 1e3);
    let mut out = String::new();
    let mut all = Object::begin(&mut out);
    all.plain("time_unix_s", now_s);
    all.list("connections", rows, rows::write_json);
    all.end();
    out.push('\n');
    out
}

/// Formats the table as text, with columns as narrow as possible.
fn table(rows: &[Row], with_netns: bool) -> String {
    let columns: Vec<Column> = Column::ALL
        .into_iter()
        // A single reading has no interval.
        .filter(|column| *column != Column::CeNow && (with_netns || *column != Column::Netns))
        .collect();
    let mut lines: Vec<Vec<String>> =
        vec![columns.iter().map(|column| column.title().to_owned()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| column.cell(row)).collect()));
    let mut out = aligned(&lines, |at| columns[at].is_right_aligned()).join("\n") + "\n";
    if rows.iter().any(|row| !rows::impossible(&row.connection).is_empty()) {
        out.push_str(rows::IMPOSSIBLE_MEANS);
        out.push('\n');
    }
    out
}
