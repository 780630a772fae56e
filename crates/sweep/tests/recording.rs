//! Flight recordings of simulated runs: beside the other results, equal when replayed, and without
//! effect on what they record.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use knee_flight::{Origin, Reader, Replay, Report};
use knee_scenario::{Error, Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use tempfile::TempDir;

/// A shallow queue, so that there are losses where there are no marks.
const MIX: &str = r#"question = "What did they do?"
cc = ["cubic", "dctcp", "reno"]

[network]
topology = "many-to-one"
senders = 3
access = { rate = "1 Gbps" }
return = { delay = "50 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "60 pkts", k = "20 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
start_jitter = "1 ms"

[[traffic]]
name = "requests"
kind = "rpc"
from = "s3"
to = "r"
request = "30 kB"
response = "30 kB"
count = 200

[run]
duration = "300 ms"
repeat = 2
"#;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// Runs the experiment; the directory and what is in it, by name.
    fn run(&self, trace: Option<&str>) -> Result<(PathBuf, Vec<String>), Error> {
        self.run_file(MIX, trace)
    }

    fn run_file(&self, text: &str, trace: Option<&str>) -> Result<(PathBuf, Vec<String>), Error> {
        let file = self.0.path().join("mix.toml");
        fs::write(&file, text).unwrap();
        let experiment = Arc::new(Experiment::load(&file, &Overrides::default())?);
        let mut results = Results::numbered(self.0.path(), "mix")?;
        let options =
            Options { trace: trace.map(str::to_owned), ..Options::new(Arc::new(Simulator)) };
        let swept = sweep(&experiment, &options, &mut results, &mut |_| {})?;
        let dir = results.finish(&experiment, &swept, &[])?;
        let entries = fs::read_dir(&dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        Ok((dir, names))
    }
}

fn replayed(file: PathBuf) -> (String, Report) {
    let bytes = fs::read(file).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    assert_eq!((reader.header().origin, reader.header().hz), (Origin::Simulator, 1000));
    let (algorithm, params) = reader.header().algorithm().unwrap();
    let mut replay = Replay::new(algorithm, params, reader.header().hz).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        replay.step(&record);
    }
    assert_eq!(reader.ending().unwrap().lost(), 0);
    (algorithm.name().to_owned(), replay.finish())
}

#[test]
fn recordings_of_simulated_runs_replay_equal() {
    let scratch = Scratch::new();
    for (trace, sockets) in [("bulk", 4), ("requests", 2)] {
        let (dir, names) = scratch.run(Some(trace)).unwrap();
        let recordings: Vec<_> = names.iter().filter(|name| name.ends_with(".flight")).collect();
        // The first of two repeats of each case.
        let expected = [0, 2, 4].map(|run| format!("{trace}-run-{run}.flight"));
        assert_eq!(recordings, expected.iter().collect::<Vec<_>>());
        let manifest = fs::read_to_string(dir.join("manifest.json")).unwrap();
        assert!(manifest.contains(&expected[2]));
        for (name, algorithm) in expected.iter().zip(["cubic", "dctcp", "reno"]) {
            let (recorded, report) = replayed(dir.join(name));
            assert_eq!(recorded, algorithm);
            if let Some(first) = &report.first_difference {
                panic!("{name}: {first}\n{}", first.record);
            }
            assert_eq!((report.gaps, report.unchecked), (0, 0));
            // A side that only receives makes no call of an algorithm without `init` and ECN.
            assert!((sockets / 2..=sockets).contains(&report.flows), "{report}");
            // One an ACK or more. Where a request's end is lost, 200 of the 300 ms go by, and some ninety ACKs are left.
            assert!(report.total() > 80, "{report}");
            let asks_for_acks = algorithm == "dctcp" && trace == "bulk";
            assert!(!asks_for_acks || report.acks_asked > 0, "{report}");
        }
    }
}

/// Eager PLB, on links that lose packets: it asks for paths, and draws how long it waits after timeouts.
const PLB: &str = r#"
question = "?"

[[case]]
name = "eager"
cc = "dctcp"
params = { plb = "on", plb_rehash_rounds = 1, plb_cong_thresh = 0, plb_suspend_rto_sec = 1 }

[network]
topology = "leaf-spine"
hosts_per_leaf = 4
up = { rate = "1 Gbps", loss = "10 %" }
down = { rate = "1 Gbps", queue = { kind = "step", limit = "500 pkts", k = "5 pkts" } }
fabric = { rate = "1 Gbps", queue = { kind = "step", limit = "500 pkts", k = "5 pkts" } }

[hosts]
ipv6 = true

[[traffic]]
name = "bulk"
kind = "bulk"
from = "h0.0..h0.3"
to = "h1.0..h1.3"
read_at = "64 KiB"
size = "1 MB"

[run]
duration = "3 s"
"#;

#[test]
fn changes_of_path_are_recorded_and_replay_equal() {
    let scratch = Scratch::new();
    let (dir, _) = scratch.run_file(PLB, Some("bulk")).unwrap();
    let flows = fs::read_to_string(dir.join("flows.csv")).unwrap();
    let mut lines = flows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|name| *name == "plb_rehashes").unwrap();
    let counted: Vec<u64> = lines.map(|line| line[column].parse().unwrap()).collect();
    let (_, report) = replayed(dir.join("bulk-run-0.flight"));
    assert!(report.is_equal(), "{report}");
    assert!(report.rehashes > 0, "{report}");
    assert_eq!(report.rehashes, counted.iter().sum::<u64>());
    assert!(report.calls.contains_key("cwnd_event(LOSS)"), "{report}");
}

#[test]
fn recording_changes_nothing_that_is_measured() {
    let scratch = Scratch::new();
    let (plain, names) = scratch.run(None).unwrap();
    let (recorded, with) = scratch.run(Some("bulk")).unwrap();
    assert_eq!(with.len(), names.len() + 3);
    for name in names.iter().filter(|name| name.ends_with(".csv")) {
        assert!(
            fs::read(plain.join(name)).unwrap() == fs::read(recorded.join(name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn an_entry_that_is_not_there_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let refused = scratch.run(Some("bilk")).unwrap_err().to_string();
    assert!(
        refused.ends_with("no traffic \"bilk\" to trace; the names are bulk, requests"),
        "{refused}"
    );
    assert!(!scratch.0.path().join("mix").exists());
}
