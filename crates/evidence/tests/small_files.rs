//! Small files that ask for large lists or long records: they end in one sentence, after little memory and time.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Command;

use knee_evidence::explain::explain;
use knee_scenario::{Experiment, Overrides};
use knee_sweep::machine;
use knee_sweep::runs::Options;

#[path = "../../sweep/tests/common/mod.rs"]
mod common;
use common::*;

#[global_allocator]
static ALLOCATOR: knee_memory::Counting = knee_memory::Counting;

/// Address space of the process that reads a file, KiB, with what the test's own program and its threads have; and its CPU time, s.
const MOST_KIB: u32 = 500_000;
const MOST_CPU_S: u32 = 10;
/// Says which file the test's own program reads, or runs.
const WHICH: &str = "KNEE_SMALL_FILE";

fn with(from: &str, queue: &str) -> String {
    format!(
        r#"question = "?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 10000
access = {{ rate = "1 Gbps" }}
bottleneck = {{ rate = "1 Gbps", queue = {queue} }}

[[traffic]]
name = "bulk"
kind = "bulk"
from = {from}
to = "r"
size = "10 kB"

[run]
duration = "1 s"
"#
    )
}

const DROPS: &str = r#"{ kind = "droptail", limit = "100 pkts" }"#;

fn ranges(count: usize) -> String {
    format!("[{}]", vec!["\"s1..s120000\""; count].join(", "))
}

/// So many hosts, each with a switch of its own, and a switch that joins these switches. What is wrong in the run is found
/// after all paths.
fn own_switches(count: usize, joined: usize) -> String {
    format!(
        r#"question = "?"
cc = ["dctcp"]

[network]
topology = "graph"
node = [
    {{ name = "h", kind = "host", count = {count} }},
    {{ name = "s", kind = "switch", count = {count} }},
    {{ name = "c", kind = "switch" }},
]

[[network.link]]
from = "h1..h{count}"
to = "s1..s{count}"
rate = "1 Gbps"
queue = {DROPS}

[[network.link]]
from = "s1..s{joined}"
to = "c"
rate = "1 Gbps"
queue = {DROPS}

[[traffic]]
name = "any"
kind = "poisson"
from = "h1..h{count}"
to = "h1..h{count}"
sizes = "1 kB"
arrivals_per_sec = 10
until = "1 s"

[run]
duration = "0 s"
"#
    )
}

/// Files by name, and what is said of them.
fn files() -> Vec<(&'static str, String, &'static str)> {
    let two = |count| {
        format!(r#"{{ kind = "two-buffers", second = {}, queue = {DROPS} }}"#, ranges(count))
    };
    let long = "s".repeat(50_000);
    let values = |last: &str| {
        let values: Vec<String> = (11..=30).map(|n| format!("\"{n} kB\"")).collect();
        format!("[{}, \"{last}\"]", values.join(", "))
    };
    let vary = format!(
        "[vary]\n\"hosts.rcvbuf_initial\" = {}\n\"hosts.sndbuf_max\" = {}\n\"traffic.bulk.size\" = {}\n",
        values("wrong"),
        values("31 kB"),
        values("31 kB")
    );
    vec![
        // 9,261 rows: read one after the other they would say what is wrong two minutes later.
        ("rows", with("\"s1..s10000\"", DROPS) + &vary, "hosts.rcvbuf_initial = \"wrong\""),
        ("inputs", with("\"s1\"", &two(70_000)), "must give at most 120000 hosts, not 8400000000"),
        ("distinct-inputs", with("\"s1\"", &two(1)), "must name at most 200 inputs, not 120000"),
        ("senders", with(&ranges(70_000), DROPS), "must give at most 120000 hosts, not 8400000000"),
        (
            "long-names",
            with(&format!("\"{long}1..{long}120000\""), DROPS),
            "must be a host or a range of hosts, as in \"s1..s10\"",
        ),
        // 2,500,000,000 pairs of hosts with a path, or without.
        ("paths", own_switches(50_000, 50_000), "run.duration = \"0 s\": must be above 0 s"),
        ("no-path", own_switches(50_000, 49_999), "there is no path from h1 to h50000: add links"),
        // Each of them has the list of sizes, which is there once. What is wrong comes after it.
        (
            "each",
            with("\"s1..s120000\"", DROPS)
                .replace("senders = 10000", "senders = 120000")
                .replace("size =", "each = true\nsize =")
                .replace("\"10 kB\"", &format!("[{}]", vec!["\"1 kB\""; 50_000].join(", ")))
                .replace("\"1 s\"", "\"0 s\""),
            "must be above 0 s, as in \"2 s\"",
        ),
    ]
}

/// A network of two senders of 10 Gbps, 10 us away, and what is asked of it.
fn pair(rest: &str) -> String {
    let network = r#"question = "?"
cc = ["dctcp"]
[network]
topology = "many-to-one"
senders = 2
access = { rate = "10 Gbps" }
return = { delay = "10 us" }
bottleneck = { rate = "10 Gbps", queue = { kind = "droptail", limit = "1000 pkts" }, record = true }
[[traffic]]
name = "a"
from = "s1..s2"
to = "r"
"#;
    format!("{network}{rest}")
}

const BULK: &str = "kind = \"bulk\"\n[run]\nduration = ";
const RPC: &str = "kind = \"rpc\"\nflows = 100\n";

/// Files that ask for many samples, and what is said of them.
fn many_samples() -> Vec<(&'static str, String, &'static str)> {
    let series = "[sample]\nflows = \"1 us\"\nqueues = \"1 us\"\ngoodput = \"1 us\"";
    vec![
        (
            "series",
            pair(&format!("{BULK}\"10 s\"\n{series}")),
            r#"sample.flows = "1 us": gives 20000000 samples of flows, up to 7.9 GB of the 11 GB of memory per run, but 4.3 GB is allowed: use a longer period, or allow more with knee run --memory"#,
        ),
        (
            "pings",
            pair("kind = \"ping\"\ninterval = \"1 us\"\n[run]\nduration = \"60 s\""),
            "traffic.a.interval = \"1 us\": gives 120000000 pings, up to",
        ),
        (
            "behind-each",
            pair(
                "kind = \"bulk\"\neach = true\nsize = \"1 kB\"\n[[traffic]]\nname = \"b\"\nfrom = \"s1\"\nto = \"r\"\n\
                 kind = \"ping\"\ninterval = \"1 us\"\n[run]\nduration = \"90 s\"",
            ),
            "traffic.b.interval = \"1 us\": gives 90000000 pings, up to",
        ),
    ]
}

/// This program again for one test and one file, under limits of memory and CPU time.
fn child(test: &str, which: &str, most_kib: u32) {
    let this = std::env::current_exe().unwrap();
    let limited = format!("ulimit -v {most_kib} && ulimit -t {MOST_CPU_S} && exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.arg("-c").arg(limited).arg(this).env(WHICH, which).env("RUST_BACKTRACE", "0");
    // Each arena of the C library reserves 64 MiB of address space, whatever is taken of it.
    child.env("MALLOC_ARENA_MAX", "1");
    child.args(["--exact", test, "--test-threads=1"]);
    let done = child.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{which}: {} {said}", done.status);
}

#[test]
fn lists_and_records_are_counted_before_they_are_made() {
    let which = std::env::var(WHICH).ok();
    for (name, text, expected) in files().into_iter().chain(many_samples()) {
        if which.as_deref() == Some(name) {
            let why = Experiment::parse(Path::new("small.toml"), &text, &Overrides::default());
            let why = why.map(|_| ()).unwrap_err().to_string();
            assert!(why.contains(expected), "{}", why.chars().take(300).collect::<String>());
            assert!(!why.contains('\n'), "{why}");
        } else if which.is_none() {
            child("lists_and_records_are_counted_before_they_are_made", name, MOST_KIB);
        }
    }
}

/// A sweep over 10,000 hosts: so many sizes, with two starts and these durations.
fn large_sweep(sizes: u32, durations: &str) -> String {
    let sizes: Vec<String> = (1..=sizes).map(|n| format!("\"{n} kB\"")).collect();
    let (sizes, all) = (sizes.join(", "), with("\"s1..s10000\"", DROPS));
    format!(
        "{all}[vary]\n\"traffic.bulk.size\" = [{sizes}]\n\"traffic.bulk.start\" = [\"0 s\", \"1500 ms\"]\n\"run.duration\" = {durations}\n"
    )
}

/// A second and 100 MB, of a build that is not for speed and on a busy machine.
#[test]
#[cfg(target_os = "linux")]
fn a_sweep_of_200_rows_over_10000_hosts_is_read_in_a_second() {
    if std::env::var(WHICH).is_err() {
        return child(
            "a_sweep_of_200_rows_over_10000_hosts_is_read_in_a_second",
            "sweep",
            MOST_KIB,
        );
    }
    let (cpu_s, bytes) = (machine::cpu_seconds(), machine::peak_rss_bytes().unwrap());
    let text = large_sweep(50, "[\"3 s\", \"2 s\"]");
    let experiment = parsed("sweep.toml", &text, &Overrides::default());
    let (cpu_s, bytes) =
        (machine::cpu_seconds() - cpu_s, machine::peak_rss_bytes().unwrap() - bytes);
    assert!(cpu_s < 1.5 && bytes < 100_000_000, "{cpu_s} s, {bytes} bytes");
    assert_eq!(experiment.runs(), 200);
    assert!(!experiment.is_whole());
    let explained = explain(&experiment, "knee run", &|_| None).unwrap();
    assert!(
        explained.contains(" of 200 rows were checked; knee run --check checks all"),
        "{explained}"
    );
    // Nobody runs what was not looked at.
    let why = run_into(&Scratch::new(), &experiment, &simulated()).unwrap_err();
    assert!(why.to_string().contains("has rows that were not checked"), "{why}");
}

/// A start of 1.5 s is right with the first duration, and a duration of 1 s with the first start.
#[test]
fn what_no_value_says_alone_is_said_before_the_first_run() {
    let read = |sizes, durations: &str| {
        let text = large_sweep(sizes, durations);
        let read =
            Experiment::parse(Path::new("sweep.toml"), &text, &Overrides::default()).unwrap();
        assert!(!read.is_whole());
        read.whole().map_err(|why| why.to_string())
    };
    let why = read(70, "[\"2 s\", \"1 s\"]").map(|_| ()).unwrap_err();
    assert!(
        why.contains("run.duration = \"1 s\": must be later than the start of \"bulk\""),
        "{why}"
    );
    assert!(read(17, "[\"2 s\", \"3 s\"]").unwrap().is_whole());
}

#[test]
fn more_is_taken_where_somebody_allows_it() {
    let (_, text, _) = many_samples().swap_remove(0);
    let allowed = |bytes| Overrides { memory_bytes: Some(bytes), ..Overrides::default() };
    let parsed = |bytes| Experiment::parse(Path::new("small.toml"), &text, &allowed(bytes));
    let memory = parsed(13_000_000_000).unwrap().memory;
    assert_eq!(
        memory.words(),
        "up to 11 GB of memory per run for samples, mostly for 20000000 samples of flows (sample.flows)"
    );
    assert!(parsed(10_000_000_000).is_err());
}

/// Files whose runs take much memory, each for one thing, and what is said of them.
fn large_runs() -> Vec<(&'static str, String, &'static str)> {
    let link = r#"access = { rate = "10 Gbps" }"#;
    let lists = r#"access = { rate = "10 Gbps", queue = { kind = "fq-codel", flows = 65536 } }"#;
    let unlimited = |text: String| text.replace("limit = \"1000 pkts\"", "limit = \"unlimited\"");
    vec![
        (
            "exchanges",
            pair(&format!("{RPC}[run]\nduration = \"1000 s\"")),
            " exchanges (run.duration)",
        ),
        (
            "count",
            pair(&format!("{RPC}count = 1000000000\n[run]\nduration = \"1000 s\"")),
            " exchanges (run.duration)",
        ),
        (
            "packets",
            unlimited(pair(&format!(
                "flows = 100\n{BULK}\"100 s\"\n[hosts]\nrcvbuf_max = \"1 GiB\""
            ))),
            " packets in flight (hosts.rcvbuf_max)",
        ),
        (
            "many-queues",
            pair(&format!("{BULK}\"1 s\""))
                .replace(link, lists)
                .replace("senders = 2", "senders = 2000"),
            "4002 links and their queues (network)",
        ),
        (
            "connections",
            pair("kind = \"bulk\"\nsize = \"1 kB\"\nflows = 20000\n[run]\nduration = \"500 ms\""),
            "40000 connections (traffic)",
        ),
        ("long-paths", long_paths(), "the routes and paths of 100000 flows (network)"),
        ("two-leaves-each", two_leaves_each(), "the routes and paths of 6000 flows (network)"),
    ]
}

/// Their limit, and what the process may take beyond the run: lists that double, and what was read.
const LARGE_RUN_BYTES: u64 = 60_000_000;
const BESIDES_BYTES: u64 = 80_000_000;

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_takes_too_much_memory_ends_in_a_sentence() {
    let which = std::env::var(WHICH).ok();
    for (name, text, expected) in large_runs() {
        if which.as_deref() == Some(name) {
            let allowed = Overrides { memory_bytes: Some(LARGE_RUN_BYTES), ..Overrides::default() };
            let experiment = parsed("small.toml", &text, &allowed);
            let before = machine::peak_rss_bytes().unwrap();
            let options = Options { threads: 1, ..simulated() };
            let why = run_into(&Scratch::new(), &experiment, &options).unwrap_err().to_string();
            let limit = "takes more than the 60 MB of memory that a run may take (knee run --memory), mostly for";
            assert!(why.contains(limit) && why.ends_with(expected), "{why}");
            let took = machine::peak_rss_bytes().unwrap() - before;
            assert!(took < LARGE_RUN_BYTES + BESIDES_BYTES, "{name}: {took}");
        } else if which.is_none() {
            child("a_run_that_takes_too_much_memory_ends_in_a_sentence", name, MOST_KIB);
        }
    }
}

/// What a run has recorded fits, and its rows do not: each has long labels.
#[test]
fn rows_of_results_count() {
    let mut text = pair(&format!("{RPC}[run]\nduration = \"20 ms\""));
    for case in 0..2 {
        let long = format!("{case}").repeat(40);
        text.push_str(&format!("\n[[case]]\nname = \"{long}\"\ncc = \"dctcp\"\n"));
    }
    text =
        text.replace("cc = [\"dctcp\"]\n", "").replace("\"a\"", &format!("\"{}\"", "a".repeat(40)));
    let run = |bytes| {
        let allowed = Overrides { memory_bytes: Some(bytes), ..Overrides::default() };
        run_into(&Scratch::new(), &parsed("small.toml", &text, &allowed), &simulated())
    };
    assert!(run(200_000_000).unwrap().failed.is_empty());
    let failed = run(24_000_000).map(|swept| swept.failed);
    let why = failed.unwrap_err().to_string();
    assert!(why.ends_with("mostly for the rows of its results (output)"), "{why}");
}

/// Together they take more than the address space.
#[test]
#[cfg(target_os = "linux")]
fn runs_that_do_not_fit_into_memory_together_go_on_one_after_the_other() {
    if std::env::var(WHICH).is_err() {
        return child(
            "runs_that_do_not_fit_into_memory_together_go_on_one_after_the_other",
            "together",
            MOST_KIB,
        );
    }
    let text = pair(
        "kind = \"bulk\"\nsize = \"1 kB\"\nflows = 10000\n[run]\nrepeat = 8\nduration = \"200 ms\"",
    );
    let experiment = parsed("small.toml", &text, &Overrides::default());
    let options = Options { threads: 8, ..simulated() };
    let swept = run_into(&Scratch::new(), &experiment, &options).unwrap();
    assert_eq!((swept.runs_done, swept.failed), (8, Vec::new()));
}

/// Flows over a thousand hops, whose paths take more memory than their sockets.
fn long_paths() -> String {
    let port = r#"rate = "10 Gbps", delay = "1 us", record = false, queue = { kind = "droptail", limit = "100 pkts" }"#;
    format!(
        r#"question = "?"
cc = ["dctcp"]
[network]
topology = "parking-lot"
hops = 1000
cross = 0
access = {{ rate = "10 Gbps", delay = "1 us" }}
bottleneck = {{ {port} }}
[[traffic]]
name = "a"
kind = "bulk"
flows = 100000
size = "1 kB"
from = "s1"
to = "r1"
[run]
duration = "100 us"
"#
    )
}

/// Each host is linked to another pair of leaves, to which every switch has its own distance and its own next links.
fn two_leaves_each() -> String {
    const LEAVES: u32 = 2000;
    const ROUNDS: u32 = 6;
    let port = r#"rate = "10 Gbps", delay = "1 us", record = false, queue = { kind = "droptail", limit = "100 pkts" }"#;
    let hosts = LEAVES * ROUNDS;
    let once = format!("\"leaf1..leaf{LEAVES}\"");
    let first = vec![once; ROUNDS as usize].join(", ");
    // Shifted by one more leaf in each round.
    let second = (1..=ROUNDS)
        .map(|shift| format!("\"leaf{}..leaf{LEAVES}\", \"leaf1..leaf{shift}\"", shift + 1));
    let second = second.collect::<Vec<_>>().join(", ");
    let half = hosts / 2;
    format!(
        r#"question = "?"
cc = ["dctcp"]
[network]
topology = "graph"
balance = {{ kind = "spray" }}
node = [
  {{ name = "h", kind = "host", count = {hosts} }},
  {{ name = "leaf", kind = "switch", count = {LEAVES} }},
  {{ name = "core", kind = "switch" }},
]
link = [
  {{ from = "h1..h{hosts}", to = [{first}], {port} }},
  {{ from = "h1..h{hosts}", to = [{second}], {port} }},
  {{ from = "leaf1..leaf{LEAVES}", to = "core", {port} }},
]
[[traffic]]
name = "a"
kind = "bulk"
size = "1 kB"
from = "h1..h{half}"
to = "h{}..h{hosts}"
[run]
duration = "100 us"
"#,
        half + 1
    )
}
