//! `knee replay`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use knee_algo::{Algorithm, Params, module, sha256};
use knee_flight::{
    Difference, Ending, Error, Header, Origin, OtherWay, Outcome, Reader, Record, Replay, Report,
    Row,
};
use serde_json::{Map, Value as Json, json};

use crate::{CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print};

/// Largest number of shown calls that another algorithm would have made differently.
const ROWS: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A recording of knee trace or knee run --trace.
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// The file of the recorded algorithm, if it is not one of knee's. It must be the same file.
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// Show what another algorithm would have done at each call, with its default parameters.
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

type Recording = Reader<BufReader<File>>;

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let path = args.file.as_path();
    let open = knee_files::open_file(path, "recording")
        .map_err(|why| Failure::Says(format!("{}: {why}", path.display())))?;
    let mut recording = Reader::new(BufReader::new(open)).map_err(|why| about(path, &why))?;
    let header = recording.header();
    let recorded = match &args.source {
        None => header.algorithm(),
        Some(file) => {
            check_source(path, header, file)?;
            let file = module::load(file).map_err(|why| Failure::Says(why.to_string()))?;
            header.algorithm_of_file(file)
        }
    };
    let (recorded, params) = recorded.map_err(|why| about(path, &why))?;
    match &args.cc {
        None => same(args, &mut recording, recorded, params),
        Some(name) => {
            let other = Algorithm::by_name(name).map_err(|why| Failure::Says(why.to_string()))?;
            other_way(args, &mut recording, recorded, other)
        }
    }
}

/// Checks that a file is the recorded one. Loading it runs its code, so this comes first.
fn check_source(path: &Path, header: &Header, file: &Path) -> Result<(), Failure> {
    let Some(source) = &header.source else {
        return Err(Failure::Says(format!(
            "{}: knee has its algorithm {}: leave out --source",
            path.display(),
            header.algorithm.escape_debug()
        )));
    };
    let text = knee_files::read_bounded(file, module::MAX_SOURCE_BYTES, module::WHAT)
        .map_err(|why| Failure::Says(format!("{}: {why}", file.display())))?;
    let given = sha256::hex(&text);
    match given == source.sha256 {
        true => Ok(()),
        false => Err(about(path, &Error::OfFile { file: source.clone(), given: Some(given) })),
    }
}

fn about(path: &Path, why: &Error) -> Failure {
    Failure::Says(format!("{}: {why}", path.display()))
}

/// Passes every record to `step`. Returns the error that ended the reading, if any.
fn each(recording: &mut Recording, mut step: impl FnMut(&Record)) -> Option<Error> {
    loop {
        match recording.next_record() {
            Ok(Some(record)) => step(&record),
            Ok(None) => return None,
            Err(why) => return Some(why),
        }
    }
}

fn same(
    args: &Args,
    recording: &mut Recording,
    algorithm: &'static Algorithm,
    params: Params,
) -> Result<u8, Failure> {
    let hz = recording.header().hz;
    let replay = Replay::new(algorithm, params, hz).map_err(|why| about(&args.file, &why))?;
    let mut replay = replay.of(recording.header().origin);
    let in_run = module::InRun::begin();
    let broken = each(recording, |record| replay.step(record));
    drop(in_run);
    let report = replay.finish();
    if args.json {
        let mut all = json_of(recording);
        all.insert("replay".into(), report_json(&report));
        if !report.is_equal() && !limit_of(algorithm).is_empty() {
            all.insert("note".into(), limit_of(algorithm).trim().into());
        }
        all.insert("error".into(), broken.as_ref().map(Error::to_string).into());
        print(&format!("{}\n", Json::from(all)))?;
    } else {
        let mut out = in_words(recording);
        let _ = write!(out, "{report}");
        if let Some(first) = &report.first_difference {
            let _ = write!(out, "\nas recorded:\n{}", first.record);
            out.push_str(limit_of(algorithm));
        } else if broken.is_none() {
            out.push_str("equal\n");
        }
        print(&out)?;
    }
    ended(args, broken, if report.is_equal() { DONE } else { CHECK_FAILED })
}

/// Causes of a difference other than the algorithm.
fn limit_of(algorithm: &Algorithm) -> &'static str {
    match algorithm.module().is_some_and(|module| module.is_kernel_module()) {
        true => {
            "\na recording has a module's private area, but not its global variables or kmalloc \
             memory: state there may be the cause\n"
        }
        false => "",
    }
}

/// The exit code: an unreadable file counts more than what was found in its readable part.
fn ended(args: &Args, broken: Option<Error>, code: u8) -> Result<u8, Failure> {
    let Some(why) = broken else { return Ok(code) };
    complain(&format!("knee: {}: {why}", args.file.display()));
    Ok(COULD_NOT)
}

fn other_way(
    args: &Args,
    recording: &mut Recording,
    recorded: &'static Algorithm,
    other: &'static Algorithm,
) -> Result<u8, Failure> {
    let hz = recording.header().hz;
    let mut asked = OtherWay::new(other, other.default_params(), hz);
    let mut rows = Vec::new();
    let broken = each(recording, |record| {
        let row = asked.step(record);
        if row.recorded != row.other && rows.len() < ROWS {
            rows.push(row);
        }
    });
    let unheard = asked.unheard(recorded);
    if args.json {
        let mut all = json_of(recording);
        let calls: Map<String, Json> = asked
            .tallies()
            .iter()
            .map(|(kind, t)| (kind.clone(), json!({ "calls": t.calls, "otherwise": t.otherwise })))
            .collect();
        all.insert(
            "other".into(),
            json!({
                "algorithm": other.name(),
                "calls": calls,
                "unheard": unheard,
                "first": rows.iter().map(row_json).collect::<Vec<_>>(),
            }),
        );
        all.insert("error".into(), broken.as_ref().map(Error::to_string).into());
        print(&format!("{}\n", Json::from(all)))?;
    } else {
        let mut out = in_words(recording);
        let names = (recorded.name(), other.name());
        out.push_str(&table(names, &asked, &rows));
        if !unheard.is_empty() {
            let _ = writeln!(
                out,
                "{} has no {}, so {} missed these calls",
                names.0,
                unheard.join(", "),
                names.1
            );
        }
        print(&out)?;
    }
    ended(args, broken, DONE)
}

fn table((recorded, other): (&str, &str), asked: &OtherWay, rows: &[Row]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:>9} {:>9}  call", "calls", "otherwise");
    for (kind, tally) in asked.tallies() {
        let _ = writeln!(out, "{:9} {:9}  {kind}", tally.calls, tally.otherwise);
    }
    if rows.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\nthe first differences of {other}, in packets:\n{:>9} {:>6} {:>8}  {recorded:<32} \
         {other:<32} call",
        "callback", "socket", "cwnd"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:9} {:6} {:8}  {:<32} {:<32} {}",
            row.index,
            row.flow,
            row.cwnd_before,
            outcome(&row.recorded),
            outcome(&row.other),
            row.kind
        );
    }
    out
}

/// Formats an outcome, as `returns 7, cwnd 14, ssthresh 7`, without what did not change.
fn outcome(outcome: &Outcome) -> String {
    let mut words = Vec::new();
    if let Some(name) = &outcome.fallback {
        words.push(format!("leaves for {name}"));
    }
    if let Some(result) = outcome.result {
        words.push(format!("returns {result}"));
    } else {
        words.push(format!("cwnd {}", outcome.cwnd));
        if outcome.ssthresh != knee_algo::INFINITE_SSTHRESH {
            words.push(format!("ssthresh {}", outcome.ssthresh));
        }
    }
    words.join(", ")
}

fn origin(header: &Header) -> &'static str {
    match header.origin {
        Origin::Kernel => "kernel",
        Origin::Simulator => "simulator",
    }
}

/// Description of a recording and of its lost calls.
fn in_words(recording: &Recording) -> String {
    let mut out = header_in_words(recording.header());
    if let Some(ending) = recording.ending() {
        for (reason, count) in ending.reasons() {
            let _ = writeln!(out, "{count} calls were lost {reason}");
        }
    }
    out
}

/// Description of a recording, from its header.
pub(crate) fn header_in_words(header: &Header) -> String {
    let params: String =
        header.params.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    let Header { name, algorithm, release, hz, about, .. } = header;
    let source = header
        .source
        .as_ref()
        .map_or(String::new(), |source| format!(" (of {}, sha256 {})", source.name, source.sha256));
    format!("{name}: {algorithm}{source}{params}; {} {release}, HZ {hz}; {about}\n", origin(header))
}

fn json_of(recording: &Recording) -> Map<String, Json> {
    let header = recording.header();
    let params: Map<String, Json> =
        header.params.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
    let mut all = Map::new();
    all.insert("algorithm".into(), header.algorithm.clone().into());
    all.insert("name".into(), header.name.clone().into());
    all.insert("params".into(), params.into());
    all.insert("origin".into(), origin(header).into());
    all.insert("release".into(), header.release.clone().into());
    all.insert("hz".into(), header.hz.into());
    all.insert("about".into(), header.about.clone().into());
    all.insert("lost".into(), recording.ending().map(lost_json).into());
    all
}

/// Lost calls by reason.
pub(crate) fn lost_json(ending: &Ending) -> Json {
    let Ending { ring_full, no_memory, nested, interrupted } = ending;
    json!({
        "ring_full": ring_full,
        "no_memory": no_memory,
        "nested": nested,
        "interrupted": interrupted,
    })
}

fn report_json(report: &Report) -> Json {
    json!({
        "callbacks": report.total(),
        "calls": report.calls,
        "sockets": report.flows,
        "stretches": report.stretches,
        "gaps": report.gaps,
        "given": report.given,
        "acks_asked": report.acks_asked,
        "rehashes_asked": report.rehashes,
        "not_comparable": report.unchecked,
        "differences": report.differences,
        "first_difference": report.first_difference.as_ref().map(difference_json),
    })
}

fn difference_json(first: &Difference) -> Json {
    json!({
        "callback": first.index,
        "socket": first.record.flow,
        "call": first.record.number,
        "kind": first.record.call.kind(),
        "field": first.field,
        "recorded": first.recorded,
        "native": first.native,
        "record": first.record.to_string(),
    })
}

fn row_json(row: &Row) -> Json {
    let outcome = |outcome: &Outcome| {
        json!({
            "result": outcome.result,
            "cwnd_pkts": outcome.cwnd,
            "ssthresh_pkts": outcome.ssthresh,
            "fallback": outcome.fallback,
        })
    };
    json!({
        "callback": row.index,
        "socket": row.flow,
        "kind": row.kind,
        "cwnd_before_pkts": row.cwnd_before,
        "recorded": outcome(&row.recorded),
        "other": outcome(&row.other),
    })
}
