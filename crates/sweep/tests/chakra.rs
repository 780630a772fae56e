//! Chakra execution traces: from files to the measure. Files here are written by an encoder that shares nothing with the
//! reader; `scenarios/traces` has some that the official schema's own encoder wrote.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_run::outcome::Outcome;
use knee_run::spec::Traffic;
use knee_scenario::{Experiment, Overrides};
use knee_sim::simulate;

use crate::common;
use common::*;

const EXPERIMENT: &str = r#"question = "?"
cc = ["cubic"]

[network]
topology = "star"
hosts = 8
up = { rate = "10 Gbps", delay = "5 us" }
down = { rate = "10 Gbps", delay = "5 us", queue = { kind = "droptail", limit = "5000 pkts" } }

[run]
duration = "2 s"
until_done = true

[[traffic]]
name = "job"
kind = "chakra"
"#;

const COMP: u64 = 4;
const SEND: u64 = 5;
const RECV: u64 = 6;
const COLL: u64 = 7;

const ALL_REDUCE: i64 = 0;
const ALL_GATHER: i64 = 2;
const BROADCAST: i64 = 5;
const ALL_TO_ALL: i64 = 6;
const REDUCE_SCATTER: i64 = 7;
const BARRIER: i64 = 9;

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field that is a number.
fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A field that is bytes behind their length.
fn block(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// A node as bytes.
struct Node(Vec<u8>);

fn node(id: u64, kind: u64, after: &[u64], us: u64) -> Node {
    let mut out = Vec::new();
    number(&mut out, 1, id);
    block(&mut out, 2, format!("op {id}").as_bytes());
    number(&mut out, 3, kind);
    // Packed, and one by one: readers must take both.
    let mut packed = Vec::new();
    after.iter().for_each(|id| varint(&mut packed, *id));
    block(&mut out, 5, &packed);
    after.iter().for_each(|id| number(&mut out, 4, *id));
    number(&mut out, 7, us);
    Node(out)
}

impl Node {
    fn attribute(mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) -> Node {
        let mut out = Vec::new();
        block(&mut out, 1, name.as_bytes());
        value(&mut out);
        block(&mut self.0, 10, &out);
        self
    }

    fn int(self, name: &str, value: i64) -> Node {
        self.attribute(name, |out| number(out, 9, value as u64))
    }

    fn text(self, name: &str, value: &str) -> Node {
        self.attribute(name, |out| block(out, 29, value.as_bytes()))
    }
}

fn comp(id: u64, after: &[u64], us: u64) -> Node {
    node(id, COMP, after, us)
}

fn send(id: u64, after: &[u64], to: i64, bytes: i64) -> Node {
    node(id, SEND, after, 0).int("comm_dst", to).int("comm_size", bytes)
}

fn recv(id: u64, after: &[u64], from: i64, bytes: i64) -> Node {
    node(id, RECV, after, 0).int("comm_src", from).int("comm_size", bytes)
}

fn coll(id: u64, after: &[u64], kind: i64, bytes: i64) -> Node {
    node(id, COLL, after, 0).int("comm_type", kind).int("comm_size", bytes)
}

fn file(nodes: &[Node]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut metadata = Vec::new();
    block(&mut metadata, 1, b"0.0.4");
    for message in std::iter::once(&metadata).chain(nodes.iter().map(|node| &node.0)) {
        varint(&mut out, message.len() as u64);
        out.extend(message);
    }
    out
}

fn written(files: &[Vec<u8>]) -> Scratch {
    let scratch = Scratch::new();
    for (rank, bytes) in files.iter().enumerate() {
        fs::write(scratch.path().join(format!("t.{rank}.et")), bytes).unwrap();
    }
    scratch
}

fn parse_in(dir: &Path, rest: &str) -> Result<Experiment, String> {
    let text = format!("{EXPERIMENT}{rest}\n");
    let experiment = Experiment::parse(&dir.join("x.toml"), &text, &Overrides::default());
    experiment.map_err(|error| error.to_string())
}

/// The experiment of these files, one a rank, and the folder that they are in.
fn traced(ranks: &[&[Node]], rest: &str) -> Result<(Scratch, Experiment), String> {
    let files: Vec<Vec<u8>> = ranks.iter().map(|nodes| file(nodes)).collect();
    let scratch = written(&files);
    let rest = format!("trace = \"t\"\nhosts = \"h1..h{}\"\n{rest}", ranks.len());
    let experiment = parse_in(scratch.path(), &rest)?;
    Ok((scratch, experiment))
}

fn simulated(experiment: &Experiment) -> (Run, Outcome) {
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = simulate(&run).unwrap();
    assert!(outcome.flows.iter().all(|flow| flow.done_at.is_some()));
    let messages = run.schedule.tasks.iter().filter(|task| task.flow.is_some());
    assert_eq!(outcome.messages.len(), messages.count());
    (run, outcome)
}

/// The bytes of each connection, from small to large.
fn bytes(run: &Run) -> Vec<u64> {
    let bytes = |traffic| match traffic {
        Traffic::Bulk { bytes: Some(bytes) } => bytes,
        _ => 0,
    };
    let mut all: Vec<u64> = run.flows.iter().map(|flow| bytes(flow.traffic)).collect();
    all.sort_unstable();
    all
}

fn last_message(outcome: &Outcome) -> Time {
    outcome.messages.iter().map(|message| message.done).max().unwrap()
}

#[test]
fn files_of_the_official_encoder_are_read() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces");
    let rest = "trace = \"step\"\nhosts = \"h1..h4\"\n";
    let experiment = parse_in(&traces, rest).unwrap();
    let (run, outcome) = simulated(&experiment);
    // Two activations and two gradients of 2 MB between stages, two sums of 8 MB in each of two pairs, one of 4 bytes at all.
    let of = |bytes: u64| [bytes; 4];
    assert_eq!(bytes(&run), [of(6), of(4_000_000), of(16_000_000)].concat());
    // The first stage computes for 1.8 ms forward, and 3.6 ms back; its gradients take 6.4 ms each, one after the other in part.
    let last = last_message(&outcome);
    assert!(last > Time::from_us(1800 + 3600 + 6400), "{last:?}");
    assert!(last < Time::from_us(30_000), "{last:?}");
    // A repetition begins at each rank when it has updated its parameters.
    let experiment = parse_in(&traces, &format!("{rest}iterations = 3\n")).unwrap();
    let (run, outcome) = simulated(&experiment);
    assert_eq!(bytes(&run), [of(18), of(12_000_000), of(48_000_000)].concat());
    let tasks = &run.schedule.tasks;
    let of_round = |round: u32| {
        let all = outcome.messages.iter();
        all.filter(move |message| tasks[message.task as usize].round == round)
    };
    let first = of_round(1).map(|message| message.start).min().unwrap();
    let last = of_round(0).map(|message| message.done).max().unwrap();
    assert!(first > last - Duration::from_us(100) + Duration::from_us(500), "{first:?} {last:?}");
}

#[test]
fn a_job_ends_with_its_last_computation() {
    let ping = [
        comp(1, &[], 1000),
        send(2, &[1], 1, 1_000_000),
        recv(3, &[], 1, 1000),
        comp(4, &[3], 3000),
    ];
    let pong = [recv(7, &[], 0, 1_000_000), comp(8, &[7], 2000), send(9, &[8], 0, 1000)];
    let files = [file(&ping), file(&pong)];
    let scratch = written(&files);
    let rest = "trace = \"t\"\nhosts = [\"h1\", \"h2\"]\nstart = \"2 ms\"\niterations = 2\n";
    let experiment = Arc::new(parse_in(scratch.path(), rest).unwrap());
    let (_, outcome) = simulated(&experiment);
    let starts: Vec<Time> = outcome.messages.iter().map(|message| message.start).collect();
    let done: Vec<Time> = outcome.messages.iter().map(|message| message.done).collect();
    assert_eq!(starts[0], Time::from_ms(3));
    assert_eq!(starts[1], done[0] + Duration::from_ms(2));
    // The second iteration of rank 0 begins behind its last computation.
    assert_eq!(starts[2], done[1] + Duration::from_ms(4));
    run_into(&scratch, &experiment, &common::simulated()).unwrap();
    let summary = scratch.files("x").remove("summary.csv").unwrap();
    let mut lines = summary.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> = lines.collect();
    let mean = |metric: &str| {
        let row = rows.iter().find(|row| row[at("metric")] == metric).unwrap();
        row[at("mean")].parse::<f64>().unwrap()
    };
    let job = (done[3] + Duration::from_ms(3)).since(Time::from_ms(2)).ps() as f64 / 1e12;
    assert!((mean("job") - job).abs() < 1e-8, "{job}");
    assert!((mean("iteration") - job / 2.0).abs() < 1e-8);
    assert!(mean("communication") < mean("iteration") - 3.9e-3);
}

#[test]
fn computations_of_a_stream_are_one_by_one_unless_the_file_says_otherwise() {
    let start = |streams: [i64; 2], rest: &str| {
        let on = |id: u64, stream: i64| comp(id, &[], 1000).int("stream", stream);
        let first = [on(1, streams[0]), on(2, streams[1]), send(3, &[1, 2], 1, 1000)];
        let (_files, experiment) = traced(&[&first, &[recv(1, &[], 0, 1000)]], rest).unwrap();
        simulated(&experiment).1.messages[0].start
    };
    assert_eq!(start([7, 7], ""), Time::from_ms(2));
    assert_eq!(start([7, 8], ""), Time::from_ms(1));
    assert_eq!(start([7, 7], "compute = \"parallel\"\n"), Time::from_ms(1));
}

#[test]
fn collective_operations_send_what_they_must() {
    let of = |kind: i64, size: i64, rest: &str| {
        let nodes = || [coll(1, &[], kind, size)];
        let (a, b, c, d) = (nodes(), nodes(), nodes(), nodes());
        let (_files, experiment) = traced(&[&a, &b, &c, &d], rest).unwrap();
        bytes(&simulated(&experiment).0)
    };
    assert_eq!(of(ALL_REDUCE, 4_000_000, ""), [6_000_000; 4]);
    // Four ranks give 1 MB each.
    assert_eq!(of(ALL_GATHER, 1_000_000, ""), [3_000_000; 4]);
    assert_eq!(of(REDUCE_SCATTER, 4_000_000, ""), [3_000_000; 4]);
    assert_eq!(of(ALL_TO_ALL, 4_000_000, ""), [1_000_000; 12]);
    assert_eq!(of(BROADCAST, 4_000_000, ""), [4_000_000; 3]);
    assert_eq!(of(ALL_REDUCE, 4_000_000, "all_reduce = \"tree\"\n"), [4_000_000; 6]);
    assert_eq!(of(BARRIER, 0, ""), [6; 4]);
    // At least a byte in each message.
    assert_eq!(of(ALL_REDUCE, 1, "channels = 2\n"), [6; 8]);
}

#[test]
fn a_broadcast_begins_at_its_root_and_groups_are_apart() {
    let node = || coll(1, &[], BROADCAST, 1_000_000).int("comm_src", 2).text("pg_name", "right");
    let left = || coll(1, &[], ALL_REDUCE, 2).text("pg_name", "left");
    let files = [file(&[left()]), file(&[node()]), file(&[node()]), file(&[left()])];
    let scratch = written(&files);
    fs::write(scratch.path().join("g.json"), r#"{"right": [1, 2], "left": [3, 0]}"#).unwrap();
    let rest = "trace = \"t\"\nhosts = \"h1..h4\"\ngroups = \"g.json\"\n";
    let (run, _) = simulated(&parse_in(scratch.path(), rest).unwrap());
    let name = |node: u32| run.network.nodes[node as usize].name.as_str();
    let ways: Vec<_> = run.flows.iter().map(|flow| (name(flow.from), name(flow.to))).collect();
    assert_eq!(ways.len(), 3);
    for way in [("h3", "h2"), ("h4", "h1"), ("h1", "h4")] {
        assert!(ways.contains(&way), "{ways:?}");
    }
    let why = parse_in(scratch.path(), "trace = \"t\"\nhosts = \"h1..h4\"\n").unwrap_err();
    assert!(
        why.contains("t.0.et: node 1: its process group \"left\" is in no metadata node"),
        "{why}"
    );
    fs::write(scratch.path().join("g.json"), r#"{"right": [1, 4], "left": [3, 0]}"#).unwrap();
    let why = parse_in(scratch.path(), rest).unwrap_err();
    assert!(why.contains("g.json: process group \"right\" must have ranks from 0 to 3"), "{why}");
}

#[test]
fn operations_that_cannot_be_carried_out_are_refused_with_their_node() {
    let quiet = || comp(1, &[], 1);
    let two = |first: Vec<Node>, second: Vec<Node>| {
        traced(&[&first, &second], "").err().unwrap_or_default()
    };
    let reduce = |id, kind| coll(id, &[], kind, 100);
    let lone = |node: Node| two(vec![node], vec![quiet()]);
    for (why, words) in [
        (lone(node(5, 8, &[], 0)), "t.0.et: node 5 \"op 5\": is a node of type STORAGE_NODE"),
        (lone(node(5, 0, &[], 0)), "INVALID_NODE"),
        (lone(node(5, 77, &[], 0)), "has the type 77"),
        (lone(comp(5, &[], 0).int("num_ops", 9)), "knee does not know how fast the rank is"),
        (lone(node(5, 2, &[], 0)), "knee does not know how fast the memory is"),
        (lone(comp(5, &[], 2_000_000_000_000)), "takes 2000000000000 us"),
        (lone(reduce(5, 1)), "node 5 \"op 5\": is a REDUCE, which knee does not carry out"),
        (lone(reduce(5, 12)), "comm_type is none"),
        (lone(node(5, COLL, &[], 0)), "lacks the attribute comm_type"),
        (lone(node(5, COLL, &[], 0).int("comm_type", 0)), "lacks the attribute comm_size"),
        (lone(reduce(5, 0)), "rank 1 of its process group takes no part"),
        (lone(send(5, &[], 1, 10)), "node 5: sends what rank 1 does not receive with the tag 0"),
        (lone(recv(5, &[], 1, 10)), "node 5: receives what rank 1 does not send"),
        (lone(send(5, &[], 2, 10)), "comm_dst is 2, but ranks are 0 to 1"),
        (lone(send(5, &[], 0, 10)), "from rank 0 to itself"),
        (lone(send(5, &[], -1, 10)), "comm_dst must be a whole number from 0 on"),
        (lone(send(5, &[], 1, 1 << 51)), "at most 2^50"),
        (lone(comp(5, &[6], 1)), "node 5: waits for node 6, which the file does not have"),
        (two(vec![comp(5, &[], 1), comp(5, &[], 1)], vec![]), "has the id of an earlier node"),
        (two(vec![quiet()], vec![quiet()]), "has no node that communicates"),
        (
            two(vec![comp(5, &[6], 1), comp(6, &[5], 1)], vec![]),
            "t.0.et: node 5: waits for nodes that wait for it",
        ),
        (
            two(vec![send(5, &[], 1, 10)], vec![recv(5, &[], 0, 11)]),
            "receives 11 bytes, but node 5 of rank 0 sends 10",
        ),
        (two(vec![reduce(5, 0)], vec![reduce(6, 6)]), "node 5: differs in comm_type"),
        // Each rank waits for what the other one does only later.
        (
            two(
                vec![recv(1, &[], 1, 10), send(2, &[1], 1, 10)],
                vec![recv(1, &[], 0, 10), send(2, &[1], 0, 10)],
            ),
            "here or at another rank",
        ),
        (
            lone(reduce(5, 0).attribute("involved_dim", |out| block(out, 28, &[10, 2, 1, 0]))),
            "is of some dimensions only",
        ),
        (lone(reduce(5, 0).text("pg_name", &"x".repeat(65))), "pg_name is longer than 64 bytes"),
    ] {
        assert!(why.contains(words) && !why.contains('\n'), "{words}: {why:?}");
    }
}

#[test]
fn files_that_are_no_traces_or_too_few_are_refused() {
    let good = || file(&[coll(1, &[], ALL_REDUCE, 100)]);
    let said = |files: &[Vec<u8>], rest: &str| {
        let scratch = written(files);
        parse_in(scratch.path(), &format!("trace = \"t\"\n{rest}")).err().unwrap_or_default()
    };
    let bad = |bytes: Vec<u8>| said(&[bytes, good()], "hosts = \"h1..h2\"");
    let cut = good()[..good().len() - 3].to_vec();
    let mut long = file(&[]);
    varint(&mut long, 2 << 20);
    long.extend(vec![0; 2 << 20]);
    for (why, words) in [
        (bad(Vec::new()), "t.0.et: is empty"),
        (bad(b"id,start_us,from,to,bytes\n".to_vec()), "t.0.et: is no Chakra execution trace"),
        (bad(vec![0x1f, 0x8b, 8, 0]), "is compressed: unpack it with gunzip"),
        (bad(vec![0xff; 20]), "does not begin with a message and its length"),
        (bad(cut), "t.0.et: ends within message 1: it was cut off"),
        (bad(long), "message 1 has 2097152 bytes, but at most 1048576 are allowed"),
        (bad([file(&[]), vec![2, 0xff, 0xff]].concat()), "message 1, which should be a node"),
        (said(&[good()], "hosts = \"h1..h2\""), "each of the 2 hosts needs the file of its rank"),
        (said(&[good(), good()], "hosts = \"h1\""), "must name at least two hosts"),
        (said(&[good(), good(), good()], "hosts = \"h1..h2\""), "must name a host for each rank"),
        (said(&[good(), good()], "hosts = [\"h1\", \"h1\"]"), "h1 is there twice"),
        (said(&[good(), good()], "hosts = \"h1..h2\"\niterations = 2000000"), "fewer iterations"),
    ] {
        assert!(why.contains(words) && !why.contains('\n'), "{words}: {why:?}");
    }
}
