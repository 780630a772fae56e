//! `knee flight`: shows a recording, and where two recordings differ.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use knee_file::units;
use knee_flight::{Diff, Error, Header, Pair, Reader, Record, Shown, View};
use knee_units::quoted;
use serde_json::{Map, Number, Value as Json, json};

use crate::replay::header_in_words;
use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

/// Bytes that are printed at once.
const PIECE_BYTES: usize = 1 << 16;
/// Largest number of sockets that a comparison lists.
const MOST_PAIRS: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the calls of a recording: time, operation, arguments and changed fields.
    Show(ShowArgs),
    /// Find the first call of each connection that differs between two recordings.
    Diff(DiffArgs),
}

/// Filter of calls.
#[derive(clap::Args)]
struct Filter {
    /// Only these flows, by their number in flows.csv. For a recording from a kernel: these sockets.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    flow: Vec<u64>,
    /// Only calls from this time on. It counts from the start of the simulation, or from the first call of a kernel.
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    from: Option<u64>,
    /// Only calls before this time.
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    until: Option<u64>,
    /// Only these operations, as cong_avoid or ssthresh.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = operation)]
    op: Vec<String>,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// A recording of knee trace or knee run --trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// Print these fields of the socket (snd_cwnd) or of the algorithm's state (velocity), changed or not. --csv and
    /// --json print only these.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    fields: Vec<String>,
    /// Stop after this number of calls.
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Print CSV: one row per call, one column per value before and after it.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON: one line per call, with the columns of --csv.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct DiffArgs {
    /// A recording.
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The other recording.
    #[arg(value_name = "B")]
    other: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

type Recording = Reader<BufReader<File>>;

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Show(args) => show(args),
        Command::Diff(args) => diff(args),
    }
}

fn operation(text: &str) -> Result<String, String> {
    match knee_algo::OPERATIONS.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be one of {}", knee_algo::OPERATIONS.join(", "))),
    }
}

fn about(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Says(format!("{}: {why}", path.display()))
}

fn open(path: &Path) -> Result<Recording, Failure> {
    let file = knee_files::open_file(path, "recording").map_err(|why| about(path, &why))?;
    Reader::new(BufReader::new(file)).map_err(|why| about(path, &why))
}

impl Filter {
    fn has(&self, view: &mut View, record: &Record) -> bool {
        let at_us = view.at_us(record);
        let is_listed = |all: &[u64], one: u64| all.is_empty() || all.contains(&one);
        is_listed(&self.flow, view.flow(record).0)
            && self.from.is_none_or(|from| at_us >= from as i64)
            && self.until.is_none_or(|until| at_us < until as i64)
            && (self.op.is_empty() || self.op.iter().any(|op| op == record.call.operation()))
    }
}

/// The fields of `--fields`: names as in the file, with or without `ca.`.
struct Wanted<'a>(&'a [String]);

impl Wanted<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|wanted| name == wanted || name.strip_prefix("ca.") == Some(wanted))
    }

    fn check(&self, path: &Path, view: &View) -> Result<(), Failure> {
        let unknown = self.0.iter().find(|wanted| {
            !view.names().any(|name| name == *wanted || name.strip_prefix("ca.") == Some(wanted))
        });
        unknown.map_or(Ok(()), |unknown| {
            let there: Vec<&str> = view.names().collect();
            let why =
                format!("has no field {}; it has {}", unknown.escape_debug(), there.join(", "));
            Err(about(path, &why))
        })
    }
}

/// Buffer of printed text.
#[derive(Default)]
struct Out(String);

impl Out {
    fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.0.push_str(line);
        self.0.push('\n');
        if self.0.len() < PIECE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let piece = std::mem::take(&mut self.0);
        if piece.is_empty() { Ok(()) } else { print(&piece) }
    }
}

fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let mut recording = open(&args.file)?;
    let mut view = View::of(recording.header());
    let wanted = Wanted(&args.fields);
    wanted.check(&args.file, &view)?;
    let in_columns = |name: &str| args.fields.is_empty() || wanted.has(name);
    let columns = view.columns(&in_columns);
    let mut out = Out::default();
    match (args.csv, args.json) {
        (true, _) => out.line(&columns.join(","))?,
        (_, true) => {}
        _ => out.line(header_in_words(recording.header()).trim_end())?,
    }
    let mut left = args.first.unwrap_or(u64::MAX);
    let broken = loop {
        if left == 0 {
            break None;
        }
        let record = match recording.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break None,
            Err(why) => break Some(why),
        };
        if !args.filter.has(&mut view, &record) {
            continue;
        }
        left -= 1;
        if args.csv || args.json {
            let row = view.row(&record, &in_columns);
            out.line(&if args.csv { csv(&row) } else { json_line(&columns, row) })?;
        } else {
            out.line(&view.line(&record, &|name| wanted.has(name)))?;
        }
    };
    if let Some(ending) = recording.ending().filter(|_| !args.csv && !args.json) {
        for (reason, count) in ending.reasons() {
            out.line(&format!("{count} calls were lost {reason}"))?;
        }
    }
    out.flush()?;
    ended(&args.file, broken, DONE)
}

/// Returns the exit code. An unreadable file outweighs differences in its readable part.
fn ended(path: &Path, broken: Option<Error>, code: u8) -> Result<u8, Failure> {
    let Some(why) = broken else { return Ok(code) };
    complain(&format!("knee: {}: {why}", path.display()));
    Ok(COULD_NOT)
}

fn csv(row: &[Shown]) -> String {
    let mut line = String::new();
    for (i, value) in row.iter().enumerate() {
        if i > 0 {
            line.push(',');
        }
        match value {
            Shown::Nothing => {}
            Shown::Number(number) => drop(write!(line, "{number}")),
            Shown::Text(text) => line.push_str(&quoted(text)),
        }
    }
    line
}

fn json_line(columns: &[String], row: Vec<Shown>) -> String {
    let value = |shown| match shown {
        Shown::Nothing => Json::Null,
        Shown::Number(number) => whole(number),
        Shown::Text(text) => text.into(),
    };
    let all: Map<String, Json> = columns.iter().cloned().zip(row.into_iter().map(value)).collect();
    Json::from(all).to_string()
}

/// Converts a number of a recording, which has at most 64 bits.
fn whole(number: i128) -> Json {
    let signed = i64::try_from(number).map(Number::from);
    signed.or_else(|_| u64::try_from(number).map(Number::from)).map_or(Json::Null, Json::Number)
}

/// One side of a comparison.
struct Side<'a> {
    path: &'a Path,
    recording: Recording,
    view: View,
}

impl Side<'_> {
    fn open(path: &Path) -> Result<Side<'_>, Failure> {
        let recording = open(path)?;
        let view = View::of(recording.header());
        Ok(Side { path, recording, view })
    }

    /// Returns the next call that the filter accepts.
    fn next(&mut self, filter: &Filter) -> Result<Option<Record>, Failure> {
        loop {
            match self.recording.next_record() {
                Ok(Some(record)) if filter.has(&mut self.view, &record) => return Ok(Some(record)),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(why) => return Err(about(self.path, &why)),
            }
        }
    }
}

fn diff(args: &DiffArgs) -> Result<u8, Failure> {
    let mut sides = [Side::open(&args.one)?, Side::open(&args.other)?];
    let headers = sides.each_ref().map(|side| side.recording.header().clone());
    let mut diff = Diff::new(&headers[0], &headers[1]);
    let mut is_over = [false; 2];
    while is_over != [true; 2] {
        for (which, side) in sides.iter_mut().enumerate() {
            if is_over[which] {
                continue;
            }
            match side.next(&args.filter)? {
                None => is_over[which] = true,
                Some(record) => diff.take(which, record).map_err(|_| {
                    let why =
                        "the orders of their connections differ too much: choose some with --flow";
                    about(&args.one, &format!("and {}: {why}", args.other.display()))
                })?,
            }
        }
    }
    let code = if diff.is_equal() { DONE } else { CHECK_FAILED };
    match args.json {
        true => print(&format!("{}\n", diff_json(args, &mut sides, &diff)))?,
        false => print(&diff_text(args, &headers, &mut sides, &diff))?,
    }
    Ok(code)
}

fn diff_text(
    args: &DiffArgs,
    headers: &[Header; 2],
    sides: &mut [Side<'_>; 2],
    diff: &Diff,
) -> String {
    let mut out = String::new();
    for (name, header) in ["A", "B"].iter().zip(headers) {
        let _ = write!(out, "{name}: {}", header_in_words(header));
    }
    if !diff.compares_states() {
        out.push_str("their algorithms have different state structs: states are not compared\n");
    }
    let files = [&args.one, &args.other].map(|path| path.display().to_string());
    let parted = diff.pairs().iter().filter(|(_, pair)| differs(pair));
    for (socket, pair) in parted.clone().take(MOST_PAIRS) {
        let _ = write!(out, "socket {socket}: {} calls are the same", pair.equal);
        if let Some(parted) = &pair.parted {
            let [a, b] = &parted.values;
            let _ = writeln!(out, "; then {} is {a} in A and {b} in B", parted.what);
            for ((name, side), record) in ["A", "B"].iter().zip(&mut *sides).zip(&parted.records) {
                let _ = writeln!(out, "  {name} {}", side.view.line(record, &|_| false));
            }
        } else if let Some((which, more)) = pair.more() {
            let _ = writeln!(out, "; then {} has {more} more", files[which]);
        }
    }
    let (all, differing) = (diff.pairs().len(), parted.count());
    if differing > MOST_PAIRS {
        let _ = writeln!(out, "{} more sockets differ", differing - MOST_PAIRS);
    }
    let calls: u64 = diff.pairs().values().map(|pair| pair.equal).sum();
    let _ = match differing {
        0 => writeln!(out, "equal: {calls} calls of {all} sockets"),
        _ => writeln!(out, "{differing} of {all} sockets differ"),
    };
    out
}

fn differs(pair: &Pair) -> bool {
    pair.parted.is_some() || pair.more().is_some()
}

fn diff_json(args: &DiffArgs, sides: &mut [Side<'_>; 2], diff: &Diff) -> Json {
    let files = [&args.one, &args.other].map(|path| path.display().to_string());
    let mut differing = Vec::new();
    for (socket, pair) in diff.pairs().iter().filter(|(_, pair)| differs(pair)) {
        let parted = pair.parted.as_ref().map(|parted| {
            let lines: Vec<String> = sides
                .iter_mut()
                .zip(&parted.records)
                .map(|(side, record)| side.view.line(record, &|_| false))
                .collect();
            json!({ "what": parted.what, "values": parted.values, "call": parted.records[0].number, "lines": lines })
        });
        let more =
            pair.more().map(|(which, calls)| json!({ "file": files[which], "calls": calls }));
        let equal = pair.equal;
        differing
            .push(json!({ "socket": socket, "equal_calls": equal, "first": parted, "more": more }));
    }
    json!({
        "files": files,
        "sockets": diff.pairs().len(),
        "equal_calls": diff.pairs().values().map(|pair| pair.equal).sum::<u64>(),
        "states_compared": diff.compares_states(),
        "differing": differing,
    })
}
