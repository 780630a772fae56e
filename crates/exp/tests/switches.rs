//! What switches have beside the queues of their ports: what a file says becomes the run, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_exp::{Error, Experiment, Overrides};
use knee_queue::time::Duration;
use knee_sim::spec::{Run, Stops, Thresholds};

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
    let links = |index: usize| -> Vec<&str> {
        let links = buffers[index].links.iter();
        links.map(|link| run.network.links[*link as usize].name.as_str()).collect()
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
