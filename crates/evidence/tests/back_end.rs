//! Other back ends than the simulator: verdicts, attempts, threads, and what a host does not tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use knee_evidence::table;
use knee_run::outcome::{FlowCounters, HostCount, Received, Validity};
use knee_run::spec::Traffic;
use knee_run::{BackEnd, Capabilities, Error, Run, RunOptions, RunResult};
use knee_scenario::metric::Metric;
use knee_scenario::{Experiment, Overrides, refused};
use knee_sweep::report;
use knee_sweep::runs::Options;

use crate::common::*;

const TWO: &str = r#"question = "Who decided it?"
cc = ["reno", "dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
bottleneck = { rate = "500 Mbps", delay = "50 us", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }

[[traffic]]
name = "one"
kind = "bulk"
from = "s1"
to = "r"
size = "100 kB"

[[traffic]]
name = "other"
kind = "bulk"
from = "s2"
to = "r"
size = "50 kB"

[run]
duration = "1 s"
until_done = true
repeat = 3
"#;

fn two() -> Arc<Experiment> {
    parsed("two.toml", TWO, &Overrides::default())
}

/// The simulator in the part of a host that limits runs as `limits` says of their number, counts per
/// host and not per connection, and notes how many runs go on at once.
#[derive(Debug, Default)]
struct Host {
    limits: Option<fn(usize) -> bool>,
    tried: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    stop_after: Option<usize>,
}

impl BackEnd for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { threads: Some(1), has_host: true, ..Capabilities::default() }
    }

    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let number = self.tried.fetch_add(1, Ordering::SeqCst);
        let mut outcome = knee_sim::simulate(run)?;
        for flow in &mut outcome.flows {
            flow.counters.tail_loss_probes = None;
            flow.counters.cwr_reductions = None;
        }
        outcome.host_counts = [0, 1, 2]
            .map(|node| HostCount {
                node,
                counters: FlowCounters {
                    tail_loss_probes: Some(10 + u64::from(node)),
                    ..FlowCounters::default()
                },
                received: Received {
                    wire_pkts: Some(90),
                    merged_pkts: Some(40),
                    interrupts: None,
                    cpu_ns: Some(1000 * (1 + u64::from(node))),
                },
            })
            .to_vec();
        let limits = match self.limits.is_some_and(|limits| limits(number)) {
            true => vec!["3 % of packets were late, 0.1 % are allowed".to_owned()],
            false => Vec::new(),
        };
        if self.stop_after.is_some_and(|last| number >= last) {
            ask.stop.store(true, Ordering::SeqCst);
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        let measures = vec![("late_share", 0.5)];
        Ok(RunResult { outcome, validity: Some(Validity { limits, measures }) })
    }

    fn about(&self) -> serde_json::Map<String, serde_json::Value> {
        [("offloads".to_owned(), "off".into())].into_iter().collect()
    }
}

/// Refuses what it is told to.
#[derive(Debug)]
struct Choosy(fn(&Run) -> Result<(), String>);

impl BackEnd for Choosy {
    fn name(&self) -> &'static str {
        "choosy"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn check(&self, run: &Run) -> Result<(), Error> {
        (self.0)(run).map_err(Error::Refused)
    }

    fn run(&self, _run: &Run, _ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        Err(Error::Failed("it was only to be asked".to_owned()))
    }
}

#[test]
fn what_a_back_end_refuses_is_said_of_all_rows_by_their_values() {
    let text = format!("{TWO}\n[vary]\n\"traffic.one.size\" = [\"10 kB\", \"20 kB\", \"30 kB\"]\n");
    let experiment = parsed("three.toml", &text, &Overrides::default());
    let refused = |check| refused::check(&experiment, &Choosy(check)).unwrap_err().to_string();
    fn size(run: &Run) -> Option<u64> {
        let Traffic::Bulk { bytes } = run.flows[0].traffic else { return None };
        bytes
    }
    fn is_reno(run: &Run) -> bool {
        run.flows[0].cc.algorithm.name() == "reno"
    }
    assert!(refused::check(&experiment, &Choosy(|_| Ok(()))).is_ok());
    assert_eq!(refused(|_| Err("no".into())), "three.toml: --on choosy: no");
    let large = |run: &Run| (size(run) == Some(10_000)).then_some(()).ok_or("too large".into());
    let of_values = "three.toml: --on choosy: traffic.one.size = 20 kB, 30 kB: too large";
    assert_eq!(refused(large), of_values);
    let of_case = refused(|run| if is_reno(run) { Err("old".into()) } else { Ok(()) });
    assert_eq!(of_case, "three.toml: --on choosy: case = reno: old");
    let both = refused(|run| match (is_reno(run), size(run)) {
        (true, Some(20_000)) => Err("neither".into()),
        (_, Some(30_000)) => Err("too large".into()),
        _ => Ok(()),
    });
    let lines = [
        "three.toml: --on choosy cannot run all of it:",
        "  case reno, traffic.one.size = 20 kB: neither",
        "  traffic.one.size = 30 kB: too large",
    ];
    assert_eq!(both, lines.join("\n"));
}

fn options(host: Host) -> (Arc<Host>, Options) {
    let host = Arc::new(host);
    (host.clone(), Options { back_end: host, threads: 4, ..simulated() })
}

#[test]
fn the_back_end_bounds_the_threads_and_says_what_it_is() {
    let (scratch, experiment) = (Scratch::new(), two());
    let (host, options) = options(Host::default());
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    assert_eq!(host.most.load(Ordering::SeqCst), 1);
    let files = scratch.files("two");
    let manifest: serde_json::Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    assert_eq!(manifest["back_end"]["name"], "host");
    assert_eq!(manifest["back_end"]["offloads"], "off");
    assert_eq!(report::json(&experiment, &swept, &[], None)["back_end"]["name"], "host");
    let shown = table::render(&experiment, &swept);
    assert!(shown.contains("real TCP, on host"), "{shown}");
    assert!(!shown.contains("verdict"), "all are valid:\n{shown}");
    assert!(files["runs.csv"].lines().skip(1).all(|line| line.ends_with(",valid,")));
    // Two measures of each of six runs.
    assert_eq!(files["validity.csv"].lines().count(), 1 + 2 * 6);
    assert_eq!(files["validity.csv"].lines().nth(1), Some("0,attempts,1"));
}

#[test]
fn summaries_are_of_valid_runs_and_say_so() {
    let (scratch, experiment) = (Scratch::new(), two());
    // Of reno's three runs the second, and all of dctcp's.
    let limits: fn(usize) -> bool = |number| number == 1 || number >= 3;
    let (_, options) = options(Host { limits: Some(limits), ..Host::default() });
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    let runs =
        |table: usize| swept.tables[table].subjects[0].metric(Metric::Completion).unwrap().runs;
    assert_eq!((runs(0), runs(1)), (2, 3), "where none is valid all are summed up");
    let shown = table::render(&experiment, &swept);
    assert!(shown.contains("valid: 2 of 3") && shown.contains("HOST-LIMITED"), "{shown}");
    let why =
        "host-limited: 3 of 3 runs: 3 % of packets were late, 0.1 % are allowed; the row shows";
    assert!(shown.contains(&format!("case dctcp: {why}")), "{shown}");
    let json = report::json(&experiment, &swept, &[], None);
    assert_eq!(json["summary"][0]["verdict"]["valid_runs"], 2);
    assert_eq!(json["summary"][1]["verdict"]["host_limited_runs"], 3);
    let runs_csv = &scratch.files("two")["runs.csv"];
    let limited = runs_csv.lines().filter(|line| line.contains(",host-limited,\"3 % of packets"));
    assert_eq!(limited.count(), 4, "{runs_csv}");
}

#[test]
fn a_run_that_is_not_valid_is_tried_again() {
    let (scratch, experiment) = (Scratch::new(), two());
    let limits: fn(usize) -> bool = |number| number < 2;
    let (host, mut options) = options(Host { limits: Some(limits), ..Host::default() });
    options.attempts = 5;
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    assert_eq!(host.tried.load(Ordering::SeqCst), 6 + 2);
    assert_eq!(swept.tables[0].verdict.as_ref().map(|verdict| verdict.limited), Some(0));
    let validity = &scratch.files("two")["validity.csv"];
    assert_eq!(validity.lines().nth(1), Some("0,attempts,3"));
}

#[test]
fn what_a_connection_does_not_tell_is_its_hosts_or_absent() {
    let (scratch, experiment) = (Scratch::new(), two());
    let (_, options) = options(Host::default());
    let swept = run_into(&scratch, &experiment, &options).unwrap();
    let subject = |name: &str| {
        let subjects = &swept.tables[0].subjects;
        subjects.iter().find(|subject| subject.name == name).unwrap()
    };
    let probes = |name: &str| subject(name).metric(Metric::TailLossProbes).and_then(|s| s.mean);
    assert_eq!((probes("one"), probes("other")), (Some(10.0), Some(11.0)));
    assert!(subject("one").metric(Metric::EcnReductions).is_none(), "nobody told it");
    assert!(subject("one").metric(Metric::Timeouts).is_some());
    let flows = &scratch.files("two")["flows.csv"];
    let column = |line: &str, name: &str| {
        let at = flows.lines().next().unwrap().split(',').position(|column| column == name);
        line.split(',').nth(at.unwrap()).unwrap().to_owned()
    };
    let first = flows.lines().nth(1).unwrap();
    assert_eq!(column(first, "tail_loss_probes"), "");
    assert_eq!(column(first, "timeouts"), "0");
    // Of two entries that send from one host nobody knows whose probes they are.
    let text = TWO.replace("from = \"s2\"", "from = \"s1\"");
    let shared = parsed("shared.toml", &text, &Overrides::default());
    let swept = run_into(&scratch, &shared, &options).unwrap();
    let known = swept.tables[0].subjects[0].metric(Metric::TailLossProbes);
    assert!(known.is_none(), "{known:?}");
}

#[test]
fn what_receiving_took_is_of_an_entry_that_has_its_receivers_alone() {
    let scratch = Scratch::new();
    let metrics = [Metric::PktsPerMerge, Metric::ReceiveCpuPerMb, Metric::AckCpuPerMb];
    let means = |experiment: &Arc<Experiment>, options: &Options| {
        let swept = run_into(&scratch, experiment, options).unwrap();
        let subject = &swept.tables[0].subjects[0];
        assert_eq!(
            subject.metric(Metric::AcksPerMb).is_some(),
            subject.metric(Metric::PktsPerMerge).is_some()
        );
        metrics.map(|metric| subject.metric(metric).and_then(|summary| summary.mean))
    };
    let (_, of_host) = options(Host::default());
    assert_eq!(means(&two(), &of_host), [None; 3], "two entries, one receiver");
    let (start, rest) = TWO.split_once("[[traffic]]\nname = \"other\"").unwrap();
    let alone = format!("{start}{}", &rest[rest.find("[run]").unwrap()..]);
    let alone = parsed("alone.toml", &alone, &Overrides::default());
    // 90 packets became 40; node 2 receives, node 0 sends, and both spent their us on 0.1 MB.
    assert_eq!(means(&alone, &of_host), [Some(2.25), Some(30e-6), Some(10e-6)]);
    let of_simulator = simulated();
    assert_eq!(means(&alone, &of_simulator), [None; 3], "the simulator's hosts tell nothing");
}

#[test]
fn recordings_are_the_simulators() {
    let scratch = Scratch::new();
    let (_, mut options) = options(Host::default());
    options.trace = Some("one".into());
    let error = run_into(&scratch, &two(), &options).unwrap_err().to_string();
    assert!(error.starts_with("two.toml: --trace: works only with --on sim"), "{error}");
}

#[test]
fn a_run_that_was_told_to_stop_is_given_up() {
    let scratch = Scratch::new();
    for last in [3, 5] {
        let (_, options) = options(Host { stop_after: Some(last), ..Host::default() });
        let swept = run_into(&scratch, &two(), &options).unwrap();
        assert!(swept.interrupted);
        assert_eq!(swept.runs_done, last);
    }
}
