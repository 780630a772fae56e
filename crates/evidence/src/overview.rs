//! A study of many rows as one table: a line per row, with the mean of each metric.

use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Metric};
use knee_scenario::published::Stat;
use knee_sweep::sweep_result::{Subject, Summaries, SweepResult};

use crate::table::{self, Align, Grid, Scale, Varied};

/// Above this number of rows, the tables per traffic entry and queue no longer fit a screen.
const MOST_ROWS: usize = 24;
/// Columns per line besides the varied values.
const MOST_COLUMNS: usize = 9;
/// Largest number of columns for one traffic entry or queue.
const MOST_OF_ONE: usize = 4;

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
    scale: Scale,
}

/// Formats the table, with a sentence on what it leaves out.
fn means(experiment: &Experiment, swept: &SweepResult) -> String {
    let (columns, left_out) = columns(experiment, swept);
    let varied = Varied::of(experiment);
    let mut grid = Grid::default();
    grid.head(varied.names.iter().cloned().chain(["case".into()]), Align::Left);
    let mut of_whom = "";
    for Column { subject, metric, scale } in &columns {
        // The subject is named only at the first of its columns.
        let whose = if of_whom == subject { String::new() } else { format!("{subject}: ") };
        of_whom = subject;
        grid.head([format!("{whose}{}{}", metric.column(), scale.suffix())], Align::Right);
    }
    let any_limited = swept.tables.iter().any(|row| table::limited(row).is_some());
    if any_limited {
        grid.head(["verdict".to_owned()], Align::Left);
    }
    for summaries in &swept.tables {
        let mut cells = varied.labels(experiment, summaries);
        cells.push(experiment.case_name(&summaries.configuration).to_owned());
        cells.extend(columns.iter().map(|column| {
            let subject = named(summaries, &column.subject);
            let summary = subject.and_then(|subject| subject.metric(column.metric));
            column.scale.show_possible(summary.and_then(|summary| Stat::Mean.possible(summary)))
        }));
        if any_limited {
            cells.push(table::verdict(summaries));
        }
        grid.row(cells);
    }
    let more = match left_out {
        0 => String::new(),
        1 => " and one more metric".to_owned(),
        n => format!(" and {n} more metrics"),
    };
    format!(
        "\nmeans of {} rows; spread, percentiles{more}: --tables all, summary.csv\n\n{}\n",
        swept.tables.len(),
        grid.render()
    )
}

fn named<'a>(summaries: &'a Summaries, name: &str) -> Option<&'a Subject> {
    summaries.subjects.iter().find(|subject| subject.name == name)
}

/// Returns the columns, and the number of metrics without room.
fn columns(experiment: &Experiment, swept: &SweepResult) -> (Vec<Column>, usize) {
    let mut columns = Vec::new();
    let mut left_out = 0;
    let (queues, traffic): (Vec<_>, Vec<_>) = table::subjects(swept)
        .into_iter()
        .partition(|(_, kind)| matches!(kind, Kind::Queue | Kind::Buffer));
    for (name, kind) in traffic.into_iter().chain(queues) {
        let mut of_one = 0;
        for metric in table::shown(experiment, swept, &name, kind) {
            let means = || {
                let subjects = swept.tables.iter().filter_map(|row| named(row, &name));
                let summaries = subjects.filter_map(|subject| subject.metric(metric));
                summaries.filter_map(|summary| Some(Stat::Mean.possible(summary)?.low))
            };
            if means().next().is_none() {
                continue;
            }
            if of_one == MOST_OF_ONE || columns.len() == MOST_COLUMNS {
                left_out += 1;
                continue;
            }
            of_one += 1;
            let scale = Scale::of(metric, means().fold(0.0, f64::max));
            columns.push(Column { subject: name.clone(), metric, scale });
        }
    }
    (columns, left_out)
}
