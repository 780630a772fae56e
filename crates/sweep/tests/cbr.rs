//! Packets at a constant rate, without answers: rates, losses, delays and errors.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::path::Path;

use knee_scenario::{Experiment, Overrides};

use crate::common::*;

/// 1000 B every ms.
const CBR: &str =
    "[[traffic]]\nname = \"it\"\nkind = \"cbr\"\nfrom = \"h2\"\nto = \"h1\"\nrate = \"8 Mbps\"\n";
const RUN: &str = "[run]\nduration = \"100500 us\"\n";

/// An experiment without connections, for which no algorithm is.
fn text(more: &str) -> String {
    format!("{STAR}{CBR}{more}").replacen("cc = [\"dctcp\"]\n", "", 1)
}

fn files(more: &str) -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let options = knee_sweep::runs::Options::new(std::sync::Arc::new(Fake(knee_sim::simulate)));
    let experiment = parsed("x.toml", &text(more), &Overrides::default());
    run_into(&scratch, &experiment, &options).unwrap();
    scratch.files("x")
}

/// Metrics of the stream and their means, or the median of delays.
fn measures(more: &str) -> BTreeMap<String, f64> {
    let files = files(more);
    let mut lines = files["summary.csv"].lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (subject, metric, mean) = (at("subject"), at("metric"), at("mean"));
    let of_stream = lines.filter(|row| row[subject] == "it");
    of_stream
        .map(|row| (row[metric].to_owned(), row[mean].parse()))
        .filter_map(|(name, mean)| Some((name, mean.ok()?)))
        .collect()
}

#[test]
fn a_stream_without_losses_arrives_at_its_rate() {
    let all = measures(RUN);
    for (metric, value) in [("sent_pkts", 100.0), ("received_pkts", 100.0), ("lost_pkts", 0.0)] {
        assert_eq!(all.get(metric), Some(&value), "{metric}: {all:?}");
    }
    // 100 packets in 100.5 ms; 1042 bytes and the delay of two links.
    assert!((all["goodput"] - 800_000.0 / 0.1005).abs() < 1.0, "{all:?}");
    assert_eq!(all["goodput"], all["goodput_sum"]);
    assert!((all["delay"] - 2.0 * (8.336e-6 + 10e-6)).abs() < 1e-9, "{all:?}");
}

#[test]
fn what_a_link_loses_is_lost_and_what_is_in_flight_is_not() {
    let down = "[[network.change]]\nlinks = \"switch-h1\"\nat = \"60500 us\"\nuntil = \"1 s\"\ndown = true\n";
    let all = measures(&format!("{down}{RUN}"));
    assert_eq!((all["sent_pkts"], all["received_pkts"], all["lost_pkts"]), (100.0, 60.0, 40.0));
    assert!((all["loss_share"] - 0.4).abs() < 1e-6);
    // The last packet left 10 us before the end.
    let all = measures("[run]\nduration = \"100010 us\"\n");
    assert_eq!((all["sent_pkts"], all["lost_pkts"]), (99.0, 0.0));
}

#[test]
fn where_nothing_has_arrived_losses_and_packets_in_flight_are_told_apart() {
    let change =
        |what| format!("[[network.change]]\nlinks = \"switch-h1\"\nat = \"1 us\"\n{what}\n");
    let far = measures(&format!("{}{RUN}", change("delay = \"1 s\"")));
    assert_eq!((far["sent_pkts"], far["lost_pkts"], far["received_pkts"]), (0.0, 0.0, 0.0));
    assert!(!far.contains_key("loss_share"), "{far:?}");
    let lost = measures(&format!("{}{RUN}", change("down = true")));
    assert_eq!((lost["sent_pkts"], lost["lost_pkts"], lost["loss_share"]), (100.0, 100.0, 1.0));
    // A queue that grows holds what is older than all that has arrived.
    let slow = measures(&format!("{}{RUN}", change("rate = \"7 Mbps\"")));
    assert_eq!((slow["lost_pkts"], slow["loss_share"]), (0.0, 0.0), "{slow:?}");
}

#[test]
fn it_is_measured_in_the_window_and_until_its_stop() {
    let window = "measure_from = \"20500 us\"\nmeasure_until = \"70500 us\"\n";
    let all = measures(&format!("{RUN}{window}"));
    assert_eq!((all["sent_pkts"], all["received_pkts"]), (50.0, 50.0));
    assert!((all["goodput"] - 8e6).abs() < 1.0, "{all:?}");
    let all = measures(&format!("stop = \"40 ms\"\n{RUN}"));
    assert_eq!(all["sent_pkts"], 39.0);
    assert!((all["goodput"] - 39.0 * 8000.0 / 0.04).abs() < 1.0, "{all:?}");
}

#[test]
fn its_packets_have_no_rows_among_the_pings() {
    let rows = files(RUN).get("pings.csv").map(|rows| rows.lines().count());
    assert!(rows.is_none_or(|lines| lines <= 1), "{rows:?}");
}

#[test]
fn impossible_streams_are_refused_with_a_sentence() {
    for (more, why) in [
        ("size = \"1473 B\"\n", "must be at most 1472 B, the MTU without headers of IP and UDP"),
        ("size = \"0 B\"\n", "traffic.it.size"),
        ("stop = \"0 s\"\n", "must be later than the start"),
        ("peer_cc = \"cubic\"\n", "traffic.it.peer_cc: unknown key"),
    ] {
        let text = text(&format!("{more}{RUN}"));
        let error = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default());
        let error = error.expect_err(more).to_string();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
}
