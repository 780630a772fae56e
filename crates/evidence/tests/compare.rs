//! Two results directories side by side.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use knee_evidence::compare::{Comparison, Line, Options as How, Side, compare, json, render};
use knee_evidence::difference::Verdict;
use knee_run::outcome::Validity;
use knee_run::{BackEnd, Capabilities, Run, RunOptions, RunResult};
use knee_scenario::scale::Scale;
use knee_scenario::{Error, Overrides};
use knee_sweep::runs::Options;

use crate::common;
use common::*;

const MIX: &str = r#"question = "Same?"
cc = ["cubic", "dctcp"]

[network]
topology = "many-to-one"
senders = 3
access = { rate = "1 Gbps" }
bottleneck = { rate = "500 Mbps", delay = "50 us", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }

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
size = "50 kB"
flows = 3
start = "20 ms"
start_jitter = "10 ms"

[vary]
"traffic.short.size" = ["20 kB", "50 kB"]

[run]
duration = "60 ms"
repeat = 5

[sample]
queues = "1 ms"
"#;

fn run(scratch: &Scratch, text: &str, overrides: &Overrides, options: &Options) -> PathBuf {
    let experiment = parsed("mix.toml", text, overrides);
    run_into(scratch, &experiment, options).unwrap_or_else(|error| panic!("{error}"));
    let last =
        (1..).map(|n| scratch.path().join(if n == 1 { "mix".into() } else { format!("mix-{n}") }));
    last.take_while(|dir| dir.exists()).last().unwrap_or_else(|| panic!("no results"))
}

fn simulated(scratch: &Scratch, text: &str) -> PathBuf {
    run(scratch, text, &Overrides::default(), &common::simulated())
}

fn compared(a: &Path, b: &Path, force: bool) -> Result<Comparison, Error> {
    compare(Side::read(a)?, Side::read(b)?, How { force, ..How::default() })
}

fn refusal(a: &Path, b: &Path) -> String {
    compared(a, b, false).map(|_| ()).expect_err("it is refused").to_string()
}

#[test]
fn the_same_seeds_agree_without_any_difference() {
    let scratch = Scratch::new();
    let (a, b) = (simulated(&scratch, MIX), simulated(&scratch, MIX));
    let comparison = compared(&a, &b, false).unwrap();
    // Bulk, short and the queue of two cases at two points.
    assert!(comparison.lines.len() > 4 * 20, "{}", comparison.lines.len());
    let is_same = |line: &Line| line.verdict == Verdict::Ok && line.difference() == 0.0;
    assert!(comparison.lines.iter().all(is_same), "{}", render(std::slice::from_ref(&comparison)));
    assert!(comparison.left_out.is_empty(), "{:?}", comparison.left_out);
    let shown = render(std::slice::from_ref(&comparison));
    let hidden_lines = comparison.lines.len();
    let hidden = format!("{hidden_lines} figures that agree are not listed: --all");
    assert!(shown.contains("\n0 differ, 0 undecided, ") && shown.contains(&hidden), "{shown}");
    let mut all = comparison;
    all.options.show_all = true;
    let listed = |text: &str| text.lines().filter(|line| line.starts_with("  agree ")).count();
    assert_eq!((listed(&shown), listed(&render(&[all]))), (0, hidden_lines));
}

#[test]
fn several_stand_in_one_table() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let b = simulated(&scratch, &MIX.replace("k = \"20 pkts\"", "k = \"60 pkts\""));
    let c = simulated(&scratch, MIX);
    let shown = render(&[compared(&a, &b, true).unwrap(), compared(&a, &c, true).unwrap()]);
    let queue = shown.lines().find(|line| {
        line.contains("case dctcp, traffic.short.size = 20 kB") && line.contains("switch-r  queue ")
    });
    let queue = queue.unwrap_or_else(|| panic!("{shown}"));
    // A beside B, which differs, and beside C, which is A again.
    let words: Vec<&str> = queue.split_whitespace().collect();
    let verdicts: Vec<_> = words.iter().filter(|word| ["DIFFER", "agree"].contains(word)).collect();
    assert_eq!(verdicts, [&"DIFFER", &"agree"], "{queue}");
    assert!(queue.trim_end().ends_with("0.0 %  agree"), "{queue}");
    assert!(
        shown.contains("differ in network.bottleneck.queue.k (20 pkts; 60 pkts) (A and B)"),
        "{shown}"
    );
    assert!(shown.contains("\nA and C: 0 differ, 0 undecided, "), "{shown}");
}

#[test]
fn another_threshold_is_refused_and_differs_when_forced() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let b = simulated(&scratch, &MIX.replace("k = \"20 pkts\"", "k = \"60 pkts\""));
    let why = refusal(&a, &b);
    assert!(
        why.contains("is not the experiment of") && why.contains("queue.k (20 pkts; 60 pkts)"),
        "{why}"
    );
    let comparison = compared(&a, &b, true).unwrap();
    let queue = comparison.lines.iter().find(|line| {
        line.metric == "queue" && line.row == "case dctcp, traffic.short.size = 20 kB"
    });
    let queue = queue.unwrap();
    assert_eq!(
        (queue.verdict, queue.is_significant()),
        (Verdict::Differs, Some(true)),
        "{queue:?}"
    );
    assert!(queue.b.mean > 2.0 * queue.a.mean, "{queue:?}");
    // The worst come first.
    let verdicts: Vec<_> = comparison.lines.iter().map(|line| line.verdict).collect();
    let first_ok = verdicts.iter().position(|verdict| *verdict == Verdict::Ok).unwrap();
    assert!(verdicts[first_ok..].iter().all(|verdict| *verdict == Verdict::Ok));
    assert_eq!(verdicts[0], Verdict::Differs);
    let shown = render(std::slice::from_ref(&comparison));
    assert!(
        shown.contains("FORCED: the experiments differ in network.bottleneck.queue.k"),
        "{shown}"
    );
    assert!(json(&comparison)["differ"].as_u64().unwrap() > 0);
}

#[test]
fn a_difference_from_zero_is_no_percentage() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let small =
        MIX.replace("limit = \"100 pkts\", k = \"20 pkts\"", "limit = \"8 pkts\", k = \"4 pkts\"");
    let b = simulated(&scratch, &small);
    let comparison = compared(&a, &b, true).unwrap();
    let is_from_zero =
        |line: &&Line| line.metric == "drops" && line.a.mean == 0.0 && line.b.mean >= 1.0;
    let line = comparison.lines.iter().find(is_from_zero).unwrap();
    assert_eq!(line.verdict, Verdict::Differs, "{line:?}");
    let json = json(&comparison);
    let in_json = json["figures"].as_array().unwrap().iter().find(|other| {
        [&other["row"], &other["subject"], &other["metric"]]
            == [&line.row, &line.subject, &line.metric].map(|text| text.as_str())
    });
    let in_json = in_json.unwrap();
    assert!(in_json["difference"].as_f64().unwrap() >= 1.0, "{in_json}");
    assert!(in_json.get("difference_share").is_none(), "{in_json}");
    // Alone, and beside another one.
    for several in [vec![comparison.clone()], vec![comparison.clone(), comparison.clone()]] {
        let shown = render(&several);
        let is_of_line = |row: &&str| {
            row.contains(&line.row) && row.contains(&format!("{}  drops ", line.subject))
        };
        let row = shown.lines().find(is_of_line).unwrap();
        assert!(row.contains("  +") && !row.contains('%'), "{row}");
        // Other lines have a percentage, with its sign.
        assert!(shown.lines().any(|row| row.contains(" queue ") && row.contains(" %")), "{shown}");
    }
}

#[test]
fn another_kernel_seed_and_number_of_runs_is_the_same_experiment() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let overrides = Overrides {
        // Its other defaults come with it.
        set: vec!["hosts.linux=\"6.18\"".into(), "hosts.hz=250".into()],
        seed: Some(7),
        repeat: Some(6),
        ..Overrides::default()
    };
    let b = run(&scratch, MIX, &overrides, &common::simulated());
    let comparison = compared(&a, &b, false).unwrap();
    assert_eq!((comparison.lines[0].a.runs, comparison.lines[0].b.runs), (5, 6));
    let scale = Scale::new(0.5).unwrap();
    let slow =
        run(&scratch, MIX, &Overrides { scale, ..Overrides::default() }, &common::simulated());
    assert!(refusal(&a, &slow).contains("scale (1; 0.5)"), "{}", refusal(&a, &slow));
    let alone = Overrides { cc: vec!["dctcp".into()], ..Overrides::default() };
    let alone = run(&scratch, MIX, &alone, &common::simulated());
    assert!(refusal(&a, &alone).contains("cases (cubic, dctcp; dctcp)"));
    let forced = compared(&a, &alone, true).unwrap();
    assert!(forced.lines.iter().all(|line| line.row.starts_with("case dctcp")));
    assert!(
        forced.left_out.iter().any(|why| why.starts_with("case cubic") && why.contains("only in"))
    );
}

/// The simulator on a host that spoils the first runs of each row, and knows nothing of probes.
#[derive(Debug)]
struct Spoiled {
    number: AtomicUsize,
    spoiled: usize,
}

impl BackEnd for Spoiled {
    fn name(&self) -> &'static str {
        "host"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { threads: Some(1), has_host: true, ..Capabilities::default() }
    }

    fn differences(&self, _run: &Run) -> Vec<String> {
        vec!["probes are not told".to_owned()]
    }

    fn run(&self, run: &Run, _ask: &RunOptions<'_>) -> Result<RunResult, knee_run::Error> {
        let mut outcome = knee_sim::simulate(run)?;
        let limited = self.number.fetch_add(1, Ordering::SeqCst) % 5 < self.spoiled;
        for flow in &mut outcome.flows {
            flow.counters.tail_loss_probes = None;
            // What nobody would believe.
            if limited {
                flow.received_bytes /= 10;
            }
        }
        let limits = if limited { vec!["too slow".to_owned()] } else { Vec::new() };
        Ok(RunResult { outcome, validity: Some(Validity { limits, measures: Vec::new() }) })
    }
}

#[test]
fn runs_that_the_host_limited_are_left_out() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let on = |spoiled: usize| Options {
        back_end: Arc::new(Spoiled { number: AtomicUsize::new(0), spoiled }),
        ..common::simulated()
    };
    let b = run(&scratch, MIX, &Overrides::default(), &on(2));
    let comparison = compared(&a, &b, false).unwrap();
    let goodput: Vec<_> =
        comparison.lines.iter().filter(|line| line.metric == "goodput_sum").collect();
    assert_eq!(goodput.len(), 4);
    assert!(goodput.iter().all(|line| (line.a.runs, line.b.runs) == (5, 3)));
    assert!(goodput.iter().all(|line| line.verdict != Verdict::Differs), "{goodput:?}");
    // One sentence for the four rows.
    let says = |words: &str| {
        let of_all = |why: &&String| why.contains(" and 3 more: ") && why.contains(words);
        comparison.left_out.iter().filter(of_all).count()
    };
    assert_eq!(says("2 of 5 runs in"), 1);
    assert_eq!(says("tail_loss_probes of bulk, tail_loss_probes of short"), 1, "{comparison:?}");
    assert_eq!(says("host-limited and are left out"), 1);
    let is_told = |why: &String| why.contains("host, not as in the simulator: probes are not told");
    assert!(comparison.left_out.iter().any(is_told), "{:?}", comparison.left_out);
    let twice = compared(&b, &b, false).unwrap();
    assert!(twice.left_out.iter().all(|why| !why.contains("not as in the simulator")));
    // With no valid run at all there is nothing to compare.
    let c = run(&scratch, MIX, &Overrides::default(), &on(5));
    let why = refusal(&a, &c);
    assert!(why.contains("has no figure in common with") && why.contains("5 of 5 runs"), "{why}");
    // The way out is named, and is one, whichever side it is.
    assert!(why.contains("or compare them with --force"), "{why}");
    for (one, other) in [(&a, &c), (&c, &a)] {
        let forced = compared(one, other, true).unwrap();
        let goodput = forced.lines.iter().find(|line| line.metric == "goodput_sum").unwrap();
        assert_eq!((goodput.verdict, goodput.a.runs, goodput.b.runs), (Verdict::Differs, 5, 5));
        let shown = render(std::slice::from_ref(&forced));
        let told = shown.lines().filter(|line| line.starts_with("FORCED: case ")).count();
        assert_eq!(told, 1, "{shown}");
        assert!(shown.contains("5 of 5 runs in") && shown.contains("shows the host"), "{shown}");
        assert_eq!(json(&forced)["of_host"].as_array().map(Vec::len), Some(1));
        assert!(!forced.left_out.iter().any(|why| why.contains("host-limited")));
    }
    // Where there are valid runs, only these count.
    let forced = compared(&a, &b, true).unwrap();
    let goodput = forced.lines.iter().filter(|line| line.metric == "goodput_sum");
    assert!(goodput.clone().all(|line| (line.a.runs, line.b.runs) == (5, 3)));
    assert!(forced.of_host.is_empty(), "{:?}", forced.of_host);
}

#[test]
fn broken_directories_are_one_sentence() {
    let scratch = Scratch::new();
    let a = simulated(&scratch, MIX);
    let broken = |name: &str, change: &dyn Fn(&str) -> Option<String>| -> String {
        let dir = scratch.path().join(format!("broken-{name}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        for file in ["manifest.json", "runs.csv", "measures.csv"] {
            fs::copy(a.join(file), dir.join(file)).unwrap();
        }
        let path = dir.join(name);
        match change(&fs::read_to_string(&path).unwrap()) {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let why = refusal(&a, &dir);
        assert!(why.contains(name) || why.contains("has no figure"), "{why}");
        why.replace(&dir.display().to_string(), "DIR")
    };
    assert!(Side::read(Path::new("/nonexistent")).is_err());
    for file in ["manifest.json", "runs.csv", "measures.csv"] {
        assert!(broken(file, &|_| None).contains("cannot read: No such file"));
    }
    assert!(
        broken("manifest.json", &|_| Some("{".into())).contains("is not JSON: the file is cut")
    );
    let no_word = broken("manifest.json", &|_| Some("{\"experiment\": 7}".into()));
    assert!(no_word.contains("is not a manifest of knee run: invalid type: integer"), "{no_word}");
    assert!(broken("manifest.json", &|_| Some("{}".into())).contains("has no experiment"));
    assert!(
        broken("manifest.json", &|_| Some("{\"experiment\": \"mix\"}".into()))
            .contains("has no \"resolved\"")
    );
    let old = broken("runs.csv", &|text| Some(text.replacen("verdict", "", 1)));
    assert!(
        old.contains(
            "has no column \"verdict\": it comes from another version, or is not a results file"
        ),
        "{old}"
    );
    let short = broken("measures.csv", &|text| Some(format!("{text}1,2\n")));
    assert!(short.contains("has 2 cells, but the header has 10"), "{short}");
    let word =
        broken("measures.csv", &|text| Some(text.replacen("goodput,bps,2,", "goodput,bps,x,", 1)));
    assert!(
        word.contains("measures.csv:") && word.contains("values = \"x\": must be a number"),
        "{word}"
    );
    let many = broken("runs.csv", &|text| {
        let row = text.lines().last().unwrap();
        let (_, labels) = row.split_once(',').unwrap();
        let more: String = (0..=1_000_000).map(|run| format!("{run},{labels}\n")).collect();
        Some(format!("{}\n{more}", text.lines().next().unwrap()))
    });
    assert!(many.contains("has more than 1000000 runs, so it was changed"), "{many}");
    let empty = broken("measures.csv", &|text| text.lines().next().map(|head| format!("{head}\n")));
    assert!(empty.contains("has no figure in common with"), "{empty}");
    // Of whatever a manifest does not say it is.
    let unsaid = scratch.path().join("unsaid");
    fs::create_dir(&unsaid).unwrap();
    for file in ["runs.csv", "measures.csv"] {
        fs::copy(a.join(file), unsaid.join(file)).unwrap();
    }
    let text = fs::read_to_string(a.join("manifest.json")).unwrap();
    fs::write(unsaid.join("manifest.json"), text.replacen("\"back_end\"", "\"other\"", 1)).unwrap();
    let shown = render(&[compared(&a, &unsaid, false).unwrap()]);
    assert!(shown.contains("(mix, unknown back end)"), "{shown}");
}
