//! Captures of each pathology and of healthy hosts: each is found where it is, and nothing where nothing is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod experiments;

use std::collections::BTreeSet;
use std::path::PathBuf;

use experiments::{Made, Temp, analysed, copy, simulate};
use knee_pcap::Severity;
use knee_pcap::diagnosis::{KINDS, findings};

/// A capture and what it shows.
struct Case {
    /// In the matrix.
    name: &'static str,
    /// What must be found, and what may be because it is truly there, with the reason beside it.
    must: &'static [&'static str],
    may: &'static [&'static str],
    make: fn(&Temp) -> Vec<PathBuf>,
}

fn files(made: &Made, temp: &Temp, hosts: &[&str]) -> Vec<PathBuf> {
    hosts
        .iter()
        .map(|host| {
            let to = temp.path(&format!("{host}.pcapng"));
            std::fs::rename(made.file(host), &to).unwrap();
            to
        })
        .collect()
}

/// An experiment's captures of some hosts.
macro_rules! of {
    ($name:literal, $($host:literal),+) => {
        |temp| files(&simulate($name, &[]), temp, &[$($host),+])
    };
}

/// The capture of `never-marked`'s receiver, behind a device that clears ECN fields.
fn bleached(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("never-marked", &[]);
    let to = temp.path("bleached.pcapng");
    copy(&made.file("r"), &to, |packet| {
        packet.clear_ecn();
        true
    });
    vec![to]
}

/// The same and the sender's, which is before that device.
fn bleached_between(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("never-marked", &[]);
    let to = temp.path("bleached.pcapng");
    let sender = [198, 18, 0, 1];
    copy(&made.file("r"), &to, |packet| {
        if packet.source() == sender {
            packet.clear_ecn();
        }
        true
    });
    let mut all = files(&made, temp, &["s1"]);
    all.push(to);
    all
}

/// A sender that never sends CWR before a receiver that latches: the first ECE is followed by nothing else.
fn endless_ece(temp: &Temp) -> Vec<PathBuf> {
    let made = simulate("endless-ece", &[]);
    let to = temp.path("s1.pcapng");
    let sender = [198, 18, 0, 1];
    let mut is_latched = false;
    copy(&made.file("s1"), &to, |packet| {
        if packet.is_syn() {
            return true;
        }
        if packet.source() == sender {
            packet.clear_cwr();
        } else if is_latched {
            packet.set_ece();
        } else {
            is_latched = packet.has_ece();
        }
        true
    });
    vec![to]
}

const CASES: &[Case] = &[
    Case {
        name: "healthy-dctcp",
        must: &[],
        may: &["marking-threshold"],
        make: of!("healthy-dctcp", "s1"),
    },
    Case { name: "healthy-dctcp, receiver", must: &[], may: &[], make: of!("healthy-dctcp", "r") },
    Case { name: "healthy-cubic", must: &[], may: &[], make: of!("healthy-cubic", "s1") },
    Case { name: "healthy-cubic, receiver", must: &[], may: &[], make: of!("healthy-cubic", "r") },
    Case { name: "healthy-bbr", must: &[], may: &[], make: of!("healthy-bbr", "s1") },
    Case { name: "healthy-bbr, receiver", must: &[], may: &[], make: of!("healthy-bbr", "r") },
    Case { name: "healthy-rpc", must: &[], may: &[], make: of!("healthy-rpc", "s1") },
    Case { name: "healthy-rpc, receiver", must: &[], may: &[], make: of!("healthy-rpc", "r") },
    Case { name: "random-loss", must: &[], may: &[], make: of!("random-loss", "s1") },
    // An interrupt brings ACKs for a burst, and a small receive buffer keeps the window small.
    Case {
        name: "coalescing",
        must: &["rtt-bimodal"],
        may: &["sender-bursts", "receiver-limited"],
        make: of!("coalescing", "s1"),
    },
    // The receiver's defects hold ECE back, too, and its late ACKs let whole windows go.
    Case {
        name: "delayed-ack",
        must: &["delayed-ack"],
        may: &["ece-overstates-marks", "marking-threshold", "sender-bursts"],
        make: of!("delayed-ack", "s1", "s2"),
    },
    // Without SACKs a sender cannot tell a lost packet from one whose ACK was left out. Six least windows are more than K.
    Case {
        name: "last-packet",
        must: &["rto-floor"],
        may: &["standing-queue", "tail-loss"],
        make: of!("last-packet", "s1"),
    },
    // As before.
    Case {
        name: "last-packet, receiver",
        must: &["ack-left-out", "rto-floor"],
        may: &["standing-queue"],
        make: of!("last-packet", "r"),
    },
    // Losses at the end of requests wait for the timer.
    Case {
        name: "rto-floor",
        must: &["rto-floor"],
        may: &["tail-loss"],
        make: of!("rto-floor", "s1"),
    },
    // RACK's reordering timer of 3 to 4 ms is taken for a timeout.
    Case {
        name: "tail-loss",
        must: &["tail-loss"],
        may: &["rto-floor"],
        make: of!("tail-loss", "s1"),
    },
    // Behind a timeout the window is one packet, whose ACK waits 40 ms; answers lose their ends.
    Case {
        name: "incast",
        must: &["incast-collapse", "rto-floor"],
        may: &["delayed-ack", "tail-loss"],
        make: of!("incast", "h1"),
    },
    Case { name: "endless-ece", must: &["endless-ece"], may: &[], make: endless_ece },
    Case {
        name: "one-sided",
        must: &["ece-overstates-marks"],
        may: &[],
        make: of!("endless-ece", "s1", "r"),
    },
    Case {
        name: "never-marked",
        must: &["ecn-never-marked"],
        may: &[],
        make: of!("never-marked", "s1"),
    },
    Case { name: "bleached, receiver", must: &["ecn-bleached"], may: &[], make: bleached },
    // What is bleached is not marked either.
    Case {
        name: "bleached, both ends",
        must: &["ecn-bleached"],
        may: &["ecn-never-marked"],
        make: bleached_between,
    },
    Case {
        name: "threshold",
        must: &["marking-threshold"],
        may: &[],
        make: of!("threshold", "s1"),
    },
    Case {
        name: "standing-queue",
        must: &["standing-queue"],
        may: &[],
        make: of!("standing-queue", "s1"),
    },
    Case { name: "policer", must: &["policer"], may: &[], make: of!("policer", "s1") },
    Case {
        name: "receiver-limited",
        must: &["receiver-limited"],
        may: &[],
        make: of!("receiver-limited", "s1"),
    },
    Case {
        name: "application-limited",
        must: &["application-limited"],
        may: &[],
        make: of!("application-limited", "s1"),
    },
    // The receiver merges, so that its ACKs let bursts go.
    Case {
        name: "bursts",
        must: &["sender-bursts"],
        may: &["stretch-acks"],
        make: of!("bursts", "s1"),
    },
    Case { name: "path-change", must: &["path-change"], may: &[], make: of!("path-change", "s1") },
    Case {
        name: "two-buffers",
        must: &["shares-by-input"],
        may: &[],
        make: of!("two-buffers", "r"),
    },
    Case {
        name: "stretch-acks",
        must: &["stretch-acks"],
        may: &[],
        make: of!("stretch-acks", "s1"),
    },
    // What still merges has stretch ACKs.
    Case {
        name: "broken-gro",
        must: &["gro-broken-by-marks"],
        may: &["stretch-acks"],
        make: of!("broken-gro", "s1"),
    },
];

/// Experiments with these keys changed: whether a policer is found in the capture of the first sender.
const POLICED: &[(&str, &[&str], bool)] = &[
    ("policer", &["cc=[\"reno\"]"], true),
    ("policer", &["cc=[\"bbr\"]"], true),
    ("policer", &["network.bottleneck.rate=20 Mbps", "traffic.bulk.size=4 MB"], true),
    ("policer", &["network.bottleneck.rate=300 Mbps", "traffic.bulk.size=30 MB"], true),
    ("policer", &["network.bottleneck.burst=30 kB"], true),
    ("policer", &["network.bottleneck.burst=300 kB"], true),
    ("policer", &["traffic.bulk.flows=2"], true),
    ("policer", &["traffic.bulk.flows=2", "cc=[\"bbr\"]", "traffic.bulk.size=8 MB"], true),
    ("random-loss", &["traffic.bulk.size=40 MB"], false),
    ("random-loss", &["traffic.bulk.size=40 MB", "cc=[\"bbr\"]"], false),
    ("random-loss", &["traffic.bulk.size=10 MB", "traffic.bulk.flows=4"], false),
    ("random-loss", &["traffic.bulk.size=20 MB", "traffic.bulk.max_pacing_rate=50 Mbps"], false),
    ("random-loss", &["network.bottleneck.loss_per=burst", "network.bottleneck.loss=2 %"], false),
    ("random-loss", &["network.bottleneck.jitter=2 ms", "traffic.bulk.size=20 MB"], false),
    // Buffers of a tenth of a BDP and less, which a policer's RTTs would look like but for what packets wait in them.
    (
        "healthy-cubic",
        &["network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=40 MB"],
        false,
    ),
    ("never-marked", &[], false),
    ("never-marked", &["network.bottleneck.queue.limit=10 pkts"], false),
    ("healthy-bbr", &["network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=40 MB"], false),
    (
        "healthy-cubic",
        &[
            "network.bottleneck.queue={kind=\"red\",limit=\"100 pkts\",min=\"10 pkts\",max=\"30 pkts\"}",
            "traffic.bulk.size=40 MB",
        ],
        false,
    ),
    (
        "healthy-cubic",
        &["cc=[\"reno\"]", "network.bottleneck.queue.limit=10 pkts", "traffic.bulk.size=40 MB"],
        false,
    ),
    (
        "healthy-cubic",
        &[
            "traffic.bulk.flows=4",
            "network.bottleneck.queue.limit=20 pkts",
            "traffic.bulk.size=20 MB",
        ],
        false,
    ),
];

#[test]
fn policers_are_told_from_random_losses_and_from_short_queues() {
    let mut lossy = 0;
    for (name, set, is_policed) in POLICED {
        let set: Vec<&str> = set.iter().copied().chain(["run.duration=20 s"]).collect();
        let made = simulate(name, &set);
        let analysis = analysed(&[made.file("s1")]);
        let found = findings(&analysis);
        let policer = found.iter().find(|finding| finding.kind == "policer");
        assert_eq!(policer.is_some(), *is_policed, "{name} {set:?}: {policer:?}");
        lossy += u32::from(analysis.whole.totals.retransmitted.segments > 30);
    }
    // Without enough losses nothing would be found whatever they are like.
    assert!(lossy as usize >= POLICED.len() - 2, "{lossy}");
}

#[test]
fn the_threshold_is_read_within_a_packet() {
    let at_10_gbps = [
        "network.access={rate=\"10 Gbps\",delay=\"5 us\"}",
        "network.bottleneck.rate=10 Gbps",
        "network.bottleneck.delay=5 us",
        "network.return.delay=20 us",
        "traffic.bulk.size=20 MB",
    ];
    for k in [5, 20, 65] {
        for fast in [&[][..], &at_10_gbps] {
            let key = format!("network.bottleneck.queue.k={k} pkts");
            let set: Vec<&str> = fast.iter().copied().chain([&key[..]]).collect();
            let all = findings(&analysed(&[simulate("threshold", &set).file("s1")]));
            let found = all.iter().find(|finding| finding.kind == "marking-threshold").unwrap();
            let read = found.summary.split("K is about ").nth(1).unwrap().split(' ').next();
            let read: f64 = read.unwrap().parse().unwrap();
            assert!((read - f64::from(k)).abs() <= 1.0, "{set:?}: {}", found.summary);
        }
    }
    // At 10 Gbps on a path of 1 ms the queue is empty or far beyond K, and where marks begin is not seen.
    let long = [
        "network.access.rate=10 Gbps",
        "network.bottleneck.rate=10 Gbps",
        "traffic.bulk.size=60 MB",
    ];
    let made = simulate("threshold", &long);
    assert!(made.outcome.flows[0].counters.delivered_ce > Some(50));
    let all = findings(&analysed(&[made.file("s1")]));
    assert!(all.iter().all(|finding| finding.kind != "marking-threshold"), "{all:?}");
}

#[test]
fn every_pathology_is_found_where_it_is_and_nowhere_else() {
    let mut wrong = Vec::new();
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    println!("| capture | found | notes |\n| --- | --- | --- |");
    for case in CASES {
        let temp = Temp::new("diagnosis");
        let all = findings(&analysed(&(case.make)(&temp)));
        let names = |are_notes: bool| {
            let some = all.iter().filter(|one| (one.severity == Severity::Note) == are_notes);
            some.map(|finding| finding.kind).collect::<Vec<_>>().join(", ")
        };
        println!("| {} | {} | {} |", case.name, names(false), names(true));
        for finding in &all {
            assert!(
                !finding.evidence.is_empty(),
                "{}: {} has no evidence",
                case.name,
                finding.kind
            );
        }
        let kinds: BTreeSet<&str> = all.iter().map(|finding| finding.kind).collect();
        for missing in case.must.iter().filter(|kind| !kinds.contains(*kind)) {
            wrong.push(format!("{}: {missing} is not found", case.name));
        }
        for more in
            kinds.iter().filter(|kind| !case.must.contains(kind) && !case.may.contains(kind))
        {
            wrong.push(format!("{}: {more} is found", case.name));
        }
        shown.extend(case.must);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in KINDS {
        assert!(shown.contains(&kind.name), "no capture shows {}", kind.name);
    }
}
