//! `[[published]]`: figures that others reported, shown beside ours.

use knee_file::keys::{Below, Choice, Key, List, Shape, Table, Text};
use knee_file::units::figure;
use knee_file::{Error, Origin, Reader, Reason, keys, one_of};

use crate::cases::{Axis, Case, has_case, metric_named};
use crate::metric::Metric;
use crate::stats::{Possible, Summary};

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Traffic entry or link.
    pub subject: String,
    /// Metric of the figure.
    pub metric: Metric,
    /// Statistic of the metric.
    pub stat: Stat,
    /// Cases to compare it with.
    pub cases: Vec<String>,
    /// Varied values it belongs to: path and value as text.
    pub at: Vec<(String, String)>,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// The figure as it was printed.
    pub text: String,
    /// A note.
    pub note: Option<String>,
    /// Position in the file, for messages.
    pub(crate) origin: Origin,
}

/// A statistic of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    Mean,
    /// Standard deviation.
    Sd,
    /// Smallest value.
    Min,
    /// Median.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Largest value.
    Max,
}

pub(crate) const STATS: &[(&str, Stat)] = &[
    ("mean", Stat::Mean),
    ("sd", Stat::Sd),
    ("min", Stat::Min),
    ("p50", Stat::P50),
    ("p95", Stat::P95),
    ("p99", Stat::P99),
    ("p999", Stat::P999),
    ("max", Stat::Max),
];

impl Stat {
    /// Percentiles with their shares.
    pub const PERCENTILES: [(Stat, f64); 4] =
        [(Stat::P50, 0.5), (Stat::P95, 0.95), (Stat::P99, 0.99), (Stat::P999, 0.999)];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        STATS.iter().find(|(_, stat)| *stat == self).map_or("", |(name, _)| name)
    }

    /// Returns the heading of its column in tables.
    pub fn heading(self) -> &'static str {
        match self {
            Stat::P999 => "p99.9",
            other => other.name(),
        }
    }

    /// Returns the statistic of this name or heading.
    ///
    /// # Errors
    /// A sentence with the names if there is none.
    pub fn named(name: &str) -> Result<Stat, Reason> {
        let is_it = |stat: &Stat| stat.name() == name || stat.heading() == name;
        let found = STATS.iter().map(|(_, stat)| *stat).find(is_it);
        found.ok_or_else(|| one_of(name, STATS.iter().map(|(name, _)| *name)))
    }

    /// Returns the share of values up to a percentile.
    pub fn share(self) -> Option<f64> {
        Stat::PERCENTILES.into_iter().find(|(stat, _)| *stat == self).map(|(_, share)| share)
    }

    /// Returns half the width of this statistic's 95 % interval over runs. Where values cut off could change it, it is around either
    /// bound.
    pub fn half(self, summary: &Summary) -> Option<f64> {
        match Stat::PERCENTILES.iter().position(|(stat, _)| *stat == self) {
            Some(place) => summary.percentile_ci95[place],
            None if self == Stat::Mean => summary.ci95.or(summary.cut_off.mean_ci95),
            None => None,
        }
    }

    /// Returns what is known of this statistic of a summary: its value, or bounds where values cut off could change it.
    pub fn possible(self, summary: &Summary) -> Option<Possible> {
        let cut_off = &summary.cut_off;
        let bounds = match self {
            Stat::Mean => cut_off.mean,
            Stat::Sd => None,
            Stat::Min => cut_off.min,
            Stat::P50 => cut_off.p50,
            Stat::P95 => cut_off.p95,
            Stat::P99 => cut_off.p99,
            Stat::P999 => cut_off.p999,
            Stat::Max => cut_off.max,
        };
        self.of(summary).map(Possible::exact).or(bounds)
    }

    /// Returns this statistic of a summary. `None` if it was not measured, or if values cut off could change it.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Stat::Mean => summary.mean,
            Stat::Sd => summary.sd,
            Stat::Min => summary.min,
            Stat::P50 => summary.p50,
            Stat::P95 => summary.p95,
            Stat::P99 => summary.p99,
            Stat::P999 => summary.p999,
            Stat::Max => summary.max,
        }
    }
}

keys! {
    /// A published figure, compared with ours.
    pub(crate) static KEYS: PublishedKeys = "published" {
        /// A traffic entry or a link.
        subject: Key<Text> = needed("short"),
        /// Its metric: docs/results.md.
        metric: Key<Text> = needed("completion"),
        /// Statistic of the metric.
        stat: Choice<Stat> = of(STATS).or("mean"),
        /// Cases to compare it with.
        case: Key<List<Text>> = needed("dctcp"),
        /// Its varied values.
        at: Below = table(&AT),
        /// The figure, with unit.
        value: Key<Text> = needed("33.7 ms"),
        /// A note.
        note: Key<Text>,
    }
}

/// Values of varied keys.
pub(crate) static AT: Table =
    Table { name: "at", says: "Values of varied keys.", shape: || Shape::Any("paths of `[vary]`") };

pub(crate) fn read_published(
    root: &Reader<'_>,
    cases: &[Case],
    axes: &[Axis],
    key: &Below,
) -> Result<Vec<Published>, Error> {
    root.children(key)?.iter().map(|reader| read_one(reader, cases, axes)).collect()
}

fn read_one(reader: &Reader<'_>, cases: &[Case], axes: &[Axis]) -> Result<Published, Error> {
    reader.check(&[&KEYS])?;
    let metric = metric_named(reader.need_text(&KEYS.metric)?)
        .map_err(|why| reader.error(&KEYS.metric, why))?;
    let names = reader.need_texts(&KEYS.case)?;
    if let Some(unknown) = names.iter().find(|name| !has_case(cases, name)) {
        let known = cases.iter().map(|case| case.name.as_str());
        return Err(reader.error(&KEYS.case, one_of(unknown, known)));
    }
    let text = reader.need_text(&KEYS.value)?;
    let (value, unit) = figure(text).map_err(|why| reader.error(&KEYS.value, why))?;
    if !metric.takes(unit) {
        let unit = if metric.unit().is_empty() { "none" } else { metric.unit() };
        let message = format!("must have the unit of {} ({unit})", metric.name());
        return Err(reader.error(&KEYS.value, message));
    }
    let mut at = Vec::new();
    if let Some(table) = reader.child(&KEYS.at)? {
        for (path, node) in table.entries() {
            let Some(axis) = axes.iter().find(|axis| axis.path == path) else {
                return Err(table.error(path, "must be a key of [vary]"));
            };
            let (value, labels) = (node.label(), axis.labels());
            if !labels.contains(&value) {
                return Err(table.error(path, one_of(&value, labels.iter().map(String::as_str))));
            }
            at.push((path.to_owned(), value));
        }
    }
    Ok(Published {
        subject: reader.need_text(&KEYS.subject)?.to_owned(),
        metric,
        stat: reader.choose(&KEYS.stat)?,
        cases: names.into_iter().map(str::to_owned).collect(),
        at,
        value,
        text: text.to_owned(),
        origin: reader.origin(),
        note: reader.text(&KEYS.note)?.map(|note| note.trim().to_owned()),
    })
}
