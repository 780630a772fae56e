//! The matrix of causes and findings: what is found for each cause, over rates, RTTs, algorithms and places of the capture.
//!
//! `cargo test -p knee-pcap --test matrix -- --ignored --nocapture` prints it as a table.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod common;
mod experiments;

use std::collections::{BTreeMap, BTreeSet};

use experiments::{analysed, simulate};
use knee_pcap::diagnosis::findings;

/// A cause: its name, the experiment of tests/pcap, keys that make it, the finding that names it, and others that are true beside it.
struct Cause {
    name: &'static str,
    experiment: &'static str,
    set: &'static [&'static str],
    named: Option<&'static str>,
    also: &'static [&'static str],
}

const CAUSES: &[Cause] = &[
    Cause {
        name: "policer of 90 kB",
        experiment: "neighbours",
        set: &[
            "network.bottleneck.queue={kind=\"droptail\",limit=\"2 pkts\"}",
            "network.bottleneck.burst=90 kB",
        ],
        named: Some("policer"),
        also: &[],
    },
    Cause {
        name: "policer of 15 kB",
        experiment: "neighbours",
        set: &[
            "network.bottleneck.queue={kind=\"droptail\",limit=\"2 pkts\"}",
            "network.bottleneck.burst=15 kB",
        ],
        named: Some("policer"),
        also: &[],
    },
    Cause {
        name: "fq_codel",
        experiment: "neighbours",
        set: &["network.bottleneck.queue={kind=\"fq-codel\"}"],
        named: None,
        also: &["standing-queue"],
    },
    Cause {
        name: "FIFO of 50 packets",
        experiment: "neighbours",
        set: &["network.bottleneck.queue={kind=\"droptail\",limit=\"50 pkts\"}"],
        named: None,
        also: &["standing-queue"],
    },
    Cause {
        name: "FIFO of 8 packets",
        experiment: "neighbours",
        set: &["network.bottleneck.queue={kind=\"droptail\",limit=\"8 pkts\"}"],
        named: None,
        also: &["standing-queue"],
    },
    Cause {
        name: "random loss",
        experiment: "neighbours",
        set: &[
            "network.bottleneck.queue={kind=\"droptail\",limit=\"500 pkts\"}",
            "network.bottleneck.loss=0.5 %",
        ],
        named: None,
        also: &["standing-queue"],
    },
    Cause {
        name: "late ACKs",
        experiment: "late-acks",
        set: &[],
        named: Some("spurious-timeout"),
        also: &["standing-queue"],
    },
    Cause {
        name: "longer path",
        experiment: "longer-path",
        set: &[],
        named: Some("path-change"),
        also: &["standing-queue", "stale-min-rtt"],
    },
    Cause {
        name: "marks on everything",
        experiment: "marks-everything",
        set: &[],
        named: Some("marks-everything"),
        also: &["marks-ignored"],
    },
];

const ALGORITHMS: [&str; 3] = ["cubic", "reno", "bbr"];
const RATES_MBPS: [u32; 3] = [2, 10, 50];
const RTTS_MS: [u32; 2] = [10, 40];

#[test]
#[ignore = "some minutes"]
fn the_matrix_of_causes_and_findings() {
    println!(
        "| cause | captured at | runs | named | other findings |\n| --- | --- | --- | --- | --- |"
    );
    let mut wrong = Vec::new();
    for cause in CAUSES {
        for places in [&["s1"][..], &["s1", "r"]] {
            let (mut runs, mut named) = (0, 0);
            let mut others: BTreeMap<&str, u32> = BTreeMap::new();
            for (cc, rate, rtt) in grid() {
                let keys = [
                    format!("cc=[\"{cc}\"]"),
                    format!("network.bottleneck.rate={rate} Mbps"),
                    format!("network.return.delay={rtt} ms"),
                ];
                let set: Vec<&str> =
                    keys.iter().map(String::as_str).chain(cause.set.iter().copied()).collect();
                let made = simulate(cause.experiment, &set);
                let files: Vec<_> = places.iter().map(|place| made.file(place)).collect();
                let found = findings(&analysed(&files));
                let kinds: BTreeSet<&str> = found.iter().map(|finding| finding.kind).collect();
                runs += 1;
                named += u32::from(cause.named.is_some_and(|kind| kinds.contains(kind)));
                for kind in kinds.into_iter().filter(|kind| Some(*kind) != cause.named) {
                    *others.entry(kind).or_default() += 1;
                    if !cause.also.contains(&kind) {
                        wrong.push(format!("{}: {kind} with {set:?}", cause.name));
                    }
                }
            }
            let others: Vec<String> =
                others.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let named = cause.named.map_or("-".to_owned(), |kind| format!("{kind} {named}"));
            println!(
                "| {} | {} | {runs} | {named} | {} |",
                cause.name,
                places.join(" and "),
                others.join(", ")
            );
        }
    }
    println!("\n{}", wrong.join("\n"));
}

fn grid() -> impl Iterator<Item = (&'static str, u32, u32)> {
    ALGORITHMS.into_iter().flat_map(|cc| {
        RATES_MBPS
            .into_iter()
            .flat_map(move |rate| RTTS_MS.into_iter().map(move |rtt| (cc, rate, rtt)))
    })
}
