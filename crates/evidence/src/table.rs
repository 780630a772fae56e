//! A sweep as text tables.

use std::collections::HashSet;
use std::fmt::Write as _;

use knee_inference::values_needed;
use knee_results::ResultFile;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Metric};
use knee_scenario::published::Stat;
use knee_scenario::remarks;
use knee_scenario::stats::Possible;
use knee_sweep::report::published_for;
use knee_sweep::sweep_result::{Subject, Summaries, SweepResult, Verdict};
use knee_units::aligned;

use crate::judge::{ClaimVerdict, judge};
use crate::stats;

/// Largest number of queues in tables that are to fit a screen.
const MOST_QUEUES: usize = 8;

/// Formats the whole sweep: the settings, a table for each traffic entry and queue, and unfinished transfers.
pub fn render(experiment: &Experiment, swept: &SweepResult) -> String {
    around(experiment, swept, &all_tables(experiment, swept, usize::MAX), usize::MAX)
}

/// Formats the same without the tables of more queues than fit a screen, and says so.
pub(crate) fn render_fitting(experiment: &Experiment, swept: &SweepResult) -> String {
    around(experiment, swept, &all_tables(experiment, swept, MOST_QUEUES), usize::MAX)
}

/// Adds the settings and at most `most` notes on single rows to these tables.
pub(crate) fn around(
    experiment: &Experiment,
    swept: &SweepResult,
    tables: &str,
    most_notes: usize,
) -> String {
    let mut out = String::new();
    let runs = match experiment.repeat {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let _ = writeln!(out, "{}: {}", experiment.name, experiment.question);
    let tcp = match swept.is_model {
        true => "Linux TCP, simulated".to_owned(),
        false => format!("real TCP, on {}", swept.back_end),
    };
    let _ = writeln!(out, "  {runs} of each row, seed {}; {tcp}", experiment.seed);
    if !experiment.scale.is_one() {
        let scale = experiment.scale.share();
        let _ = writeln!(
            out,
            "  SCALE {scale}: every rate is multiplied by {scale}, every time by {}",
            (1000.0 / scale).round() / 1000.0
        );
    }
    if let Some(expect) = &experiment.expect {
        out.push_str(&wrapped(&format!("expected: {expect}"), "  "));
    }
    let remarks = remarks::of_back_end(experiment, swept.back_end, &swept.about);
    // What a run is too short for was said before it began, and a note below says what it cut off.
    let of_figures = remarks.iter().filter(|remark| remark.topic != remarks::Topic::Timeouts);
    of_figures.for_each(|remark| out.push_str(&wrapped(&remark.words(), "  ")));
    out.push_str(tables);
    out.push_str(&footnotes(experiment, swept, most_notes));
    out.push_str(&claims(experiment, swept));
    out
}

fn all_tables(experiment: &Experiment, swept: &SweepResult, most_queues: usize) -> String {
    let mut out = String::new();
    let (queues, traffic): (Vec<_>, Vec<_>) = subjects(swept)
        .into_iter()
        .partition(|(_, kind)| matches!(kind, Kind::Queue | Kind::Buffer));
    for (name, kind) in traffic {
        out.push_str(&tables_of(experiment, swept, &[name], kind));
    }
    for kind in [Kind::Queue, Kind::Buffer] {
        let of_kind = queues.iter().filter(|(_, of)| *of == kind);
        let names: Vec<_> = of_kind.map(|(name, _)| name.clone()).collect();
        if names.len() > most_queues {
            let what = if kind == Kind::Queue { "queues" } else { "buffers" };
            let count = names.len();
            let summary = ResultFile::Summary.name_in(swept.format);
            let _ = writeln!(out, "\n{count} recorded {what}: --tables all prints them; {summary}");
        } else if !names.is_empty() {
            out.push_str(&tables_of(experiment, swept, &names, kind));
        }
    }
    out
}

/// Formats one line per claim: the verdict, and the statement. Below it stands which figures have too few values.
fn claims(experiment: &Experiment, swept: &SweepResult) -> String {
    let widest = ClaimVerdict::ALL.iter().map(|verdict| verdict.name().len()).max().unwrap_or(0);
    let lines = experiment.claims.iter().map(|claim| {
        let judged = judge(claim, experiment, swept);
        let lacking = judged.lacks(claim).into_iter();
        let lacking: String =
            lacking.map(|sentence| format!("      {:<widest$}  {sentence}\n", "")).collect();
        format!("claim {:<widest$}  {}\n{lacking}", judged.verdict.name(), claim.says)
    });
    lines.collect()
}

/// Breaks a paragraph into lines of at most 100 characters.
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::from(indent);
    let mut width = indent.len();
    for word in text.split_whitespace() {
        if width > indent.len() && width + word.chars().count() > 100 {
            out = format!("{}\n{indent}", out.trim_end());
            width = indent.len();
        }
        out.push_str(word);
        out.push(' ');
        width += word.chars().count() + 1;
    }
    format!("{}\n", out.trim_end())
}

/// Returns the traffic entries and queues of all configurations, without duplicates, in the order of the file.
pub(crate) fn subjects(swept: &SweepResult) -> Vec<(String, Kind)> {
    let mut seen = HashSet::new();
    let all = swept.tables.iter().flat_map(|summaries| &summaries.subjects);
    let new = all.filter(|subject| seen.insert(subject.name.as_str()));
    new.map(|subject| (subject.name.clone(), subject.kind)).collect()
}

/// Formats one table per shown distribution. Counts appear in the first.
fn tables_of(experiment: &Experiment, swept: &SweepResult, names: &[String], kind: Kind) -> String {
    let shown = shown(experiment, swept, &names[0], kind);
    let measured = |metric: &Metric| rows(swept, names).any(|(_, s)| s.metric(*metric).is_some());
    let (distributions, counts): (Vec<Metric>, Vec<Metric>) =
        shown.into_iter().filter(measured).partition(|metric| metric.is_distribution());
    let tables = match distributions.as_slice() {
        [] if counts.is_empty() => Vec::new(),
        [] => vec![table(experiment, swept, names, None, &counts)],
        [first, rest @ ..] => {
            let mut tables = vec![table(experiment, swept, names, Some(*first), &counts)];
            tables.extend(rest.iter().map(|m| table(experiment, swept, names, Some(*m), &[])));
            tables
        }
    };
    tables.into_iter().map(|table| format!("\n{table}\n")).collect()
}

pub(crate) fn shown(
    experiment: &Experiment,
    swept: &SweepResult,
    name: &str,
    kind: Kind,
) -> Vec<Metric> {
    let first = swept.tables.first().map(|summaries| &summaries.configuration);
    let scenario = first.and_then(|first| experiment.scenario(first).ok());
    let of_file = scenario.as_ref().and_then(|scenario| scenario.shown(name));
    of_file.map_or_else(|| kind.shown(), <[Metric]>::to_vec)
}

/// Formats the rows of a table: these subjects of each configuration.
fn rows<'a>(
    swept: &'a SweepResult,
    names: &'a [String],
) -> impl Iterator<Item = (&'a Summaries, &'a Subject)> + 'a {
    swept.tables.iter().flat_map(move |summaries| {
        let named = |name: &String| summaries.subjects.iter().find(|subject| subject.name == *name);
        names.iter().filter_map(named).map(move |subject| (summaries, subject))
    })
}

fn table(
    experiment: &Experiment,
    swept: &SweepResult,
    names: &[String],
    distribution: Option<Metric>,
    counts: &[Metric],
) -> String {
    let largest = |metric: Metric| {
        let summaries = rows(swept, names).filter_map(|(_, subject)| subject.metric(metric));
        let values = summaries.filter_map(|summary| Some(Stat::Max.possible(summary)?.low));
        values.fold(0.0, f64::max)
    };
    let mut grid = Grid::default();
    let varied = Varied::of(experiment);
    grid.head(varied.names.iter().cloned().chain(["case".into()]), Align::Left);
    let several = names.len() > 1;
    let mut title = if several { "queues".to_owned() } else { names[0].clone() };
    if several {
        grid.head(["queue".to_owned()], Align::Left);
    }
    let scale = distribution.map(|metric| Scale::of(metric, largest(metric)));
    let stats = stats::columns(&experiment.stats, || {
        let subjects = rows(swept, names).map(|(_, subject)| subject);
        subjects.filter_map(|subject| subject.metric(distribution?))
    });
    if let (Some(metric), Some(scale)) = (distribution, &scale) {
        let _ = write!(title, ": {}{}", metric.heading(), scale.suffix());
        grid.head(stats::heads(&stats), Align::Right);
    }
    let cut_off = |subject: &Subject| {
        let summary = distribution.and_then(|metric| subject.metric(metric));
        summary.map_or(0, |summary| summary.cut_off.values)
    };
    let is_any_cut_off = rows(swept, names).any(|(_, subject)| cut_off(subject) > 0);
    if is_any_cut_off {
        grid.head([CUT_OFF.to_owned()], Align::Right);
    }
    let count_scales: Vec<_> =
        counts.iter().map(|metric| (*metric, Scale::of(*metric, largest(*metric)))).collect();
    let has_published = |metric: &Metric| {
        rows(swept, names).any(|(s, t)| published_for(experiment, s, &t.name, *metric).is_some())
    };
    for (metric, scale) in &count_scales {
        grid.head([format!("{}{}", metric.column(), scale.suffix())], Align::Right);
        if has_published(metric) {
            grid.head(["published".to_owned()], Align::Right);
        }
    }
    let published_one = distribution.filter(has_published);
    if published_one.is_some() {
        grid.head(["published".to_owned()], Align::Right);
    }
    // A mark keeps readers from taking the host's figures for an algorithm's.
    let any_limited = swept.tables.iter().any(|summaries| limited(summaries).is_some());
    if any_limited {
        grid.head(["verdict".to_owned()], Align::Left);
    }
    let mut prior_point = None;
    for (summaries, subject) in rows(swept, names) {
        let point = &summaries.configuration.point;
        if prior_point.is_some_and(|prior| prior != point) && experiment.cases.len() > 1 {
            grid.gap();
        }
        prior_point = Some(point);
        let mut cells = varied.labels(experiment, summaries);
        cells.push(experiment.case_name(&summaries.configuration).to_owned());
        if several {
            cells.push(subject.name.clone());
        }
        if let (Some(metric), Some(scale)) = (distribution, &scale) {
            cells.extend(stats::cells(&stats, subject.metric(metric), |value| {
                scale.show(Some(value))
            }));
        }
        if is_any_cut_off {
            cells.push(cut_off(subject).to_string());
        }
        let published = |metric: Metric, scale: &Scale| {
            let published = published_for(experiment, summaries, &subject.name, metric);
            published.map_or_else(String::new, |published| {
                let stat = match published.stat {
                    Stat::Mean => String::new(),
                    other => format!("{} ", other.name()),
                };
                format!("{stat}{}", scale.show(Some(published.value)))
            })
        };
        for (metric, scale) in &count_scales {
            let summary = subject.metric(*metric);
            cells.push(
                scale.show_possible(summary.and_then(|summary| Stat::Mean.possible(summary))),
            );
            if has_published(metric) {
                cells.push(published(*metric, scale));
            }
        }
        if let (Some(metric), Some(scale)) = (published_one, &scale) {
            cells.push(published(metric, scale));
        }
        if any_limited {
            cells.push(verdict(summaries));
        }
        grid.row(cells);
    }
    format!("{title}\n{}", grid.render())
}

/// Describes the validity of a row.
pub(crate) fn verdict(summaries: &Summaries) -> String {
    match limited(summaries) {
        None => "valid".into(),
        Some(verdict) if verdict.is_limited() => "HOST-LIMITED".into(),
        Some(verdict) => format!("valid: {} of {}", verdict.runs - verdict.limited, verdict.runs),
    }
}

/// Returns the verdict of a row in which a host limited runs.
pub(crate) fn limited(summaries: &Summaries) -> Option<&Verdict> {
    summaries.verdict.as_ref().filter(|verdict| verdict.limited > 0)
}

/// The varied values that distinguish rows, under the shortest unique names.
pub(crate) struct Varied {
    axes: Vec<usize>,
    pub(crate) names: Vec<String>,
}

impl Varied {
    pub(crate) fn of(experiment: &Experiment) -> Varied {
        let axes: Vec<usize> =
            (0..experiment.axes.len()).filter(|i| experiment.axes[*i].labels().len() > 1).collect();
        let short = |path: &str, parts: usize| {
            let all: Vec<&str> = path.split('.').collect();
            all[all.len().saturating_sub(parts)..].join(".")
        };
        let names = axes
            .iter()
            .map(|axis| {
                let path = &experiment.axes[*axis].path;
                let others = || axes.iter().filter(|other| *other != axis);
                let is_unique = |parts: &usize| {
                    !others().any(|other| {
                        short(&experiment.axes[*other].path, *parts) == short(path, *parts)
                    })
                };
                short(path, (2..8).find(is_unique).unwrap_or(8))
            })
            .collect();
        Varied { axes, names }
    }

    pub(crate) fn labels(&self, experiment: &Experiment, summaries: &Summaries) -> Vec<String> {
        let labels = experiment.point_labels(&summaries.configuration);
        self.axes.iter().map(|axis| labels[*axis].clone()).collect()
    }
}

/// The unit of a whole column, so that its numbers are easy to compare.
pub(crate) struct Scale {
    unit: &'static str,
    factor: f64,
}

impl Scale {
    pub(crate) fn of(metric: Metric, largest: f64) -> Scale {
        Scale::of_unit(metric.unit(), largest)
    }

    /// Returns the scale for a metric's unit and the largest value of a column.
    pub(crate) fn of_unit(unit: &str, largest: f64) -> Scale {
        let steps: &[(f64, &str)] = match unit {
            "s" => &[(10.0, "s"), (1e-3, "ms"), (0.0, "us")],
            "bps" => &[(1e9, "Gbps"), (1e6, "Mbps"), (0.0, "kbps")],
            "B" => &[(1e6, "MB"), (1e3, "kB"), (0.0, "B")],
            _ => &[(0.0, "")],
        };
        let unit = steps.iter().find(|(from, _)| largest >= *from).map_or("", |(_, unit)| *unit);
        let factor = match unit {
            "ms" => 1e3,
            "us" => 1e6,
            "Gbps" => 1e-9,
            "Mbps" => 1e-6,
            "MB" => 1e-6,
            "kbps" | "kB" => 1e-3,
            _ => 1.0,
        };
        Scale { unit, factor }
    }

    /// Returns the unit of the shown values.
    pub(crate) fn unit(&self) -> &'static str {
        self.unit
    }

    pub(crate) fn suffix(&self) -> String {
        if self.unit.is_empty() { String::new() } else { format!(", {}", self.unit) }
    }

    /// Formats what is known of a statistic: its value, `> 39.1` or `0.49–0.51`.
    pub(crate) fn show_possible(&self, bounds: Option<Possible>) -> String {
        bounds.map_or_else(String::new, |bounds| bounds.show(|value| self.show(Some(value))))
    }

    /// Formats a value with four significant digits. A column of plain numbers omits trailing zeros.
    pub(crate) fn show(&self, value: Option<f64>) -> String {
        let Some(value) = value.map(|value| value * self.factor) else { return String::new() };
        let digits = match value.abs() {
            x if x == 0.0 || x >= 1000.0 => 0,
            x if x >= 100.0 => 1,
            x if x >= 10.0 => 2,
            // Small shares, down to millionths, in which they are recorded.
            x if x < 0.001 && self.unit.is_empty() => 6,
            x if x < 0.01 && self.unit.is_empty() => 5,
            x if x < 0.1 && self.unit.is_empty() => 4,
            _ => 3,
        };
        let text = format!("{value:.digits$}");
        match text.contains('.') && (self.unit.is_empty() || value == 0.0) {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }
}

/// Formats the footnotes of the tables, with at most `most` notes on single rows.
fn footnotes(experiment: &Experiment, swept: &SweepResult, most: usize) -> String {
    let notes = notes(experiment, swept);
    let mut out = String::from("\n");
    out.push_str(&cut_off_notes(experiment, swept));
    out.push_str(&not_resolved(experiment, swept));
    out.extend(notes.iter().take(most).map(String::as_str));
    if let Some(more @ 1..) = notes.len().checked_sub(most) {
        let _ = writeln!(out, "and {more} more such rows: --tables all lists them");
    }
    if swept.interrupted {
        let _ = writeln!(
            out,
            "stopped after {} of {} runs: the last row may have fewer runs",
            swept.runs_done,
            experiment.runs()
        );
    }
    if let Some(source) = &experiment.source {
        out.push_str(&wrapped(&format!("source: {source}"), ""));
    }
    if let Some(notes) = &experiment.notes {
        out.push_str(&wrapped(&format!("notes: {notes}"), ""));
    }
    if !experiment.published.is_empty() && !experiment.scale.is_one() {
        out.push_str("published figures are left out, because the experiment was changed\n");
        return out;
    }
    for published in &experiment.published {
        if let Some(note) = &published.note {
            out.push_str(&wrapped(&format!("published {}: {note}", published.text), ""));
        }
    }
    out
}

/// Formats a line for each percentile that is asked for and that no row resolves, with the number of values that would do.
fn not_resolved(experiment: &Experiment, swept: &SweepResult) -> String {
    let mut out = String::new();
    for (stat, share) in experiment.stats.iter().filter_map(|stat| Some((*stat, stat.share()?))) {
        let mut lacking = Vec::new();
        for (name, kind) in subjects(swept) {
            for metric in shown(experiment, swept, &name, kind) {
                let subjects = swept.tables.iter().flat_map(|row| &row.subjects);
                let of_name = subjects.filter(|subject| subject.name == name);
                let summaries: Vec<_> = of_name.filter_map(|of| of.metric(metric)).collect();
                if !metric.is_distribution()
                    || summaries.is_empty()
                    || summaries.iter().any(|summary| stat.possible(summary).is_some())
                {
                    continue;
                }
                let values = summaries.iter().map(|of| of.values + of.cut_off.values).max();
                lacking.push(format!("{} of {name} ({})", metric.name(), values.unwrap_or(0)));
            }
        }
        if !lacking.is_empty() {
            let (of, needed) = (stat.heading(), values_needed(share));
            out.push_str(&format!("{of} needs {needed} values: {}\n", lacking.join(", ")));
        }
    }
    out
}

/// Returns the notes on single rows.
fn notes(experiment: &Experiment, swept: &SweepResult) -> Vec<String> {
    let mut notes = Vec::new();
    for summaries in &swept.tables {
        if let Some(verdict) = limited(summaries) {
            notes.push(format!(
                "{}: host-limited: {} of {} runs: {}{}\n",
                experiment.describe(&summaries.configuration),
                verdict.limited,
                verdict.runs,
                verdict.reason,
                match verdict.is_limited() {
                    true => "; the row shows the host, not the algorithm",
                    false => "; the row shows the other runs",
                }
            ));
        }
    }
    notes
}

/// Heading of the number of values that the ends of runs cut off.
const CUT_OFF: &str = "cut off";

/// Returns how many values of a subject the ends of runs cut off.
fn cut_off_of(subject: &Subject) -> u64 {
    let of = |metric: Metric| subject.metric(metric).map(|summary| summary.cut_off.values);
    // One that was cut off has one of each metric, but not where a metric is of rounds.
    let any = subject.metrics.iter().map(|(_, summary)| summary.cut_off.values).max();
    of(Metric::Completion).or(any).unwrap_or(0)
}

/// Returns whether entries of a kind count transfers, each of which has a completion time once it has begun.
fn has_transfers(kind: Kind) -> bool {
    Metric::Completion.kinds().contains(&kind)
}

/// Returns how many of a subject did not finish, without those that were cut off and so have bounds.
fn others_unfinished(subject: &Subject) -> u64 {
    match cut_off_of(subject) {
        cut_off if has_transfers(subject.kind) => subject.unfinished.saturating_sub(cut_off),
        0 => subject.unfinished,
        // What was cut off is no transfer: an exchange or an iteration.
        _ => 0,
    }
}

/// Formats a line for each traffic entry of which the ends of runs cut anything off.
fn cut_off_notes(experiment: &Experiment, swept: &SweepResult) -> String {
    let mut out = String::new();
    let scenarios = experiment.all_rows().take(1);
    let scenario = scenarios.filter_map(|first| experiment.scenario(&first).ok()).next();
    let mut can_end = Vec::new();
    for (name, kind) in subjects(swept) {
        // A size class is a part of its entry, and its figures are in its row.
        if name.contains('/') {
            continue;
        }
        let count = |of: &dyn Fn(&Subject) -> u64| {
            let counts = rows(swept, std::slice::from_ref(&name)).map(|(_, of_row)| of(of_row));
            let counts: Vec<u64> = counts.filter(|count| *count > 0).collect();
            let place = match (counts.len(), swept.tables.len()) {
                (1, 1) => String::new(),
                (rows, of) => format!(" in {rows} of {of} rows"),
            };
            (counts.iter().sum::<u64>(), place)
        };
        let (cut_off, place) = count(&cut_off_of);
        let what = match kind {
            Kind::Attempts => "were not established in time",
            _ => "did not finish during the run",
        };
        if cut_off > 0 {
            let _ = writeln!(
                out,
                "\"{name}\": {cut_off} {what}{place} (\"{CUT_OFF}\"): figures that they could change are bounds"
            );
        }
        let (others, place) = count(&others_unfinished);
        let what = match has_transfers(kind) {
            true => "had not begun when the run ended",
            false => "did not finish during the run",
        };
        if others > 0 {
            let _ = writeln!(out, "\"{name}\": {others} {what}{place}");
        }
        if cut_off + others > 0 && kind != Kind::Attempts {
            can_end.push(scenario.as_ref().is_some_and(|scenario| scenario.can_end(&name)));
        }
    }
    let is_until_done = scenario.as_ref().is_some_and(|scenario| scenario.until_done());
    match can_end.contains(&true) && !is_until_done {
        _ if can_end.is_empty() => {}
        true => {
            out.push_str("  run.until_done = true, with a longer run.duration, lets them finish\n")
        }
        false => out.push_str(
            "  a longer run.duration lets them finish; requests without end need a stop, too\n",
        ),
    }
    out
}

#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Cells in aligned columns.
#[derive(Default)]
pub(crate) struct Grid {
    heads: Vec<(String, Align)>,
    /// One without cells is an empty line.
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn head(&mut self, names: impl IntoIterator<Item = String>, align: Align) {
        self.heads.extend(names.into_iter().map(|name| (name, align)));
    }

    pub(crate) fn gap(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn render(&self) -> String {
        let heads = self.heads.iter().map(|(name, _)| name.clone()).collect();
        let rows: Vec<_> = std::iter::once(heads).chain(self.rows.iter().cloned()).collect();
        let lines = aligned(&rows, |column| matches!(self.heads[column].1, Align::Right));
        let line =
            |line: &String| if line.is_empty() { String::new() } else { format!("  {line}") };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_keep_four_digits() {
        let mut grid = Grid::default();
        grid.head(["case".to_owned()], Align::Left);
        grid.head(["mean".to_owned()], Align::Right);
        grid.row(vec!["cubic".into(), "109.5".into()]);
        grid.gap();
        grid.row(vec!["dctcp".into(), String::new()]);
        assert_eq!(grid.render(), "  case    mean\n  cubic  109.5\n\n  dctcp");
        let ms = Scale::of(Metric::Completion, 0.22);
        assert_eq!(ms.unit, "ms");
        assert_eq!(ms.show(Some(0.109486)), "109.5");
        assert_eq!(ms.show(Some(0.00142242)), "1.422");
        assert_eq!(ms.show(None), "");
        assert_eq!(Scale::of(Metric::Timeouts, 3.0).show(Some(0.0)), "0");
        assert_eq!(Scale::of(Metric::Goodput, 9.4e9).show(Some(9.412e9)), "9.412");
    }
}
