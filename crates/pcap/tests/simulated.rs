//! Captures of simulated hosts: what the analysis says of them is what the simulator counted.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_pcap::model::{Family, PointPosition, ReceiverKind};
use knee_pcap::{Analysis, AnalysisOptions, Direction, Input, analyse};
use knee_run::outcome::{FlowOutcome, Outcome};
use knee_scenario::{Experiment, Overrides};
use knee_sim::captures;

/// One sender, a queue that drops or marks.
const TEXT: &str = r#"question = "Is it told as it was?"
cc = ["CC"]

[network]
topology = "many-to-one"
senders = 1
access = { rate = "1 Gbps", delay = "100 us" }
return = { delay = "2 ms" }
bottleneck = { rate = "100 Mbps", queue = QUEUE, record = true }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[run]
duration = "LENGTH"
"#;

const DROPS: &str = r#"{ kind = "droptail", limit = "60 pkts" }"#;
const MARKS: &str = r#"{ kind = "step", limit = "200 pkts", k = "20 pkts" }"#;

/// Simulates; gives the outcome, and the analysis of these hosts' files.
fn simulated(cc: &str, queue: &str, length: &str, hosts: &[&str]) -> (Outcome, Analysis) {
    let scratch = tempfile::tempdir().unwrap();
    let text = TEXT.replace("CC", cc).replace("QUEUE", queue).replace("LENGTH", length);
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = captures::simulate(&run, scratch.path()).unwrap();
    let file = |host: &&str| Input::File(scratch.path().join(format!("{host}.pcapng")));
    let inputs = hosts.iter().map(file).collect();
    let analysis = analyse(inputs, &AnalysisOptions::default(), &mut |_| ()).unwrap();
    (outcome, analysis)
}

/// The larger direction of the primary view, beside what the simulator says.
fn main(outcome: &Outcome, analysis: &Analysis) -> (Direction, FlowOutcome) {
    let primary: Vec<_> = analysis.flows.iter().filter(|flow| flow.is_primary).collect();
    assert_eq!(primary.len(), 1);
    (primary[0].main().clone(), outcome.flows[0].clone())
}

#[test]
fn losses_windows_and_families_are_told() {
    for (cc, family) in [("reno", Family::Reno), ("cubic", Family::Cubic), ("bic", Family::Bic)] {
        let (outcome, analysis) = simulated(cc, DROPS, "4 s", &["s1"]);
        let (of, flow) = main(&outcome, &analysis);
        let counters = &flow.counters;
        let again = &of.retransmitted;
        assert_eq!(Some(again.segments), counters.retransmitted_segs, "{cc}");
        assert_eq!(Some(again.rto), counters.timeouts, "{cc}");
        assert_eq!(Some(of.segments), counters.data_segs_sent, "{cc}");
        assert!(again.fast > 10 && again.spurious == 0, "{cc}: {again:?}");
        assert_eq!(of.family.family, family, "{cc}: {:?}", of.family);
        assert_eq!(of.initial_window_bytes, Some(10 * 1448), "{cc}");
        let min_ns = flow.min_rtt.unwrap().ns();
        // The simulator's smallest is that of the SYN, which is shorter on the wire than data: 242 us for two segments at 100 Mbps.
        let found_ns = of.rtt.min().unwrap();
        assert!((min_ns..min_ns + 250_000).contains(&found_ns), "{cc}: {found_ns}, {min_ns}");
        assert_eq!(analysis.flows[0].location.place, PointPosition::NearA);
    }
}

#[test]
fn marks_are_told_at_both_ends() {
    let (outcome, analysis) = simulated("dctcp", MARKS, "3 s", &["s1"]);
    let (of, flow) = main(&outcome, &analysis);
    assert_eq!(of.receiver.kind, ReceiverKind::Dctcp, "{:?}", of.receiver);
    assert_eq!(of.family.family, Family::Dctcp, "{:?}", of.family);
    assert_eq!(Some(of.ecn.cwr), flow.counters.cwr_reductions);
    let marked = of.ecn.ece_bytes / 1448;
    let delivered = flow.counters.delivered_ce.unwrap();
    // The simulator counts a delivered packet when its ACK has come, in whole packets.
    assert!(marked.abs_diff(delivered) <= delivered / 100, "{marked}, {delivered}");

    let (outcome, analysis) = simulated("dctcp", MARKS, "3 s", &["r"]);
    let (of, flow) = main(&outcome, &analysis);
    let received = flow.counters.ce_segs_received.unwrap();
    assert!(of.ecn.ce.abs_diff(received) <= 2, "{}, {received}", of.ecn.ce);
    assert_eq!(of.receiver.kind, ReceiverKind::Dctcp, "{:?}", of.receiver);
}

#[test]
fn probes_of_the_rtt_are_bbrs_and_a_window_held_by_delay_is_nothing_sure() {
    let (outcome, analysis) = simulated("bbr", DROPS, "22 s", &["s1"]);
    let (of, _) = main(&outcome, &analysis);
    assert_eq!(of.family.family, Family::Bbr, "{:?}", of.family);
    let (outcome, analysis) = simulated("nv", DROPS, "3 s", &["s1"]);
    let (of, _) = main(&outcome, &analysis);
    assert_eq!(of.family.family, Family::Unknown, "{:?}", of.family);
}

#[test]
fn what_is_lost_between_two_ends_is_what_the_queue_dropped() {
    let (outcome, analysis) = simulated("cubic", DROPS, "3 s", &["s1", "r"]);
    let dropped = outcome.queues[0].dropped_pkts();
    let between = analysis.whole.crossings.iter().filter(|crossing| !crossing.is_one_clock);
    let between: Vec<_> = between.collect();
    let [crossing] = between[..] else { panic!("{between:?}") };
    assert!(dropped > 0);
    assert_eq!(crossing.lost[0] + crossing.lost[1], dropped);
    // The clocks are one, though nothing in two files says so.
    let uncertainty = crossing.offset_uncertainty_ns.unwrap();
    assert!(crossing.offset_ns.unsigned_abs() <= uncertainty, "{crossing:?}");
    assert_eq!(crossing.drift_ppm, None);
}
