//! Cases of results against each other: which is better, by how much, and how sure that is.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_evidence::compare::{Answer, Answers, Picked, answers, answers_json, render_answers};
use knee_scenario::{Error, Overrides};

use crate::common;
use common::*;

/// Two algorithms whose transfers differ much, in three runs and in eight.
pub(crate) const RACK: &str = r#"question = "Which is better?"
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

/// What of an answer follows from the runs, and not from the order of rows.
fn row<'a>(
    json: &'a serde_json::Value,
    at: &str,
    stat: &str,
    figure: &str,
) -> &'a serde_json::Value {
    let (metric, subject) = figure.split_once(" of ").unwrap();
    let rows = json["figures"].as_array().unwrap();
    let is_it = |row: &&serde_json::Value| {
        [&row["at"], &row["stat"], &row["metric"], &row["subject"]] == [at, stat, metric, subject]
    };
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{at} {stat} {figure}: {json:#}"))
}

#[test]
fn the_report_has_a_sentence_for_each_place_and_a_table_for_each_answer() {
    let scratch = Scratch::new();
    run(&scratch, RACK);
    let dir = scratch.path().join("mix");
    let answered = of(&dir, &["cubic", "dctcp"], None).unwrap();
    let text = render_answers(&answered, false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("cubic: {}, case cubic (baseline)", dir.display()));
    assert!(lines[2].trim_start().starts_with("dctcp differs in case.cc (cubic; dctcp)"), "{text}");
    for k in ["20", "60"] {
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("dctcp, k = {k} pkts: "))),
            "{text}"
        );
    }
    let better = text.split("better than cubic").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(better.lines().nth(1).unwrap().contains("95 % interval"), "{text}");
    assert!(better.contains("p99 of completion of short"), "{text}");
    assert!(text.contains("Runs are paired by seed. Holm's correction for"), "{text}");
    assert!(text.contains("--all shows them"), "{text}");
    // The others are figures that are the same, and the median.
    let all = render_answers(&answered, true);
    assert!(
        !text.contains("p50 of completion of short") && all.contains("p50 of completion of short")
    );
    assert!(all.lines().count() > lines.len() && !all.contains("--all shows them"), "{all}");
}

#[test]
fn json_has_each_figure_with_its_ends_and_another_baseline_turns_it_round() {
    let scratch = Scratch::new();
    // Nothing is lost or cut off, so each figure is known.
    let whole = RACK.replace("400 pkts", "20000 pkts");
    run(&scratch, &whole.replace("duration = \"200 ms\"", "duration = \"900 ms\""));
    let dir = scratch.path().join("mix");
    let json = |baseline| answers_json(&of(&dir, &["cubic", "dctcp"], baseline).unwrap());
    let (to_cubic, to_dctcp) = (json(None), json(Some("dctcp")));
    assert_eq!((&to_cubic["baseline"], &to_dctcp["baseline"]), (&"cubic".into(), &"dctcp".into()));
    assert_eq!(to_dctcp["cases"][1]["name"], "cubic");
    assert_eq!((&to_cubic["correction"], &to_cubic["within"]), (&"Holm".into(), &0.05.into()));
    let all = to_cubic["figures"].as_array().unwrap();
    let questions = all.iter().filter(|row| row["is_question"] == true && row["p"].is_number());
    assert_eq!(to_cubic["questions"], questions.count());
    for (stat, figure) in [
        ("mean", "completion of short"),
        ("p99", "completion of short"),
        ("mean", "queue of switch-r"),
    ] {
        let at = "k = 20 pkts";
        let [one, other] = [&to_cubic, &to_dctcp].map(|json| row(json, at, stat, figure));
        let number = |row: &serde_json::Value, key: &str| {
            row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row:#}"))
        };
        assert_eq!((&one["case"], &other["case"]), (&"dctcp".into(), &"cubic".into()));
        assert_eq!((&one["runs"], &one["is_paired"]), (&8.into(), &true.into()));
        // The ratio is between its ends, and the other way round it is the inverse.
        let (low, ratio, high) =
            (number(one, "ratio_low"), number(one, "ratio"), number(one, "ratio_high"));
        assert!(low < ratio && ratio < high && ratio < 1.0, "{one:#}");
        for (product, what) in [
            (ratio * number(other, "ratio"), "ratio"),
            (low * number(other, "ratio_high"), "end"),
            (number(one, "p") / number(other, "p"), "p"),
            (number(one, "difference") / -number(other, "difference"), "difference"),
            (number(one, "mean") / number(other, "baseline"), "mean"),
        ] {
            assert!((product - 1.0).abs() < 1e-4, "{what} of {figure}: {product}");
        }
        assert!(number(one, "p_corrected") >= number(one, "p"));
        let answers = (one["answer"].as_str().unwrap(), other["answer"].as_str().unwrap());
        assert!(matches!(answers, ("better", "worse") | ("unknown", "unknown")), "{answers:?}");
    }
    assert_eq!(row(&to_cubic, "k = 20 pkts", "mean", "queue of switch-r")["answer"], "better");
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
