//! Prints a comparison as text or JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use knee_scenario::stats::{Possible, rounded};
use serde_json::{Map, Value as Json, json};

use super::{Comparison, Line, Mean, Options, Side};
use crate::difference::Verdict;
use crate::table::{Align, Grid, Scale};

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "agree",
        Verdict::Differs => "differ",
        Verdict::Undecided => "undecided",
    }
}

/// Returns the letter of a directory, by index.
fn letter(index: usize) -> String {
    char::from_u32('A' as u32 + index as u32)
        .filter(char::is_ascii_uppercase)
        .map_or_else(|| format!("#{}", index + 1), String::from)
}

/// Formats all comparisons as one table, the worst lines first, then what was left out and the counts per verdict.
/// `comparisons` holds at least one comparison, each of the first directory with another.
pub fn render(comparisons: &[Comparison]) -> String {
    let Some(first) = comparisons.first() else { return String::new() };
    let mut out = String::new();
    let sides = [&first.a].into_iter().chain(comparisons.iter().map(|comparison| &comparison.b));
    for (index, side) in sides.enumerate() {
        out.push_str(&describe(&letter(index), side));
    }
    for (comparison, name) in comparisons.iter().zip((1..).map(letter)) {
        if !comparison.differences.is_empty() {
            let _ = writeln!(
                out,
                "FORCED: the experiments differ in {}{}",
                comparison.differences.join(", "),
                if comparisons.len() > 1 { format!(" (A and {name})") } else { String::new() }
            );
        }
    }
    let mut forced: Vec<&String> = comparisons.iter().flat_map(|one| &one.of_host).collect();
    // The first directory's entries are the same in every pair.
    let mut told = BTreeSet::new();
    forced.retain(|of_host| told.insert(*of_host));
    for of_host in forced {
        let _ = writeln!(out, "FORCED: {of_host}");
    }
    let (table, hidden) = match comparisons {
        [one] => grid(one),
        several => grid_of_several(several),
    };
    let _ = match table.len() {
        0 => writeln!(out),
        _ => writeln!(out, "\n{}\n", table.render()),
    };
    let mut told = BTreeSet::new();
    for left_out in comparisons.iter().flat_map(|comparison| &comparison.left_out) {
        if told.insert(left_out) {
            let _ = writeln!(out, "{left_out}");
        }
    }
    for (comparison, name) in comparisons.iter().zip((1..).map(letter)) {
        let _ = writeln!(
            out,
            "{}{} differ, {} undecided, {} agree (within {} % or the 95 % interval of the difference)",
            if comparisons.len() > 1 { format!("A and {name}: ") } else { String::new() },
            comparison.count(Verdict::Differs),
            comparison.count(Verdict::Undecided),
            comparison.count(Verdict::Ok),
            rounded(100.0 * comparison.options.within)
        );
    }
    if hidden > 0 {
        let _ = writeln!(out, "{hidden} figures that agree are not listed: --all lists them");
    }
    out
}

fn describe(name: &str, side: &Side) -> String {
    let scale = match side.scale {
        1.0 => String::new(),
        scale => format!(", SCALE {scale}"),
    };
    let back_end = match (side.is_simulated, side.back_end.as_str()) {
        (true, _) => format!("simulator as Linux {}", side.linux),
        (false, "") => "unknown back end".to_owned(),
        (false, name) => name.to_owned(),
    };
    format!("{name}: {} ({}, {back_end}{scale})\n", side.dir.display(), side.experiment)
}

/// Makes a line for each figure, and counts those that are not listed.
fn grid(comparison: &Comparison) -> (Grid, usize) {
    let mut grid = Grid::default();
    let heads = ["verdict", "row", "subject", "metric"];
    grid.head(heads.map(str::to_owned), Align::Left);
    let heads = ["A", "± 95 %", "B", "± 95 %", "diff", "± 95 %", "runs"];
    grid.head(heads.map(str::to_owned), Align::Right);
    grid.head(["", ""].map(str::to_owned), Align::Left);
    for line in comparison.lines.iter().filter(|line| is_shown(line, comparison.options)) {
        grid.row(cells(line));
    }
    let hidden = comparison.lines.len() - grid.len();
    (grid, hidden)
}

fn is_shown(line: &Line, options: Options) -> bool {
    options.show_all || line.verdict != Verdict::Ok
}

fn shown(verdict: Verdict) -> String {
    match verdict {
        Verdict::Differs => "DIFFER".to_owned(),
        other => word(other).to_owned(),
    }
}

/// Formats a difference as a percentage of the first mean, or in the unit of the line if that is zero.
fn difference(line: &Line, scale: &Scale, value: f64) -> String {
    match line.share(value) {
        Some(share) => format!("{:.1} %", 100.0 * share),
        None => scale.show(Some(value)),
    }
}

/// Puts a sign before a difference.
fn signed(line: &Line, scale: &Scale) -> String {
    let shown = difference(line, scale, line.difference());
    let sign = if line.difference() > 0.0 { "+" } else { "" };
    // Of bounds it is the least that lies between them.
    match line.a.is_bound || line.b.is_bound {
        true if line.is_open() => String::new(),
        true if line.difference() > 0.0 => format!("> {sign}{shown}"),
        true if line.difference() < 0.0 => format!("< {shown}"),
        _ => format!("{sign}{shown}"),
    }
}

fn shown_mean(mean: &Mean, scale: &Scale) -> String {
    let high = if mean.is_bound { mean.at_most } else { Some(mean.mean) };
    scale.show_possible(Some(Possible { low: mean.mean, high }))
}

fn cells(line: &Line) -> Vec<String> {
    let scale = Scale::of_unit(&line.unit, line.a.mean.max(line.b.mean));
    let significance = match line.is_significant() {
        Some(true) => "significant",
        Some(false) => "",
        None if line.is_open() => "",
        None => "?",
    };
    vec![
        shown(line.verdict),
        line.row.clone(),
        line.subject.clone(),
        format!("{}{}", line.metric, scale.suffix()),
        shown_mean(&line.a, &scale),
        scale.show(line.a.ci95),
        shown_mean(&line.b, &scale),
        scale.show(line.b.ci95),
        signed(line, &scale),
        line.half_width.map_or_else(String::new, |half| difference(line, &scale, half)),
        format!("{}/{}", line.a.runs, line.b.runs),
        significance.to_owned(),
        line.note.to_owned(),
    ]
}

/// Makes a line for each figure that the first directory shares with another: the first mean, then for each other
/// directory its mean, the difference and the verdict. Lines are sorted by their worst verdict. Counts those that are not listed.
fn grid_of_several(comparisons: &[Comparison]) -> (Grid, usize) {
    let mut grid = Grid::default();
    grid.head(["row", "subject", "metric"].map(str::to_owned), Align::Left);
    grid.head(["A", "± 95 %"].map(str::to_owned), Align::Right);
    for name in (1..=comparisons.len()).map(letter) {
        grid.head([name, "± 95 %".to_owned(), "diff".to_owned()], Align::Right);
        grid.head(["verdict".to_owned()], Align::Left);
    }
    let mut rows: BTreeMap<[&str; 3], Vec<Option<&Line>>> = BTreeMap::new();
    for (at, comparison) in comparisons.iter().enumerate() {
        for line in &comparison.lines {
            let name = [line.row.as_str(), &line.subject, &line.metric];
            rows.entry(name).or_insert_with(|| vec![None; comparisons.len()])[at] = Some(line);
        }
    }
    let within = comparisons.first().map_or(0.0, |first| first.options.within);
    let badness = |row: &[Option<&Line>]| {
        let each = row.iter().flatten().map(|line| line.badness(within));
        each.fold((0, 0.0), |worst, one| if one > worst { one } else { worst })
    };
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|x, y| {
        let (x, y) = (badness(x), badness(y));
        y.0.cmp(&x.0).then(y.1.total_cmp(&x.1))
    });
    let options = comparisons.first().map(|first| first.options).unwrap_or_default();
    let is_listed =
        |row: &&Vec<Option<&Line>>| row.iter().flatten().any(|line| is_shown(line, options));
    rows.iter().filter(is_listed).for_each(|row| grid.row(cells_of_several(row)));
    let hidden = rows.len() - grid.len();
    (grid, hidden)
}

fn cells_of_several(row: &[Option<&Line>]) -> Vec<String> {
    let there: Vec<&Line> = row.iter().flatten().copied().collect();
    let largest =
        there.iter().fold(0.0, |largest: f64, line| largest.max(line.a.mean).max(line.b.mean));
    let first = there[0];
    let scale = Scale::of_unit(&first.unit, largest);
    let mut cells = vec![
        first.row.clone(),
        first.subject.clone(),
        format!("{}{}", first.metric, scale.suffix()),
        shown_mean(&first.a, &scale),
        scale.show(first.a.ci95),
    ];
    for line in row {
        cells.extend(match line {
            None => [String::new(), String::new(), String::new(), "-".to_owned()],
            Some(line) => [
                shown_mean(&line.b, &scale),
                scale.show(line.b.ci95),
                signed(line, &scale),
                shown(line.verdict),
            ],
        });
    }
    cells
}

/// Returns a comparison as a JSON object.
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
        "of_host": comparison.of_host,
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
        let name = if mean.is_bound { "mean_at_least" } else { "mean" };
        map.insert(name.into(), rounded(mean.mean).into());
        let at_most = mean.at_most.filter(|_| mean.is_bound);
        map.extend(at_most.map(|at_most| ("mean_at_most".into(), rounded(at_most).into())));
        map.extend(mean.ci95.map(|ci95| ("ci95".into(), rounded(ci95).into())));
        map.insert("runs".into(), mean.runs.into());
        Json::Object(map)
    };
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
    // Unknown values are absent.
    let difference = Some(line.difference()).filter(|_| !line.is_open());
    let known = [
        ("difference", difference.map(rounded)),
        ("difference_share", difference.and_then(|value| line.share(value)).map(rounded)),
        ("difference_ci95", line.half_width.map(rounded)),
    ];
    map.extend(known.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))));
    map.extend(line.is_significant().map(|is| ("significant".into(), is.into())));
    if !line.note.is_empty() {
        map.insert("note".into(), line.note.into());
    }
    Json::Object(map)
}
