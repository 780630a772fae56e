//! Results whose size does not grow with the number of connections: sketches, chosen rows and series, counts of links.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use knee_evidence::compare::{Options as How, Side, compare, render};
use knee_queue::time::{Duration, Time};
use knee_results::Sketch;
use knee_run::outcome::{FlowOutcome, Outcome};
use knee_run::spec::Run;
use knee_scenario::{Error, Overrides};
use knee_sweep::runs::Options;
use proptest::prelude::*;

use crate::common::*;

const WEB: &str = r#"question = "How long?"
cc = ["cubic", "dctcp"]

[network]
topology = "star"
hosts = 5
up = { rate = "1 Gbps", delay = "10 us" }
down = { rate = "1 Gbps", delay = "10 us", queue = { kind = "step", limit = "60 kB", k = "30 kB" } }

[[traffic]]
name = "web"
kind = "bulk"
from = "h1..h4"
to = "h5"
size = "30 kB"
flows = 50
start_jitter = "60 ms"

[[traffic]]
name = "requests"
kind = "rpc"
from = "h5"
to = "h1..h4"
count = 20

[run]
duration = "3 s"
until_done = true
repeat = 3

[sample]
flows = "1 ms"
goodput = "10 ms"
links = "7 ms"
"#;

type Files = BTreeMap<String, String>;

fn run(scratch: &Scratch, text: &str) -> Result<Files, Error> {
    let experiment = parsed("web.toml", text, &Overrides::default());
    run_into(scratch, &experiment, &simulated())?;
    Ok(scratch.files("web"))
}

fn files_of(text: &str) -> Files {
    run(&Scratch::new(), text).unwrap_or_else(|error| panic!("{error}"))
}

/// Cells of these columns, row by row.
fn cells<const N: usize>(files: &Files, file: &str, columns: [&str; N]) -> Vec<[String; N]> {
    let mut lines = files[file].lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = columns.map(|column| header.iter().position(|name| *name == column).unwrap());
    lines.map(|line| at.map(|at| line.split(',').nth(at).unwrap().to_owned())).collect()
}

fn sketch(values: &[u64]) -> Sketch {
    let mut sketch = Sketch::default();
    values.iter().for_each(|value| sketch.add(*value));
    sketch
}

proptest! {
    #[test]
    fn a_percentile_is_within_its_error(
        mut values in prop::collection::vec(prop_oneof![0..1000u64, 0..=u64::MAX / 4, 1_000_000..2_000_000u64], 100..400),
        share in 0.0..0.99f64,
    ) {
        let found = sketch(&values).percentile(share).unwrap();
        values.sort_unstable();
        let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1] as f64;
        prop_assert!((found - exact).abs() <= Sketch::ERROR * exact, "{found} {exact}");
    }

    #[test]
    fn merges_in_any_order_give_the_same(
        values in prop::collection::vec(0..u64::MAX, 0..300),
        cuts in prop::collection::vec(0..300usize, 0..6),
        order in Just((0..7usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.min(&values.len())).collect();
        cuts.extend([0, values.len()]);
        cuts.sort_unstable();
        let parts: Vec<Sketch> = cuts.windows(2).map(|ends| sketch(&values[ends[0]..ends[1]])).collect();
        let mut merged = Sketch::default();
        for part in order.iter().filter_map(|part| parts.get(*part)) {
            merged.merge(part);
        }
        let whole = sketch(&values);
        prop_assert_eq!(&merged, &whole);
        prop_assert_eq!(merged.count(), values.len() as u64);
        prop_assert!(merged.buckets().eq(whole.buckets()));
    }
}

#[test]
fn sketches_hold_all_values_and_rows_only_some() {
    let whole = files_of(WEB);
    assert!(!whole.contains_key("sketches.csv") && !whole.contains_key("percentiles.csv"));
    let output = "\n[output]\nsketches = true\nflows = 12\n";
    let some = files_of(&format!("{WEB}{output}"));
    // What was measured is the same, whatever has rows.
    for file in ["summary.csv", "measures.csv", "runs.csv", "queues.csv", "series-links.csv"] {
        assert_eq!(some[file], whole[file], "{file}");
    }
    // Rows are chosen, not changed, and every case has the same connections.
    let all: BTreeSet<&str> = whole["flows.csv"].lines().collect();
    assert!(some["flows.csv"].lines().all(|line| all.contains(line)));
    assert_eq!(some["flows.csv"].lines().count(), 1 + 2 * 3 * 12);
    let chosen = |case: &str, repeat: &str| -> Vec<String> {
        let rows = cells(&some, "flows.csv", ["case", "repeat", "flow"]);
        rows.into_iter()
            .filter(|row| row[0] == case && row[1] == repeat)
            .map(|[_, _, flow]| flow)
            .collect()
    };
    assert_eq!(chosen("cubic", "0"), chosen("dctcp", "0"));
    assert_ne!(chosen("cubic", "0"), chosen("cubic", "1"), "the seed chooses");
    // Sketches count each value, and their percentiles keep their word.
    let mut counts: BTreeMap<[String; 3], u64> = BTreeMap::new();
    for [run, subject, metric, count] in
        cells(&some, "sketches.csv", ["run", "subject", "metric", "count"])
    {
        *counts.entry([run, subject, metric]).or_default() += count.parse::<u64>().unwrap();
    }
    let measures = cells(&some, "measures.csv", ["run", "subject", "metric", "values"]);
    let measured: BTreeMap<[String; 3], u64> =
        measures.into_iter().map(|[r, s, m, v]| ([r, s, m], v.parse().unwrap())).collect();
    assert!(counts.iter().all(|(key, count)| measured[key] == *count), "{counts:?}");
    for metric in ["completion", "latency"] {
        assert!(counts.keys().any(|key| key[2] == metric), "{metric}");
    }
    let mut exact: Vec<f64> = cells(&whole, "flows.csv", ["case", "traffic", "completion_s"])
        .into_iter()
        .filter(|[case, traffic, time]| case == "dctcp" && traffic == "web" && !time.is_empty())
        .map(|[_, _, time]| time.parse().unwrap())
        .collect();
    exact.sort_by(f64::total_cmp);
    let mut checked = 0;
    for [case, subject, metric, values, share, value, error] in cells(
        &some,
        "percentiles.csv",
        ["case", "subject", "metric", "values", "share", "value", "relative_error"],
    ) {
        if case != "dctcp" || subject != "web" || metric != "completion" {
            continue;
        }
        assert_eq!((values.parse::<usize>().unwrap(), error.as_str()), (exact.len(), "0.01"));
        let share: f64 = share.parse().unwrap();
        let rank = (share * exact.len() as f64).ceil() as usize;
        let (value, wanted): (f64, f64) = (value.parse().unwrap(), exact[rank - 1]);
        assert!((value / wanted - 1.0).abs() <= 0.01, "{share}: {value} {wanted}");
        checked += 1;
    }
    assert!(checked >= 6, "{checked}");
}

/// A run of 100 ms cuts off what waits for a retransmission timer of 200 ms: no percentile leaves that out.
#[test]
fn sketches_hold_what_was_cut_off() {
    let text = WEB.replace("duration = \"3 s\"\nuntil_done = true", "duration = \"100 ms\"");
    let whole = files_of(&WEB.replace("[run]", "[output]\nsketches = true\n\n[run]"));
    let cut = files_of(&text.replace("[run]", "[output]\nsketches = true\n\n[run]"));
    let columns = ["case", "subject", "metric", "share", "value", "at_least", "at_most", "cut_off"];
    let rows = |files: &Files| -> BTreeMap<[String; 4], [String; 4]> {
        let rows = cells(files, "percentiles.csv", columns).into_iter();
        rows.map(|[c, s, m, share, v, low, high, cut]| ([c, s, m, share], [v, low, high, cut]))
            .collect()
    };
    let (whole, cut) = (rows(&whole), rows(&cut));
    let mut bounds = 0;
    for (key, [value, at_least, at_most, cut_off]) in &cut {
        let truth: f64 = whole[key][0].parse().unwrap();
        let number = |text: &String| text.parse::<f64>().ok();
        if !["completion", "latency"].contains(&key[2].as_str()) {
            continue;
        }
        // The runs are the same until 100 ms, so what ended by then is known.
        if cut_off == "0" {
            assert_eq!(number(value), Some(truth), "{key:?}");
            continue;
        }
        bounds += usize::from(!at_least.is_empty());
        let (low, high) = (number(at_least).or(number(value)), number(at_most).or(number(value)));
        assert!(low.unwrap() <= truth * 1.02, "{key:?} {low:?} {truth}");
        assert!(high.is_none_or(|high| truth <= high * 1.02), "{key:?} {high:?} {truth}");
    }
    assert!(bounds >= 2, "{bounds}");
}

#[test]
fn series_are_of_some_connections() {
    let whole = files_of(WEB);
    let some = files_of(&format!("{WEB}\n[output]\nseries = 20\n"));
    for file in ["series-flows.csv", "series-goodput.csv"] {
        let of = |files: &Files| -> BTreeSet<String> {
            let rows = cells(files, file, ["run", "flow"]).into_iter();
            rows.filter(|[run, _]| run == "0").map(|[_, flow]| flow).collect()
        };
        assert!(of(&whole).len() > 20 && (1..=20).contains(&of(&some).len()), "{file}");
        let all: BTreeSet<&str> = whole[file].lines().collect();
        assert!(some[file].lines().all(|line| all.contains(line)), "{file}");
    }
    assert_eq!(some["flows.csv"], whole["flows.csv"]);
    assert!(!some.contains_key("sketches.csv"));
}

#[test]
fn a_comparison_takes_percentiles_of_sketches_and_says_their_error() {
    let scratch = Scratch::new();
    let text = format!("{WEB}\n[output]\nsketches = true\n");
    let slow =
        text.replace("step\", limit = \"60 kB\", k = \"30 kB\"", "droptail\", limit = \"1 MB\"");
    run(&scratch, &text).unwrap();
    let other = parsed("web.toml", &slow, &Overrides::default());
    run_into(&scratch, &other, &simulated()).unwrap();
    let side = |name: &str| Side::read(&scratch.path().join(name)).unwrap();
    let how = How { force: true, ..How::default() };
    let compared = compare(side("web"), side("web-2"), how).unwrap();
    let line = compared.lines.iter().find(|line| line.metric == "completion p99").unwrap();
    let least = 0.01 * (line.a.mean + line.b.mean);
    assert!(line.half_width.unwrap() >= least, "{line:?}");
    let shown = render(std::slice::from_ref(&compared));
    assert!(shown.contains("completion p99") && shown.contains("within 1 %"), "{shown}");
    // A bucket that there cannot be is said with its line.
    let path = scratch.path().join("web/sketches.csv");
    let rows = std::fs::read_to_string(&path).unwrap();
    let first = rows.lines().nth(1).unwrap();
    let mut wrong: Vec<&str> = first.split(',').collect();
    let at = rows.lines().next().unwrap().split(',').position(|name| name == "bucket").unwrap();
    wrong[at] = "70000";
    std::fs::write(&path, rows.replacen(first, &wrong.join(","), 1)).unwrap();
    let why = Side::read(&scratch.path().join("web")).unwrap_err().to_string();
    assert!(why.contains("sketches.csv:2: has no such bucket"), "{why}");
}

/// Every connection is done after a time of its own.
fn done(run: &Run) -> Result<Outcome, knee_run::Error> {
    let flows = (0..run.flows.len() as u64).map(|flow| FlowOutcome {
        connected_at: Some(Time::ZERO),
        done_at: Some(Time::ZERO + Duration::from_ns(1_000 + flow * flow % 1_000_003)),
        ..FlowOutcome::default()
    });
    Ok(Outcome { end: run.end, flows: flows.collect(), ..Outcome::default() })
}

#[test]
fn more_connections_make_no_more_rows() {
    let files = |flows: u32| {
        let scratch = Scratch::new();
        let end = WEB.find("[[traffic]]\nname = \"requests\"").unwrap();
        let rest = "[run]\nduration = \"1 s\"\n\n[output]\nflows = 1000\n";
        // Four pairs of hosts.
        let text = format!("{}{rest}", &WEB[..end])
            .replace("flows = 50", &format!("flows = {}", flows / 4))
            .replace("\"cubic\", ", "");
        let experiment = parsed("web.toml", &text, &Overrides::default());
        run_into(&scratch, &experiment, &Options::new(Arc::new(Fake(done)))).unwrap();
        scratch.files("web")
    };
    let rows = |files: &Files, name: &str| files.get(name).map_or(0, |text| text.lines().count());
    let few = files(1000);
    assert_eq!((rows(&few, "flows.csv"), rows(&few, "sketches.csv")), (1001, 0));
    let many = files(1004);
    assert_eq!(rows(&many, "flows.csv"), 1001);
    // From 1 us to 1 ms there are ten powers of two of 64 buckets.
    let buckets = rows(&many, "sketches.csv");
    assert!((200..1000).contains(&buckets), "{buckets}");
    let most = files(100_000);
    assert_eq!(rows(&most, "flows.csv"), 1001);
    assert!(rows(&most, "sketches.csv") < 1000);
}

#[test]
fn counts_of_links_add_up_to_those_of_queues() {
    let files = files_of(WEB);
    let mut sums: BTreeMap<[String; 2], [u64; 3]> = BTreeMap::new();
    for [share] in cells(&files, "series-links.csv", ["utilisation"]) {
        // A packet counts when it is sent.
        assert!((0.0..=1.02).contains(&share.parse::<f64>().unwrap()), "{share}");
    }
    let columns = ["run", "link", "sent_bytes", "marked_pkts", "dropped_pkts"];
    for [run, link, bytes, marks, drops] in cells(&files, "series-links.csv", columns) {
        let counts = [bytes, marks, drops].map(|cell| cell.parse::<u64>().unwrap());
        assert!(counts.iter().any(|count| *count > 0), "rows of nothing are left out");
        let sum = sums.entry([run, link]).or_default();
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let names = [
        "run",
        "link",
        "sent_bytes",
        "marked_pkts",
        "dropped_full_pkts",
        "dropped_not_ect_pkts",
        "dropped_early_pkts",
    ];
    let (mut marks, mut drops) = (0, 0);
    let queues = cells(&files, "queues.csv", names);
    assert!(!queues.is_empty());
    for [run, link, bytes, marked, full, not_ect, early] in queues {
        let [bytes, marked, full, not_ect, early] =
            [bytes, marked, full, not_ect, early].map(|cell| cell.parse::<u64>().unwrap());
        let sum = sums.get(&[run, link]).copied().unwrap_or_default();
        assert_eq!(sum, [bytes, marked, full + not_ect + early]);
        marks += marked;
        drops += full + not_ect + early;
    }
    assert!(marks > 0 && drops > 0, "{marks} {drops}");
    // Every link of the network, both ways: 5 hosts.
    let links: BTreeSet<&String> = sums.keys().map(|[_, link]| link).collect();
    assert_eq!(links.len(), 10, "{links:?}");
    // Counting changes nothing else, but the number of events.
    let without = files_of(&WEB.replace("links = \"7 ms\"\n", ""));
    assert!(!without.contains_key("series-links.csv"));
    for (name, text) in &without {
        if !["runs.csv", "manifest.json"].contains(&name.as_str()) {
            assert_eq!(text, &files[name], "{name}");
        }
    }
}
