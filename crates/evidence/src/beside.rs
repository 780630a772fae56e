//! Shows a sweep for `knee reproduce`: published figures beside ours, claims with the figures that decide them, a
//! line of blocks.

use std::fmt::Write as _;

use knee_scenario::chart::{CASE, Chart, Kind};
use knee_scenario::claim::{Claim, short};
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Metric;
use knee_scenario::published::{Published, Stat};
use knee_scenario::stats::Possible;
use knee_sweep::sweep_result::{Summaries, SweepResult};

use crate::judge::{ClaimVerdict, Interval, Judged, judge};
use crate::stats::half;
use crate::table::{Align, Grid, Scale, wrapped};

/// Shows everything in reading order. `blessed` returns the golden verdict of a claim, by its name.
pub fn show<'a>(
    experiment: &Experiment,
    swept: &SweepResult,
    blessed: &dyn Fn(&str) -> Option<&'a str>,
) -> String {
    let mut out = format!("{}\n", experiment.name);
    out.push_str(&wrapped(&experiment.question, "  "));
    out.push_str(&published(experiment, swept));
    for claim in &experiment.claims {
        out.push_str(&of_claim(
            claim,
            &judge(claim, experiment, swept),
            blessed(&claim.name).filter(|_| !swept.interrupted),
            experiment.is_quick,
        ));
    }
    out.push_str(&blocks(experiment, swept));
    out
}

/// Returns our rows for a published figure, each with its case.
fn rows<'a>(
    published: &'a Published,
    experiment: &'a Experiment,
    swept: &'a SweepResult,
) -> impl Iterator<Item = &'a Summaries> + 'a {
    swept.tables.iter().filter(move |row| {
        let labels = experiment.point_labels(&row.configuration);
        let case = experiment.case_name(&row.configuration);
        published.cases.iter().any(|name| name == case)
            && published.at.iter().all(|(path, value)| {
                let axis = experiment.axes.iter().position(|axis| axis.path == *path);
                axis.is_some_and(|axis| labels[axis] == *value)
            })
    })
}

fn published(experiment: &Experiment, swept: &SweepResult) -> String {
    if experiment.published.is_empty() || !experiment.scale.is_one() {
        return String::new();
    }
    let mut grid = Grid::default();
    grid.head(["figure", "at", "case"].map(str::to_owned), Align::Left);
    grid.head(["published", "ours", "± 95 %", "ratio"].map(str::to_owned), Align::Right);
    let mut left_out = 0;
    for figure in &experiment.published {
        let before = grid.len();
        for row in rows(figure, experiment, swept) {
            let subject = row.subjects.iter().find(|subject| subject.name == figure.subject);
            let summary = subject.and_then(|subject| subject.metric(figure.metric));
            let ours = summary.and_then(|summary| figure.stat.possible(summary));
            let ci95 = summary.and_then(|summary| half(figure.stat, summary));
            let ratio = ours.filter(|_| figure.value != 0.0).map(|ours| Possible {
                low: ours.low / figure.value,
                high: ours.high.map(|high| high / figure.value),
            });
            let unit = figure.metric.unit();
            let stat = match figure.stat {
                Stat::Mean => String::new(),
                other => format!("{} of ", other.name()),
            };
            grid.row(vec![
                format!("{stat}{} of {}", figure.metric.name(), figure.subject),
                place(experiment, row),
                experiment.case_name(&row.configuration).to_owned(),
                figure.text.clone(),
                bounds(ours, |value| with_unit(Some(value), unit)),
                with_unit(ci95, unit),
                bounds(ratio, |ratio| format!("{ratio:.2}")),
            ]);
        }
        left_out += usize::from(grid.len() == before);
    }
    let mut out = String::from("\n");
    if grid.len() > 0 {
        let _ = writeln!(out, "{}", grid.render());
    }
    if left_out > 0 {
        let _ = writeln!(out, "  {left_out} published figures belong to rows that were not run");
    }
    out
}

/// Describes the varied values of a row, by the last part of their paths.
fn place(experiment: &Experiment, row: &Summaries) -> String {
    let labels = experiment.point_labels(&row.configuration);
    let axes = experiment.axes.iter().zip(labels).filter(|(axis, _)| axis.labels().len() > 1);
    axes.map(|(axis, label)| format!("{} {label}", short(&axis.path)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn bounds(known: Option<Possible>, show: impl Fn(f64) -> String) -> String {
    known.map_or_else(String::new, |bounds| bounds.show(show))
}

fn with_unit(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else { return String::new() };
    let scale = Scale::of_unit(unit, value.abs());
    format!("{} {}", scale.show(Some(value)), scale.unit()).trim_end().to_owned()
}

fn of_claim(claim: &Claim, judged: &Judged, blessed: Option<&str>, is_quick: bool) -> String {
    let by = if claim.by == knee_scenario::claim::By::Us { " (derived by us)" } else { "" };
    let verdict = judged.verdict.name();
    let mut out = String::from("\n");
    let scope = judged.scope();
    let scope = if scope.is_empty() { scope } else { format!(" ({scope})") };
    let line = format!("{}{scope}: {}{by}", verdict.to_uppercase(), claim.says);
    out.push_str(&wrapped(&line, "  "));
    if let Some(blessed) = blessed.filter(|blessed| *blessed != verdict) {
        let _ = writeln!(out, "    CHANGED: it was \"{blessed}\"");
    }
    for (check, judged) in claim.checks.iter().zip(&judged.checks) {
        let _ = writeln!(out, "    {:<9}  {}", judged.verdict.name(), check.says());
        for row in &judged.rows {
            let at = if row.at.is_empty() { String::new() } else { format!("{}: ", row.at) };
            let mark = if judged.rows.len() > 1 { row.verdict.name() } else { "" };
            let value = row.value.map_or("not measured".into(), |v| interval(v, check.unit()));
            let _ = writeln!(out, "               {at}{value}  {mark}");
        }
    }
    let stands = judged.verdict == ClaimVerdict::Stands;
    if let Some(cannot) = &claim.cannot {
        out.push_str(&wrapped(cannot, "    "));
    }
    if let Some(because) = claim.because.as_ref().filter(|_| !stands) {
        let see = claim.see.as_ref().map_or_else(String::new, |see| format!(" (see {see})"));
        let of = if is_quick { ", in the full set" } else { "" };
        out.push_str(&wrapped(&format!("because{of}: {because}{see}"), "    "));
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats a value and its interval, each with a unit.
fn interval(Interval { value, low, high }: Interval, unit: &str) -> String {
    let shown = with_unit(value, unit);
    if low == high {
        return shown;
    }
    let low = with_unit(Some(low), unit);
    let ends = match high.is_finite() {
        true => format!("{low} to {}", with_unit(Some(high), unit)),
        false if value.is_none() => return format!("> {low}"),
        false => format!("{low} to any"),
    };
    if value.is_none() { ends } else { format!("{shown} ({ends})") }
}

/// Draws a line of blocks per case over the first varied axis. Empty if nothing varies.
fn blocks(experiment: &Experiment, swept: &SweepResult) -> String {
    let varied = |axis: &usize| experiment.axes[*axis].labels().len() > 1;
    let Some((subject, metric, stat, x)) = drawn(experiment, swept) else { return String::new() };
    let named = experiment.axes.iter().position(|axis| Some(&axis.path) == x.as_ref());
    let axis = named.filter(varied).or_else(|| (0..experiment.axes.len()).find(varied));
    let Some(axis) = axis else { return String::new() };
    // The other axes stay at their first value.
    let lines: Vec<(&str, Vec<Option<f64>>)> = experiment
        .cases
        .iter()
        .enumerate()
        .map(|(case, named)| {
            let at = |i: usize| {
                let row = swept.tables.iter().find(|row| {
                    let point = row.configuration.point.iter().enumerate();
                    row.configuration.case == case
                        && point.into_iter().all(|(a, v)| *v == if a == axis { i } else { 0 })
                })?;
                stat.of(row.subjects.iter().find(|s| s.name == subject)?.metric(metric)?)
            };
            let values = (0..experiment.axes[axis].labels().len()).map(at).collect();
            (named.name.as_str(), values)
        })
        .collect();
    let all: Vec<f64> =
        lines.iter().flat_map(|(_, values)| values.iter().flatten()).copied().collect();
    let most = all.iter().copied().fold(0.0, f64::max);
    if all.is_empty() || most <= 0.0 {
        return String::new();
    }
    let labels = experiment.axes[axis].labels();
    let (first, last) = (labels.first().cloned(), labels.last().cloned());
    let others = (0..experiment.axes.len()).filter(|other| *other != axis && varied(other));
    let others = others.map(|other| {
        let axis = &experiment.axes[other];
        format!(", {} {}", short(&axis.path), axis.labels().first().cloned().unwrap_or_default())
    });
    let mut out = format!(
        "\n  {} of {subject} over {}, {} to {}{}; a full block is {}\n",
        metric.name(),
        short(&experiment.axes[axis].path),
        first.unwrap_or_default(),
        last.unwrap_or_default(),
        others.collect::<String>(),
        with_unit(Some(most), metric.unit()),
    );
    let widest = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, values) in lines {
        let blocks: String = values.iter().map(|value| block(*value, most)).collect();
        let ends: Vec<String> = [values.first(), values.last()]
            .into_iter()
            .flatten()
            .map(|value| with_unit(*value, metric.unit()))
            .collect();
        let _ = writeln!(out, "  {name:<widest$}  {blocks}  {}", ends.join(" to "));
    }
    out
}

/// The figure to draw: the first chart, else the first claim's figure, else the first published one.
fn drawn(
    experiment: &Experiment,
    swept: &SweepResult,
) -> Option<(String, Metric, Stat, Option<String>)> {
    let of_chart = |chart: &Chart| {
        let x = Some(chart.x.clone()).filter(|x| x != CASE);
        let figure = &chart.figure;
        (figure.subject.clone(), figure.metric, figure.stat, x)
    };
    let charts = experiment.charts.iter();
    let charts = charts.filter(|chart| matches!(chart.kind, Kind::Lines | Kind::Bars));
    let claimed =
        experiment.claims.iter().flat_map(|claim| &claim.checks).map(|check| &check.figure);
    let claimed = claimed.map(|term| (term.subject.clone(), term.metric, term.stat, None));
    let published =
        experiment.published.iter().map(|p| (p.subject.clone(), p.metric, p.stat, None));
    let shown = swept.tables.iter().flat_map(|row| &row.subjects).filter_map(|subject| {
        Some((subject.name.clone(), subject.metrics.first()?.0, Stat::Mean, None))
    });
    charts.map(of_chart).chain(claimed).chain(published).chain(shown).next()
}

/// Returns a block of one of eight heights, or a dot for a missing value.
fn block(value: Option<f64>, most: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match value {
        None => '·',
        Some(value) => {
            let height = (value / most * 8.0).ceil().clamp(1.0, 8.0);
            BLOCKS[height as usize - 1]
        }
    }
}
