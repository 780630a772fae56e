//! Whose counters a connection has: no counter is 0 while its queue or its sibling says otherwise.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use knee_run::Outcome;
use knee_run::outcome::{Counters, QueueOutcome};
use knee_scenario::{Experiment, Overrides};

/// Every kind of traffic that has payload, with data towards `r`: who connects differs.
const KINDS: [&str; 11] = [
    r#"kind = "bulk", from = "s1..s8", to = "r""#,
    r#"kind = "bulk", from = "s1..s8", to = "r", size = "2 MB""#,
    r#"kind = "incast", from = "s1..s8", to = "r", size = "300 kB", rounds = 3"#,
    r#"kind = "rpc", from = "s1..s8", to = "r", request = "300 kB", response = "1 kB""#,
    r#"kind = "rpc", from = "r", to = "s1..s8", request = "1 kB", response = "300 kB""#,
    r#"kind = "rpc", from = "r", to = "s1..s8", request = "1 kB", response = "300 kB", count = 4"#,
    r#"kind = "query", from = "r", to = "s1..s8", response = "300 kB", count = 5"#,
    r#"kind = "shuffle", from = "s1..s8", to = "r", size = "300 kB""#,
    r#"kind = "poisson", from = "s1..s8", to = "r", sizes = "300 kB", load = "100 %", of = "switch-r", until = "200 ms""#,
    r#"kind = "collective", operation = "all-to-all", hosts = ["s1..s8", "r"], size = "4 MB""#,
    r#"kind = "trace", file = "transfers.csv""#,
];

/// The one run of this traffic under this algorithm, at a queue of this kind.
fn outcome(traffic: &str, cc: &str, queue: &str) -> Outcome {
    let text = format!(
        r#"
network = {{ topology = "many-to-one", senders = 8, access = {{ rate = "1 Gbps" }}, return = {{ delay = "100 us" }}, bottleneck = {{ rate = "1 Gbps", queue = {queue} }} }}
hosts = {{ rto_min = "5 ms" }}
traffic = [{{ name = "t", cc = "{cc}", read_at = "64 KiB", {traffic} }}]
run = {{ duration = "200 ms" }}
"#
    );
    let dir = tempfile::tempdir().unwrap();
    let transfers: String = (1..=8).map(|i| format!("0,s{i},r,{}\n", 300_000 + i)).collect();
    std::fs::write(dir.path().join("transfers.csv"), format!("start_s,from,to,bytes\n{transfers}"))
        .unwrap();
    let path = dir.path().join("counters.toml");
    let experiment = Experiment::parse(&path, &text, &Overrides::default())
        .unwrap_or_else(|why| panic!("{traffic}: {why}"));
    let run = experiment.run(experiment.run_id(0)).unwrap();
    knee_sim::simulate(&run).unwrap()
}

fn sums(outcome: &Outcome) -> (Counters, QueueOutcome) {
    let mut queues = QueueOutcome::default();
    outcome.queues.iter().for_each(|queue| queues.add(queue));
    let counters = outcome.flows.iter().map(|flow| flow.counters);
    let all = counters.reduce(|all, flow| all.plus(&flow)).unwrap();
    (all.complete().unwrap(), queues)
}

#[test]
fn no_counter_is_0_while_its_queue_or_its_sibling_says_otherwise() {
    for traffic in KINDS {
        let step = r#"{ kind = "step", limit = "400 pkts", k = "5 pkts" }"#;
        let (marked, queue) = sums(&outcome(traffic, "dctcp", step));
        assert!(queue.marked_pkts > 0, "{traffic}: {queue:?}");
        let Counters { ce_segs_received, delivered_ce, cwr_reductions, .. } = marked;
        // Marked packets arrive. Those without data are ACKs, which DCTCP sends as ECN-capable too.
        let arrived = queue.marked_pkts / 2..=queue.marked_pkts;
        assert!(arrived.contains(&ce_segs_received), "{traffic}: {marked:?}, {queue:?}");
        assert!(delivered_ce > 0 && cwr_reductions > 0, "{traffic}: {marked:?}");

        let (lost, queue) =
            sums(&outcome(traffic, "cubic", r#"{ kind = "droptail", limit = "20 pkts" }"#));
        assert!(queue.dropped_pkts() > 0, "{traffic}: {queue:?}");
        let Counters { retransmitted_segs, fast_recoveries, .. } = lost;
        assert!(retransmitted_segs > 0 && fast_recoveries > 0, "{traffic}: {lost:?}");
        for (name, count) in [
            ("data_segs_sent", lost.data_segs_sent),
            ("bursts", lost.bursts),
            ("acks_sent", lost.acks_sent),
            ("delivered", lost.delivered),
        ] {
            assert!(count > 0, "{traffic}: {name}: {lost:?}");
        }
        assert!(lost.data_segs_sent >= queue.sent_pkts / 2, "{traffic}: {lost:?}, {queue:?}");
        assert!(lost.undos >= lost.spurious_timeouts, "{traffic}: {lost:?}");
        assert!(lost.timeouts >= lost.syn_timeouts, "{traffic}: {lost:?}");
    }
}

#[test]
fn timeouts_that_timestamps_show_to_be_spurious_count() {
    let text = r#"
cc = ["cubic"]
hosts = { rto_min = "5 ms" }
traffic = [{ name = "t", kind = "rpc", from = "s1..s2", to = "r", request = "20 kB" }]
run = { duration = "2 s" }
[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "1 ms" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "400 pkts" } }
change = [{ at = "300 ms", links = "switch-s1", delay = "120 ms" }]
"#;
    let parsed = Experiment::parse(Path::new("spurious.toml"), text, &Overrides::default());
    let experiment = parsed.unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let (counted, queue) = sums(&knee_sim::simulate(&run).unwrap());
    assert_eq!(queue.dropped_pkts(), 0);
    assert!(counted.undos > 0 && counted.spurious_timeouts == counted.undos, "{counted:?}");
    assert!(counted.timeouts >= counted.spurious_timeouts, "{counted:?}");
}
