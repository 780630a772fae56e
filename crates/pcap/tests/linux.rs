//! Captures of Linux hosts (`tests/pcap/linux`), beside what their kernel counted.

use std::path::Path;

use knee_pcap::diagnosis::findings;
use knee_pcap::{Analysis, AnalysisOptions, Finding, Input, analyse};

/// A capture, and what the sender's kernel counted: RetransSegs, TCPTimeouts, TCPLossProbes.
const COUNTED: [(&str, [u64; 3]); 7] = [
    ("policer-reno", [349, 0, 8]),
    ("policer-cubic", [386, 0, 13]),
    ("policer-bbr", [315, 0, 0]),
    ("bursts-cubic", [580, 5, 70]),
    ("bursts-bbr", [559, 50, 1]),
    ("bursts-reno-without-sack", [280, 69, 0]),
    ("nagle", [0, 0, 0]),
];

fn analysed(name: &str) -> Analysis {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pcap/linux");
    let inputs = vec![Input::File(dir.join(format!("{name}.pcap.zst")))];
    analyse(inputs, &AnalysisOptions::default(), &mut |_| ()).unwrap_or_else(|why| panic!("{why}"))
}

fn found(name: &str) -> Vec<Finding> {
    findings(&analysed(name))
}

#[test]
fn timeouts_and_probes_are_those_that_the_kernel_counted() {
    for (name, counted) in COUNTED {
        let analysis = analysed(name);
        let of = &analysis.flows[0].a_to_b;
        let again = &of.retransmitted;
        let told = [again.segments, again.rto, again.tlp + of.new_data_probes];
        assert_eq!(told, counted, "{name}: {again:?}");
        assert_eq!(again.unclear, 0, "{name}: {again:?}");
    }
}

#[test]
fn a_floor_is_blamed_only_where_timeouts_were() {
    for (name, [_, timeouts, _]) in COUNTED {
        let has_floor = found(name).iter().any(|finding| finding.kind == "rto-floor");
        assert_eq!(has_floor, timeouts > 0, "{name}");
    }
}

#[test]
fn a_policer_is_found_on_a_path_of_microseconds() {
    for (name, _) in COUNTED {
        let found = found(name);
        let policer = found.iter().find(|finding| finding.kind == "policer");
        assert_eq!(policer.is_some(), name.starts_with("policer"), "{name}: {found:?}");
        let Some(policer) = policer else { continue };
        let behind = |words: &str| -> f64 {
            let number = policer.summary.split(words).nth(1).unwrap().split(' ').next();
            number.unwrap().parse().unwrap()
        };
        // Of 50 Mbps and 60 kB, 61.4 as tc counts them, and the queue's two packets.
        assert!((49.5..50.5).contains(&behind("sent beyond about ")), "{}", policer.summary);
        assert!((60.0..70.0).contains(&behind("nearly all with ")), "{}", policer.summary);
    }
}

#[test]
fn a_delayed_ack_is_found_on_a_path_of_microseconds() {
    let found = found("nagle");
    let kinds: Vec<&str> = found.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, ["delayed-ack"]);
    assert!(found[0].summary.contains("waited 99 times"), "{}", found[0].summary);
}
