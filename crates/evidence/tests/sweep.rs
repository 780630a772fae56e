//! Whole sweeps: the same results for any number of threads, and what they leave on the disk.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use knee_evidence::table;
use knee_queue::time::{Duration, Time};
use knee_run::BackEnd;
use knee_run::outcome::{FlowOutcome, GoodputSample, Outcome, WindowSnapshots};
use knee_run::spec::{Run, Traffic};
use knee_scenario::error::Error;
use knee_scenario::{Experiment, Overrides};
use knee_sweep::report;
use knee_sweep::results::{Results, Storage};
use knee_sweep::runner::sweep;
use knee_sweep::runs::{Done, Options, runs};
use knee_sweep::sweep_result::SweepResult;

use crate::common::*;

const MIX: &str = r#"question = "Who waits?"
cc = ["cubic", "dctcp"]

[network]
topology = "star"
hosts = 5
up = { rate = "1 Gbps", delay = "10 us" }
down = { rate = "1 Gbps", delay = "10 us", queue = { kind = "step", limit = "200 kB", k = "30 kB" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "h1..h2"
to = "h4"
start_jitter = "1 ms"

[[traffic]]
name = "short"
kind = "bulk"
from = "h3"
to = "h4"
size = "20 kB"
flows = 2
start = "5 ms"
start_jitter = "1 ms"

[[traffic]]
name = "requests"
kind = "rpc"
from = "h4"
to = "h5"
count = 20

[[traffic]]
name = "ping"
kind = "ping"
from = "h5"
to = "h4"
interval = "1 ms"

[vary]
"traffic.short.size" = ["20 kB", "40 kB"]

[run]
duration = "15 ms"
repeat = 4

[sample]
flows = "1 ms"
queues = "100 us"
goodput = "5 ms"

[[published]]
subject = "short"
metric = "completion"
case = "dctcp"
at = { "traffic.short.size" = "20 kB" }
value = "1.6 ms"
"#;

fn experiment(text: &str) -> Arc<Experiment> {
    let parsed = Experiment::parse(Path::new("mix.toml"), text, &Overrides::default());
    Arc::new(parsed.unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let mut answers = Vec::new();
    for (threads, dir) in [(1, "mix"), (3, "mix-2"), (8, "mix-3")] {
        let options = Options { threads, ..simulated() };
        let swept = run_into(&scratch, &experiment, &options).unwrap();
        assert_eq!((swept.runs_done, swept.interrupted), (16, false));
        let mut files = scratch.files(dir);
        // The manifest holds the time of day and the effort.
        files.remove("manifest.json").expect("there is a manifest");
        answers.push((files, table::render(&experiment, &swept)));
    }
    assert!(answers[0] == answers[1] && answers[0] == answers[2]);
}

#[test]
fn the_directory_holds_what_was_measured_and_nothing_else() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
    let files = scratch.files("mix");
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "distributions.csv",
            "flows.csv",
            "manifest.json",
            "measures.csv",
            "pings.csv",
            "queues.csv",
            "rpcs.csv",
            "run-percentiles.csv",
            "runs.csv",
            "series-flows.csv",
            "series-goodput.csv",
            "series-queues.csv",
            "summary.csv"
        ]
    );
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".csv")) {
        let mut lines = text.lines();
        let columns = lines.next().unwrap().split(',').count();
        assert!(lines.clone().count() > 0, "{name}");
        assert!(lines.all(|line| line.split(',').count() == columns), "{name}");
    }
    // 16 runs of 2 bulk, 2 short and 1 request connection.
    assert_eq!(files["flows.csv"].lines().count(), 1 + 16 * 5);
    assert_eq!(files["runs.csv"].lines().count(), 1 + 16);
    assert!(files["series-flows.csv"].lines().next().unwrap().contains(",alpha"));

    let manifest: serde_json::Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    for key in ["knee", "seed", "host", "kernel", "linux_profile", "time", "text", "vary", "files"]
    {
        assert!(!manifest[key].is_null(), "{key}");
    }
    assert_eq!(manifest["resolved"]["dctcp"]["hosts.rto_min"], "200 ms");
    assert_eq!(manifest["resolved"]["cubic"]["network.down.queue.k"], "30 kB");
    assert_eq!(manifest["text"], MIX);

    let json = report::json(&experiment, &swept, &[], None);
    let simulator = json["simulator"].as_object().unwrap();
    let keys: Vec<_> = simulator.keys().map(String::as_str).collect();
    assert_eq!(keys, ["cpu_s", "wall_s", "events", "data_pkts", "pkt_hops", "peak_rss_bytes"]);
    assert!(simulator["data_pkts"].as_u64().unwrap() > 1000);
    assert_eq!(json["summary"].as_array().unwrap().len(), 4);

    let shown = table::render(&experiment, &swept);
    assert!(shown.contains("short: completion time, "), "{shown}");
    assert!(shown.contains("published"), "{shown}");
}

#[test]
fn some_runs_alone_are_what_they_are_among_all() {
    let measured = |experiment: &Arc<Experiment>, only: Option<&[usize]>| {
        let options = Options { only: only.map(Arc::from), ..simulated() };
        let make = |done: Done| (done.id.index, format!("{:?}", done.ran.outcome.flows));
        runs(experiment, &options, make, |_| 0)?.collect::<Result<BTreeMap<_, _>, _>>()
    };
    let all = measured(&experiment(MIX), None).unwrap();
    assert_eq!(all.len(), 16);
    let overrides = Overrides { only_first_row: true, ..Overrides::default() };
    let first = Experiment::parse(Path::new("mix.toml"), MIX, &overrides).unwrap();
    assert_eq!(first.checked_rows(), 1);
    let of_rows = Arc::new(first.with_rows([2]).unwrap());
    assert_eq!(of_rows.checked_rows(), 2);
    let some = measured(&of_rows, Some(&[9, 1, 9])).unwrap();
    assert_eq!(some, BTreeMap::from([1, 9].map(|run| (run, all[&run].clone()))));
    let why = measured(&of_rows, Some(&[4])).unwrap_err().to_string();
    assert!(why.contains("has rows that were not checked"), "{why}");
    let why = measured(&of_rows, Some(&[16])).unwrap_err().to_string();
    assert!(why.ends_with("has no run 16: its runs are 0 to 15"), "{why}");
}

#[test]
fn an_existing_directory_is_never_written_over() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = Options { back_end: Arc::new(Fake(fake)), ..simulated() };
    run_into(&scratch, &experiment, &options).unwrap();
    let before = scratch.files("mix");
    run_into(&scratch, &experiment, &options).unwrap();
    assert_eq!(scratch.files("mix"), before);
    assert!(scratch.path().join("mix-2/manifest.json").exists());
    let error = Results::at(&scratch.path().join("mix")).unwrap_err().to_string();
    assert!(error.contains("already holds results (runs.csv)"), "{error}");
}

/// Storage whose disk is full.
struct FullDisk;

impl Storage for FullDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        // The name exists, as on a real disk with room for a name only.
        File::create(path)?;
        File::options().write(true).open("/dev/full")
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_file() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let mut results = Results::numbered(scratch.path(), "mix").unwrap().on(Box::new(FullDisk));
    let outcome = sweep(&experiment, &simulated(), &mut results, &mut |_| {})
        .and_then(|swept| results.finish(&experiment, &swept, &[]));
    let error = outcome.unwrap_err().to_string();
    assert!(error.ends_with("No space left on device (os error 28)"), "{error}");
    assert!(!scratch.path().join("mix").exists(), "neither files nor the empty directory stay");
}

#[test]
fn of_two_writers_into_one_directory_the_second_is_refused() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let dir = scratch.path().join("both");
    let options = Options { back_end: Arc::new(Fake(fake)), ..simulated() };
    let mut first = Results::at(&dir).unwrap();
    let mut late = Results::at(&dir).unwrap();
    let swept = sweep(&experiment, &options, &mut first, &mut |_| {}).unwrap();
    let error = sweep(&experiment, &options, &mut late, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("runs.journal: cannot write: File exists"), "{error}");
    drop(late);
    let error = Results::at(&dir).unwrap_err().to_string();
    assert!(error.contains("it holds runs of a sweep that did not end: --continue"), "{error}");
    let error = Results::continued(&dir).unwrap_err().to_string();
    assert!(error.contains("another knee run writes here"), "{error}");
    first.finish(&experiment, &swept, &[]).unwrap();
    let error = Results::at(&dir).unwrap_err().to_string();
    assert!(error.contains("already holds results"), "{error}");
    let files = scratch.files("both");
    assert!(files.contains_key("manifest.json") && files.contains_key("runs.csv"));
}

/// Runs a sweep in a directory until some runs are finished, and goes on with it until it is done.
fn in_parts(
    experiment: &Arc<Experiment>,
    back_end: &Arc<dyn BackEnd>,
    dir: &Path,
    every: usize,
) -> SweepResult {
    let mut before = 0;
    loop {
        let options = Options { back_end: back_end.clone(), ..simulated() };
        let mut results = Results::continued(dir).unwrap();
        let swept = sweep(experiment, &options, &mut results, &mut |done| {
            if done >= before + every {
                options.stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        before = swept.runs_done;
        if swept.interrupted && swept.runs_done < experiment.runs() {
            // As after a crash: nothing but the journal is there.
            match swept.runs_done % 2 {
                0 => drop(results),
                _ => drop(results.finish(experiment, &swept, &[]).unwrap()),
            }
            continue;
        }
        results.finish(experiment, &swept, &[]).unwrap();
        return swept;
    }
}

#[test]
fn a_sweep_in_parts_has_the_bytes_of_one_without_a_break() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = simulated();
    run_into(&scratch, &experiment, &options).unwrap();
    let whole = scratch.files("mix");
    for every in [1, 3, 7] {
        let dir = scratch.path().join(format!("every-{every}"));
        in_parts(&experiment, &options.back_end, &dir, every);
        let parts = scratch.files(&format!("every-{every}"));
        for (name, text) in whole.iter().filter(|(name, _)| *name != "manifest.json") {
            assert_eq!(parts.get(name), Some(text), "{name}, every {every}");
        }
        assert_eq!(parts.len(), whole.len());
    }
}

#[test]
fn a_torn_or_damaged_end_of_a_journal_costs_that_run_alone() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = simulated();
    run_into(&scratch, &experiment, &options).unwrap();
    let whole = scratch.files("mix");
    let journal = fs::read(scratch.path().join("mix/runs.journal")).unwrap();
    let dir = scratch.path().join("torn");
    for kept in [4, 9, journal.len() / 3, journal.len() / 2, journal.len() - 1] {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let mut bytes = journal[..kept].to_vec();
        // Whatever a disk has left there.
        bytes.extend_from_slice(&[0xff; 3]);
        fs::write(dir.join("runs.journal"), bytes).unwrap();
        fs::write(dir.join(".runs.csv.0123456789abcdef.partial"), "of a killed process").unwrap();
        let mut results = Results::continued(&dir).unwrap();
        let swept = sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap();
        assert!(swept.runs_earlier < experiment.runs(), "{kept}");
        assert_eq!(swept.runs_earlier > 0, kept > 9, "{kept}");
        results.finish(&experiment, &swept, &[]).unwrap();
        let parts = scratch.files("torn");
        assert_eq!(parts.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
        for (name, text) in whole.iter().filter(|(name, _)| *name != "manifest.json") {
            assert_eq!(parts.get(name), Some(text), "{name}, {kept} bytes");
        }
    }
}

#[test]
fn more_repeats_are_added_and_another_experiment_is_refused() {
    let scratch = Scratch::new();
    let options = simulated();
    let more = experiment(&MIX.replace("repeat = 4", "repeat = 6"));
    run_into(&scratch, &more, &options).unwrap();
    let whole = scratch.files("mix");
    let dir = scratch.path().join("grown");
    let go_on = |experiment: &Arc<Experiment>| {
        let mut results = Results::continued(&dir).unwrap();
        let swept = sweep(experiment, &options, &mut results, &mut |_| {})?;
        results.finish(experiment, &swept, &[])?;
        Ok::<_, Error>(swept)
    };
    go_on(&experiment(MIX)).unwrap();
    let swept = go_on(&more).unwrap();
    assert_eq!((swept.runs_done, swept.runs_earlier), (24, 16));
    let grown = scratch.files("grown");
    for (name, text) in whole.iter().filter(|(name, _)| *name != "manifest.json") {
        assert_eq!(grown.get(name), Some(text), "{name}");
    }
    let other = MIX.replace("down = { rate = \"1 Gbps\"", "down = { rate = \"2 Gbps\"");
    assert_ne!(other, MIX);
    let error = go_on(&experiment(&other)).unwrap_err().to_string();
    let said = "cannot go on, because cubic: network.down.rate was 1 Gbps and is 2 Gbps";
    assert!(error.contains(said), "{error}");
    assert_eq!(scratch.files("grown"), grown, "what is refused changes nothing");
}

#[test]
fn runs_that_compute_the_same_are_carried_out_once() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let text = MIX.replace(
        "[vary]",
        "[vary]\n\"network.down.queue.k\" = [\"10 pkts\", \"20 pkts\", \"30 pkts\"]",
    );
    assert_ne!(text, MIX);
    let experiment = experiment(&text);
    let scratch = Scratch::new();
    let back_end = Arc::new(Fake(|run| {
        RUNS.fetch_add(1, Ordering::SeqCst);
        fake(run)
    }));
    let swept = run_into(&scratch, &experiment, &Options { back_end, ..simulated() }).unwrap();
    // 2 sizes, 4 repeats: 24 runs of DCTCP, and 8 of CUBIC, whose packets nothing marks.
    assert_eq!((experiment.runs(), swept.runs_done, swept.runs_same), (48, 48, 16));
    assert_eq!(RUNS.load(Ordering::SeqCst), 32);
    let files = scratch.files("mix");
    let flows = files["flows.csv"].lines().filter(|line| line.contains(",cubic,")).count();
    assert_eq!(flows, files["flows.csv"].lines().filter(|line| line.contains(",dctcp,")).count());
}

#[test]
fn a_directory_that_was_there_stays_and_so_do_files_of_others() {
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = Options { back_end: Arc::new(Fake(fake)), ..simulated() };
    let dir = scratch.path().join("mine");
    fs::create_dir(&dir).unwrap();
    // What a killed process of the same number may have left.
    let left = format!(".runs.csv.{}.partial", std::process::id());
    fs::write(dir.join(&left), "left").unwrap();
    let mut results = Results::at(&dir).unwrap();
    sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap();
    drop(results);
    assert_eq!(scratch.files("mine"), BTreeMap::from([(left, "left".to_owned())]));
}

/// Transfers take their size in ns, and every fourth run's do not end.
fn fake(run: &Run) -> Result<Outcome, knee_run::Error> {
    let flows = run.flows.iter().map(|flow| {
        let bytes = match flow.traffic {
            Traffic::Bulk { bytes: Some(bytes) } => Some(bytes),
            _ => None,
        };
        FlowOutcome {
            connected_at: Some(flow.start),
            done_at: bytes
                .filter(|_| run.seed % 4 != 0)
                .map(|bytes| flow.start + Duration::from_ns(bytes)),
            ..FlowOutcome::default()
        }
    });
    Ok(Outcome { end: run.end, flows: flows.collect(), ..Outcome::default() })
}

#[test]
fn unfinished_transfers_are_counted_and_make_bounds_of_what_they_could_change() {
    let text = MIX.replace("repeat = 4", "repeat = 40");
    let experiment = experiment(&text);
    let cut_off = (0..40).filter(|i| experiment.run_id(*i).seed % 4 == 0).count() as u64;
    assert!(cut_off > 0);
    let scratch = Scratch::new();
    let options = Options { back_end: Arc::new(Fake(fake)), ..simulated() };
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    let short = &swept.tables[0].subjects[1];
    assert_eq!((short.name.as_str(), short.unfinished), ("short", 2 * cut_off));
    let completion = short.metric(knee_scenario::metric::Metric::Completion).unwrap();
    assert_eq!((completion.runs, completion.values), (40, 2 * (40 - cut_off)));
    assert_eq!(completion.cut_off.values, 2 * cut_off);
    // A quarter of the runs never finish: only what they cannot change is known.
    assert_eq!((completion.min, completion.p50), (Some(2e-5), Some(2e-5)));
    assert_eq!((completion.mean, completion.p95, completion.max), (None, None, None));
    let oldest = completion.cut_off.max.unwrap();
    assert!(oldest.high.is_none() && oldest.low > 1e-3, "{oldest:?}");
    let p95 = completion.cut_off.p95.unwrap();
    assert!(p95.high.is_none() && p95.low > 1e-3, "{p95:?}");
    assert!(
        short.metric(knee_scenario::metric::Metric::CeShare).is_none(),
        "not measured is absent"
    );
    let shown = table::render(&experiment, &swept);
    let said = "did not finish during the run in 4 of 4 rows";
    let row = shown.lines().find(|line| line.contains("cubic  >")).unwrap_or_default();
    let count = (2 * cut_off).to_string();
    assert!(shown.contains(said) && row.split_whitespace().any(|cell| cell == count), "{shown}");
}

#[test]
fn transfers_that_have_not_begun_are_not_called_cut_off() {
    fn late(run: &Run) -> Result<Outcome, knee_run::Error> {
        let mut outcome = fake(run)?;
        let flows = outcome.flows.iter_mut();
        flows.for_each(|flow| (flow.connected_at, flow.done_at) = (None, None));
        Ok(outcome)
    }
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = Options { back_end: Arc::new(Fake(late)), ..simulated() };
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    let shown = table::render(&experiment, &swept);
    assert!(shown.contains("had not begun when the run ended in 4 of 4 rows"), "{shown}");
    assert!(!shown.contains("cut off") && !shown.contains("bounds"), "{shown}");
}

#[test]
fn attempts_that_were_given_up_have_a_footnote_without_a_way_out() {
    // The link is down for all of it.
    let text = r#"question = "?"
cc = "cubic"
[network]
topology = "star"
hosts = 2
up = { rate = "1 Gbps" }
down = { rate = "1 Gbps", queue = { kind = "droptail", limit = "100 pkts" } }
[[network.change]]
links = "switch-h1"
at = "0 ms"
until = "9 ms"
down = true
[[traffic]]
name = "it"
kind = "attempts"
from = "h2"
to = "h1"
count = 4
deadline = "2 ms"
until = "5 ms"
[run]
duration = "10 ms"
"#;
    let experiment = experiment(text);
    let swept = run_into(&Scratch::new(), &experiment, &simulated()).unwrap();
    let shown = table::render(&experiment, &swept);
    assert!(shown.contains("\"it\": 4 were not established in time (\"cut off\")"), "{shown}");
    assert!(!shown.contains("until_done") && !shown.contains("lets them finish"), "{shown}");
}

#[test]
fn a_stopped_sweep_keeps_what_has_finished() {
    static STOP: AtomicBool = AtomicBool::new(false);
    fn slow(run: &Run) -> Result<Outcome, knee_run::Error> {
        if STOP.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        fake(run)
    }
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = Options { threads: 2, back_end: Arc::new(Fake(slow)), ..simulated() };
    let mut results = Results::numbered(scratch.path(), "mix").unwrap();
    let swept = sweep(&experiment, &options, &mut results, &mut |done| {
        if done >= 5 {
            STOP.store(true, Ordering::Relaxed);
            options.stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(swept.interrupted);
    assert!((5..16).contains(&swept.runs_done), "{}", swept.runs_done);
    results.finish(&experiment, &swept, &[]).unwrap();
    let files = scratch.files("mix");
    assert_eq!(files["runs.csv"].lines().count(), 1 + swept.runs_done);
    assert!(files["manifest.json"].contains("\"interrupted\": true"));
}

#[test]
fn a_run_that_cannot_be_simulated_is_named() {
    fn fails(run: &Run) -> Result<Outcome, knee_run::Error> {
        match run.flows[2].traffic {
            Traffic::Bulk { bytes: Some(40_000) } => {
                Err(knee_run::Error::Failed("no route".into()))
            }
            _ => fake(run),
        }
    }
    let experiment = experiment(MIX);
    let scratch = Scratch::new();
    let options = Options { threads: 1, back_end: Arc::new(Fake(fails)), ..simulated() };
    let error = run_into(&scratch, &experiment, &options).unwrap_err();
    assert_eq!(error.to_string(), "mix.toml: case cubic, traffic.short.size = 40 kB: no route");
    assert!(!scratch.path().join("mix").exists());
}

#[test]
fn goodput_is_taken_from_the_measurement_window() {
    fn steady(run: &Run) -> Result<Outcome, knee_run::Error> {
        // 1 kB per 5 ms until 10 ms, then 10 kB per 5 ms.
        let mut outcome = fake(run)?;
        for flow in 0..run.flows.len() as u32 {
            for (ms, bytes) in [(5, 1000), (10, 1000), (15, 10_000)] {
                let at = Time::from_ms(ms);
                outcome.goodput_samples.push(GoodputSample { at, flow, bytes });
            }
        }
        outcome.count_window(&run.sampling, run.flows.len(), &WindowSnapshots::default());
        Ok(outcome)
    }
    let text = MIX.replace("repeat = 4", "repeat = 4\nmeasure_from = \"10 ms\"");
    let experiment = experiment(&text);
    let scratch = Scratch::new();
    let options = Options { back_end: Arc::new(Fake(steady)), ..simulated() };
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    let bulk = &swept.tables[0].subjects[0];
    let goodput = bulk.metric(knee_scenario::metric::Metric::Goodput).unwrap();
    assert_eq!(goodput.mean, Some(16e6));
    assert_eq!(bulk.metric(knee_scenario::metric::Metric::Jain).unwrap().mean, Some(1.0));
}

fn repeated(repeat: u32) -> Arc<Experiment> {
    let overrides = Overrides {
        cc: vec!["cubic".into()],
        set: vec!["traffic.short.size=\"20 kB\"".into()],
        repeat: Some(repeat),
        ..Overrides::default()
    };
    parsed("long.toml", MIX, &overrides)
}

static BEGUN_FOR_TEN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn runs_come_in_their_order_and_end_with_who_takes_them() {
    let back_end = Arc::new(Fake(|run| {
        BEGUN_FOR_TEN.fetch_add(1, Ordering::SeqCst);
        fake(run)
    }));
    let options = Options { threads: 4, back_end, ..simulated() };
    let first =
        runs(&repeated(10_000), &options, |run: Done| run.id.index, |_| 0).unwrap().take(10);
    assert_eq!(first.map(Result::unwrap).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let begun = when_nobody_begins_another(&BEGUN_FOR_TEN);
    assert!((10..2000).contains(&begun), "{begun}");
}

/// An outcome that gives some 4 MB of rows.
fn with_long_rows(run: &Run) -> Outcome {
    let sample = GoodputSample { at: run.end, flow: 0, bytes: 123_456_789 };
    let flows = vec![FlowOutcome::default(); run.flows.len()];
    Outcome { end: run.end, flows, goodput_samples: vec![sample; 120_000], ..Outcome::default() }
}

/// Waits until this number stands still, and says it.
fn when_nobody_begins_another(begun: &AtomicUsize) -> usize {
    let mut before = 0;
    while before != begun.load(Ordering::SeqCst) {
        before = begun.load(Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    before
}

/// Runs that have begun, and how many of them had when the first was done.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
static BEGUN_MEANWHILE: AtomicUsize = AtomicUsize::new(0);

#[test]
fn rows_that_wait_for_a_slow_run_wait_on_disk() {
    let experiment = repeated(40);
    let back_end = Arc::new(Fake(|run| {
        // Runs are handed out in their order.
        if BEGUN.fetch_add(1, Ordering::SeqCst) == 0 {
            BEGUN_MEANWHILE.store(when_nobody_begins_another(&BEGUN), Ordering::SeqCst);
        }
        Ok(with_long_rows(run))
    }));
    let scratch = Scratch::new();
    let options = Options { threads: 2, back_end, ..simulated() };
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    assert_eq!(swept.runs_done, experiment.runs());
    assert_eq!(BEGUN_MEANWHILE.load(Ordering::SeqCst), experiment.runs());
}

static BEGUN_BEFORE_A_PANIC: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_run_that_panics_while_others_wait_for_it_ends_the_sweep() {
    let experiment = repeated(40);
    let back_end = Arc::new(Fake(|run| {
        if BEGUN_BEFORE_A_PANIC.fetch_add(1, Ordering::SeqCst) == 0 {
            when_nobody_begins_another(&BEGUN_BEFORE_A_PANIC);
            panic!("as this test wants it");
        }
        Ok(with_long_rows(run))
    }));
    let scratch = Scratch::new();
    let options = Options { threads: 2, back_end, ..simulated() };
    let why = run_into(&scratch, &experiment, &options).unwrap_err().to_string();
    assert!(why.contains("panicked: this is a bug"), "{why}");
}

#[test]
fn a_panic_of_what_is_made_of_runs_is_not_the_back_ends() {
    let options = Options { threads: 1, ..simulated() };
    let make = |_: Done| panic!("as this test wants it");
    let mut all = runs(&repeated(3), &options, make, |()| 0).expect("they begin");
    let why = all.next().expect("an error").expect_err("it panicked").to_string();
    assert!(why.contains("what is made of runs here panicked"), "{why}");
    assert!(all.next().is_none());
}

#[test]
fn files_beside_results_want_a_sweep() {
    let options = Options { captures: true, ..simulated() };
    let why = runs(&repeated(1), &options, |_| (), |()| 0).expect_err("it has no directory");
    assert!(why.to_string().contains("leave trace and captures out"), "{why}");
}

/// Two transfers of which one ends after about 0.4 s: the queue that both make counts, not that of the one that is left.
#[test]
fn means_are_taken_while_all_transfers_run() {
    let text = r#"question = "How long is the queue of two?"
cc = "dctcp"
[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "100 Mbps", queue = { kind = "step", limit = "200 kB", k = "10 pkts" } }
[[traffic]]
name = "short"
kind = "bulk"
from = "s1"
to = "r"
size = "3 MB"
start = "100 ms"
[[traffic]]
name = "long"
kind = "bulk"
from = "s2"
to = "r"
size = "10 MB"
[run]
duration = "5 s"
until_done = true
[sample]
queues = "1 ms"
"#;
    let mean_of = |text: &str, metric: &str, subject: &str| -> f64 {
        let scratch = Scratch::new();
        let experiment = experiment(text);
        let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
        let subject = swept.tables[0].subjects.iter().find(|of| of.name == subject).unwrap();
        let metric = knee_scenario::metric::Metric::by_name(metric).unwrap();
        subject.metric(metric).and_then(|summary| summary.mean).unwrap()
    };
    let both = text.replace("[run]", "[run]\nmeasure = \"while all run\"");
    let (whole, while_both) =
        (mean_of(text, "queue", "switch-r"), mean_of(&both, "queue", "switch-r"));
    assert!(while_both > whole, "{whole} {while_both}");
    // Each has half of the link while both run. Over the whole run the long one has more.
    let (whole, while_both) = (mean_of(text, "goodput", "long"), mean_of(&both, "goodput", "long"));
    assert!((0.4e8..0.56e8).contains(&while_both) && whole > 0.6e8, "{whole} {while_both}");
    // The window's counters are there: the link is full.
    let utilisation = mean_of(&both, "window_utilisation", "switch-r");
    assert!((0.98..1.01).contains(&utilisation), "{utilisation}");
    let refused = |text: &str| {
        let parsed = Experiment::parse(Path::new("x.toml"), text, &Overrides::default());
        parsed.map(|_| String::new()).unwrap_or_else(|why| why.to_string())
    };
    let bounds = both.replace("[run]", "[run]\nmeasure_from = \"1 s\"");
    assert!(
        refused(&bounds).contains("leave measure_from and measure_until out"),
        "{}",
        refused(&bounds)
    );
}
