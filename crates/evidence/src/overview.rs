//! A study of many rows as one table: a line per row, with the mean of each metric, or the statistics that are asked for.

use knee_results::ResultFile;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Metric};
use knee_scenario::published::Stat;
use knee_scenario::stats::Summary;
use knee_sweep::sweep_result::{Subject, Summaries, SweepResult};

use crate::stats::half;
use crate::table::{self, Align, Grid, Scale, Varied};

/// Above this number of rows, the tables per traffic entry and queue no longer fit a screen.
const MOST_ROWS: usize = 24;
/// Columns per line besides the varied values.
const MOST_COLUMNS: usize = 9;
/// Largest number of metrics of one traffic entry or queue.
const MOST_OF_ONE: usize = 4;
/// Characters of a line. Columns beyond are left out.
const MOST_WIDTH: usize = 160;

/// Largest number of notes on single rows below a table of many.
const MOST_NOTES: usize = 6;

/// Formats everything as [`table::render`] does, but for the table of many queues. Many rows become one table with a line per row.
pub fn render(experiment: &Experiment, swept: &SweepResult) -> String {
    match swept.tables.len() > MOST_ROWS {
        false => table::render_fitting(experiment, swept),
        true => table::around(experiment, swept, &means(experiment, swept), MOST_NOTES),
    }
}

struct Column {
    subject: String,
    metric: Metric,
    stat: Stat,
    scale: Scale,
}

impl Column {
    fn summary<'a>(&self, row: &'a Summaries) -> Option<&'a Summary> {
        named(row, &self.subject)?.metric(self.metric)
    }

    /// Heading without the subject: the metric, behind a statistic that is not the mean.
    fn heading(&self) -> String {
        let stat = match self.stat {
            Stat::Mean => String::new(),
            stat => format!("{} of ", stat.heading()),
        };
        format!("{stat}{}{}", self.metric.column(), self.scale.suffix())
    }

    /// The figure of a row, with half the width of its interval if it has one.
    fn cell(&self, row: &Summaries) -> String {
        let Some(summary) = self.summary(row) else { return String::new() };
        let figure = self.scale.show_possible(self.stat.possible(summary));
        match half(self.stat, summary) {
            Some(half) => format!("{figure} ± {}", self.scale.show(Some(half))),
            None => figure,
        }
    }
}

/// Formats the table, with a sentence on what it leaves out.
fn means(experiment: &Experiment, swept: &SweepResult) -> String {
    let (mut columns, mut left_out) = columns(experiment, swept);
    let mut shown = grid(experiment, swept, &columns);
    while columns.len() > 1 && shown.lines().any(|line| line.chars().count() > MOST_WIDTH) {
        columns.pop();
        left_out += 1;
        shown = grid(experiment, swept, &columns);
    }
    let more = match left_out {
        0 => String::new(),
        1 => " and one more column".to_owned(),
        n => format!(" and {n} more columns"),
    };
    let rows = swept.tables.len();
    let (of_what, others) = match experiment.stats.is_empty() {
        true => ("means", "spread, percentiles"),
        false => ("figures", "other statistics"),
    };
    let intervals = match columns.iter().any(|column| has_interval(column, swept)) {
        true => " with 95 % intervals over runs",
        false => "",
    };
    let summary = ResultFile::Summary.name_in(swept.format);
    format!(
        "\n{of_what} of {rows} rows{intervals}; {others}{more}: --stat, --tables all, {summary}\n\n{shown}\n"
    )
}

fn has_interval(column: &Column, swept: &SweepResult) -> bool {
    let mut summaries = swept.tables.iter().filter_map(|row| column.summary(row));
    summaries.any(|summary| half(column.stat, summary).is_some())
}

fn grid(experiment: &Experiment, swept: &SweepResult, columns: &[Column]) -> String {
    let varied = Varied::of(experiment);
    let mut grid = Grid::default();
    grid.head(varied.names.iter().cloned().chain(["case".into()]), Align::Left);
    let mut of_whom = "";
    for column in columns {
        // The subject is named only at the first of its columns.
        let is_new = of_whom != column.subject;
        let whose = if is_new { format!("{}: ", column.subject) } else { String::new() };
        of_whom = &column.subject;
        grid.head([format!("{whose}{}", column.heading())], Align::Right);
    }
    let any_limited = swept.tables.iter().any(|row| table::limited(row).is_some());
    if any_limited {
        grid.head(["verdict".to_owned()], Align::Left);
    }
    for summaries in &swept.tables {
        let mut cells = varied.labels(experiment, summaries);
        cells.push(experiment.case_name(&summaries.configuration).to_owned());
        cells.extend(columns.iter().map(|column| column.cell(summaries)));
        if any_limited {
            cells.push(table::verdict(summaries));
        }
        grid.row(cells);
    }
    grid.render()
}

fn named<'a>(summaries: &'a Summaries, name: &str) -> Option<&'a Subject> {
    summaries.subjects.iter().find(|subject| subject.name == name)
}

/// Returns the columns, and the number of those without room.
fn columns(experiment: &Experiment, swept: &SweepResult) -> (Vec<Column>, usize) {
    let mut columns = Vec::new();
    let mut left_out = 0;
    let (queues, traffic): (Vec<_>, Vec<_>) = table::subjects(swept)
        .into_iter()
        .partition(|(_, kind)| matches!(kind, Kind::Queue | Kind::Buffer));
    for (name, kind) in traffic.into_iter().chain(queues) {
        let mut of_one = 0;
        for metric in table::shown(experiment, swept, &name, kind) {
            let mut is_measured = false;
            // A metric with one value in a run has only this.
            let stats = match experiment.stats.as_slice() {
                asked @ [_, ..] if metric.is_distribution() => asked,
                _ => &[Stat::Mean],
            };
            for stat in stats {
                let figures = || {
                    let subjects = swept.tables.iter().filter_map(|row| named(row, &name));
                    let summaries = subjects.filter_map(|subject| subject.metric(metric));
                    summaries.filter_map(|summary| Some(stat.possible(summary)?.low))
                };
                if figures().next().is_none() {
                    continue;
                }
                is_measured = true;
                if of_one == MOST_OF_ONE || columns.len() == MOST_COLUMNS {
                    left_out += 1;
                    continue;
                }
                let scale = Scale::of(metric, figures().fold(0.0, f64::max));
                columns.push(Column { subject: name.clone(), metric, stat: *stat, scale });
            }
            of_one += usize::from(is_measured && of_one < MOST_OF_ONE);
        }
    }
    (columns, left_out)
}
