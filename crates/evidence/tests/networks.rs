//! Fat trees and networks drawn by hand: what a file says becomes the network, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_queue::QueueConfig;
use knee_run::Ideal;
use knee_run::spec::{Link, Run};
use knee_scenario::metric::Metric;
use knee_scenario::{Experiment, Overrides};

use crate::common::*;

const REST: &str = r#"
[[traffic]]
name = "long"
kind = "bulk"
size = "100 kB"
from = "FROM"
to = "TO"

[run]
duration = "1 s"
until_done = true
"#;

fn load(text: &str) -> Result<Run, String> {
    let experiment = Experiment::parse(Path::new("net.toml"), text, &Overrides::default());
    let experiment = experiment.map_err(|error| error.to_string())?;
    Ok(experiment.run(experiment.run_id(0)).unwrap())
}

fn with_rest(network: &str, from: &str, to: &str) -> String {
    format!("question = \"?\"\ncc = [\"dctcp\"]\n{network}{REST}")
        .replace("FROM", from)
        .replace("TO", to)
}

fn fat_tree(k: u32) -> String {
    format!(
        r#"[network]
topology = "fat-tree"
k = {k}
up = {{ rate = "10 Gbps", delay = "1 us" }}
down = {{ rate = "10 Gbps", delay = "1 us", queue = {{ kind = "droptail", limit = "100 pkts" }} }}
edge = {{ rate = "10 Gbps", delay = "2 us", queue = {{ kind = "droptail", limit = "200 pkts" }} }}
core = {{ rate = "40 Gbps", delay = "3 us", queue = {{ kind = "droptail", limit = "300 pkts" }} }}
"#
    )
}

fn link<'a>(run: &'a Run, name: &str) -> &'a Link {
    let id = run.network.link_named(name).unwrap_or_else(|| panic!("{name}"));
    &run.network.links[id as usize]
}

#[test]
fn a_fat_tree_has_as_many_of_everything_as_its_ports_allow() {
    // k = 4: 16 hosts, 8 + 8 + 4 switches; 16 + 16 + 16 cables.
    let run = load(&with_rest(&fat_tree(4), "h0.0.0", "h3.1.1")).unwrap();
    let hosts = run.network.nodes.iter().filter(|node| node.host.is_some()).count();
    assert_eq!((hosts, run.network.nodes.len(), run.network.links.len()), (16, 36, 96));
    let ends_at = |name: &str| {
        let id = run.network.nodes.iter().position(|node| node.name == name).unwrap() as u32;
        run.network.links.iter().filter(|link| link.to == id).count()
    };
    for switch in ["edge0.0", "edge3.1", "aggregation2.0", "core0", "core3"] {
        assert_eq!(ends_at(switch), 4, "{switch}");
    }
    // The second aggregation switch of every pod has the second half of the core.
    for pod in 0..4 {
        link(&run, &format!("aggregation{pod}.1-core3"));
        link(&run, &format!("core1-aggregation{pod}.0"));
    }
    assert!(link(&run, "edge3.1-h3.1.1").sampled && !link(&run, "edge3.1-h3.1.0").sampled);
    let outcome = knee_sim::simulate(&run).unwrap();
    // Two ways of 12 us in the handshake and one for the first packet, at least.
    let took = outcome.flows[0].completion_time().unwrap();
    assert!(took.as_secs_f64() > 3.0 * 12e-6 && took.as_secs_f64() < 1e-3, "{took:?}");
}

#[test]
fn a_thousand_hosts_are_there_at_once() {
    let began = std::time::Instant::now();
    let text = with_rest(&fat_tree(16), "h0.0.0..h7.7.7", "h8.0.0..h15.7.7");
    let run = load(&text).unwrap();
    assert_eq!(run.flows.len(), 512);
    assert_eq!(run.network.nodes.iter().filter(|node| node.host.is_some()).count(), 1024);
    let run = Run { end: knee_queue::time::Time::from_us(200), ..run };
    let outcome = knee_sim::simulate(&run).unwrap();
    assert!(outcome.flows.iter().all(|flow| flow.established_at.is_some()));
    // About a second, most of it 512 connections; routing that looked at every pair of nodes would take minutes.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

/// Figure 17 of the DCTCP paper.
const MULTI_HOP: &str = r#"[network]
topology = "graph"

[[network.node]]
name = "s1-"
kind = "host"
count = 10

[[network.node]]
name = "r1"
kind = "host"

[[network.node]]
name = "t"
kind = "switch"
count = 2

[[network.node]]
name = "scorpion"
kind = "switch"

[[network.link]]
from = "s1-1..s1-10"
to = "t1"
rate = "1 Gbps"
delay = "20 us"
back = { rate = "1 Gbps", delay = "20 us", queue = { kind = "droptail", limit = "100 pkts" } }

[[network.link]]
from = "t1..t2"
to = "scorpion"
rate = "10 Gbps"
delay = "5 us"
queue = { kind = "step", limit = "4 MB", k = "65 pkts" }
record = true

[[network.link]]
from = "t2"
to = "r1"
rate = "1 Gbps"
queue = { kind = "step", limit = "4 MB", k = "20 pkts" }
back = { rate = "1 Gbps" }
"#;

#[test]
fn a_graph_is_what_was_drawn() {
    let run = load(&with_rest(MULTI_HOP, "s1-1..s1-10", "r1")).unwrap();
    assert_eq!((run.network.nodes.len(), run.network.links.len()), (14, 26));
    let names: Vec<_> = run.network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names[0], names[9], names[10], names[12]), ("s1-1", "s1-10", "r1", "t2"));
    let queue = |name: &str| match &link(&run, name).queue {
        QueueConfig::DropTail(_) => "droptail",
        QueueConfig::Step(_) => "step",
        _ => "other",
    };
    assert_eq!((queue("s1-3-t1"), queue("t1-s1-3")), ("droptail", "droptail"));
    assert_eq!(
        (queue("scorpion-t2"), queue("t2-r1"), queue("r1-t2")),
        ("step", "step", "droptail")
    );
    // Said, said of the way back too, the port to a host that receives; not what says nothing.
    for (name, sampled) in [
        ("t1-scorpion", true),
        ("scorpion-t2", true),
        ("t2-r1", true),
        ("t1-s1-1", false),
        ("s1-1-t1", false),
    ] {
        assert_eq!(link(&run, name).sampled, sampled, "{name}");
    }
    let outcome = knee_sim::simulate(&run).unwrap();
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
}

#[test]
fn a_mesh_joins_each_to_each() {
    let clos = r#"[network]
topology = "graph"
node = [
    { name = "a", kind = "host" }, { name = "b", kind = "host" },
    { name = "rack", kind = "switch", count = 6 }, { name = "fabric", kind = "switch", count = 4 },
]
link = [
    { from = "a", to = "rack1", delay = "1 us" },
    { from = "b", to = "rack6", delay = "1 us" },
    { from = "rack1..rack6", to = "fabric1..fabric4", mesh = true, delay = "1 us" },
]
"#;
    let run = load(&with_rest(clos, "a", "b")).unwrap();
    assert_eq!(run.network.links.len(), 4 + 2 * 24);
    link(&run, "fabric4-rack5");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    for (find, replacement, expected) in [
        ("name = \"r1\"", "name = \"t1\"", "gives t1 twice"),
        ("kind = \"host\"\ncount = 10", "kind = \"router\"", "must be one of \"host\", \"switch\""),
        (
            "from = \"t1..t2\"",
            "from = \"t1..t3\"",
            "must name nodes of this network: \"t3\" does not exist",
        ),
        ("to = \"scorpion\"", "to = \"t2\"", "links t2 to itself"),
        ("to = \"t1\"", "to = \"t1..t2\"", "must name one node, or as many as"),
        (
            "back = { rate = \"1 Gbps\" }",
            "oneway = true",
            "there is no path from r1 to s1-1: add links",
        ),
        (
            "back = { rate = \"1 Gbps\" }",
            "oneway = true\nback = {}",
            "conflicts with oneway = true: leave one out",
        ),
        (
            "name = \"scorpion\"\nkind = \"switch\"",
            "name = \"scorpion\"\nkind = \"host\"",
            "no path from s1-1 to r1 except through the host scorpion, which does not forward: make it kind = \"switch\"",
        ),
        ("from = \"t1..t2\"", "from = \"t1\"", "there is no path from s1-1 to r1: add links"),
        (
            "queue = { kind = \"step\", limit = \"4 MB\", k = \"65 pkts\" }",
            "",
            "queue: missing, as in",
        ),
        ("to = \"r1\"\nrate", "to = \"r1\"\nspeed = 1\nrate", "unknown key"),
        (
            "[[network.link]]\nfrom = \"t2\"",
            "[[network.link]]\nfrom = \"t2\"\nto = \"scorpion\"\n[[network.link]]\nfrom = \"t2\"",
            "links t2 to scorpion twice",
        ),
    ] {
        assert!(MULTI_HOP.contains(find), "{find}");
        let text = with_rest(&MULTI_HOP.replacen(find, replacement, 1), "s1-1..s1-10", "r1");
        let said = load(&text).map(|_| ()).unwrap_err();
        assert!(said.contains(expected), "{replacement}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
    let said = load(&with_rest(&fat_tree(5), "h0.0.0", "h1.0.0")).map(|_| ()).unwrap_err();
    assert!(said.contains("must be even"), "{said}");
}

/// Goodput in bit/s, and the bottleneck's utilisation in the window, of one flow with this bottleneck.
fn carried(bottleneck: &str) -> (f64, f64) {
    let network = format!(
        "[network]\ntopology = \"many-to-one\"\naccess = {{ rate = \"40 Gbps\" }}\nreturn = {{ delay = \"100 us\" }}\n\
         bottleneck = {{ rate = \"10 Gbps\", {bottleneck} }}\n\n[hosts]\nrcvbuf_initial = \"8 MiB\"\nrcvbuf_max = \"512 MiB\"\n"
    );
    let text = with_rest(&network, "s1", "r");
    let text = text.replace("size = \"100 kB\"\n", "").replace(
        "duration = \"1 s\"\nuntil_done = true",
        "duration = \"100 ms\"\nmeasure_from = \"50 ms\"",
    );
    let experiment = parsed("net.toml", &text, &Overrides::default());
    let swept = run_into(&Scratch::new(), &experiment, &simulated()).unwrap();
    let subjects = &swept.tables[0].subjects;
    let mean = |index: usize, metric| subjects[index].metric(metric).unwrap().mean.unwrap();
    (mean(0, Metric::Goodput), mean(1, Metric::WindowUtilisation))
}

#[test]
fn what_goes_around_frames_takes_time_and_no_room() {
    let step = "queue = { kind = \"step\", limit = \"1000 pkts\", k = \"65 pkts\" }";
    // Decided at arrival, at departure, and behind a bucket.
    let at_dequeue = step.replace("k =", "mark_when = \"dequeue\", k =");
    let bucket = format!("burst = \"2 pkts\", {step}");
    for queue in [step, &at_dequeue, &bucket] {
        let (without, used) = carried(queue);
        assert!((without / 1e10 - 1448.0 / 1514.0).abs() < 6e-4, "{queue}: {without}");
        assert!((0.999..1.0005).contains(&used), "{queue}: {used}");
        let (with, used) = carried(&format!("overhead = \"24 B\", {queue}"));
        assert!((with / 1e10 - 1448.0 / 1538.0).abs() < 6e-4, "{queue}: {with}");
        assert!((0.999..1.0005).contains(&used), "{queue}: {used}");
    }
    // Ideal times of transfers know of it.
    let of = |bottleneck: &str| {
        let network = format!(
            "[network]\ntopology = \"many-to-one\"\naccess = {{ rate = \"40 Gbps\" }}\nbottleneck = {{ rate = \"10 Gbps\", {bottleneck} }}\n"
        );
        load(&with_rest(&network, "s1", "r")).unwrap().network
    };
    let network = of(&format!("overhead = \"24 B\", {step}"));
    let ns = Ideal::new(&network).transfer(0, 1, 1_448_000).unwrap().ns();
    assert_eq!(ns, 1000 * 1538 * 8 / 10);
}

#[test]
fn what_goes_around_frames_is_named_and_needs_a_rate() {
    let network =
        fat_tree(4).replacen("delay = \"1 us\"", "delay = \"1 us\", overhead = \"24 B\"", 1);
    let text = with_rest(&network, "h0.0.0", "h1.0.0");
    let experiment = parsed("net.toml", &text, &Overrides::default());
    let explained =
        knee_evidence::explain::explain(&experiment, "knee run net.toml", &|_| None).unwrap();
    assert!(
        explained.contains("10.00 Gbps, 24 B around each frame, delay 1.000 us"),
        "{explained}"
    );
    let text = network.replacen("rate = \"10 Gbps\", ", "", 1);
    let refused = load(&with_rest(&text, "h0.0.0", "h1.0.0")).unwrap_err();
    assert!(refused.contains("overhead = \"24 B\": needs a rate"), "{refused}");
}
