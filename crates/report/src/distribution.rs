//! Distributions in bounded memory: of values of traffic, those that the summary's percentiles are of; of queues, what was waiting at
//! each sample.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use knee_results::manifest::Chart;
use knee_results::rows::{Distribution as Rows, QueueSample, Run};
use knee_results::{
    Bucket, CASE, Error, HOST_LIMITED, Manifest, Metric, RUN, ResultFile, Sketch, Sketched,
    quoted as cell,
};

use crate::figure::{Figure, PANEL, Piece};
use crate::palette::Style;
use crate::panels::{MOST_PANELS, chart_id};
use crate::plot::{Range, head, legend, panel_title};
use crate::svg::{Align, Svg};
use crate::text::{Unit, digits, slug, varied};

/// Fewer values are no distribution.
const FEWEST: u64 = 50;
/// From so many on the tail is worth as much room as the rest.
const MANY: u64 = 1000;
/// Cases at varied values, of all entries and metrics.
const MOST_CURVES: usize = 16_384;
/// Runs whose queues are read.
const MOST_RUNS: usize = 1_000_000;
/// The kind of chart that asks for one.
pub(crate) const CDF: &str = "cdf";
/// Shares whose values are read by pointing at them.
const SPOTS: [(f64, &str); 13] = [
    (0.05, "5 %"),
    (0.1, "10 %"),
    (0.2, "20 %"),
    (0.3, "30 %"),
    (0.4, "40 %"),
    (0.5, "50 %"),
    (0.6, "60 %"),
    (0.7, "70 %"),
    (0.8, "80 %"),
    (0.9, "90 %"),
    (0.95, "95 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
];

/// Case; varied values that tell panels apart.
type Key = (String, Vec<String>);

/// Values of a case: each with the share that is at most as large, ascending.
struct Curve {
    points: Vec<(f64, f64)>,
    /// Number of values, those that were cut off too.
    count: u64,
    cut_off: u64,
}

impl Curve {
    /// By the estimate of Kaplan and Meier (1958): what was cut off counts among those that may end as long as it was seen.
    /// The curve ends at the largest value or age; beyond, nothing is known.
    fn of_sketch(values: &Sketched, metric: Metric) -> Curve {
        let mut at_risk = values.count();
        let mut longer = 1.0;
        let mut points = Vec::new();
        for (bucket, count, cut_off) in values.buckets() {
            if count > 0 {
                longer *= 1.0 - count as f64 / at_risk.max(1) as f64;
            }
            at_risk = at_risk.saturating_sub(count).saturating_sub(cut_off);
            points.push((bucket.middle() / metric.scale(), 1.0 - longer));
        }
        Curve { points, count: values.count(), cut_off: values.cut_off.count() }
    }

    /// Of whole numbers that are all known.
    fn of_counts(counts: &BTreeMap<u64, u64>) -> Curve {
        let count: u64 = counts.values().sum();
        let mut at_most = 0;
        let points = counts.iter().map(|(value, of_value)| {
            at_most += of_value;
            (*value as f64, at_most as f64 / count.max(1) as f64)
        });
        Curve { points: points.collect(), count, cut_off: 0 }
    }

    /// The least value that so large a share is at most.
    fn at(&self, share: f64) -> Option<f64> {
        self.points.iter().find(|(_, at_most)| *at_most >= share - 1e-12).map(|(value, _)| *value)
    }
}

/// Values of a metric of a traffic entry or a queue, of all cases.
struct Values {
    subject: String,
    metric: Metric,
    curves: BTreeMap<Key, Curve>,
}

impl Values {
    /// Whether these are what was waiting at each sample, and not values of traffic.
    fn is_of_queue(&self) -> bool {
        is_of_queue(self.metric)
    }
}

fn is_of_queue(metric: Metric) -> bool {
    matches!(metric, Metric::Queue | Metric::Occupancy)
}

/// All distributions of a results directory.
pub(crate) struct Distributions(Vec<Values>);

impl Distributions {
    /// Reads those of traffic, and of queues those that charts ask for and this one.
    pub(crate) fn read(manifest: &Manifest, queue: Option<&str>) -> Result<Distributions, Error> {
        let asked = manifest.charts.iter().filter(|chart| chart.kind == CDF);
        let asked = asked
            .filter_map(|chart| Some((chart.subject.as_str(), Metric::by_name(&chart.metric)?)));
        let longest = queue.into_iter().map(|link| (link, Metric::Queue));
        let mut queues: Vec<(&str, Metric)> = Vec::new();
        for of in asked.chain(longest).filter(|(_, metric)| is_of_queue(*metric)) {
            if !queues.contains(&of) {
                queues.push(of);
            }
        }
        let mut all = of_queues(manifest, &queues)?;
        all.extend(of_traffic(manifest)?);
        Ok(Distributions(all))
    }

    /// The one that a chart asks for.
    pub(crate) fn asked(
        &self,
        manifest: &Manifest,
        styles: &[Style],
        chart: &Chart,
    ) -> Option<Figure> {
        let is_it = |of: &&Values| of.subject == chart.subject && of.metric.name() == chart.metric;
        let mut figure = figure(manifest, styles, self.0.iter().find(is_it)?, chart.log)?;
        figure.title.clone_from(&chart.title);
        figure.id = chart_id(manifest, &chart.title, CDF);
        Some(figure)
    }

    /// A figure for each with enough values that no chart asks for.
    pub(crate) fn others(&self, manifest: &Manifest, styles: &[Style]) -> Vec<Figure> {
        let is_asked = |of: &Values| {
            let mut charts = manifest.charts.iter().filter(|chart| chart.kind == CDF);
            charts.any(|chart| chart.subject == of.subject && chart.metric == of.metric.name())
        };
        let others = self.0.iter().filter(|of| !is_asked(of));
        others.filter_map(|of| figure(manifest, styles, of, !of.is_of_queue())).collect()
    }
}

/// The values of traffic, in the order of the file.
fn of_traffic(manifest: &Manifest) -> Result<Vec<Values>, Error> {
    let mut all: Vec<(String, Metric, BTreeMap<Key, Sketched>)> = Vec::new();
    let Some(mut table) = ResultFile::Distribution.open(&manifest.dir)? else {
        return Ok(Vec::new());
    };
    let columns = [CASE, Rows::subject, Rows::metric, Rows::bucket, Rows::count];
    let [case, subject, metric, bucket, count] = table.columns(columns)?;
    // Results of older versions do not have it.
    let cut_off = table.find(Rows::cut_off);
    let axes = table.axes(&manifest.axes)?;
    let mut curves = 0;
    while let Some(row) = table.next()? {
        let Some(metric) = Metric::by_name(row.text(metric)) else { continue };
        let number = u16::try_from(row.index(bucket)?).ok();
        let Some(bucket) = number.and_then(Bucket::numbered) else {
            let why = "has no such bucket: the file comes from another version, or was changed";
            return Err(table.wrong(why));
        };
        let (entry, count) = (row.text(subject), row.index(count)?);
        let values = axes.iter().zip(&manifest.axes);
        let values = values.map(|(at, axis)| axis.value(row.text(*at)).to_owned()).collect();
        let key = (row.text(case).to_owned(), values);
        let known = all.iter().position(|(of, which, _)| *which == metric && of == entry);
        let of = known.unwrap_or_else(|| {
            all.push((entry.to_owned(), metric, BTreeMap::new()));
            all.len() - 1
        });
        if curves < MOST_CURVES || all[of].2.contains_key(&key) {
            let values = all[of].2.entry(key).or_insert_with(|| {
                curves += 1;
                Sketched::default()
            });
            values.finished.add_many(bucket, count);
            let cut_off = cut_off.map_or(Ok(0), |column| row.index(column))?;
            values.cut_off.add_many(bucket, cut_off);
        }
    }
    let values = all.into_iter().map(|(subject, metric, curves)| {
        let curves = curves.into_iter();
        let curves = curves.map(|(key, values)| (key, Curve::of_sketch(&values, metric)));
        Values { subject, metric, curves: curves.collect() }
    });
    Ok(values.collect())
}

/// A run whose samples count: the number of its configuration, and from when until when it is measured.
struct Sampled {
    key: usize,
    from_s: f64,
    until_s: f64,
}

/// The runs that the summary is of, by their numbers, and the configurations.
fn sampled_runs(manifest: &Manifest) -> Result<(HashMap<u64, Sampled>, Vec<Key>), Error> {
    let (mut all, mut keys, mut known) = (HashMap::new(), Vec::new(), HashMap::new());
    let Some(mut table) = ResultFile::Run.open(&manifest.dir)? else { return Ok((all, keys)) };
    let [run, case] = table.columns([RUN, CASE])?;
    // Results of older versions do not have these.
    let [from, until, verdict] =
        [Run::measured_from_s, Run::measured_until_s, Run::verdict].map(|name| table.find(name));
    let axes = table.axes(&manifest.axes)?;
    while let Some(row) = table.next()? {
        if verdict.is_some_and(|column| row.text(column) == HOST_LIMITED) || all.len() >= MOST_RUNS
        {
            continue;
        }
        let at = axes.iter().zip(&manifest.axes);
        let at = at.map(|(column, axis)| axis.value(row.text(*column)).to_owned()).collect();
        let time = |column: Option<usize>| column.map_or(Ok(None), |column| row.number(column));
        let from_s = time(from)?.unwrap_or(f64::NEG_INFINITY);
        let until_s = time(until)?.unwrap_or(f64::INFINITY);
        let key: Key = (row.text(case).to_owned(), at);
        let key = *known.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            keys.len() - 1
        });
        all.insert(row.index(run)?, Sampled { key, from_s, until_s });
    }
    keys.truncate(MOST_CURVES);
    Ok((all, keys))
}

/// What was waiting in these queues, at each sample of each run that the summary is of.
fn of_queues(manifest: &Manifest, queues: &[(&str, Metric)]) -> Result<Vec<Values>, Error> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let Some(mut table) = ResultFile::QueueSample.open(&manifest.dir)? else {
        return Ok(Vec::new());
    };
    let (runs, keys) = sampled_runs(manifest)?;
    let mut all: Vec<Vec<BTreeMap<u64, u64>>> =
        vec![vec![BTreeMap::new(); keys.len()]; queues.len()];
    let [run, at, link] = table.columns([RUN, QueueSample::at_s, QueueSample::link])?;
    let columns = [QueueSample::len_pkts, QueueSample::len_bytes].map(|name| table.find(name));
    while let Some(row) = table.next()? {
        let Some(of_run) = runs.get(&row.index(run)?) else { continue };
        let Some(at_s) = row.number(at)? else { continue };
        // A window has what happens after its begin and not after its end.
        if at_s <= of_run.from_s || at_s > of_run.until_s {
            continue;
        }
        let name = row.text(link);
        for ((_, metric), counts) in queues.iter().zip(&mut all).filter(|((of, _), _)| *of == name)
        {
            let column = columns[usize::from(*metric == Metric::Occupancy)];
            let Some(waiting) = column.map_or(Ok(None), |column| row.number(column))? else {
                continue;
            };
            if let Some(of_key) = counts.get_mut(of_run.key) {
                *of_key.entry(waiting.max(0.0) as u64).or_default() += 1;
            }
        }
    }
    let values = queues.iter().zip(all).map(|((subject, metric), counts)| {
        let curves = keys.iter().cloned().zip(counts).filter(|(_, counts)| !counts.is_empty());
        let curves = curves.map(|(key, counts)| (key, Curve::of_counts(&counts)));
        Values { subject: (*subject).to_owned(), metric: *metric, curves: curves.collect() }
    });
    Ok(values.collect())
}

/// Draws values on a linear or a logarithmic axis.
fn figure(manifest: &Manifest, styles: &[Style], of: &Values, log: bool) -> Option<Figure> {
    let (metric, curves) = (of.metric, &of.curves);
    let what = metric.heading();
    let enough = || curves.iter().filter(|(_, values)| values.count >= FEWEST);
    let largest = |values: &Curve| values.points.last().map_or(0.0, |(value, _)| *value);
    let largest = enough().map(|(_, values)| largest(values)).fold(0.0, f64::max);
    let most = enough().map(|(_, values)| values.count).max()?;
    let unit = Unit::of_metric(metric.name(), metric.unit(), largest);
    let range_of = |at: Option<&Vec<String>>| {
        let here = enough().filter(|((_, of), _)| at.is_none_or(|at| at == of));
        let ends = here.flat_map(|(_, values)| &values.points);
        let ends = ends.map(|(value, _)| value * unit.factor);
        Range::holding(ends.collect::<Vec<_>>().into_iter(), log)
    };
    let whole = range_of(None);
    // In the order of the axes' values, the last axis innermost.
    let rank = |at: &Vec<String>| {
        let places = at
            .iter()
            .zip(&manifest.axes)
            .map(|(value, axis)| axis.values.iter().position(|v| v == value));
        places.collect::<Vec<_>>()
    };
    let mut panels: Vec<&Vec<String>> = Vec::new();
    for ((_, at), _) in enough() {
        if !panels.contains(&at) {
            panels.push(at);
        }
    }
    panels.sort_by_key(|at| rank(at));
    let left_out = panels.len().saturating_sub(MOST_PANELS);
    panels.truncate(MOST_PANELS);
    // One scale for all where most of them fill a good part of it.
    let length = |range: Range| match log {
        true => (range.high / range.low).log10(),
        false => range.high - range.low,
    };
    let mut widths: Vec<f64> = panels.iter().map(|at| length(range_of(Some(at)))).collect();
    widths.sort_by(f64::total_cmp);
    let is_shared = length(whole) < 2.5 * widths[widths.len() / 2];
    let mut csv = String::from("case");
    manifest.axes.iter().for_each(|axis| {
        let _ = write!(csv, ",{}", cell(axis.column()));
    });
    let of_unit =
        if metric.unit().is_empty() { String::new() } else { format!("_{}", metric.unit()) };
    let _ = writeln!(csv, ",at_most{of_unit},share");
    let mut pieces = Vec::new();
    let mut shown = vec![false; manifest.cases.len()];
    let mut cut_off = vec![0_u64; manifest.cases.len()];
    for at in panels {
        let title = varied(&manifest.axes, at);
        let mut drawn = Vec::new();
        for (i, case) in manifest.cases.iter().enumerate() {
            let values = curves.get(&(case.clone(), at.clone()));
            let Some(values) = values.filter(|values| values.count >= FEWEST) else { continue };
            shown[i] = true;
            cut_off[i] += values.cut_off;
            let label = at.iter().zip(&manifest.axes).map(|(value, axis)| axis.cell(value));
            let label = std::iter::once(case.clone())
                .chain(label)
                .map(|part| cell(&part).into_owned())
                .collect::<Vec<_>>()
                .join(",");
            // Half a percent is as fine as the drawing, but for the tail and the percentiles that summaries have.
            let mut prior = -1.0;
            for (value, share) in &values.points {
                let is_named = [0.5, 0.95].iter().any(|named| prior < *named && share >= named);
                if share - prior >= 0.005 || *share > 0.99 || is_named {
                    let _ = writeln!(csv, "{label},{},{}", digits5(*value), digits5(*share));
                    prior = *share;
                }
            }
            let spots = SPOTS.iter().filter_map(|(share, name)| {
                let value = values.at(*share)?;
                let says = format!("{case}: {name} at most {}", unit.named(value));
                Some((value * unit.factor, *share, says))
            });
            let points = values.points.iter().map(|(v, s)| (v * unit.factor, *s));
            drawn.push(Stairs {
                style: styles[i],
                spots: spots.collect(),
                points: points.collect(),
            });
        }
        let label = format!("{what}{}", unit.suffix());
        let x = if is_shared { whole } else { range_of(Some(at)) };
        // Where a queue is most of the time matters as much as its tail.
        let nines = most >= MANY && !of.is_of_queue();
        pieces.push(Steps { title: &title, label: &label, x, nines, curves: &drawn }.draw());
    }
    let cases = manifest.cases.iter().zip(styles).zip(shown).filter(|(_, shown)| *shown);
    let mut caption = match of.is_of_queue() {
        true => "At each sample in the measured part of all runs.".to_owned(),
        false => format!(
            "The values that the summary's percentiles are of, within {} %.",
            Sketch::ERROR * 100.0
        ),
    };
    let of_cases = manifest.cases.iter().zip(&cut_off).filter(|(_, count)| **count > 0);
    let of_cases: Vec<String> = of_cases.map(|(case, count)| format!("{case}: {count}")).collect();
    if !of_cases.is_empty() {
        let _ = write!(
            caption,
            " Cut off by the end of the run: {}; Kaplan-Meier estimate. It takes them to be like the others: where late arrivals wait longest, its times are too short.",
            of_cases.join(", ")
        );
    }
    if !is_shared {
        caption.push_str(" Each panel has its own scale.");
    }
    if left_out > 0 {
        let _ = write!(caption, " {left_out} more panels are left out.");
    }
    Some(Figure {
        id: format!(
            "{}-cdf-{}",
            slug(&manifest.experiment),
            slug(&format!("{} {what}", of.subject))
        ),
        title: format!("{}: distribution of {what}", of.subject),
        caption,
        legend: cases.map(|((case, style), _)| legend(case, *style, true, false)).collect(),
        pieces,
        csv,
    })
}

fn digits5(value: f64) -> String {
    format!("{value:.4e}").parse::<f64>().unwrap_or(value).to_string()
}

/// Distributions: which share of values is at most so large.
struct Steps<'a> {
    title: &'a str,
    label: &'a str,
    x: Range,
    /// Whether the tail gets as much room as the rest: 90 %, 99 %, 99.9 % at equal distances.
    nines: bool,
    curves: &'a [Stairs],
}

/// A distribution as it is drawn.
struct Stairs {
    style: Style,
    /// Values with the share at most as large, ascending.
    points: Vec<(f64, f64)>,
    /// Points with what they say.
    spots: Vec<(f64, f64, String)>,
}

impl Steps<'_> {
    fn draw(&self) -> Piece {
        let head = head(self.title);
        let (width, height) = (PANEL, 222.0 + head);
        let (left, right, top, bottom) = (50.0, width - 14.0, 20.0 + head, height - 40.0);
        let mut out = Svg::default();
        panel_title(&mut out, self.title);
        let most = if self.nines { 3.4 } else { 1.0 };
        let at_y = |share: f64| {
            let up = if self.nines { -(1.0 - share).max(1e-9).log10() } else { share };
            bottom - (up / most).min(1.0) * (bottom - top)
        };
        let at_x = |value: f64| left + self.x.share(value) * (right - left);
        let ticks: &[(f64, &str)] = match self.nines {
            true => &[(0.0, "0"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")],
            false => &[(0.0, "0"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 %")],
        };
        for (share, name) in ticks {
            let y = at_y(*share);
            out.rule("g", format_args!("M{left} {y:.1}H{right}"));
            out.text("", (left - 6.0, y + 4.0), Align::End, name);
        }
        for tick in self.x.ticks(4.0) {
            let x = at_x(tick);
            out.rule("g", format_args!("M{x:.1} {top}V{bottom}"));
            out.text("", (x, bottom + 16.0), Align::Middle, &digits(tick));
        }
        out.text("m", (2.0, top - 8.0), Align::Start, "cumulative share");
        out.rule("a", format_args!("M{left} {bottom}H{right}"));
        for Stairs { style, points: curve, spots } in self.curves {
            let mut path = String::new();
            let mut prior = bottom;
            for (i, (value, share)) in curve.iter().enumerate() {
                let (x, y) = (at_x(*value), at_y(*share));
                if path.is_empty() {
                    let _ = write!(path, "M{x:.1} {bottom:.1}V{y:.1}");
                } else if (prior - y).abs() >= 0.8 || i + 1 == curve.len() {
                    let _ = write!(path, "H{x:.1}V{y:.1}");
                } else {
                    continue;
                }
                prior = y;
            }
            out.curve(*style, path, 1.8);
            spots.iter().for_each(|(value, share, says)| {
                out.spot((at_x(*value), at_y(*share)), says);
            });
        }
        out.text("m", ((left + right) / 2.0, height - 8.0), Align::Middle, self.label);
        Piece { width, height, body: out.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_at_most_so_long_for_the_share_of_its_samples() {
        let counts = BTreeMap::from([(0, 50), (10, 40), (90, 10)]);
        let curve = Curve::of_counts(&counts);
        assert_eq!(curve.points, [(0.0, 0.5), (10.0, 0.9), (90.0, 1.0)]);
        let at = [0.1, 0.5, 0.51, 0.9, 0.99].map(|share| curve.at(share));
        assert_eq!(at, [0.0, 0.0, 10.0, 10.0, 90.0].map(Some));
    }

    #[test]
    fn a_curve_has_the_percentiles_of_its_values() {
        let mut values = Sketched::default();
        (1..=10_000).for_each(|i| values.finished.add(i * 1000));
        let points = Curve::of_sketch(&values, Metric::Latency).points;
        let at = |share: f64| points.iter().find(|(_, s)| *s >= share).expect("reaches one").0;
        for share in [0.01, 0.5, 0.99, 0.999] {
            let wanted = share * 1e-2;
            assert!((at(share) / wanted - 1.0).abs() < Sketch::ERROR, "{share}: {}", at(share));
        }
        assert!((points[points.len() - 1].1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_curve_with_values_cut_off_ends_where_knowledge_does() {
        // 1 and 3 us are known, 2 and 4 are ages. By Kaplan and Meier one of four ends at 1 us, and one of two at 3 us.
        let mut values = Sketched::default();
        [1000, 3000].into_iter().for_each(|value| values.finished.add(value));
        [2000, 4000].into_iter().for_each(|value| values.cut_off.add(value));
        let points = Curve::of_sketch(&values, Metric::Latency).points;
        let shares: Vec<f64> =
            points.iter().map(|(_, share)| (share * 1e6).round() / 1e6).collect();
        assert_eq!(shares, [0.25, 0.25, 0.625, 0.625]);
        assert!((points[3].0 / 4e-6 - 1.0).abs() < Sketch::ERROR);
    }
}
