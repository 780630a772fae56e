//! Paths of keys in cases, `[vary]` and `--set`, and what an experiment says of itself.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_evidence::explain;
use knee_queue::time::Duration;
use knee_scenario::remarks::{Topic, remarks};
use knee_scenario::{Experiment, Overrides};

fn read(text: &str, set: &[&str]) -> Result<Experiment, String> {
    let set = set.iter().map(|set| (*set).to_owned()).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    let read = Experiment::parse(Path::new("x.toml"), text, &overrides).and_then(Experiment::whole);
    read.map_err(|why| why.to_string())
}

fn error(text: &str, set: &[&str]) -> String {
    read(text, set).err().unwrap_or_else(|| "accepted".into())
}

const CASES: &str = r#"
[network]
topology = "many-to-one"
access = { rate = "1 Gbps" }
bottleneck = { rate = "1 Mbps", queue = { kind = "codel", target = "5 ms" } }
[vary]
"network.bottleneck.queue.target" = ["5 ms", "30 ms"]
[[case]]
name = "codel"
[[case]]
name = "fifo"
set = { "network.bottleneck.queue" = { kind = "droptail", limit = "100 pkts" } }
[[traffic]]
name = "up"
kind = "bulk"
cc = "cubic"
from = "s1"
to = "r"
[run]
duration = "1 s"
"#;

/// A case replaces what another setting needs: the message names both.
#[test]
fn an_error_names_the_case_the_varied_key_and_the_option_that_it_comes_from() {
    let target = "network.bottleneck.queue.target";
    let known = "unknown key; known here: kind, limit";
    assert_eq!(
        error(CASES, &[]),
        format!(
            "x.toml:7: {target}: {known} (case \"fifo\" sets network.bottleneck.queue; [vary] sets {target} = \"5 ms\")"
        )
    );
    let option = error(
        CASES,
        &["network.bottleneck.queue={ kind = \"droptail\", limit = \"9 pkts\" }", "run.repeat=2"],
    );
    assert!(option.contains("holds network.bottleneck.queue.target, which varies"), "{option}");
    let case =
        "set = { \"network.bottleneck.queue\" = { kind = \"droptail\", limit = \"100 pkts\" } }\n";
    let replaced = CASES.replace("\"5 ms\", \"30 ms\"", "\"5 ms\", \"30 Mbps\"").replace(case, "");
    let bad = error(&replaced, &[]);
    assert!(bad.ends_with("([vary] sets network.bottleneck.queue.target = \"30 Mbps\")"), "{bad}");
    // What the file itself has wrong is nobody else's.
    let own = error(&CASES.replace("access = { rate", "access = { rat"), &[]);
    assert_eq!(own, "x.toml:4: network.access.rat: unknown key; did you mean \"rate\"?");
    // A case that makes another key wrong.
    let small = CASES.replace("kind = \"droptail\", limit = \"100 pkts\"", "kind = \"droptail\"");
    let missing = error(&small, &[]);
    assert!(missing.contains("case \"fifo\" sets network.bottleneck.queue"), "{missing}");
}

const GRAPH: &str = r#"
cc = ["cubic", "reno"]
[network]
topology = "graph"
node = [{ name = "s", kind = "host" }, { name = "r", kind = "host" }, { name = "a", kind = "switch" }]
[[network.link]]
from = "s"
to = "a"
rate = "1 Gbps"
queue = { kind = "droptail", limit = "100 pkts" }
[[network.link]]
from = "a"
to = "r"
rate = "100 Mbps"
queue = { kind = "droptail", limit = "100 pkts" }
[[network.change]]
links = "a-r"
at = "500 ms"
rate = "10 Mbps"
[[host]]
hosts = "r"
rto_min = "5 ms"
[[traffic]]
name = "t"
kind = "bulk"
from = "s"
to = "r"
[run]
duration = "1 s"
"#;

fn rates(experiment: &Experiment) -> Vec<u64> {
    let run = experiment.run(experiment.run_id(0)).unwrap();
    run.network.links.iter().map(|link| link.rate.unwrap().bps() / 1_000_000).collect()
}

#[test]
fn entries_of_lists_are_reached_by_number_and_by_name() {
    for path in ["network.link.2", "network.link.a-r"] {
        let varied = format!("{GRAPH}[vary]\n\"{path}.rate\" = [\"50 Mbps\", \"70 Mbps\"]\n");
        let experiment = read(&varied, &[]).unwrap();
        assert_eq!(rates(&experiment), [1000, 1000, 50, 50]);
        assert_eq!(experiment.rows(), 4);
        let cases = GRAPH.replace(
            "cc = [\"cubic\", \"reno\"]",
            &format!(
                "[[case]]\nname = \"c\"\ncc = \"cubic\"\nset = {{ \"{path}.rate\" = \"60 Mbps\" }}"
            ),
        );
        assert_eq!(rates(&read(&cases, &[]).unwrap()), [1000, 1000, 60, 60]);
        let option = read(GRAPH, &[&format!("{path}.rate=40 Mbps")]).unwrap();
        assert_eq!(rates(&option), [1000, 1000, 40, 40]);
    }
    let back = read(
        GRAPH,
        &[
            "network.link.a-r.back={ rate = \"7 Mbps\", queue = { kind = \"droptail\", limit = \"9 pkts\" } }",
        ],
    );
    assert_eq!(rates(&back.unwrap()), [1000, 1000, 100, 7]);
    for path in ["host.1.rto_min", "host.r.rto_min"] {
        let experiment =
            read(&format!("{GRAPH}[vary]\n\"{path}\" = [\"6 ms\", \"200 ms\"]\n"), &[]).unwrap();
        let run = experiment.run(experiment.run_id(0)).unwrap();
        assert_eq!(run.network.nodes[1].host.as_ref().unwrap().rto_min, Duration::from_ms(6));
    }
    for path in ["network.change.1.at", "network.change.a-r.at"] {
        let experiment = read(GRAPH, &[&format!("{path}=300 ms")]).unwrap();
        let run = experiment.run(experiment.run_id(0)).unwrap();
        assert_eq!(run.network.changes.links[0].at, knee_queue::time::Time::from_ms(300));
    }
    assert!(error(GRAPH, &["network.node.3.kind=host"]).contains("does not forward"), "by number");
    assert!(error(GRAPH, &["network.node.a.kind=host"]).contains("does not forward"), "by name");
    // A message names the path that can be set.
    let missing =
        error(&GRAPH.replacen("queue = { kind = \"droptail\", limit = \"100 pkts\" }", "", 1), &[]);
    assert!(missing.contains("network.link.1.queue"), "{missing}");
    let given = read(
        &GRAPH.replacen("queue = { kind = \"droptail\", limit = \"100 pkts\" }", "", 1),
        &["network.link.1.queue={ kind = \"droptail\", limit = \"5 pkts\" }"],
    );
    assert!(given.is_ok(), "{given:?}");
}

#[test]
fn a_path_that_names_no_entry_or_only_a_part_of_one_says_what_there_is() {
    for (path, expected) in [
        (
            "network.link.3.rate",
            "no entry is named \"3\"; entries have numbers from 1 to 2 (s-a, a-r)",
        ),
        (
            "network.link.r-a.rate",
            "\"r-a\" is the way back of network.link.2: set network.link.2.back",
        ),
        ("host.x.rto_min", "no entry is named \"x\"; the only entry is number 1 (r)"),
        ("traffic.x.start", "no entry is named \"x\"; the only entry is number 1 (t)"),
    ] {
        let said = error(GRAPH, &[&format!("{path}=1")]);
        assert!(said.contains(expected), "{path}: {said}");
    }
    let wild = error(&format!("{GRAPH}[vary]\n\"network.*.queue.limit\" = [\"9 pkts\"]\n"), &[]);
    assert!(wild.contains("vary.network.*.queue.limit") && wild.contains("no wildcard"), "{wild}");
    assert!(error(GRAPH, &["network.*.rate=1 Gbps"]).contains("no wildcard"));
    let several = GRAPH.replace("hosts = \"r\"", "hosts = \"r1..r2\"");
    let part = error(&several, &["host.r2.rto_min=5 ms"]);
    assert!(part.contains("\"r2\" is one of 2 of host.1"), "{part}");
}

/// A suggestion is the end of a message.
#[test]
fn a_suggestion_ends_the_message() {
    let named = RACK.replace("[[\"10 kB\", \"90 %\"], [\"1 MB\", \"100 %\"]]", "\"web-serch\"");
    assert!(
        error(&named, &[]).ends_with("; did you mean \"web-search\"?"),
        "{}",
        error(&named, &[])
    );
}

const RACK: &str = r#"
[network]
topology = "star"
hosts = 4
up = { rate = "1 Gbps" }
down = { rate = "1 Gbps", queue = { kind = "step", limit = "1 MB", k = "100 kB" } }
[hosts]
rto_min = "5 ms"
[[host]]
hosts = "h1..h2"
rto_min = "200 ms"
gso_max_segs = 44
[[traffic]]
name = "small"
kind = "poisson"
from = "h1..h3"
to = "h4"
sizes = [["10 kB", "90 %"], ["1 MB", "100 %"]]
load = "30 %"
of = "h4"
until = "30 ms"
[[case]]
name = "dctcp"
cc = "dctcp"
[[case]]
name = "cubic"
cc = "cubic"
[[case]]
name = "cubic-ecn"
cc = "cubic"
set = { "hosts.tcp_ecn" = 1 }
[run]
duration = "40 ms"
"#;

fn said(experiment: &Experiment, topic: Topic) -> Vec<String> {
    let of_topic = remarks(experiment).into_iter().filter(|remark| remark.topic == topic);
    of_topic.map(|remark| remark.words()).collect()
}

#[test]
fn an_experiment_says_what_its_figures_are_for() {
    let experiment = read(RACK, &[]).unwrap();
    assert_eq!(
        said(&experiment, Topic::Offloads),
        ["offloads of hosts: TSO up to 44 segments, GRO off on h1, h2; TSO off, GRO off on h3, h4"]
    );
    // The listening host grants ECN that it does not ask for.
    assert_eq!(
        said(&experiment, Topic::Ecn),
        [
            "case = dctcp, cubic-ecn: ECN is negotiated by all connections",
            "case = cubic: ECN is negotiated by no connection"
        ]
    );
    let some = read(&RACK.replace("gso_max_segs = 44", "tcp_ecn = 1"), &[]).unwrap();
    let some = said(&some, Topic::Ecn);
    assert!(
        some.contains(&"case = cubic: ECN is negotiated by some connections of small".to_owned()),
        "{some:?}"
    );
    let [sizes] = said(&experiment, Topic::Sizes).try_into().unwrap();
    for part in [
        "small: sizes are interpolated: any size between the points 10 kB (90 %), 1 MB (100 %); mean 59.50 kB",
        "sizes = { mix = [[\"10 kB\", \"90 %\"], [\"1 MB\", \"10 %\"]] }",
        "small/small (below 100 kB), small/medium (100 kB to 1 MB), small/large (from 1 MB)",
    ] {
        assert!(sizes.contains(part), "{part}: {sizes}");
    }
    // The way out is one.
    let exact =
        RACK.replace("[\"1 MB\", \"100 %\"]]", "[\"1 MB\", \"90 %\"], [\"1 MB\", \"100 %\"]]");
    let [exact] = said(&read(&exact, &[]).unwrap(), Topic::Sizes).try_into().unwrap();
    assert!(
        exact.contains("sizes are only those of") && exact.contains("mean 109.0 kB"),
        "{exact}"
    );
}

#[test]
fn a_run_that_is_shorter_than_a_timeout_says_so() {
    let [short] = said(&read(RACK, &[]).unwrap(), Topic::Timeouts).try_into().unwrap();
    for part in [
        "small: the run ends 10 ms after the last start (at 30 ms of 40 ms)",
        "at least 200 ms on h1, h2, and 1 s for a lost SYN",
        "run.until_done = true and run.duration above 1.03 s",
    ] {
        assert!(short.contains(part), "{part}: {short}");
    }
    let is_silent = |set: &[&str]| said(&read(RACK, set).unwrap(), Topic::Timeouts).is_empty();
    assert!(is_silent(&["run.duration=2 s", "run.until_done=true"]));
    assert!(!is_silent(&["run.duration=1 s", "run.until_done=true"]));
    // Endless transfers are not cut off.
    let endless = RACK.replace("kind = \"poisson\"", "kind = \"bulk\"");
    let endless: String = endless
        .lines()
        .filter(|line| !["sizes", "load", "of =", "until"].iter().any(|key| line.starts_with(key)))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(said(&read(&endless, &[]).unwrap(), Topic::Timeouts).is_empty());
    // Exchanges without a count do not end: `run.until_done` would be refused.
    let asks = endless.replace("kind = \"bulk\"", "kind = \"rpc\"\nresponse = \"20 kB\"");
    let [asks] = said(&read(&asks, &[]).unwrap(), Topic::Timeouts).try_into().unwrap();
    let way_out = "An exchange that needs a retransmission timeout (at least 200 ms on h1, h2, and 1 s for a lost SYN) is cut off. \
                   Set run.duration above 1 s, or a count";
    assert!(asks.contains(way_out) && !asks.contains("until_done"), "{asks}");
    let [late] =
        said(&read(RACK, &["run.duration=20 ms"]).unwrap(), Topic::Timeouts).try_into().unwrap();
    let when = "small: the last of them start at 30 ms, and the run ends at 20 ms. A transfer";
    assert!(late.contains(when), "{late}");
}

#[test]
fn explain_shows_every_key_that_differs_wherever_it_is_set() {
    let experiment = read(RACK, &[]).unwrap();
    let words = explain::explain(&experiment, "knee run x.toml", &|_| None).unwrap();
    for part in [
        "    hosts: rto_min 5 ms\n",
        "    host.1: hosts h1..h2, rto_min 200 ms, gso_max_segs 44\n",
        "    network.down: rate 1 Gbps, queue.kind step, queue.limit 1 MB, queue.k 100 kB\n",
        "case cubic-ecn: cc cubic, hosts.tcp_ecn = 1",
        "ECN is negotiated by no connection",
        "sizes are interpolated",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}
