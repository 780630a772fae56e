//! Ports with several queues in a file: what it says becomes the run and the results, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{Scratch, run_into, simulated};
use knee_queue::{Alternate, ClassService, Condition, LimitPer, QueueConfig};
use knee_run::spec::Run;
use knee_scenario::{Experiment, Overrides};

const STEP: &str = r#"{ kind = "step", limit = "100 pkts", k = "20 pkts" }"#;
const CLASSES: &str = r#"{ kind = "classes", class = [
  { name = "ect", dscp = [1, 2], weight = 2, queue = STEP },
  { acks = true, up_to = "100 B", strict = true, queue = { kind = "share", limit = "50 pkts", mark = "10 %" } },
  { name = "rest", queue = { kind = "pie" } },
] }"#;
const TWO: &str = r#"{ kind = "two-buffers", second = ["s2..s3"], queue = STEP }"#;

fn text(queue: &str) -> String {
    let queue = queue.replace("STEP", STEP);
    format!(
        r#"question = "?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 3
access = {{ rate = "1 Gbps" }}
return = {{ delay = "50 us" }}

[network.bottleneck]
rate = "100 Mbps"
queue = {queue}

[hosts]
tcp_ecn = 1

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s3"
to = "r"
dscp = 2
peer_dscp = 7

[[traffic]]
name = "ping"
kind = "ping"
from = "s1"
to = "r"
interval = "1 ms"
dscp = 46

[run]
duration = "30 ms"

[sample]
queues = "1 ms"
"#
    )
}

fn experiment(text: &str) -> Result<Experiment, String> {
    Experiment::parse(Path::new("classes.toml"), text, &Overrides::default())
        .map_err(|error| error.to_string())
}

fn run(text: &str) -> Run {
    let experiment = experiment(text).unwrap_or_else(|error| panic!("{error}"));
    experiment.run(experiment.run_id(0)).unwrap()
}

fn bottleneck(run: &Run) -> &QueueConfig {
    &run.network.links[run.network.link_named("switch-r").unwrap() as usize].queue
}

#[test]
fn classes_are_what_the_file_says() {
    let run = run(&text(CLASSES));
    let QueueConfig::Classes(config) = bottleneck(&run) else { panic!("classes") };
    assert_eq!(config.quantum_bytes, 1514);
    let [ect, second, rest] = &config.classes[..] else { panic!("{config:?}") };
    assert_eq!([&ect.name, &second.name, &rest.name], ["ect", "2", "rest"]);
    assert_eq!(ect.condition, Condition { dscps: Some(0b110), ..Condition::default() });
    assert_eq!((ect.service, second.service), (ClassService::Weighted(2), ClassService::Strict));
    assert_eq!((second.condition.acks, second.condition.up_to_bytes), (true, Some(100)));
    let (QueueConfig::Share(share), QueueConfig::Pie(pie)) = (&second.queue, &rest.queue) else {
        panic!("{config:?}")
    };
    assert!(share.seed != 0 && pie.seed != 0 && share.seed != pie.seed, "each draws by itself");

    let flow = &run.flows[0];
    assert_eq!((flow.dscp, flow.peer_dscp, run.pings[0].dscp), (2, 7, 46));
}

#[test]
fn inputs_of_the_second_buffer_are_links_to_the_switch() {
    let run = run(&text(TWO));
    let QueueConfig::TwoBuffers(config) = bottleneck(&run) else { panic!("two buffers") };
    assert_eq!((config.alternate, config.limit_per), (Alternate::Packets, LimitPer::Buffer));
    let names: Vec<_> = config
        .second
        .iter()
        .filter_map(|link| run.network.link_names().nth(*link as usize))
        .collect();
    assert_eq!(names, ["s2-switch", "s3-switch"]);
}

#[test]
fn each_class_is_a_subject_of_its_own() {
    for (queue, parts) in [(CLASSES, vec!["ect", "2", "rest"]), (TWO, vec!["first", "second"])] {
        let scratch = Scratch::new();
        let experiment = Arc::new(experiment(&text(queue)).unwrap());
        run_into(&scratch, &experiment, &simulated()).unwrap();
        let files = scratch.files("classes");
        let column = |file: &str, column: usize| -> Vec<String> {
            let cell = |line: &str| line.split(',').nth(column).unwrap().to_owned();
            files[file].lines().skip(1).map(cell).collect()
        };
        let header = files["queues.csv"].lines().next().unwrap();
        let at = header.split(',').position(|name| name == "link").unwrap();
        let expected: Vec<String> = std::iter::once("switch-r".to_owned())
            .chain(parts.iter().map(|part| format!("switch-r/{part}")))
            .collect();
        assert_eq!(column("queues.csv", at), expected);
        for name in &expected {
            let samples = files["series-queues.csv"]
                .lines()
                .filter(|line| line.split(',').any(|cell| cell == name));
            assert!(samples.count() >= 29, "{name}");
            assert!(files["measures.csv"].contains(&format!(",{name},queue,")), "{name}");
        }
    }
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |queue: &str| experiment(&text(queue)).err().unwrap_or_else(|| "accepted".into());
    let classes = |from: &str, to: &str| {
        assert!(CLASSES.contains(from), "{from}");
        refused(&CLASSES.replace(from, to))
    };
    for (said, expected) in [
        (
            refused(r#"{ kind = "classes", class = [] }"#),
            "must have 1 to 64 classes, as in class = [",
        ),
        (classes("name = \"rest\",", "dscp = 0,"), "the last class must have no condition"),
        (classes("dscp = [1, 2], ", ""), "a class without a condition takes every packet"),
        (classes("[1, 2]", "64"), "must be a whole number from 0 to 63, or a list"),
        (classes("[1, 2]", "[]"), "must be a whole number from 0 to 63, or a list"),
        (classes("weight = 2", "weight = 0"), "must be a whole number from 1 to 1000000"),
        (classes("\"rest\"", "\"ect\""), "must differ from the other classes' names (\"ect\")"),
        (
            classes("strict = true", "strict = true, weight = 1"),
            "conflicts with strict priority: leave one out",
        ),
        (
            refused(
                &CLASSES
                    .replace("class =", "service = \"strict\", class =")
                    .replace("weight = 2, ", ""),
            ),
            "conflicts with service = \"strict\"",
        ),
        (classes("class =", "quantum = \"10 B\", class ="), "the quantum at least 64 B"),
        (classes("queue = { kind = \"pie\" }", ""), "missing, as in queue = { ... }"),
        (
            refused(&TWO.replace("s2..s3", "s4")),
            "must name hosts or switches linked to the switch of this port: \"s4\" is not",
        ),
        (refused(&TWO.replace("s2..s3", "r..")), "must be a host or a range of hosts"),
        (
            refused(
                r#"{ kind = "two-buffers", second = "s1", limit_per = "port", queue = { kind = "pie" } }"#,
            ),
            "one limit for both buffers needs a queue that decides at arrival",
        ),
    ] {
        assert!(said.contains(expected), "{said}\nexpected: {expected}");
        assert!(said.contains("network.bottleneck.queue"), "{said}");
    }
    let dscp = text(TWO).replace("dscp = 46", "dscp = 64");
    assert!(experiment(&dscp).unwrap_err().contains("traffic.ping.dscp"));
    let echoes = text(TWO).replace("dscp = 46", "peer_dscp = 46");
    assert!(experiment(&echoes).unwrap_err().contains("unknown key"), "echoes are copies");
}
