//! knee beside tshark on the same captures of simulated hosts, and of packets made by hand: what both say is the same, packet by
//! packet, or differs in a way that `docs/pcap-tshark.md` names, with who is right by the record of the hosts.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;
#[path = "tshark/compare.rs"]
mod compare;
mod experiments;
#[path = "tshark/kinds.rs"]
mod kinds;
#[path = "tshark/made.rs"]
mod made;
#[path = "tshark/program.rs"]
mod program;
#[path = "tshark/record.rs"]
mod record;

use std::collections::BTreeSet;
use std::path::Path;

use compare::{Both, Found, by_knee};
use experiments::Temp;
use kinds::Kind;
use knee_sim::tap::hosts::Place;
use record::View;

/// An experiment of `tests/pcap`, what is set in it, and the hosts whose captures are looked at.
struct Case {
    name: &'static str,
    set: &'static [&'static str],
    at: &'static [(&'static str, &'static [Place])],
}

const AT: &[Place] = &[Place::Host];
const NEXT_TO: &[Place] = &[Place::FarEnd];
const BOTH: &[Place] = &[Place::Host, Place::FarEnd];

const CASES: &[Case] = &[
    Case { name: "random-loss", set: &[], at: &[("s1", AT), ("s1", NEXT_TO), ("r", AT)] },
    Case { name: "healthy-cubic", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "tail-loss", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "rto-floor", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case {
        name: "go-back-n",
        set: &[],
        at: &[("h2", AT), ("h3", AT), ("h1", NEXT_TO), ("h1", AT)],
    },
    Case { name: "path-change", set: &[], at: &[("s1", AT), ("r1", AT), ("s2", AT), ("r2", AT)] },
    Case { name: "healthy-dctcp", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "receiver-limited", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "last-packet", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "delayed-ack", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "policer", set: &["hosts.ipv6=true"], at: &[("s1", AT), ("r", NEXT_TO)] },
    Case { name: "healthy-rpc", set: &["hosts.ipv6=true"], at: &[("s1", AT)] },
    Case { name: "healthy-rpc", set: &[], at: &[("s2", BOTH)] },
    Case { name: "stretch-acks", set: &[], at: &[("s1", AT), ("r", AT)] },
    Case { name: "healthy-bbr", set: &[], at: &[("s1", AT)] },
];

/// The version that the kinds are known of.
const VERSION: &str = "4.0.";

#[test]
fn every_difference_is_of_a_known_kind() {
    let Some(version) = program::version("every_difference_is_of_a_known_kind") else { return };
    if !version.starts_with(VERSION) {
        program::skip(
            "every_difference_is_of_a_known_kind",
            &format!("tshark is {version}, not {VERSION}x"),
        );
        return;
    }
    let mut found = Found::default();
    let mut captures = 0;
    for case in CASES {
        let recorded = record::simulate(case.name, case.set);
        for (host, places) in case.at {
            let temp = Temp::new("tshark");
            let view = recorded.view(&temp.path(""), case.name, host, places);
            compare(&view, &temp.path(""), &mut found);
            captures += 1;
        }
    }
    let temp = Temp::new("tshark");
    for view in made::views(&temp.path("")) {
        compare(&view, &temp.path(""), &mut found);
        captures += 1;
    }
    println!("tshark {version}, {captures} captures\n\n{}", table(&found));
    for (what, count) in &found.agreed {
        println!("{what}: {count} times the same");
    }
    let shown: Vec<&String> = found.unknown.iter().take(40).collect();
    assert!(found.unknown.is_empty(), "{} of no known kind: {shown:#?}", found.unknown.len());
    for kind in Kind::ALL {
        assert!(found.kinds.contains_key(kind), "{} does not occur", kind.name());
    }
}

fn compare(view: &View, home: &Path, found: &mut Found) {
    let told = program::run(&view.file, home);
    let analysis = by_knee(&view.file);
    Both { name: &view.name, analysis, told, truth: &view.truth, found }.compare();
}

/// The kinds as rows of a table.
fn table(found: &Found) -> String {
    let mut out = "| kind | packets | knee says | tshark says | right | first |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for (kind, (count, first)) in &found.kinds {
        let (knee, tshark) = kind.said();
        let right = kind.right().name();
        out += &format!("| {} | {count} | {knee} | {tshark} | {right} | {first} |\n", kind.name());
    }
    out
}

#[test]
fn the_document_has_the_kinds_and_no_others() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pcap-tshark.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), cells[3].to_owned(), cells[4].to_owned(), cells[5].to_owned()))
    });
    let rows: BTreeSet<_> = rows.collect();
    let of = |kind: &Kind| {
        let (knee, tshark) = kind.said();
        [kind.name(), knee, tshark, kind.right().name()].map(str::to_owned)
    };
    let known: BTreeSet<_> = Kind::ALL.iter().map(|kind| of(kind).into()).collect();
    assert_eq!(rows, known);
}
