//! Claims: what a file may say, and the verdicts on sweeps whose figures were made by hand.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use knee_evidence::judge::{CheckVerdict, ClaimVerdict, Interval, Judged, judge, verdict};
use knee_evidence::table;
use knee_scenario::claim::Bounds;
use knee_scenario::metric::{Kind, Metric};
use knee_scenario::scale::Scale;
use knee_scenario::stats::{CutOff, Possible, Summary};
use knee_scenario::{Experiment, Overrides};
use knee_sweep::sweep_result::{Effort, Subject, Summaries, SweepResult, Verdict};

const MIX: &str = r#"question = "Who waits?"
cc = ["cubic", "reno", "dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "200 kB", k = "30 kB" } }

[[traffic]]
name = "short"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "20 kB"

[vary]
"traffic.short.size" = ["20 kB", "40 kB"]
"network.return.delay" = ["100 us"]

[run]
duration = "1 s"
repeat = 3

[sample]
queues = "1 ms"
"#;

const CLAIM: &str = r#"
[[claim]]
name = "sooner"
says = "DCTCP is sooner."
by = "source"

[[claim.check]]
figure = { subject = "short", metric = "completion", case = "cubic", at = { "traffic.short.size" = "20 kB" } }
over = { case = "dctcp" }
at_least = 10
"#;

fn parsed(text: &str, overrides: &Overrides) -> Experiment {
    Experiment::parse(Path::new("mix.toml"), text, overrides).unwrap_or_else(|why| panic!("{why}"))
}

/// A file with this check in place of the one of CLAIM.
fn with_check(check: &str) -> String {
    let (head, _) = CLAIM.split_once("figure = ").unwrap();
    format!("{MIX}{head}{check}\n")
}

fn refused(text: &str) -> String {
    let parsed = Experiment::parse(Path::new("mix.toml"), text, &Overrides::default());
    parsed.map(|_| "accepted".to_owned()).unwrap_or_else(|why| why.to_string())
}

/// A sweep in which the mean completion of short transfers in a configuration is as the function says, in ms: with half of
/// its interval.
fn swept(
    experiment: &Experiment,
    of: impl Fn(&str, &str) -> Option<(f64, Option<f64>)>,
) -> SweepResult {
    let tables = experiment.all_rows().enumerate().filter_map(|(index, configuration)| {
        let size = &experiment.point_labels(&configuration)[0];
        let (mean, ci95) = of(experiment.case_name(&configuration), size)?;
        let ms = |value: f64| Some(value / 1e3);
        let summary = Summary {
            runs: 3,
            values: 6,
            mean: ms(mean),
            ci95: ci95.and_then(ms),
            p50: ms(mean / 2.0),
            max: ms(mean * 2.0),
            ..Summary::default()
        };
        let metrics = vec![(Metric::Completion, summary)];
        let short = Subject {
            name: "short".into(),
            kind: Kind::Bulk,
            metrics,
            unfinished: 0,
            sketches: Vec::new(),
            distributions: Vec::new(),
            by_run: Vec::new(),
        };
        Some(Summaries { configuration, index, subjects: vec![short], verdict: None })
    });
    SweepResult {
        tables: tables.collect(),
        runs_done: 1,
        runs_earlier: 0,
        runs_same: 0,
        interrupted: false,
        failed: Vec::new(),
        warnings: Vec::new(),
        runs_warned: 0,
        effort: Effort::default(),
        back_end: "sim",
        is_model: true,
        about: serde_json::Map::new(),
        format: knee_results::format::CSV,
    }
}

fn judged(text: &str, of: impl Fn(&str, &str) -> Option<(f64, Option<f64>)>) -> Judged {
    let experiment = parsed(text, &Overrides::default());
    judge(&experiment.claims[0], &experiment, &swept(&experiment, of))
}

#[test]
fn a_ratio_is_decided_by_the_corners_of_both_intervals() {
    let text = format!("{MIX}{CLAIM}");
    let of = |cubic: f64, half: f64| {
        let judged = judged(&text, |case, _| {
            Some(if case == "cubic" { (cubic, Some(half)) } else { (2.0, Some(0.2)) })
        });
        let row = &judged.checks[0].rows[0];
        (judged.verdict, row.value.unwrap())
    };
    // 30 / 2 = 15, from 28 / 2.2 to 32 / 1.8.
    let (verdict, value) = of(30.0, 2.0);
    assert_eq!(verdict, ClaimVerdict::Stands);
    assert!((value.value.unwrap() - 15.0).abs() < 1e-9);
    assert!((value.low - 28.0 / 2.2).abs() < 1e-9 && (value.high - 32.0 / 1.8).abs() < 1e-9);
    // 22 / 2 = 11, but 20 / 2.2 is below 10.
    assert_eq!(of(22.0, 2.0).0, ClaimVerdict::Undecided);
    // 16 / 2 = 8, and at most 17 / 1.8 = 9.4.
    assert_eq!(of(16.0, 1.0).0, ClaimVerdict::DoesNotStand);
}

/// Transfers that the end of the run cut off leave open how large a figure is: a claim that depends on it is undecided.
#[test]
fn what_was_cut_off_decides_no_claim() {
    let cut_off = |low: f64, high: Option<f64>| CutOff {
        values: 3,
        p50: Some(Possible { low: low / 1e3, high: high.map(|high| high / 1e3) }),
        ..CutOff::default()
    };
    let verdict = |bound: &str, cubic: CutOff| {
        let check = format!(
            "figure = {{ subject = \"short\", metric = \"completion\", stat = \"p50\", case = \"cubic\" }}\nevery = [\"traffic.short.size\"]\n{bound}"
        );
        let experiment = parsed(&with_check(&check), &Overrides::default());
        let mut swept = swept(&experiment, |_, _| Some((2.0, None)));
        for row in &mut swept.tables {
            if experiment.case_name(&row.configuration) == "cubic" {
                let summary = &mut row.subjects[0].metrics[0].1;
                (summary.p50, summary.cut_off) = (None, cubic.clone());
            }
        }
        let judged = judge(&experiment.claims[0], &experiment, &swept);
        (judged.verdict, table::render(&experiment, &swept))
    };
    let (stands, fails) = (ClaimVerdict::Stands, ClaimVerdict::DoesNotStand);
    for (bound, low, high, expected) in [
        ("at_most = \"9 ms\"", 5.0, None, ClaimVerdict::Undecided),
        ("at_most = \"9 ms\"", 10.0, None, fails),
        ("at_least = \"9 ms\"", 10.0, None, stands),
        ("at_least = \"9 ms\"", 5.0, None, ClaimVerdict::Undecided),
        ("at_most = \"9 ms\"", 5.0, Some(8.0), stands),
        ("at_most = \"9 ms\"", 5.0, Some(10.0), ClaimVerdict::Undecided),
    ] {
        let (verdict, shown) = verdict(bound, cut_off(low, high));
        assert_eq!(verdict, expected, "{bound} {low} {high:?}");
        let cell = high.map_or("  > ".to_owned(), |_| "5.000–".to_owned());
        assert!(shown.contains(&cell) && shown.contains("cut off"), "{shown}");
    }
    // A ratio has what its figures leave.
    let over = |cubic: CutOff| {
        let text = format!("{MIX}{CLAIM}")
            .replace("metric = \"completion\"", "metric = \"completion\", stat = \"p50\"");
        let experiment = parsed(&text, &Overrides::default());
        let mut swept = swept(&experiment, |_, _| Some((2.0, None)));
        for row in &mut swept.tables {
            if experiment.case_name(&row.configuration) == "cubic" {
                let summary = &mut row.subjects[0].metrics[0].1;
                (summary.p50, summary.cut_off) = (None, cubic.clone());
            }
        }
        judge(&experiment.claims[0], &experiment, &swept).verdict
    };
    // Half of 2 ms each under DCTCP: at least 10 times that.
    assert_eq!(over(cut_off(12.0, None)), stands);
    assert_eq!(over(cut_off(5.0, None)), ClaimVerdict::Undecided);
}

#[test]
fn the_figures_stand_beside_the_verdict() {
    let text = format!("{MIX}{CLAIM}");
    let judged = judged(&text, |case, _| Some((if case == "cubic" { 30.0 } else { 2.0 }, None)));
    let row = &judged.checks[0].rows[0];
    let terms: Vec<_> =
        row.terms.iter().map(|t| (t.role, t.case.as_str(), t.value.unwrap().low)).collect();
    assert_eq!(terms, [("figure", "cubic", 0.03), ("over", "dctcp", 0.002)]);
    assert_eq!(row.terms[1].at[0], ("traffic.short.size".into(), "20 kB".into()));
    // An axis with one value needs no name.
    assert_eq!(row.terms[1].at[1], ("network.return.delay".into(), "100 us".into()));
}

#[test]
fn a_difference_has_the_metrics_unit() {
    let text = with_check(
        "figure = { subject = \"short\", metric = \"completion\", case = \"cubic\", at = { \"traffic.short.size\" = \"20 kB\" } }\n\
         minus = { at = { \"traffic.short.size\" = \"40 kB\" } }\nat_most = \"-5 ms\"",
    );
    let of = |larger: f64| {
        judged(&text, |_, size| Some((if size == "20 kB" { 10.0 } else { larger }, Some(1.0))))
            .verdict
    };
    assert_eq!(of(20.0), ClaimVerdict::Stands);
    // From -8 to -4.
    assert_eq!(of(16.0), ClaimVerdict::Undecided);
    assert_eq!(of(11.0), ClaimVerdict::DoesNotStand);
}

#[test]
fn equals_within_a_share_or_a_figure() {
    let check = |within: &str| {
        with_check(&format!(
            "figure = {{ subject = \"short\", metric = \"completion\", stat = \"max\", case = \"cubic\", \
             at = {{ \"traffic.short.size\" = \"20 kB\" }} }}\nequals = \"10 ms\"\nwithin = \"{within}\"",
        ))
    };
    // The largest is twice the mean, and a point whatever the mean's interval.
    let of =
        |within: &str, mean: f64| judged(&check(within), |_, _| Some((mean, Some(9.0)))).verdict;
    assert_eq!(of("20 %", 5.9), ClaimVerdict::Stands);
    assert_eq!(of("20 %", 6.1), ClaimVerdict::DoesNotStand);
    assert_eq!(of("1 ms", 5.4), ClaimVerdict::Stands);
    assert_eq!(of("1 ms", 4.4), ClaimVerdict::DoesNotStand);
}

#[test]
fn every_case_and_value_must_hold() {
    let text = with_check(
        "figure = { subject = \"short\", metric = \"completion\" }\nover = { case = \"dctcp\" }\n\
         at_least = 2\nevery = [\"case\", \"traffic.short.size\"]",
    );
    let of = |reno: Option<f64>| {
        judged(&text, |case, size| match (case, size) {
            ("dctcp", _) => Some((1.0, None)),
            ("reno", "40 kB") => reno.map(|mean| (mean, None)),
            _ => Some((3.0, None)),
        })
    };
    let all = of(Some(2.0));
    assert_eq!(all.verdict, ClaimVerdict::Stands);
    // DCTCP over itself is no row.
    let places: Vec<_> = all.checks[0].rows.iter().map(|row| row.at.as_str()).collect();
    assert_eq!(
        places,
        ["cubic, size 20 kB", "cubic, size 40 kB", "reno, size 20 kB", "reno, size 40 kB"]
    );
    assert_eq!(of(Some(1.9)).verdict, ClaimVerdict::DoesNotStand);
    // What was not run does not count.
    let without = of(None);
    assert_eq!((without.verdict, without.checks[0].rows.len()), (ClaimVerdict::Stands, 3));
}

#[test]
fn what_was_not_run_is_told_from_what_was_not_measured() {
    let text = format!("{MIX}{CLAIM}");
    let not_run = judged(&text, |case, _| (case == "cubic").then_some((1.0, None)));
    assert_eq!(
        (not_run.verdict, not_run.checks[0].verdict),
        (ClaimVerdict::NotRun, CheckVerdict::NotRun)
    );
    let experiment = parsed(&text, &Overrides::default());
    let mut swept = swept(&experiment, |_, _| Some((1.0, None)));
    swept.tables.iter_mut().for_each(|row| row.subjects[0].metrics.clear());
    let judged = judge(&experiment.claims[0], &experiment, &swept);
    assert_eq!(
        (judged.verdict, judged.checks[0].verdict),
        (ClaimVerdict::Undecided, CheckVerdict::Undecided)
    );
    assert_eq!(judged.checks[0].rows[0].value, None);
}

#[test]
fn a_row_that_a_host_limited_decides_nothing_and_no_other_scale_does() {
    let text = format!("{MIX}{CLAIM}");
    let experiment = parsed(&text, &Overrides::default());
    let of = |case: &str, _: &str| Some((if case == "cubic" { 50.0 } else { 2.0 }, None));
    let mut limited = swept(&experiment, of);
    let verdict = |limited| Verdict { limited, runs: 3, reason: "busy".into() };
    limited.tables[0].verdict = Some(verdict(3));
    assert_eq!(
        judge(&experiment.claims[0], &experiment, &limited).verdict,
        ClaimVerdict::Undecided
    );
    limited.tables[0].verdict = Some(verdict(1));
    assert_eq!(judge(&experiment.claims[0], &experiment, &limited).verdict, ClaimVerdict::Stands);
    let slower = Overrides { scale: Scale::new(0.5).unwrap(), ..Overrides::default() };
    let slower = parsed(&text, &slower);
    assert_eq!(
        judge(&slower.claims[0], &slower, &swept(&slower, of)).verdict,
        ClaimVerdict::NotRun
    );
}

#[test]
fn the_laws_of_the_verdicts() {
    let bounds = Bounds { at_least: Some(2.0), at_most: Some(4.0), text: String::new() };
    let of = |low: f64, high: f64| {
        verdict(&bounds, Some(Interval { value: Some((low + high) / 2.0), low, high }))
    };
    assert_eq!(of(2.0, 4.0), CheckVerdict::Holds);
    assert_eq!(of(1.9, 4.0), CheckVerdict::Undecided);
    assert_eq!(of(3.0, 4.1), CheckVerdict::Undecided);
    assert_eq!(of(1.0, 5.0), CheckVerdict::Undecided);
    assert_eq!(of(1.0, 1.9), CheckVerdict::Fails);
    assert_eq!(of(4.1, 9.0), CheckVerdict::Fails);
    assert_eq!(verdict(&bounds, None), CheckVerdict::Undecided);
    let (yes, no, undecided, not_run) =
        (CheckVerdict::Holds, CheckVerdict::Fails, CheckVerdict::Undecided, CheckVerdict::NotRun);
    assert_eq!(ClaimVerdict::of(&[yes, yes, not_run]), ClaimVerdict::Stands);
    assert_eq!(ClaimVerdict::of(&[yes, undecided]), ClaimVerdict::StandsInPart);
    assert_eq!(ClaimVerdict::of(&[yes, no]), ClaimVerdict::StandsInPart);
    assert_eq!(ClaimVerdict::of(&[no, undecided, not_run]), ClaimVerdict::DoesNotStand);
    assert_eq!(ClaimVerdict::of(&[undecided, not_run]), ClaimVerdict::Undecided);
    assert_eq!(ClaimVerdict::of(&[not_run, not_run]), ClaimVerdict::NotRun);
    assert_eq!(ClaimVerdict::of(&[]), ClaimVerdict::Undecided);
}

#[test]
fn a_ratio_to_what_may_be_zero_has_no_upper_end() {
    let (ten, some) = (Interval::around(10.0, 1.0), Interval::around(1.0, 2.0));
    let ratio = ten.over(some).unwrap();
    assert_eq!((ratio.low, ratio.high), (3.0, f64::INFINITY));
    assert_eq!(ten.over(Interval::around(0.0, 0.0)), None);
}

#[test]
fn a_share_of_few_trials_is_not_exact() {
    // No success in n trials: up to z^2 / (n + z^2).
    let none = Interval::around(0.0, 0.0).and_of_share(55.0);
    assert_eq!((none.value, none.low), (Some(0.0), 0.0));
    assert!((none.high - 3.8416 / 58.8416).abs() < 1e-12, "{none:?}");
    // A tenth of 100, as tables of the interval have it: 0.0552 to 0.1744.
    let tenth = Interval::around(0.1, 0.0).and_of_share(100.0);
    assert!((tenth.low - 0.0552).abs() < 1e-4 && (tenth.high - 0.1744).abs() < 1e-4, "{tenth:?}");
    // Where runs differ by more, that counts.
    assert_eq!(Interval::around(0.1, 0.1).and_of_share(1e6), Interval::around(0.1, 0.1));
}

#[test]
fn a_claim_that_cannot_be_decided_says_why_and_has_no_checks() {
    let text = format!(
        "{MIX}\n[[claim]]\nname = \"cpu\"\nsays = \"CPU\"\nby = \"us\"\ncannot = \"No CPU here.\"\n"
    );
    assert_eq!(judged(&text, |_, _| Some((1.0, None))).verdict, ClaimVerdict::Undecided);
    let both = format!("{MIX}{}", CLAIM.replace("by = \"source\"", "cannot = \"No.\""));
    assert!(refused(&both).contains("claim.sooner.cannot = \"No.\": conflicts with"));
    let neither = CLAIM.split_once("[[claim.check]]").unwrap().0;
    assert!(refused(&format!("{MIX}{neither}")).contains("give at least one [[claim.check]]"));
}

#[test]
fn what_a_claim_should_not_say_is_refused_in_one_sentence() {
    let cases = [
        (
            "case = \"cubic\"",
            "case = \"cubik\"",
            "claim.sooner.check.1.figure.case = \"cubik\": must be one of \"cubic\", \"reno\", \"dctcp\"; did you mean \"cubic\"?",
        ),
        (
            "case = \"cubic\", ",
            "",
            "claim.sooner.check.1.figure.case: missing: give one, or every = \"case\" in the check",
        ),
        (
            "metric = \"completion\"",
            "metric = \"latency\"",
            "claim.sooner.check.figure.metric: must be one of \"completion\"",
        ),
        (
            "subject = \"short\"",
            "subject = \"long\"",
            "claim.sooner.check.figure.subject: \"long\" is neither a traffic entry nor a recorded \
                link",
        ),
        (
            "\"20 kB\" } }",
            "\"30 kB\" } }",
            "traffic.short.size must be one of \"20 kB\", \"40 kB\"; did you mean \"20 kB\"?",
        ),
        (
            ", at = { \"traffic.short.size\" = \"20 kB\" }",
            "",
            "must give a value of \"traffic.short.size\", or the check needs every = \
                \"traffic.short.size\"",
        ),
        (
            "at_least = 10",
            "at_leest = 10",
            "claim.sooner.check.1.at_leest: unknown key; did you mean \"at_least\"?",
        ),
        (
            "at_least = 10",
            "at_least = \"10 ms\"",
            "must have no unit but %, because it bounds a ratio",
        ),
        ("at_least = 10", "at_least = 10\nat_most = 9", "must not be above at_most"),
        ("at_least = 10", "equals = 10", "within: missing, as in within = \"20 %\""),
        ("at_least = 10", "within = 10", "needs equals"),
        ("at_least = 10", "", "missing: give at_least, at_most, or equals with within"),
        (
            "at_least = 10",
            "at_least = 10\nminus = { case = \"reno\" }",
            "conflicts with over: leave one out",
        ),
        (
            "at_least = 10",
            "at_least = 10\nevery = \"case\"",
            "covers case, but the figure gives one",
        ),
        (
            "at_least = 10",
            "at_least = 10\nevery = \"cases\"",
            "every = \"cases\": must be one of \"case\"",
        ),
        (
            "over = { case = \"dctcp\" }",
            "over = { case = \"dctcp\", metric = \"goodput\" }",
            "goodput and completion have different units",
        ),
        ("over = { case = \"dctcp\" }", "over = {}", "is the same figure"),
        ("at_least = 10", "at_least = 10\nevery = [\"case\", \"case\"]", "has \"case\" twice"),
        ("by = \"source\"", "by = \"them\"", "must be one of \"source\", \"us\""),
    ];
    for (find, replacement, expected) in cases {
        assert!(CLAIM.contains(find), "{find}");
        let message = refused(&format!("{MIX}{}", CLAIM.replacen(find, replacement, 1)));
        assert!(message.contains(expected), "{find} -> {replacement}:\n{message}");
    }
    let twice = refused(&format!("{MIX}{CLAIM}{CLAIM}"));
    assert!(twice.contains("must differ from the other claims' names"), "{twice}");
}

#[test]
fn claims_are_of_the_file_whatever_the_command_line_runs_of_it() {
    let text = format!("{MIX}{CLAIM}");
    let set = vec!["traffic.short.size=30 kB".to_owned()];
    let other = parsed(&text, &Overrides { set, cc: vec!["bbr".into()], ..Overrides::default() });
    let judged = judge(&other.claims[0], &other, &swept(&other, |_, _| Some((1.0, None))));
    assert_eq!(judged.verdict, ClaimVerdict::NotRun);
}

#[test]
fn the_words_of_a_check_name_what_differs() {
    let experiment = parsed(&format!("{MIX}{CLAIM}"), &Overrides::default());
    assert_eq!(
        experiment.claims[0].checks[0].says(),
        "completion of short (cubic, size 20 kB, delay 100 us) over dctcp: at least 10"
    );
}

const QUICK: &str = r#"
[quick]
repeat = 2
case = ["dctcp", "cubic"]
vary = { "traffic.short.size" = ["40 kB"] }
set = { "run.duration" = "500 ms" }
"#;

#[test]
fn the_quick_set_is_a_part_and_the_command_line_comes_after() {
    let text = format!("{MIX}{QUICK}");
    let whole = parsed(&text, &Overrides::default());
    assert_eq!((whole.runs(), whole.is_quick), (18, false));
    let quick = Overrides { quick: true, ..Overrides::default() };
    let part = parsed(&text, &quick);
    assert_eq!((part.runs(), part.is_quick), (4, true));
    assert_eq!(part.case_name(&part.row(0)), "dctcp");
    assert_eq!(part.point_labels(&part.row(0))[0], "40 kB");
    let end = |experiment: &Experiment| experiment.run(experiment.run_id(0)).unwrap().end;
    assert_eq!(end(&whole).ps(), 2 * end(&part).ps());
    let more = Overrides { repeat: Some(5), cc: vec!["reno".into()], ..quick.clone() };
    assert_eq!(parsed(&text, &more).runs(), 5);
    assert!(!parsed(MIX, &quick).is_quick);
}

#[test]
fn a_quick_set_that_is_no_part_is_refused() {
    let cases = [
        (
            "\"40 kB\"",
            "\"50 kB\"",
            "quick.vary.traffic.short.size = [\"50 kB\"]: each must be one of \"20 kB\", \"40 kB\"",
        ),
        ("\"cubic\"", "\"nv\"", "quick.case = [\"dctcp\", \"nv\"]: must be one of"),
        ("repeat = 2", "repeat = 0", "quick.repeat = 0: must be a whole number from 1"),
        ("\"run.duration\"", "\"run.seed\"", "must be a path in quotes"),
        ("repeat", "repeats", "quick.repeats: unknown key; did you mean \"repeat\"?"),
    ];
    for (find, replacement, expected) in cases {
        let message = refused(&format!("{MIX}{}", QUICK.replacen(find, replacement, 1)));
        assert!(message.contains(expected), "{find} -> {replacement}:\n{message}");
    }
}

#[test]
fn charts_are_read_and_checked() {
    let chart = "\n[[chart]]\ntitle = \"Short\"\nsubject = \"short\"\nmetric = \"completion\"\nlog = true\n";
    let experiment = parsed(&format!("{MIX}{chart}"), &Overrides::default());
    assert_eq!(
        (experiment.charts[0].x.as_str(), experiment.charts[0].log),
        ("traffic.short.size", true)
    );
    let cases = [
        (
            "subject = \"short\"",
            "subject = \"web\"",
            "chart.subject: \"web\" is neither a traffic entry",
        ),
        (
            "log = true",
            "x = \"cases\"",
            "x = \"cases\": must be one of \"case\", \"traffic.short.size\"",
        ),
        ("log = true", "log = 1", "must be true or false"),
        ("title = \"Short\"", "titel = \"Short\"", "did you mean \"title\"?"),
    ];
    for (find, replacement, expected) in cases {
        let message = refused(&format!("{MIX}{}", chart.replacen(find, replacement, 1)));
        assert!(message.contains(expected), "{find} -> {replacement}:\n{message}");
    }
}
