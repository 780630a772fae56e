//! `[[chart]]`: what a report draws of an experiment. Here it is only read and checked.

use knee_file::{Error, Origin, Reader, one_of};

use crate::cases::{Axis, metric_named};
use crate::metric::Metric;
use crate::published::{STATS, Stat};
use crate::scenario::Scenario;

/// What stands on the x axis if it is not a varied path.
pub const CASE: &str = "case";

/// One chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Traffic entry or link.
    pub subject: String,
    /// What is drawn of it.
    pub metric: Metric,
    /// Which statistic of that.
    pub stat: Stat,
    /// A varied path, or [`CASE`]; lines or groups are the cases.
    pub x: String,
    /// Whether the y axis is logarithmic.
    pub log: bool,
    pub(crate) origin: Origin,
}

pub(crate) fn read_charts(root: &Reader<'_>, axes: &[Axis]) -> Result<Vec<Chart>, Error> {
    root.children("chart")?.iter().map(|reader| read_one(reader, axes)).collect()
}

fn read_one(reader: &Reader<'_>, axes: &[Axis]) -> Result<Chart, Error> {
    reader.check(&["title", "subject", "metric", "stat", "x", "log"])?;
    let paths = || axes.iter().map(|axis| axis.path.as_str());
    let several = axes.iter().find(|axis| axis.labels().len() > 1);
    let x = reader.text("x")?.unwrap_or(several.map_or(CASE, |axis| axis.path.as_str()));
    if x != CASE && !paths().any(|path| path == x) {
        return Err(reader.error("x", one_of(x, std::iter::once(CASE).chain(paths()))));
    }
    Ok(Chart {
        title: reader.need_text("title", "Completion of short transfers")?.trim().to_owned(),
        subject: reader.need_text("subject", "short")?.to_owned(),
        metric: metric_named(reader.need_text("metric", "completion")?)
            .map_err(|why| reader.error("metric", why))?,
        stat: reader.choice_or("stat", STATS, Stat::Mean.name())?,
        x: x.to_owned(),
        log: reader.flag_or("log", false)?,
        origin: reader.origin(),
    })
}

/// Refuses charts of what is not measured.
pub(crate) fn check_measured(
    charts: &[Chart],
    scenario: &Scenario,
    wrong: &dyn Fn(Origin, String, String) -> Error,
) -> Result<(), Error> {
    for chart in charts {
        let Some(metrics) = scenario.measured_of(&chart.subject) else {
            let subject = chart.subject.escape_debug();
            let why = format!("\"{subject}\" is no traffic entry and no recorded link");
            return Err(wrong(chart.origin, "chart.subject".into(), why));
        };
        if !metrics.contains(&chart.metric) {
            let why = one_of(chart.metric.name(), metrics.iter().map(|metric| metric.name()));
            return Err(wrong(chart.origin, "chart.metric".into(), why));
        }
    }
    Ok(())
}
