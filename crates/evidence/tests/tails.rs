//! Percentiles with their intervals over runs: in tables, in results, in claims, and as a reason to stop.

use knee_evidence::compare::{Picked, answers};
use knee_evidence::judge::{self, CheckVerdict, judge};
use knee_evidence::until::Until;
use knee_evidence::{overview, table};
use knee_scenario::published::Stat;
use knee_scenario::{Experiment, Overrides};

use crate::common::*;
use crate::compare_cases::RACK;

/// Short transfers beside long ones, 150 of them in each of six runs, which all finish.
fn tails_file() -> String {
    let vary = "[vary]\n\"network.bottleneck.queue.k\" = [\"20 pkts\", \"60 pkts\"]\n\n";
    [(vary, ""), ("400 pkts", "20000 pkts"), ("200 ms", "900 ms"), ("repeat = 8", "repeat = 6")]
        .iter()
        .fold(RACK.to_owned(), |text, (from, to)| text.replace(from, to))
}

const CLAIM: &str = r#"
[[claim]]
name = "tail"
says = "The tail is shorter."

[[claim.check]]
figure = { subject = "short", metric = "completion", stat = "p99", case = "cubic" }
at_least = "1 us"

[[claim.check]]
figure = { subject = "short", metric = "completion", stat = "p999", case = "cubic" }
at_least = "1 us"

[[claim.check]]
figure = { subject = "short", metric = "completion", stat = "p99", case = "cubic" }
over = { case = "dctcp" }
at_least = 1

[[claim.check]]
figure = { subject = "switch-r", metric = "queue", case = "cubic" }
minus = { case = "dctcp" }
at_least = "1 pkts"
"#;

fn experiment(text: &str) -> std::sync::Arc<Experiment> {
    parsed("tails.toml", text, &Overrides::default())
}

#[test]
fn tables_and_results_have_the_interval_of_a_p99() {
    let scratch = Scratch::new();
    let tails = experiment(&tails_file());
    let swept = run_into(&scratch, &tails, &simulated()).unwrap();
    let shown = table::render(&tails, &swept);
    let heads = |shown: &str, title: &str| -> Vec<String> {
        let head = shown.lines().skip_while(|line| !line.starts_with(title)).nth(1).unwrap();
        head.split("  ")
            .map(|cell| cell.trim().to_owned())
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    let short = heads(&shown, "short: completion");
    let usual = ["case", "mean", "± 95 %", "sd", "p50", "p95", "p99", "± 95 %", "max", "values"];
    assert!(short.starts_with(&usual.map(str::to_owned)), "{short:?}\n{shown}");
    // Two transfers in a run have no p99.
    assert!(!heads(&shown, "bulk: goodput").contains(&"p99".to_owned()), "{shown}");
    let row = swept.tables[0].subjects.iter().find(|of| of.name == "short").unwrap();
    let (_, of_completion) = &row.metrics[0];
    let half = Stat::P99.half(of_completion).unwrap();
    assert!(half > 0.0 && half < of_completion.p99.unwrap(), "{of_completion:?}");
    // 150 values of a run do not have a p99.9, and two times 900 do not, either.
    assert_eq!((of_completion.p999, Stat::P999.half(of_completion)), (None, None));
    let summary = &scratch.files("tails")["summary.csv"];
    let mut lines = summary.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let place = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let row = lines.find(|row| row[place("subject")] == "short").unwrap();
    let written: f64 = row[place("p99_ci95")].parse().unwrap();
    assert!((written / half - 1.0).abs() < 1e-6, "{written} {half}");
    assert_eq!((row[place("p999_ci95")], row[place("p50_ci95")].is_empty()), ("", false));
}

#[test]
fn columns_that_are_asked_for_replace_the_usual_ones() {
    let scratch = Scratch::new();
    let of_file =
        tails_file().replace("[sample]", "[output]\nstats = [\"p50\", \"p999\"]\n\n[sample]");
    let of_file = experiment(&of_file);
    let swept = run_into(&scratch, &of_file, &simulated()).unwrap();
    let shown = table::render(&of_file, &swept);
    let head =
        shown.lines().skip_while(|line| !line.starts_with("short: completion")).nth(1).unwrap();
    assert!(head.contains("p50  ± 95 %  values") && !head.contains("mean"), "{shown}");
    assert!(shown.contains("p99.9 needs 1000 values: "), "{shown}");
    assert!(shown.contains("completion of short (900)"), "{shown}");
    let overrides = Overrides { stats: vec![Stat::Max], ..Overrides::default() };
    let asked = parsed("tails.toml", &of_file.text, &overrides);
    let shown = table::render(&asked, &swept);
    let head =
        shown.lines().skip_while(|line| !line.starts_with("short: completion")).nth(1).unwrap();
    assert!(head.contains("max  values") && !head.contains('±'), "{shown}");
    for (stats, why) in [
        ("[\"p98\"]", "output.stats = [\"p98\"]: must be one of \"mean\", \"sd\""),
        ("[\"p99\", \"p99\"]", "has \"p99\" twice"),
    ] {
        let text =
            tails_file().replace("[sample]", &format!("[output]\nstats = {stats}\n\n[sample]"));
        let parsed =
            Experiment::parse(std::path::Path::new("x.toml"), &text, &Overrides::default());
        let said = parsed.unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn many_rows_keep_their_intervals_in_one_table() {
    let scratch = Scratch::new();
    let text = tails_file()
        .replace("repeat = 6", "repeat = 2")
        .replace("duration = \"900 ms\"", "duration = \"30 ms\"")
        .replace("start_jitter = \"150 ms\"", "start_jitter = \"10 ms\"");
    let text =
        format!("{text}\n[vary]\n\"network.bottleneck.queue.k\" = \"10..150 step 10 pkts\"\n");
    let many = experiment(&text);
    let swept = run_into(&scratch, &many, &simulated()).unwrap();
    let shown = overview::render(&many, &swept);
    assert!(shown.contains("means of 30 rows with 95 % intervals over runs"), "{shown}");
    let of_rows = shown.lines().filter(|line| line.contains("dctcp") && line.contains(" ± "));
    assert_eq!(of_rows.count(), 15, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 160), "{shown}");
    let overrides = Overrides { stats: vec![Stat::P99], ..Overrides::default() };
    let asked = parsed("tails.toml", &text, &overrides);
    let shown = overview::render(&asked, &swept);
    assert!(shown.contains("short: p99 of ") && !shown.contains("short: completion"), "{shown}");
}

#[test]
fn claims_use_the_interval_of_a_percentile_and_the_estimate_of_compare() {
    let scratch = Scratch::new();
    let tails = experiment(&format!("{}{CLAIM}", tails_file()));
    let swept = run_into(&scratch, &tails, &simulated()).unwrap();
    let judged = judge(&tails.claims[0], &tails, &swept);
    let value = |check: usize| judged.checks[check].rows[0].value.unwrap();
    let p99 = value(0);
    assert!(p99.low < p99.value.unwrap() && p99.value.unwrap() < p99.high, "{p99:?}");
    assert_eq!(judged.checks[1].verdict, CheckVerdict::Undecided);
    let lacks = ["p999 of completion of short (case cubic) needs 1000 values, has 900"];
    assert_eq!(judged.lacks(&tails.claims[0]), lacks);
    let shown = table::render(&tails, &swept);
    assert!(shown.contains(lacks[0]), "{shown}");
    let listed = judge::claims(&tails, &swept);
    assert_eq!(listed[0].checks[1].terms[0].lacks.as_deref(), Some("needs 1000 values, has 900"));
    // As of the files: to nine digits, which these have.
    let pick = |case: &str| Picked { dir: scratch.path().join("tails"), case: case.into() };
    let compared = answers(&[pick("dctcp"), pick("cubic")], None, 0.05).unwrap();
    let of = |metric: &str, stat: Stat| {
        let is_it = |row: &&knee_evidence::compare::Answered| {
            row.metric.name() == metric && row.stat == stat && row.subject != "bulk"
        };
        compared.rows.iter().find(is_it).unwrap().contrast
    };
    let ratio = of("completion", Stat::P99);
    let (low, high) = ratio.ratio.unwrap().ends.unwrap();
    let found = value(2);
    for (a, b) in [
        (found.value, ratio.ratio.unwrap().value),
        (Some(found.low), Some(low)),
        (Some(found.high), Some(high)),
    ] {
        assert!((a.unwrap() / b.unwrap() - 1.0).abs() < 1e-6, "{a:?} {b:?}");
    }
    let difference = of("queue", Stat::Mean).difference;
    let (found, ends) = (value(3), difference.ends.unwrap());
    assert!((found.value.unwrap() / difference.value.unwrap() - 1.0).abs() < 1e-5, "{found:?}");
    assert!((found.low / ends.0 - 1.0).abs() < 1e-3, "{found:?} {ends:?}");
}

#[test]
fn repeats_are_added_until_every_row_is_narrow_enough() {
    let scratch = Scratch::new();
    let tails = experiment(&tails_file());
    let swept = run_into(&scratch, &tails, &simulated()).unwrap();
    let distance = |text: &str, most: u32| {
        let until = Until::read(text, &tails).unwrap();
        (until.name(), until.distance(&tails, &swept, most))
    };
    let (name, wide) = distance("p99 of short within 0.1 %", 100);
    assert_eq!((name.as_str(), wide.repeat), ("p99 of completion of short", 12));
    assert_eq!(wide.rows.len(), 2);
    assert!(wide.rows[0].starts_with("case cubic: ") && wide.rows[0].ends_with(" %"), "{wide:?}");
    assert_eq!(distance("p99 of short within 0.1 %", 9).1.repeat, 9);
    let (name, near) = distance("mean of queue of switch-r within 99 %", 100);
    assert_eq!((name.as_str(), near.repeat, near.rows.len()), ("mean of queue of switch-r", 6, 0));
    let (_, few) = distance("p99.9 of short within 5 %", 100);
    assert_eq!(few.repeat, 12);
    assert!(few.rows[0].ends_with("an interval needs two runs, and 2000 values"), "{few:?}");
    for (text, why) in [
        ("p99 of short", "must be as \"p99 of short within 5 %\""),
        ("short within 5 %", "must be as \"p99 of short within 5 %\""),
        ("p99 of short within 5", "must be a share below 100 %"),
        ("p99 of short within 0 %", "must be a share below 100 %"),
        ("p98 of short within 5 %", "must be one of \"mean\", \"sd\""),
        (
            "max of short within 5 %",
            "max has no interval over runs: use mean, p50, p95, p99 or p999",
        ),
        ("p99 of long within 5 %", "must be one of \"bulk\", \"short\""),
        ("p99 of rtt of short within 5 %", "must be one of \"completion\""),
        ("p99 of timeouts of short within 5 %", "timeouts has one value in a run"),
    ] {
        let said = Until::read(text, &tails).unwrap_err().to_string();
        assert!(said.contains(why), "{text}: {said}");
    }
}
