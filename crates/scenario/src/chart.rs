//! `[[chart]]`: charts of an experiment in a report. This module only reads and checks them.

use knee_file::keys::{Below, Choice, Key, Text};
use knee_file::{Error, Origin, Reader, keys, one_of};

use crate::cases::{Axis, metric_named};
use crate::metric::Metric;
use crate::published::{STATS, Stat};
use crate::scenario::Scenario;

/// Name of the x axis of cases.
pub const CASE: &str = "case";

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Traffic entry or link.
    pub subject: String,
    /// Metric of the subject.
    pub metric: Metric,
    /// Statistic of the metric.
    pub stat: Stat,
    /// A varied path, or [`CASE`]. Otherwise the cases are the lines or groups.
    pub x: String,
    /// Whether the y axis is logarithmic.
    pub log: bool,
    pub(crate) origin: Origin,
}

keys! {
    /// A chart of a report. Default: one per metric of the table.
    pub(crate) static KEYS: ChartKeys = "chart" {
        /// Its title.
        title: Key<Text> = needed("Completion of short transfers"),
        /// A traffic entry or a link.
        subject: Key<Text> = needed("short"),
        /// Its metric: docs/results.md.
        metric: Key<Text> = needed("completion"),
        /// Statistic of the metric.
        stat: Choice<Stat> = of(STATS).or("mean"),
        /// The x axis: a varied key, or `"case"`.
        x: Key<Text> = usually("the first varied key with several values"),
        /// Logarithmic y axis.
        log: Key<bool> = or(false),
    }
}

pub(crate) fn read_charts(
    root: &Reader<'_>,
    axes: &[Axis],
    key: &Below,
) -> Result<Vec<Chart>, Error> {
    root.children(key)?.iter().map(|reader| read_one(reader, axes)).collect()
}

fn read_one(reader: &Reader<'_>, axes: &[Axis]) -> Result<Chart, Error> {
    reader.check(&[&KEYS])?;
    let paths = || axes.iter().map(|axis| axis.path.as_str());
    let several = axes.iter().find(|axis| axis.labels().len() > 1);
    let x = reader.text(&KEYS.x)?.unwrap_or(several.map_or(CASE, |axis| axis.path.as_str()));
    if x != CASE && !paths().any(|path| path == x) {
        return Err(reader.error(&KEYS.x, one_of(x, std::iter::once(CASE).chain(paths()))));
    }
    Ok(Chart {
        title: reader.need_text(&KEYS.title)?.trim().to_owned(),
        subject: reader.need_text(&KEYS.subject)?.to_owned(),
        metric: metric_named(reader.need_text(&KEYS.metric)?)
            .map_err(|why| reader.error(&KEYS.metric, why))?,
        stat: reader.choose(&KEYS.stat)?,
        x: x.to_owned(),
        log: reader.read(&KEYS.log)?,
        origin: reader.origin(),
    })
}

/// Refuses charts of metrics that are not measured.
pub(crate) fn check_measured(
    charts: &[Chart],
    scenario: &Scenario,
    wrong: &dyn Fn(Origin, String, String) -> Error,
) -> Result<(), Error> {
    for chart in charts {
        let Some(metrics) = scenario.measured_of(&chart.subject) else {
            let subject = chart.subject.escape_debug();
            let why = format!("\"{subject}\" is neither a traffic entry nor a recorded link");
            return Err(wrong(chart.origin, "chart.subject".into(), why));
        };
        if !metrics.contains(&chart.metric) {
            let why = one_of(chart.metric.name(), metrics.iter().map(|metric| metric.name()));
            return Err(wrong(chart.origin, "chart.metric".into(), why));
        }
    }
    Ok(())
}
