//! Cases of results against each other: which is better, by how much, and how sure that is.

use std::path::Path;

use knee_evidence::compare::{Answer, Answers, Picked, answers, render_answers};
use knee_scenario::{Error, Overrides};

use crate::common;
use common::*;

/// Two algorithms whose transfers differ much, in three runs and in eight.
const RACK: &str = r#"question = "Which is better?"
cc = ["cubic", "dctcp"]

[network]
topology = "many-to-one"
senders = 3
access = { rate = "1 Gbps" }
bottleneck = { rate = "1 Gbps", delay = "50 us", queue = { kind = "step", limit = "400 pkts", k = "20 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
start_jitter = "2 ms"

[[traffic]]
name = "short"
kind = "bulk"
from = "s3"
to = "r"
size = "10 kB"
flows = 150
start = "10 ms"
start_jitter = "150 ms"

[vary]
"network.bottleneck.queue.k" = ["20 pkts", "60 pkts"]

[run]
duration = "200 ms"
repeat = 8

[sample]
queues = "1 ms"
"#;

fn run(scratch: &Scratch, text: &str) {
    let experiment = parsed("mix.toml", text, &Overrides::default());
    run_into(scratch, &experiment, &simulated()).unwrap_or_else(|error| panic!("{error}"));
}

fn of(dir: &Path, cases: &[&str], baseline: Option<&str>) -> Result<Answers, Error> {
    let pick = |case: &&str| Picked { dir: dir.to_owned(), case: (*case).to_owned() };
    answers(&cases.iter().map(pick).collect::<Vec<_>>(), baseline, 0.05)
}

#[test]
fn cases_are_answered_by_pairs_of_runs() {
    let scratch = Scratch::new();
    run(&scratch, RACK);
    let dir = scratch.path().join("mix");
    let answered = of(&dir, &["cubic", "dctcp"], None).unwrap();
    let find = |answered: &Answers, metric: &str, at: &str, stat: &str| {
        let row = answered.rows.iter().find(|row| {
            row.metric.name() == metric && row.at.ends_with(at) && row.stat.name() == stat
        });
        row.unwrap_or_else(|| panic!("{metric} {at}")).clone()
    };
    // With K = 20 the queue is a fraction of what CUBIC fills.
    let queue = find(&answered, "queue", "k = 20 pkts", "mean");
    assert_eq!(
        (queue.answer, queue.is_question, queue.contrast.runs),
        (Answer::Better, true, (8, 8))
    );
    let tail = find(&answered, "completion", "k = 20 pkts", "p99");
    assert!(tail.is_question && tail.contrast.is_paired, "{tail:?}");
}

#[test]
fn what_runs_do_not_resolve_is_absent_and_said() {
    let scratch = Scratch::new();
    let few = RACK.replace("flows = 150", "flows = 60").replace("repeat = 8", "repeat = 3");
    run(&scratch, &few);
    let answered = of(&scratch.path().join("mix"), &["cubic", "dctcp"], None).unwrap();
    let has_tail =
        |row: &knee_evidence::compare::Answered| row.subject == "short" && row.stat.name() == "p99";
    assert!(!answered.rows.iter().any(has_tail));
    let text = render_answers(&answered, false);
    assert!(text.contains("p99 is absent where a run has fewer than 100 values"), "{text}");
    assert!(text.contains("Runs are not paired by seed") && text.contains("--repeat 10"), "{text}");
}

#[test]
fn cases_that_are_not_there_are_refused() {
    let scratch = Scratch::new();
    run(&scratch, &RACK.replace("repeat = 8", "repeat = 1"));
    let dir = scratch.path().join("mix");
    let why = |cases: &[&str], baseline| of(&dir, cases, baseline).unwrap_err().to_string();
    assert!(
        why(&["cubic", "bbr"], None).ends_with("mix: case: must be one of \"cubic\", \"dctcp\"")
    );
    let baseline = why(&["cubic", "dctcp"], Some("bbr"));
    assert!(baseline.contains("--baseline: must be one of"), "{baseline}");
    // One run tells nothing, but of what is the same.
    let one = of(&dir, &["cubic", "dctcp"], None).unwrap();
    let is_open = |row: &knee_evidence::compare::Answered| {
        row.contrast.p.is_none() && matches!(row.answer, Answer::Unknown | Answer::Same)
    };
    assert!(one.rows.iter().all(is_open), "{}", render_answers(&one, true));
}
