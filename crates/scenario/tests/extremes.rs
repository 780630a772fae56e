//! Every number that a file may have, at its least and its greatest, in a run of each algorithm: nothing overflows, which panics
//! here, and no byte is made up. The ranges are what the reader accepts, found by asking it.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use knee_algo::Algorithm;
use knee_run::spec::Traffic;
use knee_scenario::{Experiment, Overrides};
use serde_json::Value as Json;

/// Two hosts and some of each kind of traffic; queues come in the place of QUEUE.
const FILE: &str = r#"question = "?"
cc = ["CC"]
[network]
topology = "many-to-one"
senders = 2
access = { rate = "100 Mbps", delay = "10 us", jitter = "1 us" }
return = { delay = "100 us", loss = "0.1 %" }
bottleneck = { rate = "50 Mbps", delay = "10 us", burst = "3000 B", queue = QUEUE }
[hosts]
HOSTS
[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "60 kB"
start_jitter = "10 us"
base_rtt = "200 us"
max_pacing_rate = "40 Mbps"
[[traffic]]
name = "rpc"
kind = "rpc"
from = "s1"
to = "r"
request = "3 kB"
response = "3 kB"
count = 3
[[traffic]]
name = "ping"
kind = "ping"
from = "s2"
to = "r"
interval = "20 ms"
[run]
duration = "200 ms"
until_done = true
[sample]
flows = "20 ms"
queues = "20 ms"
goodput = "20 ms"
"#;

const STEP: &str = r#"{ kind = "step", limit = "30 pkts", k = "5 pkts" }"#;
const HOSTS: &str = "";
/// What is no default, or reads keys that are not there otherwise.
const OTHER_HOSTS: [&str; 2] = [
    "fq = true\nsack = false\nsndbuf_max = \"1 MB\"",
    "gso_max_segs = 16\ncoalesce = { frames = 8, time = \"50 us\", adaptive = true }\ngro = true\ncpu = {}",
];
const OTHER_QUEUES: [&str; 11] = [
    r#"{ kind = "droptail", limit = "45 kB" }"#,
    r#"{ kind = "step", limit = "45 kB", k = "7 kB" }"#,
    r#"{ kind = "step", limit = "30 pkts", k = "100 us", mark_when = "dequeue" }"#,
    r#"{ kind = "pie" }"#,
    r#"{ kind = "red", limit = "100 kB", min = "10 kB", max = "40 kB" }"#,
    r#"{ kind = "codel" }"#,
    r#"{ kind = "fq-codel" }"#,
    r#"{ kind = "dualpi2" }"#,
    r#"{ kind = "share", limit = "30 pkts", mark = "10 %" }"#,
    r#"{ kind = "trim", limit = "30 pkts", k = "7 kB" }"#,
    r#"{ kind = "policer", rate = "500 Mbps", burst = "45 kB", limit = "30 pkts" }"#,
];
/// Where a number of a unit cannot be beyond, and the unit that it is asked about in.
const MOST: u64 = 1 << 62;
const UNITS: [(&[&str], &str); 5] = [
    (&["bps"], "bps"),
    (&["pkts", "pkt"], "pkts"),
    (&["s", "ms", "us", "ns", "ps", "min"], "ps"),
    (&["B", "KiB", "MiB", "GiB"], "B"),
    (&["%"], "%"),
];

fn parse(text: &str, set: &str) -> Option<Experiment> {
    let overrides = Overrides { set: vec![set.to_owned()], ..Overrides::default() };
    Experiment::parse(Path::new("x.toml"), text, &overrides).ok()
}

/// Whether the reader takes a number of a key, which `written` makes the value of.
fn takes(text: &str, key: &str, written: &dyn Fn(u64) -> String, number: u64) -> bool {
    parse(text, &format!("{key}={}", written(number))).is_some()
}

/// The last number that is taken on the way from one that is to one that may not be.
fn last_taken(takes: &dyn Fn(u64) -> bool, taken: u64, beyond: u64) -> u64 {
    if takes(beyond) {
        return beyond;
    }
    let (mut taken, mut beyond) = (taken, beyond);
    while taken.abs_diff(beyond) > 1 {
        let middle = taken / 2 + beyond / 2 + (taken % 2 + beyond % 2) / 2;
        if takes(middle) { taken = middle } else { beyond = middle }
    }
    taken
}

/// A number as a file has it.
type Written = Box<dyn Fn(u64) -> String>;

/// A number that is used, and how to write others in its place.
fn number(value: &Json) -> Option<(u64, Written)> {
    if let Some(number) = value.as_u64() {
        return Some((number, Box::new(|number| number.to_string())));
    }
    let (number, unit) = value.as_str()?.split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    let factors = [
        ("kbps", 1e3),
        ("Mbps", 1e6),
        ("Gbps", 1e9),
        ("Tbps", 1e12),
        ("kB", 1e3),
        ("MB", 1e6),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
        ("s", 1e12),
        ("ms", 1e9),
        ("us", 1e6),
        ("ns", 1e3),
        ("min", 6e13),
    ];
    let family = UNITS.iter().find(|(units, base)| {
        units.contains(&unit)
            || unit.ends_with("bps") && *base == "bps"
            || unit.ends_with('B') && *base == "B"
    });
    let base = family?.1;
    let factor = factors.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, factor)| *factor);
    Some(((number * factor).round() as u64, Box::new(move |number| format!("\"{number} {base}\""))))
}

/// Keys of this file whose values are numbers, each with its least and its greatest value as a file has it.
fn extremes(text: &str) -> Vec<(String, [String; 2])> {
    let experiment = Experiment::parse(Path::new("x.toml"), text, &Overrides::default());
    let resolved = experiment.unwrap_or_else(|why| panic!("{why}\n{text}")).resolved().unwrap();
    let first = resolved.values().next().unwrap().as_object().unwrap();
    let mut all = Vec::new();
    for (key, value) in first {
        let Some((used, written)) = number(value) else { continue };
        // A hundred thousand connections are many runs and no other arithmetic.
        if key.ends_with(".flows") && key.starts_with("traffic.") {
            continue;
        }
        let takes = |number| takes(text, key, &written, number);
        // What is not a key of its own, as a share that was worked out, is not to be set.
        if !takes(used) {
            continue;
        }
        let ends = [last_taken(&takes, used, 0), last_taken(&takes, used, MOST)];
        all.push((key.clone(), ends.map(&written)));
    }
    all
}

/// Runs it; what is wrong with what came of it.
fn run(text: &str, set: &str) -> Result<(), String> {
    // The rows of an algorithm with more to tell may take too much memory where another's do not.
    let Some(experiment) = parse(text, set) else { return Ok(()) };
    let run = experiment.run(experiment.run_id(0)).map_err(|why| why.to_string())?;
    let outcome = catch_unwind(AssertUnwindSafe(|| knee_sim::simulate(&run)));
    let outcome = match outcome {
        Ok(outcome) => outcome.map_err(|why| why.to_string())?,
        Err(_) => return Err("panicked".to_owned()),
    };
    for (flow, got) in run.flows.iter().zip(&outcome.flows) {
        let most = match flow.traffic {
            Traffic::Bulk { bytes } => bytes.unwrap_or(u64::MAX),
            Traffic::Rpc { request_bytes, count, .. } => {
                count.map_or(u64::MAX, |count| request_bytes.saturating_mul(count))
            }
        };
        let received = got.received_bytes;
        if received > most || got.done_at.is_some() && received != most {
            return Err(format!("{received} bytes of {most} received, done {:?}", got.done_at));
        }
    }
    let queues = outcome.queues.iter().filter(|queue| queue.part.is_none());
    match queues.clone().find(|queue| queue.sent_pkts + queue.dropped_pkts() > queue.offered_pkts) {
        Some(queue) => Err(format!("more left a queue than came: {queue:?}")),
        None => Ok(()),
    }
}

/// All extremes of a file with each of these algorithms.
fn try_all(text: &str, algorithms: &[&str], wrong: &mut Vec<String>) -> usize {
    let mut runs = 0;
    // Ranges are the same for all of them.
    for (key, ends) in extremes(&text.replace("CC", "dctcp")) {
        for value in ends {
            let set = format!("{key}={value}");
            for cc in algorithms {
                if let Err(why) = run(&text.replace("CC", cc), &set) {
                    wrong.push(format!("{cc}, {set}: {why}"));
                }
                runs += 1;
            }
        }
    }
    runs
}

#[test]
fn every_number_at_its_least_and_its_greatest_overflows_nothing() {
    let names: Vec<&str> = Algorithm::all().iter().map(Algorithm::name).collect();
    let mut wrong = Vec::new();
    let mut runs =
        try_all(&FILE.replace("QUEUE", STEP).replace("HOSTS", HOSTS), &names, &mut wrong);
    for hosts in OTHER_HOSTS {
        let text = FILE.replace("QUEUE", STEP).replace("HOSTS", hosts);
        runs += try_all(&text, &["dctcp", "bbr"], &mut wrong);
    }
    for queue in OTHER_QUEUES {
        let text = FILE.replace("QUEUE", queue).replace("HOSTS", HOSTS);
        runs += try_all(&text, &["dctcp"], &mut wrong);
    }
    assert!(wrong.is_empty(), "of {runs} runs {}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(runs > 1000, "{runs}");
}

#[test]
fn every_parameter_of_an_algorithm_at_its_least_and_its_greatest_overflows_nothing() {
    let mut wrong = Vec::new();
    for algorithm in Algorithm::all() {
        let text =
            FILE.replace("QUEUE", STEP).replace("HOSTS", HOSTS).replace("CC", algorithm.name());
        for param in algorithm.params() {
            for value in [param.min, param.max] {
                let value = match param.choices.get(value as usize) {
                    Some(choice) => format!("\"{choice}\""),
                    None => param.show(value),
                };
                let set = format!("params.{}={value}", param.name);
                if let Err(why) = run(&text, &set) {
                    wrong.push(format!("{}, {set}: {why}", algorithm.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
