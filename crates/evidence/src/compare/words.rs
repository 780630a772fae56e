//! Prints answers as text or JSON.

use std::cmp::Ordering;
use std::fmt::Write as _;

use knee_inference::{Interval, Known};
use knee_results::Better;
use serde_json::{Map, Value as Json, json};

use super::cases::{Answer, Answered, Answers, is_of_queue};
use crate::table::{Align, Grid, Scale, wrapped};
use knee_scenario::published::Stat;
use knee_scenario::stats::{Possible, rounded};

/// Number of keys that a line names.
const NAMED: usize = 8;
/// Ratios from which on they are said as times, and not in per cent.
const TIMES: f64 = 2.0;
/// Fewer runs miss what happens in some of them only: see the table of coverage in docs/compare.md.
const ENOUGH_RUNS: usize = 10;

/// Formats answers: a sentence per case and combination of varied values, then a table per answer. `show_all`: also figures that are the
/// same, and those that are no questions.
pub fn render_answers(of: &Answers, show_all: bool) -> String {
    let mut out = String::new();
    for (name, picked) in of.cases.iter().zip(&of.picked) {
        let role = if *name == of.cases[0] { " (baseline)" } else { "" };
        let _ = writeln!(out, "{name}: {}, case {}{role}", picked.dir.display(), picked.case);
    }
    for (name, keys) in of.cases[1..].iter().zip(&of.differences) {
        let more = keys.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let keys = keys[..keys.len().min(NAMED)].join(", ");
        out.push_str(&wrapped(&format!("{name} differs in {keys}{more}"), "  "));
    }
    out.push('\n');
    headlines(of).iter().for_each(|line| out.push_str(&wrapped(line, "")));
    let is_shown = |row: &&Answered| show_all || row.is_question;
    for answer in Answer::ALL {
        let is_same = answer == Answer::Same;
        let rows = of.rows.iter().filter(is_shown).filter(|row| row.answer == answer);
        let rows: Vec<&Answered> = rows.filter(|_| show_all || !is_same).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{}\n{}", title(answer, of), table(of, &rows).render());
        }
    }
    out.push('\n');
    footer(of, show_all).iter().for_each(|line| out.push_str(&wrapped(line, "")));
    out
}

fn title(answer: Answer, of: &Answers) -> String {
    match answer {
        Answer::Better => format!("better than {}", of.cases[0]),
        Answer::Worse => format!("worse than {}", of.cases[0]),
        Answer::Differs => "differs".to_owned(),
        Answer::Unknown => "cannot be told".to_owned(),
        Answer::Same => format!("the same within {} %", rounded(100.0 * of.within)),
    }
}

fn table(of: &Answers, rows: &[&Answered]) -> Grid {
    let has_places = of.rows.iter().any(|row| !row.at.is_empty());
    let has_cases = of.cases.len() > 2;
    let is_unknown = rows[0].answer == Answer::Unknown;
    let mut grid = Grid::default();
    let mut heads: Vec<String> = Vec::new();
    heads.extend(has_places.then(|| "at".to_owned()));
    heads.extend(has_cases.then(|| "case".to_owned()));
    heads.push("figure".to_owned());
    grid.head(heads, Align::Left);
    let of_case = if has_cases { "it".to_owned() } else { of.cases[1].clone() };
    grid.head([of.cases[0].clone(), of_case], Align::Right);
    grid.head(["difference", "95 % interval"].map(str::to_owned), Align::Left);
    grid.head([if is_unknown { "runs that would tell" } else { "" }.to_owned()], Align::Left);
    for row in rows {
        let (case, base) = row.contrast.means;
        let most = [case, base].into_iter().flat_map(|known| [known.low, known.high]);
        let largest = most.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let scale = Scale::of_unit(row.metric.unit(), largest);
        let mut cells: Vec<String> = Vec::new();
        cells.extend(has_places.then(|| row.at.clone()));
        cells.extend(has_cases.then(|| row.case.clone()));
        cells.push(format!("{}{}", row.name(), scale.suffix()));
        cells.extend([base, case].map(|known| scale.show_possible(possible(known))));
        let (difference, interval) = effect(row);
        cells.extend([difference, interval]);
        cells.push(match row.runs_to_tell {
            Some(Ok(runs)) => runs.to_string(),
            Some(Err(most)) => format!("more than {most}"),
            None if is_unknown => "?".to_owned(),
            None => String::new(),
        });
        grid.row(cells);
    }
    grid
}

fn possible(known: Known) -> Option<Possible> {
    known.low.is_finite().then_some(Possible {
        low: known.low,
        high: Some(known.high).filter(|high| high.is_finite()),
    })
}

/// Returns the difference in words with its 95 % interval: `5.6 times lower`, `5.1 to 6.2`.
fn effect(row: &Answered) -> (String, String) {
    let of = &row.contrast;
    if of.is_fixed && of.difference.value == Some(0.0) {
        return ("none".to_owned(), "every run is the same".to_owned());
    }
    let (value, interval) = match (of.ratio, of.side()) {
        (Some(ratio), Some(side)) => of_ratio(ratio, side, row.answer),
        _ => of_difference(row),
    };
    let unknown = if of.is_fixed { "the same in every run" } else { "unknown" };
    (value, interval.unwrap_or_else(|| unknown.to_owned()))
}

/// Puts a ratio into words: as so many times from 2 on, else in per cent.
fn of_ratio(ratio: Interval, side: Ordering, answer: Answer) -> (String, Option<String>) {
    let word = if side == Ordering::Less { "lower" } else { "higher" };
    let value = ratio.value.or(ratio.ends.map(|(low, high)| match side {
        Ordering::Less => high,
        _ => low,
    }));
    let Some(value) = value else { return (format!("{word}, by an unknown ratio"), None) };
    let least = if ratio.value.is_none() { "at least " } else { "" };
    let is_told = matches!(answer, Answer::Better | Answer::Worse | Answer::Differs);
    if value.max(1.0 / value) >= TIMES && is_told {
        let times = |ratio: f64| if side == Ordering::Less { 1.0 / ratio } else { ratio };
        let ends = ratio.ends.map(|(low, high)| {
            let (a, b) = (times(low), times(high));
            between(a.min(b), a.max(b), false, "")
        });
        return (format!("{least}{} times {word}", short(times(value))), ends);
    }
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let ends = ratio.ends.map(|(low, high)| match (is_told, side) {
        (true, Ordering::Less) => between(-percent(high), -percent(low), false, " %"),
        (true, _) => between(percent(low), percent(high), false, " %"),
        (false, _) => between(percent(low), percent(high), true, " %"),
    });
    (format!("{least}{} % {word}", short(percent(value).abs())), ends)
}

/// Puts a difference into words, in the unit of the metric.
fn of_difference(row: &Answered) -> (String, Option<String>) {
    let of = &row.contrast.difference;
    let ends = of.ends.unwrap_or((0.0, 0.0));
    let all = [of.value.unwrap_or(0.0), ends.0, ends.1].map(f64::abs);
    let largest = all.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let scale = Scale::of_unit(row.metric.unit(), largest);
    let unit = match scale.unit() {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let show = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", scale.show(Some(value)))
    };
    let value = of.value.map_or("unknown".to_owned(), |value| format!("{}{unit}", show(value)));
    (value, of.ends.map(|(low, high)| span(low, high, show, &unit)))
}

fn span(low: f64, high: f64, show: impl Fn(f64) -> String, unit: &str) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}{unit}", show(low), show(high)),
        (true, false) => format!("{}{unit} and more", show(low)),
        (false, true) => format!("{}{unit} and less", show(high)),
        (false, false) => "any".to_owned(),
    }
}

/// Formats a number with two digits, or three from 100 on, and `more` of them.
fn digits(value: f64, more: usize) -> String {
    let digits = match value.abs() {
        x if x == 0.0 || x >= 9.95 => 0,
        x if x >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.*}", digits + more)
}

fn short(value: f64) -> String {
    digits(value, 0)
}

/// Formats an interval with as many digits as show both ends.
fn between(low: f64, high: f64, is_signed: bool, unit: &str) -> String {
    let more = (0..4).find(|more| digits(low, *more) != digits(high, *more)).unwrap_or(0);
    let show = |value: f64| {
        let sign = if is_signed && value > 0.0 { "+" } else { "" };
        format!("{sign}{}", digits(value, more))
    };
    span(low, high, show, unit)
}

/// Makes a sentence for each case and combination of varied values: what got better most of what matters most, and what got worse.
fn headlines(of: &Answers) -> Vec<String> {
    let mut lines = Vec::new();
    let mut places: Vec<(&str, &str)> = Vec::new();
    for row in &of.rows {
        if !places.contains(&(&row.case, &row.at)) {
            places.push((&row.case, &row.at));
        }
    }
    for (case, at) in places {
        let here =
            || of.rows.iter().filter(|row| row.case == case && row.at == at && row.is_question);
        let first = |answer: Answer| {
            let told = here().filter(|row| row.answer == answer);
            told.max_by(|x, y| weight(x).partial_cmp(&weight(y)).unwrap_or(Ordering::Equal))
        };
        let place = if at.is_empty() { String::new() } else { format!(", {at}") };
        let (better, worse) = (first(Answer::Better), first(Answer::Worse));
        let says = |row: &Answered| {
            let (difference, interval) = effect(row);
            (format!("{} {difference}", row.name()), interval)
        };
        let than = format!("than {}'s", of.cases[0]);
        // What is not told is not the same.
        let untold = match here().filter(|row| row.answer == Answer::Unknown).count() {
            0 => String::new(),
            1 => ", and one question cannot be told".to_owned(),
            many => format!(", and {many} questions cannot be told"),
        };
        let sentence = match (better.map(says), worse.map(says)) {
            (Some((a, a_ends)), Some((b, b_ends))) => {
                format!("{a} {than} ({a_ends}), but {b} ({b_ends})")
            }
            (Some((a, ends)), None) => {
                format!("{a} {than} ({ends}); nothing got measurably worse{untold}")
            }
            (None, Some((b, ends))) => {
                format!("{b} {than} ({ends}); nothing got measurably better{untold}")
            }
            (None, None) => {
                format!("nothing got measurably better or worse than {}{untold}", of.cases[0])
            }
        };
        lines.push(format!("{case}{place}: {sentence}"));
    }
    lines
}

/// Returns how much a told figure matters: the tail of a time, then times and rates, then the rest; the larger ratio first.
fn weight(row: &Answered) -> (u8, f64) {
    let rank = match (row.metric.unit(), row.stat) {
        ("s", Stat::P99) => 3,
        ("s" | "bps", _) => 2,
        _ if is_of_queue(row.metric) => 0,
        _ => 1,
    };
    let ratio = row.contrast.ratio.and_then(|ratio| ratio.value);
    (rank, ratio.map_or(0.0, |ratio| ratio.ln().abs()))
}

fn footer(of: &Answers, show_all: bool) -> Vec<String> {
    let count = |is: &dyn Fn(&Answered) -> bool| of.rows.iter().filter(|row| is(row)).count();
    let paired = count(&|row| row.is_question && row.contrast.is_paired);
    let questions = count(&|row| row.is_question);
    let runs = of.rows.iter().map(|row| row.contrast.runs.0.min(row.contrast.runs.1)).max();
    let mut lines = of.notes.clone();
    let pairs = match paired {
        0 => "Runs are not paired by seed: that takes five pairs, which gain more than they cost"
            .to_owned(),
        _ if paired == questions => "Runs are paired by seed".to_owned(),
        _ => format!(
            "Runs are paired by seed in {paired} of {questions} questions, which have five pairs"
        ),
    };
    let correction = match of.families[0] {
        0 => String::new(),
        n => format!(
            ". Holm's correction for {n} questions: the chance that any answer above is wrong is at most 5 %. \
             Each interval alone holds the truth in 95 %"
        ),
    };
    lines.push(format!("{pairs}{correction}."));
    if runs.is_some_and(|runs| runs < ENOUGH_RUNS) {
        lines.push(format!(
            "Fewer than {ENOUGH_RUNS} runs may miss what happens in a few runs only, as a timeout: --repeat {ENOUGH_RUNS}."
        ));
    }
    if !show_all {
        let same = count(&|row| row.is_question && row.answer == Answer::Same);
        let others = count(&|row| !row.is_question);
        lines.push(format!(
            "{same} questions are the same within {} %, and {others} figures are no questions: --all shows them.",
            rounded(100.0 * of.within)
        ));
    }
    lines
}

/// Returns answers as a JSON object.
pub fn answers_json(of: &Answers) -> Json {
    let cases: Vec<Json> = of
        .cases
        .iter()
        .zip(&of.picked)
        .map(|(name, from)| {
            json!({ "name": name, "dir": from.dir.display().to_string(), "case": from.case })
        })
        .collect();
    json!({
        "baseline": of.cases[0],
        "cases": cases,
        "differences": of.differences,
        "within": of.within,
        "correction": "Holm",
        "questions": of.families[0],
        "others": of.families[1],
        "figures": of.rows.iter().map(json_of_row).collect::<Vec<_>>(),
        "notes": of.notes,
    })
}

fn json_of_row(row: &Answered) -> Json {
    let of = &row.contrast;
    let mut map = Map::new();
    let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
    put("answer", row.answer.name().into());
    put("case", row.case.clone().into());
    put("at", row.at.clone().into());
    put("subject", row.subject.clone().into());
    put("metric", row.metric.name().into());
    put("stat", row.stat.name().into());
    put("unit", row.metric.unit().into());
    put("is_question", row.is_question.into());
    let better = match row.metric.better() {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    };
    put("better", better.into());
    put("runs", of.runs.0.into());
    put("runs_of_baseline", of.runs.1.into());
    put("is_paired", of.is_paired.into());
    put("is_fixed", of.is_fixed.into());
    // Unknown and infinite values are absent.
    let mut numbers = vec![("p", of.p), ("p_corrected", row.adjusted)];
    for (name, least, most, known) in [
        ("mean", "mean_at_least", "mean_at_most", of.means.0),
        ("baseline", "baseline_at_least", "baseline_at_most", of.means.1),
    ] {
        match known.is_exact() {
            true => numbers.push((name, Some(known.low))),
            false => numbers.extend([(least, Some(known.low)), (most, Some(known.high))]),
        }
    }
    let difference = (["difference", "difference_low", "difference_high"], Some(of.difference));
    let ratio = (["ratio", "ratio_low", "ratio_high"], of.ratio);
    for ([value, low, high], interval) in [difference, ratio] {
        let Some(interval) = interval else { continue };
        numbers.extend([
            (value, interval.value),
            (low, interval.ends.map(|ends| ends.0)),
            (high, interval.ends.map(|ends| ends.1)),
        ]);
    }
    for (name, number) in numbers {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            put(name, rounded(number).into());
        }
    }
    match row.runs_to_tell {
        Some(Ok(runs)) => put("runs_to_tell", runs.into()),
        Some(Err(most)) => put("runs_to_tell_above", most.into()),
        None => None,
    };
    Json::Object(map)
}
