//! Small files that would be large lists or long records: refused in little memory and time.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Command;

use knee_exp::explain::explain;
use knee_exp::runs::Options;
use knee_exp::{Experiment, Overrides, machine};

mod common;
use common::*;

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

/// Files that ask a run to keep much, and what is said of them.
fn long_records() -> Vec<(&'static str, String, &'static str)> {
    let series = "[sample]\nflows = \"1 us\"\nqueues = \"1 us\"\ngoodput = \"1 us\"";
    let link = r#"access = { rate = "10 Gbps" }"#;
    let lists = r#"access = { rate = "10 Gbps", queue = { kind = "fq-codel", flows = 65536 } }"#;
    let drops = r#"limit = "1000 pkts""#;
    let bulk = pair(&format!("{BULK}\"1 s\""));
    vec![
        (
            "series",
            pair(&format!("{BULK}\"10 s\"\n{series}")),
            r#"sample.flows = "1 us": gives 20000000 samples of flows, up to 8.3 GB of the 12 GB of memory per run, but 4.3 GB is allowed: use a longer period, or allow more with knee run --memory"#,
        ),
        (
            "count",
            pair(&format!("{RPC}count = 1000000000\n[run]\nduration = \"1000 s\"")),
            "traffic.a.count = 1000000000: gives 12500000000 exchanges, up to",
        ),
        (
            "exchanges",
            pair(&format!("{RPC}[run]\nduration = \"1000 s\"")),
            "run.duration = \"1000 s\": gives 12500000000 exchanges, up to",
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
                 kind = \"ping\"\ninterval = \"1 us\"\n[run]\nduration = \"60 s\"",
            ),
            "traffic.b.interval = \"1 us\": gives 60000000 pings, up to",
        ),
        (
            "packets",
            pair(&format!("flows = 100\n{BULK}\"100 s\"\n[hosts]\nrcvbuf_max = \"1 GiB\""))
                .replace(drops, "limit = \"unlimited\""),
            "hosts.rcvbuf_max = \"1 GiB\": gives ",
        ),
        (
            "queues",
            bulk.replace(link, lists).replace("senders = 2", "senders = 2000"),
            "network.topology = \"many-to-one\": gives 4002 links and their queues, up to",
        ),
    ]
}

/// This program again for one test and one file, under limits of memory and CPU time.
fn child(test: &str, which: &str, most_kib: u32) {
    let this = std::env::current_exe().unwrap();
    let limited = format!("ulimit -v {most_kib} && ulimit -t {MOST_CPU_S} && exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.arg("-c").arg(limited).arg(this).env(WHICH, which).env("RUST_BACKTRACE", "0");
    child.args(["--exact", test, "--test-threads=1"]);
    let done = child.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{which}: {} {said}", done.status);
}

#[test]
fn lists_and_records_are_counted_before_they_are_made() {
    let which = std::env::var(WHICH).ok();
    for (name, text, expected) in files().into_iter().chain(long_records()) {
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
    let (_, text, _) = long_records().swap_remove(0);
    let allowed = |bytes| Overrides { memory_bytes: Some(bytes), ..Overrides::default() };
    let parsed = |bytes| Experiment::parse(Path::new("small.toml"), &text, &allowed(bytes));
    let memory = parsed(13_000_000_000).unwrap().memory;
    assert_eq!(
        memory.words(),
        "up to 12 GB of memory per run, mostly for 20000000 samples of flows (sample.flows)"
    );
    assert!(parsed(11_000_000_000).is_err());
}

/// A sender over a link of so much loss, with windows of 512 MB; what comes back goes by this cable.
fn alone(cc: &str, access: &str, back: &str, duration: &str) -> String {
    pair("kind = \"bulk\"\n[hosts]\nrcvbuf_max = \"1 GiB\"\n[run]\nduration = \"DURATION\"")
        .replace("senders = 2", "senders = 1")
        .replace("s1..s2", "s1")
        .replace("\"dctcp\"", &format!("{cc:?}"))
        .replace("access = { rate = \"10 Gbps\" }", &format!("access = {{ {access} }}"))
        .replace("return = { delay = \"10 us\" }", &format!("return = {{ {back} }}"))
        .replace("DURATION", duration)
}

/// Files that run for a moment, each with much of one thing.
fn short_records() -> Vec<(&'static str, String)> {
    let sampled = |key: &str| pair(&format!("{BULK}\"100 ms\"\n[sample]\n{key} = \"1 us\""));
    vec![
        ("flows", sampled("flows")),
        ("goodput", sampled("goodput")),
        ("queues", sampled("queues")),
        ("exchanges", pair(&format!("{RPC}[run]\nduration = \"100 ms\""))),
        (
            "pings",
            pair("kind = \"ping\"\ninterval = \"1 us\"\n[run]\nduration = \"500 ms\"")
                .replace("cc = [\"dctcp\"]\n", ""),
        ),
        (
            "packets",
            pair(&format!("flows = 10\n{BULK}\"1 s\"\n[hosts]\nrcvbuf_max = \"1 GiB\""))
                .replace("limit = \"1000 pkts\"", "limit = \"unlimited\""),
        ),
        // Retransmissions that are lost again hold what was sent behind them.
        (
            "lost-again",
            alone("bbr", r#"rate = "40 Gbps", loss = "2 %""#, r#"delay = "10 ms""#, "1 s")
                .replace("rate = \"10 Gbps\", queue", "rate = \"40 Gbps\", queue"),
        ),
        // ACKs wait in a queue that counts bytes.
        (
            "acks",
            alone(
                "reno",
                r#"rate = "10 Gbps""#,
                r#"rate = "20 Mbps", delay = "10 us", queue = { kind = "droptail", limit = "10 MB" }"#,
                "3 s",
            ),
        ),
        (
            "transfers",
            pair("kind = \"bulk\"\nsize = \"1 kB\"\nflows = 5000\n[run]\nduration = \"500 ms\""),
        ),
    ]
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_takes_no_more_than_the_estimate() {
    let which = std::env::var(WHICH).ok();
    for (name, text) in short_records() {
        if which.as_deref() == Some(name) {
            let experiment = parsed("small.toml", &text, &Overrides::default());
            let scratch = Scratch::new();
            let before = machine::peak_rss_bytes().unwrap();
            run_into(&scratch, &experiment, &Options { threads: 1, ..simulated() }).unwrap();
            let took = machine::peak_rss_bytes().unwrap() - before;
            let estimate = experiment.memory.bytes();
            // What a process has besides, and what is written, are some MB.
            assert!(took < estimate + 8_000_000, "{name}: {took}, estimated {estimate}");
            assert!(took > estimate / 5, "{name}: {took}, estimated {estimate}");
        } else if which.is_none() {
            child("a_run_takes_no_more_than_the_estimate", name, 4_000_000);
        }
    }
}

/// Fabrics with a flow per host, and a link of many flows: runs whose memory is that of links, hosts, sockets and packets.
fn fabrics() -> Vec<(&'static str, String)> {
    let port = r#"rate = "10 Gbps", delay = "1 us", queue = { kind = "step", k = "65 pkts", limit = "200 pkts" }"#;
    let fabric = |network: &str, traffic: &str, duration: &str| {
        format!(
            r#"question = "?"
cc = ["dctcp"]
[network]
{network}
up = {{ rate = "10 Gbps", delay = "1 us" }}
down = {{ {port}, record = false }}
[[traffic]]
name = "a"
kind = "bulk"
{traffic}
start_jitter = "100 us"
[run]
duration = "{duration}"
"#
        )
    };
    let leaf_spine = |leaves: u32, spines: u32| {
        format!(
            "topology = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = 32\nfabric = {{ {port} }}"
        )
    };
    let fat_tree = |k: u32| {
        format!("topology = \"fat-tree\"\nk = {k}\nedge = {{ {port} }}\ncore = {{ {port} }}")
    };
    let halves = "from = \"h0.0..h15.31\"\nto = \"h16.0..h31.31\"\n";
    let pods = "from = \"h0.0.0..h7.7.7\"\nto = \"h8.0.0..h15.7.7\"\n";
    let large = "from = \"h0.0.0..h19.19.19\"\nto = \"h20.0.0..h39.19.19\"\n";
    vec![
        ("leaf-spine-long", fabric(&leaf_spine(32, 32), halves, "3 ms")),
        (
            "leaf-spine-short",
            fabric(&leaf_spine(32, 32), &format!("{halves}size = \"10 kB\""), "3 ms"),
        ),
        ("long-paths", long_paths()),
        ("two-leaves-each", two_leaves_each()),
        ("fat-tree-long", fabric(&fat_tree(16), pods, "2 ms")),
        ("fat-tree-idle", fabric(&fat_tree(40), &format!("{large}size = \"1 kB\""), "300 us")),
        (
            "many-flows",
            pair("kind = \"bulk\"\nflows = 2500\n[run]\nduration = \"300 ms\"")
                .replace("1000 pkts", "3000 pkts")
                .replace("return = { delay = \"10 us\" }", "return = { delay = \"5 ms\" }"),
        ),
    ]
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
flows = 4000
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

#[test]
#[cfg(target_os = "linux")]
fn the_estimate_of_a_fabric_is_within_30_percent() {
    let which = std::env::var(WHICH).ok();
    for ((name, text), threads) in fabrics().into_iter().flat_map(|it| [(it.clone(), 1), (it, 4)]) {
        let name = format!("{name} on {threads}");
        if which.as_deref() == Some(&name) {
            let before = machine::peak_rss_bytes().unwrap();
            let experiment = parsed("small.toml", &text, &Overrides::default());
            let scratch = Scratch::new();
            run_into(&scratch, &experiment, &Options { threads, ..simulated() }).unwrap();
            let took = machine::peak_rss_bytes().unwrap() - before;
            let estimate = experiment.memory.likely_on(threads) + experiment.memory.kept_bytes;
            let share = estimate as f64 / took as f64;
            assert!((0.7..1.3).contains(&share), "{name}: {took}, estimated {estimate}: {share}");
        } else if which.is_none() {
            child("the_estimate_of_a_fabric_is_within_30_percent", &name, 4_000_000);
        }
    }
}

#[test]
fn packets_in_flight_of_100_000_hosts_need_a_larger_limit() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fabrics/fat-tree-74.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let why = Experiment::parse(&path, &text, &Overrides::default()).unwrap_err().to_string();
    assert!(why.contains("packets in flight"), "{why}");
}

#[test]
fn runs_of_a_row_take_a_mean_each() {
    let kept = |repeat: u32| {
        let text = pair(&format!(
            "kind = \"bulk\"\nsize = \"10 kB\"\n[sample]\nqueues = \"1 us\"\n[run]\nrepeat = {repeat}\nduration = \"10 ms\""
        ));
        parsed("small.toml", &text, &Overrides::default()).memory.kept_bytes
    };
    // Of two subjects with 33 metrics at most.
    assert_eq!(kept(100_000) - kept(50_000), 2 * 33 * 16 * 50_000);
}

/// A value of 100,000 is in a histogram of some 100 kB; a subject has several.
#[test]
fn classes_of_size_and_shared_memory_count_for_what_is_kept() {
    let kept = |buffer: &str, sizes: &str, sample: &str| {
        let text = format!(
            r#"question = "?"
cc = ["dctcp"]
[network]
topology = "star"
hosts = 4
up = {{ rate = "1 Gbps" }}
down = {{ rate = "1 Gbps", queue = {{ kind = "droptail", limit = "100 pkts" }} }}
{buffer}
[[traffic]]
name = "web"
kind = "poisson"
from = "h1..h4"
to = "h1..h4"
sizes = {sizes}
arrivals_per_sec = 10000
until = "1 s"
[run]
duration = "1 s"
{sample}
"#
        );
        parsed("kept.toml", &text, &Overrides::default()).memory.kept_bytes
    };
    let plain = kept("", "\"1 kB\"", "");
    let with_classes = kept("", r#"[["1 kB", "50 %"], ["2 MB", "100 %"]]"#, "");
    assert!(with_classes > plain + 3 * 1_000_000, "{with_classes}, without {plain}");
    let sample = "[sample]\nqueues = \"10 us\"";
    let buffer = "buffer = { size = \"1 MB\", alpha = 1 }";
    let (sampled, shared) = (kept("", "\"1 kB\"", sample), kept(buffer, "\"1 kB\"", sample));
    assert!(shared > sampled + 1_000_000, "{shared}, without {sampled}");
}
