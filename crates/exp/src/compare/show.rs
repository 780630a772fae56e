//! A comparison for people and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::{Comparison, Line, Mean, Side};
use crate::difference::Verdict;
use crate::report::rounded;
use crate::table::{Align, Grid, Scale};

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "agree",
        Verdict::Differs => "differ",
        Verdict::Undecided => "undecided",
    }
}

/// The lines, the worst first, what was left out, and how many there are of each verdict.
pub fn render(comparison: &Comparison) -> String {
    let mut out = String::new();
    let side = |name: &str, side: &Side| {
        let scale = match side.scale {
            1.0 => String::new(),
            scale => format!(", SCALE {scale}"),
        };
        let back_end = match side.back_end.as_str() {
            "sim" => format!("simulator as Linux {}", side.linux),
            other => other.to_owned(),
        };
        format!("{name}: {} ({}, {back_end}{scale})\n", side.dir.display(), side.experiment)
    };
    out.push_str(&side("A", &comparison.a));
    out.push_str(&side("B", &comparison.b));
    if !comparison.differences.is_empty() {
        let _ = writeln!(
            out,
            "FORCED: the experiments differ in {}",
            comparison.differences.join(", ")
        );
    }
    let _ = writeln!(out, "\n{}\n", grid(comparison).render());
    for left_out in &comparison.left_out {
        let _ = writeln!(out, "{left_out}");
    }
    let _ = writeln!(
        out,
        "{} differ, {} undecided, {} agree (within {} % or the 95 % interval of the difference)",
        comparison.count(Verdict::Differs),
        comparison.count(Verdict::Undecided),
        comparison.count(Verdict::Ok),
        rounded(100.0 * comparison.options.within)
    );
    out
}

fn grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::default();
    let heads = ["verdict", "row", "subject", "metric"];
    grid.head(heads.map(str::to_owned), Align::Left);
    let heads = ["A", "± 95 %", "B", "± 95 %", "diff %", "± 95 %", "runs"];
    grid.head(heads.map(str::to_owned), Align::Right);
    grid.head(["", ""].map(str::to_owned), Align::Left);
    for line in &comparison.lines {
        grid.row(cells(line));
    }
    grid
}

fn cells(line: &Line) -> Vec<String> {
    let scale = Scale::of_unit(&line.unit, line.a.mean.max(line.b.mean));
    let percent = |value: f64| match line.scale {
        0.0 => String::new(),
        scale => format!("{:.1}", 100.0 * value / scale),
    };
    let verdict = match line.verdict {
        Verdict::Differs => "DIFFER".to_owned(),
        other => word(other).to_owned(),
    };
    let significance = match line.is_significant() {
        Some(true) => "significant",
        Some(false) => "",
        None => "?",
    };
    vec![
        verdict,
        line.row.clone(),
        line.subject.clone(),
        format!("{}{}", line.metric, scale.suffix()),
        scale.show(Some(line.a.mean)),
        scale.show(line.a.ci95),
        scale.show(Some(line.b.mean)),
        scale.show(line.b.ci95),
        percent(line.difference()),
        line.half_width.map_or_else(String::new, percent),
        format!("{}/{}", line.a.runs, line.b.runs),
        significance.to_owned(),
        line.note.to_owned(),
    ]
}

/// The same as one JSON object.
pub fn json(comparison: &Comparison) -> Json {
    let side = |side: &Side| {
        json!({
            "dir": side.dir.display().to_string(),
            "experiment": side.experiment,
            "back_end": side.back_end,
            "scale": side.scale,
            "linux_profile": side.linux,
        })
    };
    let lines: Vec<Json> = comparison.lines.iter().map(json_of_line).collect();
    json!({
        "a": side(&comparison.a),
        "b": side(&comparison.b),
        "within": comparison.options.within,
        "differences": comparison.differences,
        "left_out": comparison.left_out,
        "differ": comparison.count(Verdict::Differs),
        "undecided": comparison.count(Verdict::Undecided),
        "agree": comparison.count(Verdict::Ok),
        "figures": lines,
    })
}

fn json_of_line(line: &Line) -> Json {
    let mean = |mean: &Mean| {
        let mut map = Map::new();
        map.insert("mean".into(), rounded(mean.mean).into());
        map.extend(mean.ci95.map(|ci95| ("ci95".into(), rounded(ci95).into())));
        map.insert("runs".into(), mean.runs.into());
        Json::Object(map)
    };
    let share = |value: f64| (line.scale > 0.0).then(|| rounded(value / line.scale));
    let mut map = Map::new();
    map.insert("verdict".into(), word(line.verdict).into());
    map.insert("row".into(), line.row.clone().into());
    map.insert("subject".into(), line.subject.clone().into());
    map.insert("metric".into(), line.metric.clone().into());
    if !line.unit.is_empty() {
        map.insert("unit".into(), line.unit.clone().into());
    }
    map.insert("a".into(), mean(&line.a));
    map.insert("b".into(), mean(&line.b));
    map.insert("difference".into(), rounded(line.difference()).into());
    // What was not known is absent.
    let known = [
        ("difference_share", share(line.difference())),
        ("difference_ci95", line.half_width.map(rounded)),
    ];
    map.extend(known.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))));
    map.extend(line.is_significant().map(|is| ("significant".into(), is.into())));
    if !line.note.is_empty() {
        map.insert("note".into(), line.note.into());
    }
    Json::Object(map)
}
