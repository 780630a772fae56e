//! What switches have beside the queues of their ports: what a file says becomes the run, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;
use std::sync::Arc;

use knee_evidence::explain::explain;
use knee_queue::time::Duration;
use knee_run::spec::{
    Adaptive, Balance, ByRate, Coalesce, Order, Run, Stops, SwitchBalance, Thresholds, Weights,
};
use knee_scenario::{Error, Experiment, Overrides};

use crate::common::*;

const FABRIC: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 3
up = { rate = "10 Gbps", delay = "1 us" }
down = { rate = "10 Gbps", queue = { kind = "step", limit = "4 MB", k = "65 pkts" } }
fabric = { rate = "40 Gbps", queue = { kind = "step", limit = "4 MB", k = "200 pkts" } }
BUFFERS

[[traffic]]
name = "bulk"
kind = "bulk"
from = "h0.0..h0.2"
to = "h1.0"
size = "1 MB"

[run]
duration = "1 s"
"#;

fn read(buffers: &str) -> Result<Run, Error> {
    let text = FABRIC.replace("BUFFERS", buffers);
    let experiment = Experiment::parse(Path::new("f.toml"), &text, &Overrides::default())?;
    Ok(experiment.run(experiment.run_id(0)).unwrap())
}

fn run(buffers: &str) -> Run {
    read(buffers).unwrap_or_else(|error| panic!("{error}"))
}

fn error(buffers: &str) -> String {
    read(buffers).expect_err("it must be refused").to_string()
}

#[test]
fn every_switch_has_the_buffer_and_some_have_one_of_their_own() {
    let run = run("buffer = { size = \"4 MB\", alpha = 0.25, reserved = \"3 kB\" }\n\
                   [[network.buffers]]\nswitches = \"spine0\"\nsize = \"16 MB\"\nalpha = \"1/128\"\n\
                   record = false");
    let buffers = &run.network.buffers;
    let names: Vec<_> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    assert_eq!(names, ["buffer leaf0", "buffer leaf1", "buffer spine0"]);
    let links = |index: usize| -> Vec<String> {
        let links = buffers[index].links.iter();
        links.map(|link| run.network.link_name(&run.network.links[*link as usize])).collect()
    };
    assert_eq!(links(0), ["leaf0-h0.0", "leaf0-h0.1", "leaf0-h0.2", "leaf0-spine0"]);
    assert_eq!(links(2), ["spine0-leaf0", "spine0-leaf1"]);
    let law = buffers[0].law;
    assert_eq!((law.size_bytes, law.alpha, law.reserved_bytes), (4_000_000, 0.25, 3_000));
    assert!(buffers[0].sampled);
    let law = buffers[2].law;
    assert_eq!((law.size_bytes, law.alpha, law.reserved_bytes), (16_000_000, 1.0 / 128.0, 0));
    assert!(!buffers[2].sampled);
}

#[test]
fn without_the_key_nothing_is_shared() {
    assert!(run("").network.buffers.is_empty());
}

#[test]
fn mistakes_are_named_with_their_key() {
    let message = error("buffer = { size = \"4 MB\", alpha = 0 }");
    assert!(message.contains("network.buffer.alpha") && message.contains("1/65536"), "{message}");
    assert!(error("buffer = { alpha = 1 }").contains("size: missing"));
    assert!(error("buffer = { size = \"1 kB\" }").contains("1514 B"));
    assert!(error("buffer = { size = \"4 MB\", reserved = \"1.1 MB\" }").contains("4 ports"));
    let one = |keys: &str| error(&format!("[[network.buffers]]\n{keys}"));
    assert!(one("switches = \"h0.0\"\nsize = \"1 MB\"").contains("leaf0, leaf1, spine0"));
    assert!(one("size = \"1 MB\"").contains("switches: missing"));
    assert!(one("switches = \"leaf0\"\nsize = \"1 MB\"\nalhpa = 1").contains("alpha"));
}

#[test]
fn pauses_have_defaults_and_are_checked() {
    let pause = run("flow_control = { kind = \"pause\", xoff = \"100 kB\" }");
    let spec = pause.network.flow_control.unwrap();
    let Stops::Links(Thresholds { xoff_bytes, xon_bytes }) = spec.stops else { panic!("{spec:?}") };
    assert_eq!((xoff_bytes, xon_bytes, spec.quanta), (100_000, 50_000, 65_535));
    assert!(spec.lossless && spec.reaction == Duration::from_us(1));
    let error = |keys: &str| error(&format!("flow_control = {{ {keys} }}"));
    assert!(error("kind = \"pauses\", xoff = \"1 kB\"").contains("pause"));
    assert!(error("kind = \"pause\"").contains("xoff: missing"));
    assert!(error("kind = \"pause\", xoff = \"1 kB\", xon = \"2 kB\"").contains("above xoff"));
    assert!(error("kind = \"pause\", xoff = \"1 kB\", quanta = 65536").contains("65535"));
}

/// The same network, in which every port has two classes.
const CLASSES: &str = r#"{ kind = "classes", class = [
  { name = "storage", dscp = 1, queue = { kind = "droptail", limit = "4 MB" } },
  { name = "rest", queue = { kind = "step", limit = "4 MB", k = "65 pkts" } },
] }"#;

fn with_classes(flow_control: &str) -> Result<Run, Error> {
    let queues = FABRIC
        .replace(r#"rate = "10 Gbps", delay = "1 us" }"#, "rate = \"10 Gbps\", queue = CLASSES }")
        .replace(r#"{ kind = "step", limit = "4 MB", k = "65 pkts" }"#, "CLASSES")
        .replace(r#"{ kind = "step", limit = "4 MB", k = "200 pkts" }"#, "CLASSES");
    assert_eq!(queues.matches("CLASSES").count(), 3);
    let text = queues
        .replace("CLASSES", CLASSES)
        .replace("BUFFERS", &format!("flow_control = {{ {flow_control} }}"));
    let experiment = Experiment::parse(Path::new("f.toml"), &text, &Overrides::default())?;
    Ok(experiment.run(experiment.run_id(0)).unwrap())
}

#[test]
fn pauses_of_classes_are_what_the_file_says() {
    let one = r#"kind = "pfc", quanta = 100, class = [{ name = "storage", xoff = "100 kB" }]"#;
    let run = with_classes(one).unwrap_or_else(|error| panic!("{error}"));
    knee_run::validate(&run).unwrap();
    let spec = run.network.flow_control.unwrap();
    assert!(spec.lossless && spec.quanta == 100 && spec.reaction == Duration::from_us(1));
    let Stops::Classes(classes) = spec.stops else { panic!("{spec:?}") };
    let [class] = &classes[..] else { panic!("{classes:?}") };
    let thresholds = Thresholds { xoff_bytes: 100_000, xon_bytes: 50_000 };
    assert_eq!((class.name.as_str(), class.thresholds), ("storage", thresholds));
}

#[test]
fn classes_that_cannot_be_paused_are_named_with_their_key() {
    let refused = |keys: &str| with_classes(keys).expect_err("it must be refused").to_string();
    let class = |class: &str| refused(&format!("kind = \"pfc\", class = [{class}]"));
    for (said, key, expected) in [
        (refused("kind = \"pfc\""), "class", "must name 1 to 8 classes, as in class = ["),
        (class(""), "class", "must name 1 to 8 classes"),
        (refused("kind = \"pfc\", xoff = \"1 kB\""), "xoff", "belongs to each class"),
        (class("{ name = \"storag\", xoff = \"1 kB\" }"), "name", "did you mean \"storage\"?"),
        (class("{ xoff = \"1 kB\" }"), "name", "missing"),
        (class("{ name = \"storage\" }"), "xoff", "missing"),
        (class("{ name = \"storage\", xoff = \"1 kB\", xon = \"2 kB\" }"), "xon", "above xoff"),
        (
            class(&["{ name = \"rest\", xoff = \"1 kB\" }"; 2].join(", ")),
            "name",
            "must differ from that of another class",
        ),
    ] {
        assert!(said.contains(expected), "{said}\nexpected: {expected}");
        assert!(said.contains("network.flow_control") && said.contains(key), "{said}");
    }
    let without =
        error("flow_control = { kind = \"pfc\", class = [{ name = \"a\", xoff = \"1 kB\" }] }");
    assert!(without.contains("needs queues of kind \"classes\""), "{without}");
}

#[test]
fn flow_control_may_be_that_of_some_switches() {
    let of = |switches: &str| {
        let keys = format!("kind = \"pause\", xoff = \"100 kB\", switches = {switches}");
        read(&format!("flow_control = {{ {keys} }}"))
    };
    let names = |switches: &str| -> Vec<String> {
        let run = of(switches).unwrap_or_else(|error| panic!("{error}"));
        knee_run::validate(&run).unwrap();
        let switches = run.network.flow_control.unwrap().switches.unwrap();
        switches.iter().map(|id| run.network.nodes[*id as usize].name.clone()).collect()
    };
    assert_eq!(names("\"leaf1\""), ["leaf1"]);
    assert_eq!(names("[\"leaf0..leaf1\", \"spine0\"]"), ["leaf0", "leaf1", "spine0"]);
    let all = run("flow_control = { kind = \"pause\", xoff = \"100 kB\" }");
    assert_eq!(all.network.flow_control.unwrap().switches, None);
    for wrong in ["\"leaf2\"", "\"h0.0\"", "\"leaf1..leaf0\"", "\"\""] {
        let said = of(wrong).expect_err("it must be refused").to_string();
        assert!(said.contains("network.flow_control.switches"), "{said}");
        assert!(said.contains("(leaf0, leaf1, spine0)"), "{said}");
    }
    assert!(of("[]").expect_err("none is named").to_string().contains("at least one"));
    let one =
        r#"kind = "pfc", switches = "spine0", class = [{ name = "storage", xoff = "100 kB" }]"#;
    let run = with_classes(one).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run.network.flow_control.unwrap().switches.map(|all| all.len()), Some(1));
}

/// The links whose packets wait at their ports.
fn ports(run: &Run) -> Vec<String> {
    let links = run.network.ports.iter().map(|port| &run.network.links[port.link as usize]);
    links.map(|link| run.network.link_name(link)).collect()
}

#[test]
fn ports_of_switches_coalesce_all_or_those_that_are_named() {
    assert!(run("").network.ports.is_empty());
    let all = run("coalesce = { time = \"140 us\", frames = 64 }");
    let time = Duration::from_us(140);
    let wanted = Coalesce::fixed(Some(64), time);
    assert!(all.network.ports.iter().all(|port| port.coalesce == wanted));
    // Both leaves have three hosts and a spine, which has both.
    assert_eq!(ports(&all).len(), 10);
    knee_run::validate(&all).unwrap();
    let leaf = run("coalesce = { time = \"140 us\", adaptive = true, switches = \"leaf0\" }");
    assert_eq!(ports(&leaf), ["h0.0-leaf0", "h0.1-leaf0", "h0.2-leaf0", "spine0-leaf0"]);
    assert_eq!(leaf.network.ports[0].coalesce.adaptive, Some(Adaptive::Rate(ByRate::default())));
    let from = "from = [\"h0.1..h0.2\", \"leaf1\", \"h0.1\"]";
    let some = run(&format!("coalesce = {{ time = \"1 us\", {from} }}"));
    assert_eq!(ports(&some), ["h0.1-leaf0", "h0.2-leaf0", "leaf1-spine0"]);
}

#[test]
fn ports_that_cannot_be_are_named_with_their_key() {
    let refused = |keys: &str| error(&format!("coalesce = {{ {keys} }}"));
    for (keys, key, expected) in [
        ("frames = 64", "time", "missing"),
        ("time = \"1 us\", frames = 0", "frames", "from 1 to 65536"),
        ("time = \"1 us\", rate_low = 1", "rate_low", "needs adaptive"),
        ("time = \"1 us\", form = \"h0.0\"", "form", "did you mean \"from\"?"),
        ("time = \"1 us\", switches = \"leaf7\"", "switches", "(leaf0, leaf1, spine0)"),
        ("time = \"1 us\", from = \"h7.0\"", "from", "\"h7.0\" is not"),
        ("time = \"1 us\", from = \"h0.0\", switches = \"leaf1\"", "from", "\"h0.0\" is not"),
    ] {
        let said = refused(keys);
        assert!(said.contains(&format!("network.coalesce.{key}")), "{said}");
        assert!(said.contains(expected), "{said}\nexpected: {expected}");
    }
    // What contradicts itself beside flow control is for the simulator to say.
    let both = "coalesce = { time = \"1 us\", switches = \"leaf0\" }\nflow_control = { kind = \"pause\", xoff = \"10 kB\"SWITCHES }";
    let said = |switches: &str| {
        let run = run(&both.replace("SWITCHES", switches));
        knee_run::validate(&run).map_or_else(|why| why.to_string(), |()| String::new())
    };
    assert!(said("").contains("leaf0 is a software router"), "{}", said(""));
    assert_eq!(said(", switches = [\"leaf1\", \"spine0\"]"), "");
}

#[test]
fn explanations_say_what_switches_do() {
    let keys = "flow_control = { kind = \"pause\", xoff = \"100 kB\", switches = \"leaf1\" }\n\
                coalesce = { time = \"140 us\", frames = 64, switches = \"leaf0\" }";
    let text = FABRIC.replace("BUFFERS", keys);
    let experiment = Experiment::parse(Path::new("f.toml"), &text, &Overrides::default()).unwrap();
    let said = explain(&experiment, "knee run", &|_| None).unwrap();
    let stops = "flow control of leaf1: links stop above 100 kB, on at 50 kB\n";
    assert!(said.contains(stops), "{said}");
    let waits = "interrupts of all ports of leaf0 are delayed 140 us or for 64 frames\n";
    assert!(said.contains(waits), "{said}");
    let text = text.replace("switches = \"leaf0\"", "from = \"h0.1..h0.2\"");
    let experiment = Experiment::parse(Path::new("f.toml"), &text, &Overrides::default()).unwrap();
    let said = explain(&experiment, "knee run", &|_| None).unwrap();
    let waits =
        "interrupts of the ports to h0.1, h0.2 of leaf0 are delayed 140 us or for 64 frames\n";
    assert!(said.contains(waits), "{said}");
}

#[test]
fn flows_lose_more_at_a_router_that_forwards_in_bursts() {
    let scratch = Scratch::new();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples/router-bursts.toml");
    let set = ["run.duration=\"2 s\"", "network.coalesce.time=[\"0 s\", \"140 us\"]"];
    let overrides = Overrides {
        set: set.map(str::to_owned).to_vec(),
        cc: vec!["reno".to_owned()],
        repeat: Some(1),
        ..Overrides::default()
    };
    let experiment = Arc::new(Experiment::load(&file, &overrides).unwrap());
    let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
    let share = |row: usize| {
        let port = swept.tables[row].subjects.iter().find(|of| of.name == "switch-r").unwrap();
        port.metric(knee_scenario::metric::Metric::DropShare).unwrap().mean.unwrap()
    };
    let (at_once, in_bursts) = (share(0), share(1));
    assert!(
        at_once > 0.05 && in_bursts > 1.1 * at_once,
        "{at_once} at once, {in_bursts} in bursts"
    );
}

/// The choice of each switch that has one, by name.
fn balances(run: &Run) -> Vec<(&str, Balance)> {
    let named = |SwitchBalance { switch, balance }: &SwitchBalance| {
        (run.network.nodes[*switch as usize].name.as_str(), balance.clone())
    };
    run.network.balance.iter().map(named).collect()
}

#[test]
fn every_switch_has_the_choice_and_some_have_one_of_their_own() {
    assert!(balances(&run("")).is_empty());
    assert!(
        balances(&run("balance = { kind = \"ecmp\" }")).is_empty(),
        "the default costs nothing"
    );
    let own = "[[network.balances]]\nkind = \"ecmp\"\nswitches = \"leaf1\"\n\
               [[network.balances]]\nkind = \"spray\"\norder = \"round-robin\"\nswitches = [\"spine0\"]";
    let run = run(&format!("balance = {{ kind = \"flowlet\", gap = \"100 us\" }}\n{own}"));
    let flowlet = Balance::Flowlet { gap: Duration::from_us(100), entries: 65_536 };
    let in_turn = Balance::Spray(Order::RoundRobin);
    assert_eq!(balances(&run), [("leaf0", flowlet), ("spine0", in_turn)]);
    let text = FABRIC.replace("BUFFERS", "balance = { kind = \"spray\" }");
    let experiment = Experiment::parse(Path::new("f.toml"), &text, &Overrides::default()).unwrap();
    let said = explain(&experiment, "knee run", &|_| None).unwrap();
    assert!(said.contains("paths of every switch: packets sprayed at random"), "{said}");
}

#[test]
fn weights_go_by_capacity_rate_or_links() {
    let weights = |keys: &str| match balances(&run(&format!("balance = {{ {keys} }}"))).remove(0) {
        ("leaf0", Balance::Weighted(weights)) => weights,
        other => panic!("{other:?}"),
    };
    assert_eq!(weights("kind = \"weighted\""), Weights::Capacity);
    assert_eq!(weights("kind = \"weighted\", by = \"rate\""), Weights::Rate);
    let weight = "weight = [{ from = \"leaf0..leaf1\", to = \"spine0\", weight = 3 }]";
    let Weights::Given(given) = weights(&format!("kind = \"weighted\", {weight}")) else {
        panic!("weights are given")
    };
    let run = run("");
    let named = |(link, weight): &(u32, u32)| {
        (run.network.link_name(&run.network.links[*link as usize]), *weight)
    };
    assert_eq!(given.iter().map(named).collect::<Vec<_>>(), [("leaf0-spine0".to_owned(), 3)]);
}

#[test]
fn mistakes_of_choices_are_named_with_their_key() {
    let said = |keys: &str| error(&format!("balance = {{ {keys} }}"));
    assert!(said("kind = \"hash\"").contains("ecmp"));
    assert!(said("gap = \"1 us\"").contains("kind: missing"));
    assert!(said("kind = \"flowlet\"").contains("gap: missing"));
    assert!(said("kind = \"flowlet\", gap = \"0 us\"").contains("must be above 0"));
    assert!(said("kind = \"flowlet\", gap = \"1 us\", entries = 0").contains("1048576"));
    assert!(said("kind = \"flowlet\", gap = \"1 us\", entries = 9999999").contains("1048576"));
    assert!(said("kind = \"spray\", gap = \"1 us\"").contains("gap"));
    assert!(said("kind = \"spray\", order = \"sorted\"").contains("round-robin"));
    let weight = |ends: &str| said(&format!("kind = \"weighted\", weight = [{{ {ends} }}]"));
    assert!(weight("from = \"leaf0\", to = \"spine0\", weight = 0").contains("65535"));
    assert!(
        weight("from = \"leaf9\", to = \"spine0\", weight = 1")
            .contains("\"leaf9\" does not exist")
    );
    assert!(weight("from = \"h0.0\", to = \"leaf0\", weight = 1").contains("h0.0 is not one"));
    assert!(weight("from = \"leaf0\", to = \"leaf1\", weight = 1").contains("has no link between"));
    let none = said("kind = \"weighted\", weight = []");
    assert!(none.contains("network.balance.weight = "), "{none}");
    assert!(none.contains("at least one entry") && none.contains("or leave it out"), "{none}");
    let twice = said(
        "kind = \"weighted\", weight = [{ from = \"leaf0..leaf1\", to = \"spine0\", weight = 1 }, \
         { from = \"leaf1\", to = \"spine0\", weight = 2 }]",
    );
    assert!(twice.contains("network.balance.weight.2.to = \"spine0\""), "{twice}");
    assert!(twice.contains("leaf1-spine0, which has a weight already"), "{twice}");
    assert!(twice.contains("leave it out of one entry") && !twice.contains('\n'), "{twice}");
    let both = "kind = \"weighted\", by = \"rate\", weight = []";
    assert!(said(both).contains("conflicts with weight"));
    let some = error("[[network.balances]]\nkind = \"spray\"\nswitches = \"h0.0\"");
    assert!(some.contains("must name switches"), "{some}");
    assert!(error("[[network.balances]]\nkind = \"spray\"").contains("switches: missing"));
}
