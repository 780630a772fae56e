//! Traces and collective operations: from the file to the measure.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_evidence::compare::Side;
use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_run::outcome::Outcome;
use knee_run::spec::Traffic;
use knee_run::support::{self, On};
use knee_scenario::{Experiment, Overrides};
use knee_sim::simulate;

use crate::common;
use common::*;

const NETWORK: &str = r#"question = "?"
cc = ["cubic"]

[network]
topology = "star"
hosts = 8
up = { rate = "10 Gbps", delay = "5 us" }
down = { rate = "10 Gbps", delay = "5 us", queue = { kind = "droptail", limit = "5000 pkts" } }

[run]
duration = "2 s"
until_done = true
"#;

/// Payload of a link of 10 Gbps in frames of 1514 bytes, bytes per second.
const BYTES_PER_S: f64 = 10e9 / 8.0 * 1448.0 / 1514.0;
/// Delay of two links, and the last frame's time on the second one.
const LATENCY_S: f64 = 10e-6 + 1.2e-6;

fn parse_at(file: &Path, traffic: &str) -> Result<Experiment, String> {
    let text = format!("{NETWORK}\n[[traffic]]\nname = \"it\"\n{traffic}");
    let experiment = Experiment::parse(file, &text, &Overrides::default());
    experiment.map_err(|error| error.to_string())
}

fn parse(traffic: &str) -> Result<Experiment, String> {
    parse_at(Path::new("x.toml"), traffic)
}

fn simulated(experiment: &Experiment) -> (Run, Outcome) {
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = simulate(&run).unwrap();
    (run, outcome)
}

fn collective(rest: &str) -> String {
    format!("kind = \"collective\"\n{rest}\n")
}

/// The end of each iteration.
fn ends(run: &Run, outcome: &Outcome) -> Vec<Time> {
    let rounds = run.schedule.tasks.iter().map(|task| task.round).max().unwrap() + 1;
    let end = |round| {
        let of_round =
            outcome.messages.iter().filter(|m| run.schedule.tasks[m.task as usize].round == round);
        of_round.map(|message| message.done).max().unwrap()
    };
    (0..rounds).map(end).collect()
}

/// The time of each iteration, s.
fn iterations(traffic: &str) -> Vec<f64> {
    let experiment = parse(&collective(traffic)).unwrap();
    let (run, outcome) = simulated(&experiment);
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
    let messages = run.schedule.tasks.iter().filter(|task| task.flow.is_some());
    assert_eq!(outcome.messages.len(), messages.count());
    let mut before = Time::ZERO;
    let since = |end: Time| {
        let time = end.since(before);
        before = end;
        time.ps() as f64 / 1e12
    };
    ends(&run, &outcome).into_iter().map(since).collect()
}

/// A ring all-reduce of S bytes on n ranks takes 2 (n - 1) steps of S / n bytes (Patarasuk and Yuan 2009).
#[test]
fn a_ring_takes_the_time_that_arithmetic_gives() {
    let steps = 14.0;
    let ring =
        "operation = \"ring-all-reduce\"\nhosts = \"h1..h8\"\nsize = \"8 MB\"\niterations = 4\n";
    let whole = iterations(&format!("{ring}chunk = \"1 MB\""));
    let least = steps * (1e6 / BYTES_PER_S + LATENCY_S);
    for time in &whole[2..] {
        assert!((least..least * 1.01).contains(time), "{time} of at least {least}");
    }
    // Handshake and slow start are in the first iteration alone: connections stay open.
    assert!(whole[0] > whole[3] + 20e-6, "{whole:?}");
    // Parts that are passed on early hide latency, and no more.
    let parts = iterations(&format!("{ring}chunk = \"100 kB\""));
    let least = steps * 1e6 / BYTES_PER_S;
    assert!((least..whole[3]).contains(&parts[3]), "{parts:?} of at least {least}");
    // Half of an all-reduce.
    let half = iterations(&ring.replace("all-reduce", "all-gather"));
    assert!((least / 2.0..least / 2.0 * 1.03).contains(&half[3]), "{half:?}");
    // Two rings share the links, in as many connections again.
    let two = iterations(&format!("{ring}channels = 2"));
    assert!((least..least * 1.05).contains(&two[3]), "{two:?}");
}

#[test]
fn computation_comes_between_iterations_and_the_slowest_rank_counts() {
    let ring =
        "operation = \"ring-all-reduce\"\nhosts = \"h1..h8\"\nsize = \"800 kB\"\niterations = 5\n";
    let bare = iterations(ring);
    let computed = iterations(&format!("{ring}compute = \"3 ms\""));
    let extra = computed[4] - bare[4];
    assert!((2.9e-3..3.3e-3).contains(&extra), "{extra}");
    let jitter = iterations(&format!("{ring}compute = \"3 ms\"\ncompute_jitter = \"2 ms\""));
    // The largest of eight draws from 0 to 2 ms is 1.78 ms in the mean.
    let mean = (jitter[1..].iter().sum::<f64>() - computed[1..].iter().sum::<f64>()) / 4.0;
    assert!((1.2e-3..2.0e-3).contains(&mean), "{mean}");
}

#[test]
fn a_tree_passes_parts_up_and_down_at_once() {
    let tree =
        "operation = \"tree-all-reduce\"\nsize = \"8 MB\"\niterations = 3\nchunk = \"1 MB\"\n";
    // Two ranks: all parts go up, and each comes back while the next one goes up.
    let two = iterations(&format!("{tree}hosts = \"h1..h2\""));
    let least = 9e6 / BYTES_PER_S + 2.0 * LATENCY_S;
    assert!((least..least * 1.02).contains(&two[2]), "{two:?} of at least {least}");
    // Seven ranks: an inner one sends its sums up, and the result to two children.
    let seven = iterations(&format!("{tree}hosts = \"h1..h7\""));
    let least = 24e6 / BYTES_PER_S;
    assert!((least..least * 1.5).contains(&seven[2]), "{seven:?} of at least {least}");
    // Two trees with half of the data each, of which one is turned round.
    let turned = iterations(&format!("{tree}hosts = \"h1..h7\"\nchannels = 2"));
    assert!(turned[2] < seven[2], "{turned:?}, not {seven:?}");
}

#[test]
fn all_to_all_fills_the_port_of_each_rank() {
    let all = "operation = \"all-to-all\"\nhosts = \"h1..h8\"\nsize = \"8 MB\"\niterations = 3\n";
    let times = iterations(all);
    let least = 7e6 / BYTES_PER_S;
    assert!((least..least * 1.3).contains(&times[2]), "{times:?} of at least {least}");
    let experiment = parse(&collective(all)).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    assert_eq!(run.flows.len(), 56);
    assert!(run.flows.iter().all(|f| f.traffic == Traffic::Bulk { bytes: Some(3_000_000) }));
}

#[test]
fn iterations_and_jobs_are_results_and_other_back_ends_refuse_them() {
    let scratch = Scratch::new();
    let ring = "operation = \"ring-all-reduce\"\nhosts = \"h1..h4\"\nsize = \"400 kB\"\niterations = 5\n\
                compute = \"1 ms\"\nstart = \"2 ms\"\n";
    let experiment = Arc::new(parse(&collective(ring)).unwrap());
    run_into(&scratch, &experiment, &common::simulated()).unwrap();
    let summary = scratch.files("x").remove("summary.csv").unwrap();
    let mut lines = summary.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> = lines.collect();
    let cell = |metric: &str, column: &str| {
        let row = rows.iter().find(|row| row[at("metric")] == metric).unwrap();
        row[at(column)].parse::<f64>().unwrap()
    };
    let (run, outcome) = simulated(&experiment);
    let ends = ends(&run, &outcome);
    let job = ends[4].since(Time::from_ms(2)).ps() as f64 / 1e12;
    assert!((cell("job", "mean") - job).abs() < 1e-8, "{job}");
    assert!((cell("iteration", "mean") - job / 5.0).abs() < 1e-8);
    assert!(cell("communication", "mean") < cell("iteration", "mean") - 0.9e-3);
    assert!((cell("unfinished", "mean")).abs() < 1e-9);
    let why = support::check(&run, On::Lab).unwrap_err().to_string();
    assert!(why.contains("use --on sim"), "{why}");
}

#[test]
fn impossible_operations_are_refused_in_a_sentence() {
    let said = |rest: &str| parse(&collective(rest)).err().unwrap_or_default();
    let ring = "operation = \"ring-all-reduce\"\n";
    for (rest, words) in [
        ("hosts = \"h1\"\nsize = \"1 MB\"", "at least two hosts"),
        ("hosts = [\"h1\", \"h2\", \"h1\"]\nsize = \"1 MB\"", "h1 is there twice"),
        ("hosts = \"h1..h8\"\nsize = \"7 B\"", "must be at least 8 B"),
        ("hosts = \"h1..h8\"", "missing, as in size"),
        (
            "hosts = \"h1..h8\"\nsize = \"1 GB\"\niterations = 100\nchunk = \"1 kB\"",
            "at most 2000000 are allowed",
        ),
        ("hosts = \"h1..h8\"\nsize = \"1 MB\"\nfrom = \"h1\"", "from"),
    ] {
        let why = said(&format!("{ring}{rest}"));
        assert!(why.contains(words), "{rest}: {why:?}");
    }
    let why = said("operation = \"all-to-all\"\nhosts = \"h1..h8\"\nsize = \"1 MB\"\nchannels = 2");
    assert!(why.contains("for rings and trees"), "{why}");
}

/// An experiment with this file of flows.
fn traced(scratch: &Scratch, csv: &str, rest: &str) -> Result<Experiment, String> {
    fs::write(scratch.path().join("flows.csv"), csv).unwrap();
    let traffic = format!("kind = \"trace\"\nfile = \"flows.csv\"\n{rest}");
    parse_at(&scratch.path().join("x.toml"), &traffic)
}

#[test]
fn rows_of_a_file_start_at_their_times_or_when_others_are_done() {
    let scratch = Scratch::new();
    let csv = "\u{feff}# A map and a reduce.\n\
               id, start_us, from, to, bytes, after, gap_ms\n\
               sum, , h4, h5, 50000, map1 map2, 0.5\n\
               map1, 100, h1, h4, 200000, ,\n\
               map2, 100.5, h2, h4, 300000, ,\n\
               late, 90000, h4, h6, 10000, map1,\n";
    let experiment = traced(&scratch, csv, "start = \"1 ms\"\n").unwrap();
    let (run, outcome) = simulated(&experiment);
    let at = |flow: usize| outcome.flows[flow].connected_at.unwrap();
    let done = |flow: usize| outcome.flows[flow].done_at.unwrap();
    assert_eq!(at(1), Time::from_us(1100));
    assert_eq!(at(2), Time::from_ns(1_100_500));
    assert_eq!(at(0), done(1).max(done(2)) + Duration::from_us(500));
    // Not before its own time either.
    assert_eq!(at(3), Time::from_ms(91));
    assert_eq!(run.flows[2].traffic, Traffic::Bulk { bytes: Some(300_000) });
    // Without dependencies the rows are plain flows, which every back end runs.
    let csv = "start_s,from,to,bytes\n0.001,0,1,1000\n0,1,2,2000\n";
    let plain = traced(&scratch, csv, "hosts = \"h3..h5\"\n").unwrap();
    let (run, outcome) = simulated(&plain);
    assert!(support::check(&run, On::Lab).is_ok());
    let name = |node: u32| run.network.nodes[node as usize].name.as_str();
    assert_eq!((name(run.flows[0].from), name(run.flows[0].to)), ("h3", "h4"));
    assert_eq!(outcome.flows[0].connected_at, Some(Time::from_ms(1)));
}

#[test]
fn rows_on_kept_connections_are_messages() {
    let scratch = Scratch::new();
    let csv =
        "id,start_us,from,to,bytes,after\na,0,h1,h2,1000,\nb,500,h1,h2,1000,\nc,0,h2,h1,1000,b\n";
    let experiment = traced(&scratch, csv, "connections = \"kept\"\n").unwrap();
    let (run, outcome) = simulated(&experiment);
    assert_eq!(run.flows.len(), 2);
    let took: Vec<_> = outcome.messages.iter().map(|m| m.done.since(m.start)).collect();
    // The first waits for the handshake, a round trip. The others do not.
    assert!(took[0] > Duration::from_us(30), "{took:?}");
    assert!(took[1..].iter().all(|time| *time < Duration::from_us(13)), "{took:?}");
    assert_eq!(outcome.messages[2].start, outcome.messages[1].done);
}

#[test]
fn sizes_and_weights_of_random_transfers_come_from_files() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("sizes.txt"), "1000 50\n1000 50\n3000 50\n3000 100\n").unwrap();
    fs::write(scratch.path().join("m.csv"), "from,to,weight\nh1..h2,h8,9\nh3,h1..h8,1\n").unwrap();
    let poisson = "kind = \"poisson\"\nfrom = \"h1..h3\"\nto = \"h1..h8\"\nsizes = \"sizes.txt\"\n\
                   matrix = \"m.csv\"\narrivals_per_sec = 20000\nuntil = \"100 ms\"\n";
    let file = scratch.path().join("x.toml");
    let experiment = parse_at(&file, poisson).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let count =
        |is: &dyn Fn(&knee_run::spec::Flow) -> bool| run.flows.iter().filter(|f| is(f)).count();
    let name = |node: u32| run.network.nodes[node as usize].name.as_str();
    let all = run.flows.len() as f64;
    let to_last = count(&|flow| name(flow.to) == "h8" && name(flow.from) != "h3") as f64 / all;
    assert!((0.87..0.93).contains(&to_last), "{to_last}");
    let small = count(&|flow| flow.traffic == Traffic::Bulk { bytes: Some(1000) }) as f64 / all;
    assert!((0.45..0.55).contains(&small), "{small}");
    fs::write(scratch.path().join("m.csv"), "from,to,weight\nh1,h4,1\nh4,h1,1\n").unwrap();
    let why = parse_at(&file, poisson).unwrap_err();
    assert!(why.contains("m.csv:3: from = \"h4\": names a host"), "{why}");
    fs::write(scratch.path().join("sizes.txt"), "1000 50\n").unwrap();
    let why = parse_at(&file, poisson).unwrap_err();
    assert!(why.contains("sizes.txt:1: must end with"), "{why}");
}

/// Results say what they were made from, and runs of one experiment are made of the same files.
#[test]
fn files_are_in_the_manifest_and_must_not_change_while_runs_go_on() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("sizes.txt"), "1000 50\n3000 100\n").unwrap();
    fs::write(scratch.path().join("m.csv"), "from,to,weight\nh1,h8,1\n").unwrap();
    let poisson = "kind = \"poisson\"\nfrom = \"h1..h3\"\nto = \"h1..h8\"\nsizes = \"sizes.txt\"\n\
                   matrix = \"m.csv\"\narrivals_per_sec = 2000\nuntil = \"10 ms\"\n";
    let experiment = Arc::new(parse_at(&scratch.path().join("x.toml"), poisson).unwrap());
    run_into(&scratch, &experiment, &common::simulated()).unwrap();
    let dir = scratch.path().join("x");
    let manifest = knee_results::Manifest::read(&dir).unwrap();
    let files: Vec<_> =
        manifest.inputs.iter().map(|file| (file.key.as_str(), file.path.as_str())).collect();
    assert_eq!(files.len(), 2);
    assert!(files.contains(&("traffic.it.sizes", "sizes.txt")), "{files:?}");
    assert!(files.contains(&("traffic.it.matrix", "m.csv")), "{files:?}");
    // printf 'from,to,weight\nh1,h8,1\n' | sha256sum
    let matrix = manifest.inputs.iter().find(|file| file.path == "m.csv").unwrap();
    assert_eq!(matrix.sha256, "f9eefdbc050fb6957b9c37e570f127505c5d8de9634c20b9d40fdff7cb9b725e");
    fs::write(scratch.path().join("m.csv"), "from,to,weight\nh2,h8,1\n").unwrap();
    let why = experiment.run(experiment.run_id(0)).unwrap_err().to_string();
    assert!(why.contains("m.csv changed after the experiment was read: run it again"), "{why}");
    // Results of other files are of another experiment.
    let other = Arc::new(parse_at(&scratch.path().join("x.toml"), poisson).unwrap());
    run_into(&scratch, &other, &common::simulated()).unwrap();
    let [one, two] = ["x", "x-2"].map(|name| Side::read(&scratch.path().join(name)).unwrap());
    let differences = one.differences(&two);
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert!(differences[0].starts_with("traffic.it.matrix.sha256 ("), "{differences:?}");
    fs::remove_file(scratch.path().join("m.csv")).unwrap();
    let why = parse_at(&scratch.path().join("x.toml"), poisson).unwrap_err();
    assert!(why.contains("m.csv: cannot read"), "{why}");
}

/// What a stranger's file says is refused in one short sentence, whatever its lines are.
#[test]
fn long_lines_and_odd_bytes_are_refused_in_a_short_sentence() {
    let scratch = Scratch::new();
    let head = "id,start_us,from,to,bytes,after\n";
    let long = "x".repeat(1 << 20);
    for (csv, words) in [
        (format!("{head}a,0,{long},h2,1,\n"), "flows.csv:2: from: must be a host"),
        (format!("{head}a,{long},h1,h2,1,\n"), "flows.csv:2: start = \"xxx"),
        (format!("{head}a,0,h1,h2,{long},\n"), "flows.csv:2: \"xxx"),
        (format!("{head}a,0,h1,h2,1,{long}\n"), "flows.csv:2: after: there is no row"),
        (format!("{long}\n"), "flows.csv:1: \"xxx"),
        (format!("{}\n", ",".repeat(1 << 20)), "flows.csv:1: has more than 64 cells"),
        (format!("{head}{}\n", ",".repeat(1 << 20)), "flows.csv:2: has more than 64 cells"),
        (format!("{head}a,0,h1\0,h2,1,\n"), "\"h1\\0\" does not exist"),
        (format!("{head}a,0,h\"1,h2,1,\n"), "flows.csv:2: has a quote within a cell"),
    ] {
        let why = traced(&scratch, &csv, "").err().unwrap_or_default();
        assert!(why.contains(words), "{why:.200}");
        assert!(why.len() < 400 && !why.contains(['\n', '\0']), "{why:.500}");
    }
    // As other programs write them.
    let csv = "\u{feff}\"id\",\"start_us\",from,to,bytes,after\r\na,0,\"h1\",h2,1000,\r\n\r\nb,0,h2,h3,1000,a\r\n";
    assert!(traced(&scratch, csv, "").is_ok());
}

#[test]
fn a_bad_file_is_refused_with_its_line() {
    let scratch = Scratch::new();
    let head = "id,start_us,from,to,bytes,after\n";
    for (csv, words) in [
        (String::new(), "flows.csv:1: is empty"),
        ("start,from,to,bytes\n".into(), "flows.csv:1: \"start\" is no column"),
        ("from,to,bytes\n".into(), "flows.csv:1: lacks a column of start times"),
        ("start_us,start_s,from,to,bytes\n".into(), "two columns of start"),
        ("start_us,from,from,to,bytes\n".into(), "names \"from\" twice"),
        ("start_us,from,to\n".into(), "lacks the column \"bytes\""),
        (head.into(), "has no rows"),
        (format!("{head}a,0,h1,h2\n"), "flows.csv:2: has 4 cells"),
        (format!("{head}a,0,h1,h9,1,\n"), "flows.csv:2: to: "),
        (format!("{head}a,0,h1,h1,1,\n"), "flows.csv:2: from and to are the same host"),
        (format!("{head}a,-1,h1,h2,1,\n"), "flows.csv:2: start = \"-1\""),
        (format!("{head}a,nan,h1,h2,1,\n"), "flows.csv:2: start = \"nan\""),
        (format!("{head}a,0,h1,h2,0,\n"), "flows.csv:2: \"0\" bytes"),
        (format!("{head}a,0,h1,h2,1,\na,0,h1,h2,1,\n"), "flows.csv:3: has the id of line 2"),
        (format!("{head}a,0,h1,h2,1,b\n"), "flows.csv:2: after: there is no row with the id \"b\""),
        (
            format!("{head}a,0,h1,h2,1,b\nb,0,h1,h2,1,a\n"),
            "flows.csv:2: after: waits for rows that wait",
        ),
    ] {
        let why = traced(&scratch, &csv, "").err().unwrap_or_default();
        assert!(why.contains(words), "{csv:?}: {why:?}");
    }
    let long = "9".repeat(100_000);
    for csv in [
        long.clone(),
        ",".repeat(100_000),
        format!("{head}a,x{long},h1,h2,1,\n"),
        format!("{head}a,0,{long},h2,1,\n"),
        format!("{head}a,0,h1,h2,{long},\n"),
        format!("{head}a,0,h1,h2,1,{long}\n"),
        format!("{head}a,0,h1,h2,1,{}\n", ",".repeat(100_000)),
    ] {
        let why = traced(&scratch, &csv, "").err().unwrap_or_default();
        assert!(
            (40..400).contains(&why.len()),
            "{} bytes: {}",
            why.len(),
            &why[..why.len().min(400)]
        );
    }
    let why = traced(&scratch, "start_us,from,to,bytes\n0,0,3,1\n", "hosts = \"h1..h3\"\n");
    assert!(why.unwrap_err().contains("flows.csv:2: to = 3: must be 0 to 2"));
    let gone = parse_at(&scratch.path().join("x.toml"), "kind = \"trace\"\nfile = \"none.csv\"\n");
    assert!(gone.unwrap_err().contains("cannot read"));
}
