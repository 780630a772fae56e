//! `summary.csv`: each metric of each traffic entry and queue, by case and varied values.

use knee_results::rows::Summary as Columns;
use knee_results::{CASE, Error, Manifest, Metric, ResultFile};

use crate::text::Unit;

/// More rows than this are no summary.
const MOST_ROWS: usize = 200_000;
const STATS: [&str; 8] = [
    Columns::mean,
    Columns::sd,
    Columns::min,
    Columns::p50,
    Columns::p95,
    Columns::p99,
    Columns::p999,
    Columns::max,
];

/// Columns with the least that a statistic can be, where values were cut off: mean, percentiles, maximum.
const AT_LEAST: [(&str, &str); 6] = [
    (Columns::mean, Columns::mean_at_least),
    (Columns::p50, Columns::p50_at_least),
    (Columns::p95, Columns::p95_at_least),
    (Columns::p99, Columns::p99_at_least),
    (Columns::p999, Columns::p999_at_least),
    (Columns::max, Columns::max_at_least),
];

/// Columns with half the width of a statistic's 95 % interval.
const INTERVALS: [(&str, &str); 5] = [
    (Columns::mean, Columns::ci95),
    (Columns::p50, Columns::p50_ci95),
    (Columns::p95, Columns::p95_ci95),
    (Columns::p99, Columns::p99_ci95),
    (Columns::p999, Columns::p999_ci95),
];

/// All rows.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) rows: Vec<Row>,
}

/// A metric of a subject in a configuration.
pub(crate) struct Row {
    pub(crate) case: String,
    /// Labels of the varied values, in the order of the manifest's axes.
    pub(crate) at: Vec<String>,
    pub(crate) subject: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) runs: u64,
    /// Number of values in all runs.
    values: u64,
    /// Number of further values that the ends of runs cut off.
    pub(crate) cut_off: u64,
    at_least: [Option<f64>; AT_LEAST.len()],
    half_widths: [Option<f64>; INTERVALS.len()],
    stats: [Option<f64>; STATS.len()],
}

impl Row {
    /// A statistic by its name.
    pub(crate) fn stat(&self, name: &str) -> Option<f64> {
        let index = STATS.iter().position(|stat| *stat == name)?;
        self.stats[index]
    }

    /// The least that a statistic can be whose value is not known, because values were cut off.
    pub(crate) fn at_least(&self, name: &str) -> Option<f64> {
        let index = AT_LEAST.iter().position(|(stat, _)| *stat == name)?;
        self.at_least[index]
    }

    /// Why there is no such statistic, in words for a drawing.
    pub(crate) fn lacks(&self, name: &str) -> String {
        let needed = match name {
            Columns::p50 => 2,
            Columns::p95 => 20,
            Columns::p99 => 100,
            Columns::p999 => 1000,
            _ => 1,
        };
        // Those that were cut off count: their ages make bounds.
        match (self.values + self.cut_off, self.cut_off) {
            (has, 0) if has < needed => format!("needs {needed} values, has {has}"),
            (has, cut_off) if has < needed => {
                format!("needs {needed} values, has {has} ({cut_off} cut off)")
            }
            _ => "not measured".to_owned(),
        }
    }

    /// Half the width of a statistic's 95 % interval, by the name of the statistic.
    pub(crate) fn half(&self, name: &str) -> Option<f64> {
        let index = INTERVALS.iter().position(|(stat, _)| *stat == name)?;
        self.half_widths[index]
    }

    /// The 95 % interval of a statistic, as far as the metric can have such values.
    pub(crate) fn interval(&self, name: &str, value: f64) -> (f64, f64) {
        interval(&self.metric, value, self.half(name).unwrap_or(0.0))
    }
}

/// From `value - half` to `value + half`, as far as the metric can have such values.
pub(crate) fn interval(metric: &str, value: f64, half: f64) -> (f64, f64) {
    match Metric::by_name(metric) {
        Some(metric) => metric.interval(value, half),
        // Of a later version.
        None => (value - half, value + half),
    }
}

/// The interval around a value in words: ` ± half`, or both ends where the metric's end cuts it.
pub(crate) fn spread(metric: &str, value: f64, half: f64, unit: Unit) -> String {
    match interval(metric, value, half) {
        (low, high) if low == value - half && high == value + half => {
            format!(" ± {}", unit.show(half))
        }
        (low, high) => format!(" ({} to {})", unit.show(low), unit.show(high)),
    }
}

impl Summary {
    /// Reads the summary of a results directory; empty where there is none.
    pub(crate) fn read(manifest: &Manifest) -> Result<Summary, Error> {
        let Some(mut table) = ResultFile::Summary.open(&manifest.dir)? else {
            return Ok(Summary::default());
        };
        let [case, subject, metric, unit, runs, of_all] = table.columns([
            CASE,
            Columns::subject,
            Columns::metric,
            Columns::unit,
            Columns::runs,
            Columns::values,
        ])?;
        let axes = table.axes(&manifest.axes)?;
        let stats = table.columns(STATS)?;
        // Results of older versions do not have these.
        let cut_off = table.find(Columns::cut_off);
        let bounds = AT_LEAST.map(|(_, column)| table.find(column));
        let intervals = INTERVALS.map(|(_, column)| table.find(column));
        let mut rows = Vec::new();
        while let Some(row) = table.next()? {
            let mut values = [None; STATS.len()];
            for (value, column) in values.iter_mut().zip(&stats) {
                *value = row.number(*column)?;
            }
            let (mut at_least, mut half_widths) = ([None; AT_LEAST.len()], [None; INTERVALS.len()]);
            let columns = bounds.into_iter().chain(intervals);
            for (value, column) in at_least.iter_mut().chain(&mut half_widths).zip(columns) {
                *value = column.map_or(Ok(None), |column| row.number(column))?;
            }
            let cut_off = cut_off.map_or(Ok(None), |column| row.number(column))?;
            rows.push(Row {
                case: row.text(case).to_owned(),
                at: axes
                    .iter()
                    .zip(&manifest.axes)
                    .map(|(column, axis)| axis.value(row.text(*column)).to_owned())
                    .collect(),
                subject: row.text(subject).to_owned(),
                metric: row.text(metric).to_owned(),
                unit: row.text(unit).to_owned(),
                runs: row.index(runs)?,
                values: row.index(of_all)?,
                cut_off: cut_off.unwrap_or(0.0) as u64,
                at_least,
                half_widths,
                stats: values,
            });
            if rows.len() > MOST_ROWS {
                return Err(table.wrong(
                    "has more than 200000 rows, too many for a report: run fewer cases or values",
                ));
            }
        }
        Ok(Summary { rows })
    }

    /// Rows of a metric.
    pub(crate) fn of<'a>(
        &'a self,
        subject: &'a str,
        metric: &'a str,
    ) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.subject == subject && row.metric == metric)
    }

    /// Subjects with the metrics that they have, in the order of the file.
    pub(crate) fn measured(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for row in &self.rows {
            if seen.insert((row.subject.as_str(), row.metric.as_str())) {
                all.push((&row.subject, &row.metric));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statistic_lacks_counts_values_that_were_cut_off() {
        let lacks = |values, cut_off| {
            let row = Row {
                case: "cubic".into(),
                at: Vec::new(),
                subject: "web".into(),
                metric: "completion".into(),
                unit: "s".into(),
                runs: 1,
                values,
                cut_off,
                at_least: [None; AT_LEAST.len()],
                half_widths: [None; INTERVALS.len()],
                stats: [None; STATS.len()],
            };
            row.lacks("p99")
        };
        assert_eq!(lacks(41, 0), "needs 100 values, has 41");
        assert_eq!(lacks(0, 1), "needs 100 values, has 1 (1 cut off)");
        assert_eq!(lacks(60, 40), "not measured");
    }
}
