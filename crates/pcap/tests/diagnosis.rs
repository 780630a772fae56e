//! Captures of each pathology and of healthy hosts: each is found where it is, and nothing where nothing is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;

use common::{Made, Temp, analysed, copy, simulate};
use knee_pcap::diagnosis::{KINDS, findings};
use knee_pcap::{Analysis, Finding, Severity};

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
    Case { name: "coalescing", must: &["rtt-bimodal"], may: &[], make: of!("coalescing", "s2") },
    Case {
        name: "delayed-ack",
        must: &["delayed-ack"],
        may: &[],
        make: of!("delayed-ack", "s1", "s2"),
    },
    Case {
        name: "last-packet",
        must: &["ack-left-out", "rto-floor"],
        may: &[],
        make: of!("last-packet", "s1"),
    },
    Case {
        name: "last-packet, receiver",
        must: &["ack-left-out", "rto-floor"],
        may: &[],
        make: of!("last-packet", "r"),
    },
    Case {
        name: "rto-floor",
        must: &["rto-floor"],
        may: &["tail-loss"],
        make: of!("rto-floor", "s1"),
    },
    Case { name: "tail-loss", must: &["tail-loss"], may: &[], make: of!("tail-loss", "s1") },
    Case {
        name: "incast",
        must: &["incast-collapse", "rto-floor"],
        may: &["tail-loss"],
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
    Case { name: "bleached, both ends", must: &["ecn-bleached"], may: &[], make: bleached_between },
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
    Case { name: "bursts", must: &["sender-bursts"], may: &[], make: of!("bursts", "s1") },
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
    Case {
        name: "broken-gro",
        must: &["gro-broken-by-marks"],
        may: &[],
        make: of!("broken-gro", "s1"),
    },
];

fn found(case: &Case) -> (Analysis, Vec<Finding>) {
    let temp = Temp::new("diagnosis");
    let analysis = analysed(&(case.make)(&temp));
    let all = findings(&analysis);
    (analysis, all)
}

#[test]
fn every_pathology_is_found_where_it_is_and_nowhere_else() {
    let mut wrong = Vec::new();
    for case in CASES {
        let (_, all) = found(case);
        println!("\n{}", case.name);
        for finding in &all {
            println!(
                "  {} ({:?}, {:.2}) flows {:?}: {}",
                finding.kind, finding.severity, finding.confidence, finding.flows, finding.summary
            );
            if std::env::var_os("SHOW").is_some() {
                for one in &finding.evidence {
                    println!("     {} {}: {}", one.flow, one.number, one.says);
                }
            }
        }
        let kinds: BTreeSet<&str> = all.iter().map(|finding| finding.kind).collect();
        for missing in case.must.iter().filter(|kind| !kinds.contains(*kind)) {
            wrong.push(format!("{}: {missing} is not found", case.name));
        }
        let known = |kind: &&&str| !case.must.contains(*kind) && !case.may.contains(*kind);
        for more in kinds.iter().filter(known) {
            wrong.push(format!("{}: {more} is found", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let _ = (KINDS, Severity::Note);
}
