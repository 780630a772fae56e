//! The measured window: what is counted in it, and that it costs no more than its two ends.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use knee_queue::time::Duration;
use knee_scenario::{Experiment, Overrides};

use crate::common::*;

const FILE: &str = r#"question = "?"
cc = ["reno"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "100 Mbps", delay = "10 us" }
bottleneck = { rate = "10 Mbps", delay = "10 us", queue = { kind = "droptail", limit = "20 kB" }, record = true }
return = { delay = "1 ms" }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"

[sample]
queues = "10 ms"
"#;

fn parse(run: &str) -> Result<Experiment, String> {
    let text = format!("{FILE}\n[run]\n{run}");
    // Only a transfer that ends can end a run.
    let ends = run.contains("until_done");
    let size = if ends { "to = \"r\"\nsize = \"1 MB\"" } else { "to = \"r\"" };
    let text = text.replace("to = \"r\"", size);
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default());
    experiment.map_err(|error| error.to_string())
}

fn files(run: &str) -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let experiment = Arc::new(parse(run).unwrap_or_else(|error| panic!("{error}")));
    run_into(&scratch, &experiment, &simulated()).unwrap();
    scratch.files("x")
}

/// Of `measures.csv`: what is measured of a subject, if it is.
fn mean(files: &BTreeMap<String, String>, subject: &str, metric: &str) -> Option<f64> {
    let start = format!("0,{subject},{metric},");
    let row = files["measures.csv"].lines().find(|line| line.starts_with(&start))?;
    Some(row.split(',').nth(5).unwrap().parse().unwrap())
}

#[test]
fn a_window_alone_keeps_no_series_of_goodput() {
    let files = files("duration = \"2 s\"\nmeasure_from = \"1 s\"\n");
    assert!(!files.contains_key("series-goodput.csv"), "{:?}", files.keys());
    let sum = mean(&files, "bulk", "goodput_sum").unwrap();
    assert!((9.3e6..9.6e6).contains(&sum), "{sum}");
}

#[test]
fn a_long_window_over_many_flows_is_not_refused_for_a_series_that_nobody_asked_for() {
    let run = "duration = \"600000 s\"\nmeasure_from = \"10 s\"\n";
    let text = format!("{FILE}\n[run]\n{run}").replace("queues = \"10 ms\"", "queues = \"1 s\"");
    Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
}

#[test]
fn counts_of_the_window_are_those_of_the_run_less_those_before_it() {
    let whole = files("duration = \"3 s\"\nmeasure_from = \"1 s\"\n");
    let before = files("duration = \"1 s\"\n");
    for (subject, of_run, of_window) in [
        ("bulk", "timeouts", "window_timeouts"),
        ("bulk", "retransmits", "window_retransmits"),
        ("bulk", "recoveries", "window_recoveries"),
        ("switch-r", "drops", "window_drops"),
        ("switch-r", "marks", "window_marks"),
    ] {
        let wanted =
            mean(&whole, subject, of_run).unwrap() - mean(&before, subject, of_run).unwrap();
        assert_eq!(mean(&whole, subject, of_window), Some(wanted), "{of_window}");
        assert_eq!(mean(&before, subject, of_window), None, "there is no window");
    }
    assert!(mean(&whole, "switch-r", "window_drops").unwrap() > 0.0, "reno loses packets");
    let utilisation = mean(&whole, "switch-r", "window_utilisation").unwrap();
    assert!((0.98..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn a_run_that_is_over_before_its_window_is_has_counts_until_then() {
    let text =
        format!("{FILE}\n[run]\nduration = \"9 s\"\nuntil_done = true\nmeasure_from = \"1 s\"\n");
    let text = text.replace("to = \"r\"", "to = \"r\"\nsize = \"1 MB\"");
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let scratch = Scratch::new();
    run_into(&scratch, &Arc::new(experiment), &simulated()).unwrap();
    let files = scratch.files("x");
    let drops = mean(&files, "switch-r", "window_drops").unwrap();
    assert!(drops <= mean(&files, "switch-r", "drops").unwrap());
    assert!(mean(&files, "bulk", "goodput").unwrap() > 0.0);
}

#[test]
fn hosts_that_look_at_regular_times_look_at_both_ends_of_the_window() {
    let period = |run: &str| {
        let experiment = parse(run).unwrap();
        let run = experiment.run(experiment.run_id(0)).unwrap();
        assert_eq!(run.sampling.goodput, None);
        run.sampling.goodput_or_window().unwrap()
    };
    assert_eq!(period("duration = \"60 s\"\nmeasure_from = \"10 s\"\n"), Duration::from_ms(10_000));
    assert_eq!(period("duration = \"60 s\"\nmeasure_until = \"9 s\"\n"), Duration::from_ms(9_000));
    // It may end at any time.
    let until_done = "duration = \"60 s\"\nmeasure_from = \"10 s\"\nuntil_done = true\n";
    assert_eq!(period(until_done), Duration::from_ms(500));
}

#[test]
fn a_window_begins_at_any_time_and_asks_for_no_series() {
    let run = "duration = \"2 s\"\nmeasure_from = \"1.234567 s\"\n";
    let files = files(run);
    assert!(!files.contains_key("series-goodput.csv"), "{:?}", files.keys());
    let sum = mean(&files, "bulk", "goodput_sum").unwrap();
    assert!((9.3e6..9.7e6).contains(&sum), "{sum}");
    let with_series = format!("{FILE}goodput = \"1 ms\"\n\n[run]\n{run}");
    let refused =
        Experiment::parse(Path::new("x.toml"), &with_series, &Overrides::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "x.toml:23: run.measure_from = \"1.234567 s\": must be a multiple of sample.goodput = \"1 \
         ms\", or leave sample.goodput out"
    );
}

#[test]
fn flows_that_come_and_go_are_together_no_faster_than_their_link() {
    // The second flow begins when the first has had the link to itself for half of the run.
    let text = format!("{FILE}\n[run]\nduration = \"4 s\"\n");
    let text =
        text.replace("from = \"s1..s2\"\nto = \"r\"", "from = \"s1\"\nto = \"r\"\nstop = \"2 s\"");
    let second = "[[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\nfrom = \"s2\"\nto = \"r\"\nstart = \"2 s\"\n";
    let text = format!("{text}\n{second}");
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let scratch = Scratch::new();
    run_into(&scratch, &Arc::new(experiment), &simulated()).unwrap();
    let sum = mean(&scratch.files("x"), "bulk", "goodput_sum").unwrap();
    // Each has some 9 Mbps while it is there.
    assert!((8.0e6..9.6e6).contains(&sum), "{sum}");
}

/// The file with this text replaced and keys added, run.
fn changed(from: &str, to: &str, more: &str) -> BTreeMap<String, String> {
    assert!(FILE.contains(from), "{from}");
    let run = "[run]\nduration = \"2 s\"\nmeasure_from = \"1 s\"\n";
    let text = FILE.replace(from, to).replace("[sample]", "[sample]\nlinks = \"250 ms\"");
    let text = format!("{text}{more}\n{run}");
    let scratch = Scratch::new();
    let experiment = parsed("x.toml", &text, &Overrides::default());
    run_into(&scratch, &experiment, &simulated()).unwrap();
    scratch.files("x")
}

/// Utilisation of the bottleneck in each period.
fn utilisations(files: &BTreeMap<String, String>) -> Vec<f64> {
    let rows = files["series-links.csv"].lines().filter(|row| row.contains(",switch-r,"));
    rows.map(|row| row.rsplit(',').next().unwrap().parse().unwrap()).collect()
}

fn assert_full(files: &BTreeMap<String, String>, from: usize) {
    for metric in ["utilisation", "window_utilisation"] {
        let share = mean(files, "switch-r", metric).unwrap();
        assert!((0.95..=1.001).contains(&share), "{metric} {share}");
    }
    let periods = utilisations(files);
    // At 1 Mbps a period has 20.6 packets, which may be 20 or 21 in a row.
    assert!(periods.iter().all(|share| *share <= 1.05), "{periods:?}");
    assert!(periods[from..].iter().all(|share| *share > 0.9), "{periods:?}");
}

#[test]
fn a_full_link_whose_rate_changes_is_full() {
    for (rate, name) in [("1 Mbps", "slower"), ("20 Mbps", "faster")] {
        let change =
            format!("[[network.change]]\nlinks = \"switch-r\"\nat = \"500 ms\"\nrate = \"{rate}\"");
        let files = changed("20 kB", "60 kB", &change);
        let share = mean(&files, "switch-r", "window_utilisation").unwrap();
        assert!((0.9..=1.001).contains(&share), "{name}: {share}");
        assert_full(&files, 4);
    }
}

#[test]
fn a_link_that_is_down_can_send_nothing_then() {
    let change = "[[network.change]]\nlinks = \"switch-r\"\nat = \"200 ms\"\nuntil = \"1100 ms\"\ndown = true";
    let files = changed("20 kB", "60 kB", change);
    let share = mean(&files, "switch-r", "utilisation").unwrap();
    let row = files["queues.csv"].lines().find(|row| row.contains(",switch-r,")).unwrap();
    let header: Vec<&str> = files["queues.csv"].lines().next().unwrap().split(',').collect();
    let at = header.iter().position(|column| *column == "sent_bytes").unwrap();
    let sent_bits = 8.0 * row.split(',').nth(at).unwrap().parse::<f64>().unwrap();
    // It could send in 1.1 s of 2 s, at 10 Mbps.
    let expected = sent_bits / 1.1e7;
    assert!((share / expected - 1.0).abs() < 0.03, "{share} {expected}");
}

#[test]
fn what_a_token_bucket_holds_is_a_part_of_what_a_link_can_send() {
    // 8 Mbit at once, and then 1 Mbps: nine times the rate's share in the first second.
    let files = changed(
        "bottleneck = { rate = \"10 Mbps\",",
        "bottleneck = { rate = \"1 Mbps\", burst = \"1 MB\",",
        "",
    );
    assert_full(&files, 4);
}
