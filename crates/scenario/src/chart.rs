//! `[[chart]]`: charts of an experiment in a report. This module only reads and checks them.

use knee_file::keys::{Below, Choice, Key, Text};
use knee_file::{Error, Origin, Reader, Reason, keys, one_of};

use crate::cases::{Axis, metric_named};
use crate::metric::Metric;
use crate::published::{STATS, Stat};
use crate::scenario::Scenario;

/// Name of the x axis of cases.
pub const CASE: &str = "case";

/// What a chart draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A statistic along `x`.
    Lines,
    /// The same as bars from zero.
    Bars,
    /// Which share of all values is at most so large.
    Cdf,
    /// Samples of one run, the cases over one another.
    Time,
    /// A figure against another.
    Tradeoff,
    /// A statistic as a colour for each pair of two varied values.
    Heat,
}

const KINDS: &[(&str, Kind)] = &[
    ("lines", Kind::Lines),
    ("bars", Kind::Bars),
    ("cdf", Kind::Cdf),
    ("time", Kind::Time),
    ("tradeoff", Kind::Tradeoff),
    ("heat", Kind::Heat),
];

impl Kind {
    /// As in files and manifests.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A statistic of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Traffic entry or link.
    pub subject: String,
    /// Metric of the subject.
    pub metric: Metric,
    /// Statistic of the metric.
    pub stat: Stat,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it draws.
    pub kind: Kind,
    /// Title of the chart.
    pub title: String,
    /// The figure that is drawn.
    pub figure: Figure,
    /// The figure on the x axis of a trade-off.
    pub against: Option<Figure>,
    /// A varied path, or [`CASE`]. Otherwise the cases are the lines or groups.
    pub x: String,
    /// The varied path up the side of a heat map.
    pub y: Option<String>,
    /// Whether the axis of the metric is logarithmic.
    pub log: bool,
    pub(crate) origin: Origin,
}

keys! {
    /// A chart of a report, besides the default ones (`output.charts`).
    pub(crate) static KEYS: ChartKeys = "chart" {
        /// A statistic along `x`, all values, samples over time, one figure against another, or colours for two varied keys.
        kind: Choice<Kind> = of(KINDS).or("lines"),
        /// Its title.
        title: Key<Text> = needed("Completion of short transfers"),
        /// A traffic entry or a link.
        subject: Key<Text> = needed("short"),
        /// Its metric: docs/results.md.
        metric: Key<Text> = needed("completion"),
        /// Statistic of the metric. Not of `"cdf"` and `"time"`.
        stat: Choice<Stat> = of(STATS).or("mean"),
        /// The x axis: a varied key, or `"case"`. Of `"tradeoff"` the key along which curves go.
        x: Key<Text> = usually("the first varied key with several values"),
        /// The other varied key of `"heat"`.
        y: Key<Text> = usually("the next varied key with several values"),
        /// The x axis of `"tradeoff"`.
        against: Below = table(&AgainstKeys::TABLE),
        /// Logarithmic axis of the metric.
        log: Key<bool> = or(false),
    }
}

keys! {
    /// The figure on the x axis of a trade-off.
    static AGAINST: AgainstKeys = "against" {
        /// A traffic entry or a link.
        subject: Key<Text> = needed("bulk"),
        /// Its metric.
        metric: Key<Text> = needed("goodput"),
        /// Statistic of the metric.
        stat: Choice<Stat> = of(STATS).or("mean"),
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
    let kind = reader.choose(&KEYS.kind)?;
    refuse_others(reader, kind)?;
    let paths = || axes.iter().map(|axis| axis.path.as_str());
    let several = || axes.iter().filter(|axis| axis.labels().len() > 1);
    let first = several().next().map_or(CASE, |axis| axis.path.as_str());
    let x = reader.text(&KEYS.x)?.unwrap_or(first);
    let is_varied = |path: &str| paths().any(|known| known == path);
    let y = match kind {
        Kind::Heat => {
            let mut others = several().map(|axis| axis.path.as_str()).filter(|path| *path != x);
            let y = reader.text(&KEYS.y)?.or_else(|| others.next());
            let needs = || {
                "\"heat\" needs two varied keys with several values: add one to [vary], or choose \
                    \"lines\""
            };
            let y = y
                .filter(|_| several().count() > 1)
                .ok_or_else(|| reader.error(&KEYS.kind, needs()))?;
            if !is_varied(x) {
                return Err(reader.error(&KEYS.x, one_of(x, paths())));
            }
            if !is_varied(y) || y == x {
                return Err(reader.error(&KEYS.y, one_of(y, paths().filter(|path| *path != x))));
            }
            Some(y.to_owned())
        }
        _ => None,
    };
    if x != CASE && !is_varied(x) {
        return Err(reader.error(&KEYS.x, one_of(x, std::iter::once(CASE).chain(paths()))));
    }
    let against = match kind {
        Kind::Tradeoff => {
            let example = "{ subject = \"bulk\", metric = \"goodput\" }";
            let other = reader.child(&KEYS.against)?;
            let other = other.ok_or_else(|| reader.missing(&KEYS.against, example))?;
            other.check(&[&AGAINST])?;
            Some(figure(&other, (&AGAINST.subject, &AGAINST.metric, &AGAINST.stat))?)
        }
        _ => None,
    };
    Ok(Chart {
        kind,
        title: reader.need_text(&KEYS.title)?.trim().to_owned(),
        figure: figure(reader, (&KEYS.subject, &KEYS.metric, &KEYS.stat))?,
        against,
        x: x.to_owned(),
        y,
        log: reader.read(&KEYS.log)?,
        origin: reader.origin(),
    })
}

fn figure(
    reader: &Reader<'_>,
    (subject, metric, stat): (&Key<Text>, &Key<Text>, &Choice<Stat>),
) -> Result<Figure, Error> {
    Ok(Figure {
        subject: reader.need_text(subject)?.to_owned(),
        metric: metric_named(reader.need_text(metric)?).map_err(|why| reader.error(metric, why))?,
        stat: reader.choose(stat)?,
    })
}

/// Refuses keys that mean nothing to a chart of this kind.
fn refuse_others(reader: &Reader<'_>, kind: Kind) -> Result<(), Error> {
    let no: &[(&str, &str)] = match kind {
        Kind::Lines => &[("y", "heat"), ("against", "tradeoff")],
        Kind::Bars => &[("y", "heat"), ("against", "tradeoff"), ("log", "lines")],
        Kind::Cdf => &[("stat", "lines"), ("x", "lines"), ("y", "heat"), ("against", "tradeoff")],
        Kind::Time => &[
            ("stat", "lines"),
            ("x", "lines"),
            ("y", "heat"),
            ("against", "tradeoff"),
            ("log", "lines"),
        ],
        Kind::Tradeoff => &[("y", "heat")],
        Kind::Heat => &[("against", "tradeoff")],
    };
    match no.iter().find(|(key, _)| reader.has(*key)) {
        Some((key, of)) => {
            let why = format!("is not of kind = {:?}: leave it out, or choose {of:?}", kind.name());
            Err(reader.error(*key, why))
        }
        None => Ok(()),
    }
}

/// Metrics with a course over time, and the key that samples them.
const OVER_TIME: &[(Metric, &str)] = &[
    (Metric::Queue, "queues"),
    (Metric::Occupancy, "queues"),
    (Metric::Goodput, "goodput"),
    (Metric::GoodputSum, "goodput"),
    (Metric::Jain, "goodput"),
    (Metric::Cwnd, "flows"),
    (Metric::Srtt, "flows"),
];

/// Why a metric has no values that a chart of this kind could draw.
fn unfit(kind: Kind, metric: Metric, metrics: &[Metric], scenario: &Scenario) -> Option<String> {
    let is_sampled = |key: &str| scenario.is_sampled(key);
    let needs = |key: &str| format!("needs samples: set sample.{key}, as in {key} = \"1 ms\"");
    let of_queue = matches!(metric, Metric::Queue | Metric::Occupancy);
    match kind {
        Kind::Cdf if !metric.is_distribution() => {
            let many = metrics.iter().filter(|metric| metric.is_distribution());
            let other = many.map(|metric| metric.name()).collect::<Vec<_>>().join(", ");
            let name = metric.name();
            Some(format!("{name} is one value of a run and has no distribution: choose {other}"))
        }
        Kind::Cdf if of_queue && !is_sampled("queues") => Some(needs("queues")),
        Kind::Time
            if matches!(metric, Metric::GoodputSum | Metric::Jain)
                && scenario.output.most_series() < u64::MAX =>
        {
            let name = metric.name();
            Some(format!(
                "{name} is of all connections, and output.series keeps some: leave it out"
            ))
        }
        Kind::Time => match OVER_TIME.iter().find(|(known, _)| *known == metric) {
            Some((_, key)) if is_sampled(key) => None,
            Some((_, key)) => Some(needs(key)),
            None => {
                let over = |m: &&Metric| OVER_TIME.iter().any(|(known, _)| known == *m);
                let other = metrics.iter().filter(over).map(|metric| metric.name());
                let other = match other.collect::<Vec<_>>() {
                    none if none.is_empty() => "a link, or traffic that has goodput".to_owned(),
                    some => some.join(", "),
                };
                Some(format!("{} is not sampled over time: choose {other}", metric.name()))
            }
        },
        _ => None,
    }
}

/// Refuses charts of metrics that are not measured, or not as the chart needs them.
pub(crate) fn check_measured(
    charts: &[Chart],
    scenario: &Scenario,
    wrong: &dyn Fn(Origin, String, Reason) -> Error,
) -> Result<(), Error> {
    let figures = charts.iter().flat_map(|chart| {
        let against = chart.against.iter().map(|figure| (figure, "chart.against"));
        std::iter::once((&chart.figure, "chart")).chain(against).map(move |of| (chart, of))
    });
    for (chart, (figure, key)) in figures {
        let Some(metrics) = scenario.measured_of(&figure.subject) else {
            let subject = figure.subject.escape_debug();
            let why = format!("\"{subject}\" is neither a traffic entry nor a recorded link");
            return Err(wrong(chart.origin, format!("{key}.subject"), why.into()));
        };
        if !metrics.contains(&figure.metric) {
            let why = one_of(figure.metric.name(), metrics.iter().map(|metric| metric.name()));
            return Err(wrong(chart.origin, format!("{key}.metric"), why));
        }
        if let Some(why) = unfit(chart.kind, figure.metric, &metrics, scenario) {
            return Err(wrong(chart.origin, format!("{key}.metric"), why.into()));
        }
    }
    Ok(())
}
