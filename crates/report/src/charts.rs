//! Charts of the summary: what the experiment asks for, or one for each metric that matters.

use std::collections::HashMap;

use knee_results::manifest::{self, Chart, Manifest, Published};
use knee_results::{Metric, ResultFile};

use crate::bars::{Bar, Bars};
use crate::colours;
use crate::distribution::{CDF, Distributions};
use crate::figure::{Figure, Piece};
use crate::palette::Style;
use crate::panels::{At, MOST_PANELS, chart_id, csv, facets, is_at, panel_title, without_unit};
use crate::plot::{Dot, Dots, Line, Lines, Point, Range, legend, legend_published};
use crate::summary::{Row, Summary};
use crate::text::{self, Unit, short_path};
use crate::together::TIME;
use crate::tradeoff;

/// A log axis where none is asked for: the largest is so many times the least.
const FAR: f64 = 40.0;
/// Default charts: metrics and titles.
const METRICS: [(Metric, &str); 12] = [
    (Metric::Completion, "mean"),
    (Metric::Last, "mean"),
    (Metric::Slowdown, "p99"),
    (Metric::Latency, "mean"),
    (Metric::Latency, "p99"),
    (Metric::Rtt, "mean"),
    (Metric::Goodput, "mean"),
    (Metric::Jain, "mean"),
    (Metric::Queue, "mean"),
    (Metric::Utilisation, "mean"),
    (Metric::Timeouts, "mean"),
    (Metric::CeShare, "mean"),
];
/// Charts where the experiment names none.
const MOST_DEFAULT: usize = 12;

/// All charts of a directory but those over time: what the experiment asks for, then the default ones. Also the number of default
/// ones that are left out.
pub(crate) fn charts(
    manifest: &Manifest,
    summary: &Summary,
    styles: &[Style],
    distributions: &Distributions,
) -> (Vec<Figure>, usize) {
    let asked = manifest.charts.iter().filter(|chart| chart.kind != TIME);
    let mut figures: Vec<Figure> = asked
        .map(|chart| {
            let drawn = match chart.kind.as_str() {
                CDF => distributions.asked(manifest, styles, chart),
                "tradeoff" => tradeoff::draw(manifest, summary, styles, chart),
                "heat" => colours::draw(manifest, summary, chart),
                _ => draw(manifest, summary, styles, chart),
            };
            drawn.unwrap_or_else(|| nothing(manifest, chart))
        })
        .collect();
    if manifest.only_these_charts {
        return (figures, 0);
    }
    let mut more = default_charts(manifest, summary);
    more.retain(|chart| !manifest.charts.iter().any(|asked| is_same(asked, chart)));
    let room = MOST_DEFAULT.saturating_sub(figures.len());
    let left_out = more.len().saturating_sub(room);
    more.truncate(room);
    figures.extend(more.iter().filter_map(|chart| draw(manifest, summary, styles, chart)));
    figures.extend(distributions.others(manifest, styles));
    (figures, left_out)
}

/// Whether both draw one figure along the cases or values.
fn is_same(a: &Chart, b: &Chart) -> bool {
    let of = |chart: &Chart| (chart.subject.clone(), chart.metric.clone(), chart.stat.clone());
    matches!(a.kind.as_str(), "lines" | "bars") && of(a) == of(b)
}

/// The figure of a chart that has nothing to draw.
fn nothing(manifest: &Manifest, chart: &Chart) -> Figure {
    let why = match chart.kind.as_str() {
        CDF => "Nothing is drawn: no case has 50 values of it.",
        _ => "Nothing is drawn: these results have no values of it.",
    };
    Figure {
        id: chart_id(manifest, &chart.title, &chart.kind),
        title: chart.title.clone(),
        caption: why.to_owned(),
        legend: Vec::new(),
        pieces: Vec::new(),
        csv: String::new(),
    }
}

/// The queue with the most packets waiting.
pub(crate) fn longest_queue(summary: &Summary) -> Option<&str> {
    let queue = Metric::Queue.name();
    longest_queues_first(summary).into_iter().find(|(_, metric)| *metric == queue).map(|of| of.0)
}

fn default_charts(manifest: &Manifest, summary: &Summary) -> Vec<Chart> {
    let longest = manifest.axes.iter().filter(|axis| axis.values.len() > 1);
    let longest = longest.max_by_key(|axis| axis.values.len());
    let x = longest.map_or_else(|| "case".to_owned(), |axis| axis.path.clone());
    let mut charts = Vec::new();
    for (subject, metric) in longest_queues_first(summary) {
        for (_, stat) in METRICS.iter().filter(|(of, _)| of.name() == metric) {
            let values: Vec<f64> = summary
                .of(subject, metric)
                .filter_map(|row| row.stat(stat).or(row.at_least(stat)))
                .collect();
            let (low, high) =
                values.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| {
                    (low.min(*v), high.max(*v))
                });
            // Zero everywhere says nothing that a chart could show.
            if values.is_empty() || high == 0.0 {
                continue;
            }
            let about = match *stat {
                "mean" => text::metric(metric),
                stat => format!("{}, {}", text::metric(metric), text::stat(stat)),
            };
            charts.push(Chart {
                kind: "lines".to_owned(),
                title: format!("{subject}: {about}"),
                subject: subject.to_owned(),
                metric: metric.to_owned(),
                stat: (*stat).to_owned(),
                x: x.clone(),
                against: None,
                y: None,
                log: low > 0.0 && high / low > FAR,
            });
        }
    }
    charts
}

/// Subjects with their metrics in the order of the file, but recorded links behind everything else, the one with the most
/// packets waiting first: of many links the first charts are of those that matter.
fn longest_queues_first(summary: &Summary) -> Vec<(&str, &str)> {
    let mut links: HashMap<&str, (f64, f64)> = HashMap::new();
    for row in &summary.rows {
        let (metric, mean) = (Metric::by_name(&row.metric), row.stat("mean").unwrap_or(0.0));
        if let Some(Metric::Queue | Metric::Utilisation) = metric {
            let (queue, load) = links.entry(&row.subject).or_default();
            let most = if metric == Some(Metric::Queue) { queue } else { load };
            *most = most.max(mean);
        }
    }
    let mut measured = summary.measured();
    measured.sort_by(|(a, _), (b, _)| match (links.get(a), links.get(b)) {
        (Some(a), Some(b)) => b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)),
        (a, b) => a.is_some().cmp(&b.is_some()),
    });
    measured
}

fn draw(manifest: &Manifest, summary: &Summary, styles: &[Style], chart: &Chart) -> Option<Figure> {
    let rows: Vec<&Row> = summary.of(&chart.subject, &chart.metric).collect();
    let known = |row: &&Row| row.stat(&chart.stat).or(row.at_least(&chart.stat));
    let values = || rows.iter().filter_map(known);
    let largest = values().fold(0.0, f64::max);
    let file_unit = &rows.first()?.unit;
    let unit = Unit::of_metric(&chart.metric, file_unit, largest);
    let published: Vec<&Published> = manifest
        .published
        .iter()
        .filter(|p| p.subject == chart.subject && p.metric == chart.metric && p.stat == chart.stat)
        .collect();
    let of_subject: Vec<&Row> =
        summary.rows.iter().filter(|row| row.subject == chart.subject).collect();
    let (rows_drawn, of_subject) = (&rows[..], &of_subject[..]);
    let drawn = Drawn {
        manifest,
        styles,
        chart,
        rows: rows_drawn,
        of_subject,
        unit,
        published: &published,
    };
    let x = manifest.axes.iter().position(|axis| axis.path == chart.x && axis.values.len() > 1);
    // Without any value there is nothing to draw, and the reason stands below.
    let panels = if values().next().is_some() {
        facets(&manifest.axes, x.as_slice(), &rows)
    } else {
        Vec::new()
    };
    let left_out = panels.len().saturating_sub(MOST_PANELS);
    let is_bars = chart.kind == "bars";
    let pieces: Vec<Piece> = match x {
        _ if is_bars => panels.iter().take(MOST_PANELS).map(|at| drawn.bars(x, at)).collect(),
        Some(x) => panels.iter().take(MOST_PANELS).map(|at| drawn.lines(x, at)).collect(),
        None => panels.iter().take(MOST_PANELS).map(|at| drawn.dots(at)).collect(),
    };
    let mut key: Vec<Piece> = Vec::new();
    if x.is_some() && !pieces.is_empty() {
        let shown = |case: &&String| rows.iter().any(|row| row.case == **case);
        let cases = manifest.cases.iter().zip(styles).filter(|(case, _)| shown(case));
        key.extend(cases.map(|(case, style)| legend(case, *style, !is_bars, true)));
    }
    if !published.is_empty() && !is_bars {
        key.push(legend_published());
    }
    let mut captions: Vec<String> = Vec::new();
    if chart.log && x.is_some() {
        let low = drawn.range().low;
        let mut lows = rows.iter().filter_map(|row| drawn.point(row)).map(|point| point.low);
        if lows.any(|of_point| of_point < low) {
            captions.push(
                "A line or value at the edge goes on beyond it: a logarithmic axis has no 0."
                    .into(),
            );
        }
    }
    // Of dots each says so itself.
    if x.is_some() || pieces.is_empty() {
        captions.extend(drawn.lacking());
    }
    captions.extend(drawn.cut_off());
    if left_out > 0 {
        let all = ResultFile::Summary.name_by(manifest);
        captions.push(format!("{left_out} more panels are left out; see {all}."));
    }
    let title = match chart.title.is_empty() {
        true => format!("{}: {}", chart.subject, text::metric(&chart.metric)),
        false => chart.title.clone(),
    };
    Some(Figure {
        id: chart_id(manifest, &title, &chart.stat),
        title,
        caption: captions.join(" "),
        legend: key,
        pieces,
        csv: csv(manifest, chart, &rows, file_unit),
    })
}

fn spread(stat: &str) -> bool {
    matches!(stat, "mean" | "p50")
}

/// A quantity as experiment files have it, for distances along an axis.
fn quantity(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim() {
        "" | "s" | "B" | "bps" | "pkts" | "%" | "pkt" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "kB" | "kbps" => 1e3,
        "MB" | "Mbps" => 1e6,
        "GB" | "Gbps" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Where the values of an axis are, from 0 to 1: to scale if they are quantities, linear or by ratio, as crowds them
/// less; else at equal distances.
fn places(values: &[String]) -> Vec<f64> {
    let n = values.len();
    let equal = || (0..n).map(|i| if n < 2 { 0.5 } else { i as f64 / (n - 1) as f64 }).collect();
    let Some(numbers) = values.iter().map(|value| quantity(value)).collect::<Option<Vec<f64>>>()
    else {
        return equal();
    };
    let ascending = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    if n < 2 || !ascending {
        return equal();
    }
    let (first, last) = (numbers[0], numbers[n - 1]);
    let linear: Vec<f64> = numbers.iter().map(|v| (v - first) / (last - first)).collect();
    let closest =
        |places: &[f64]| places.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::min);
    if first <= 0.0 {
        return if closest(&linear) > 0.3 / n as f64 { linear } else { equal() };
    }
    let ratio: Vec<f64> = numbers.iter().map(|v| (v / first).ln() / (last / first).ln()).collect();
    if closest(&ratio) > closest(&linear) { ratio } else { linear }
}

/// Settings that all panels of a chart share.
struct Drawn<'a> {
    manifest: &'a Manifest,
    styles: &'a [Style],
    chart: &'a Chart,
    rows: &'a [&'a Row],
    /// Rows of all metrics of the subject.
    of_subject: &'a [&'a Row],
    unit: Unit,
    published: &'a [&'a Published],
}

impl Drawn<'_> {
    fn point(&self, row: &Row) -> Option<Point> {
        let f = self.unit.factor;
        let Some(value) = row.stat(&self.chart.stat) else {
            let value = row.at_least(&self.chart.stat)? * f;
            return Some(Point { value, low: value, high: value, is_bound: true });
        };
        let (low, high) = row.interval(&self.chart.stat, value);
        Some(Point { value: value * f, low: low * f, high: high * f, is_bound: false })
    }

    /// Says of which rows the statistic is not known, and why.
    fn lacking(&self) -> Option<String> {
        let stat = &self.chart.stat;
        let is_unknown = |row: &&&Row| row.stat(stat).or(row.at_least(stat)).is_none();
        let mut lacking = self.rows.iter().filter(is_unknown);
        let first = lacking.next()?;
        let whose = text::configuration(&first.case, &self.manifest.axes, &first.at);
        let more = match lacking.count() {
            0 => String::new(),
            1 => " 1 more point is missing for the same reason.".to_owned(),
            more => format!(" {more} more points are missing for the same reason."),
        };
        Some(format!("No {} of {whose}: it {}.{more}", text::stat(stat), first.lacks(stat)))
    }

    /// Says how many values of which cases the ends of runs cut off.
    fn cut_off(&self) -> Option<String> {
        let of_case = |case: &String| -> u64 {
            self.rows.iter().filter(|row| row.case == *case).map(|row| row.cut_off).sum()
        };
        let cases = self.manifest.cases.iter().map(|case| (case, of_case(case)));
        let named: Vec<String> = cases
            .filter(|(_, count)| *count > 0)
            .map(|(case, count)| format!("{case}: {count}"))
            .collect();
        let is_any_bound = self.rows.iter().any(|row| row.at_least(&self.chart.stat).is_some());
        let bounds = if is_any_bound { " An arrow: the figure is there or beyond." } else { "" };
        (!named.is_empty())
            .then(|| format!("Cut off by the end of the run: {}.{bounds}", named.join(", ")))
    }

    fn range(&self) -> Range {
        let f = self.unit.factor;
        let published = self.published.iter().map(|p| p.value * f);
        let points: Vec<Point> = self.rows.iter().filter_map(|row| self.point(row)).collect();
        // Of a log axis an interval that reaches zero would take all the room.
        let ends = points
            .iter()
            .flat_map(|p| [if self.chart.log { p.value } else { p.low }, p.value, p.high]);
        Range::holding(ends.chain(published).collect::<Vec<_>>().into_iter(), self.chart.log)
    }

    fn title(&self, at: &At) -> String {
        panel_title(self.manifest, at)
    }

    /// What a point says of a row.
    fn says(&self, row: &Row, point: &Point) -> String {
        let shown = |value: f64| self.unit.named(value / self.unit.factor);
        let interval = match point.high > point.low {
            true => format!(" ({} to {})", shown(point.low), shown(point.high)),
            false => String::new(),
        };
        let least = if point.is_bound { "at least " } else { "" };
        let runs = if row.runs == 1 { "1 run".to_owned() } else { format!("{} runs", row.runs) };
        let whose = text::configuration(&row.case, &self.manifest.axes, &row.at);
        format!("{whose}: {least}{}{interval}, {runs}", shown(point.value))
    }

    /// A bar for each case at each value.
    fn bars(&self, x: Option<usize>, at: &At) -> Piece {
        let here = || self.rows.iter().filter(|row| is_at(row, at));
        let shown = |case: &&String| here().any(|row| row.case == **case);
        let cases: Vec<&String> = self.manifest.cases.iter().filter(shown).collect();
        let (groups, unit) = match x {
            Some(x) => {
                let values = self.manifest.axes[x].values.iter();
                let values = values.filter(|v| here().any(|row| row.at[x] == **v)).cloned();
                let values: Vec<String> = values.collect();
                let (labels, unit) = without_unit(&values);
                (values.into_iter().zip(labels).collect::<Vec<_>>(), unit)
            }
            None => (
                cases.iter().map(|case| ((*case).clone(), (*case).clone())).collect(),
                String::new(),
            ),
        };
        let bars = here().filter_map(|row| {
            let nth = self.manifest.cases.iter().position(|case| *case == row.case)?;
            let of = x.map_or(&row.case, |x| &row.at[x]);
            let group = groups.iter().position(|(value, _)| value == of)?;
            let point = self.point(row)?;
            let within =
                x.and_then(|_| cases.iter().position(|case| **case == row.case)).unwrap_or(0);
            let says = self.says(row, &point);
            Some(Bar { group, within, style: self.styles[nth], point, says })
        });
        let ends = self.rows.iter().filter_map(|row| self.point(row)).flat_map(|p| [p.low, p.high]);
        let ends: Vec<f64> = ends.chain([0.0]).collect();
        Bars {
            title: &self.title(at),
            x_label: &x.map_or_else(String::new, |x| {
                format!("{}{unit}", short_path(&self.manifest.axes[x].path))
            }),
            y_label: &self.y_label(),
            groups: &groups.iter().map(|(_, label)| label.clone()).collect::<Vec<_>>(),
            many: if x.is_some() { cases.len() } else { 1 },
            y: Range::holding(ends.into_iter(), false),
            bars: &bars.collect::<Vec<_>>(),
        }
        .draw()
    }

    fn y_label(&self) -> String {
        let stat = text::stat(&self.chart.stat);
        format!("{stat}{}", self.unit.suffix())
    }

    fn lines(&self, x: usize, at: &At) -> Piece {
        let axis = &self.manifest.axes[x];
        let values: Vec<String> = axis
            .values
            .iter()
            .filter(|v| self.rows.iter().any(|row| row.at[x] == **v))
            .cloned()
            .collect();
        let (labels, unit) = without_unit(&values);
        let places: Vec<(f64, String)> = places(&values).into_iter().zip(labels).collect();
        let index = |value: &str| values.iter().position(|v| v == value);
        let mut lines = Vec::new();
        for (case, style) in self.manifest.cases.iter().zip(self.styles) {
            let of_case = self.rows.iter().filter(|row| row.case == *case && is_at(row, at));
            let points = of_case.filter_map(|row| {
                let (i, point) = (index(&row.at[x])?, self.point(row)?);
                Some((i, point, self.says(row, &point)))
            });
            let mut points: Vec<(usize, Point, String)> = points.collect();
            points.sort_by_key(|(i, ..)| *i);
            lines.push(Line { style: *style, points });
        }
        let here = self.published.iter().filter(|p| {
            let value = |axis: usize| value_at(&p.at, &self.manifest.axes[axis].path);
            at.iter().all(|(axis, wanted)| value(*axis).is_none_or(|value| value == wanted))
        });
        let mut published: Vec<(usize, f64)> = here
            .flat_map(|p| {
                let i = value_at(&p.at, &axis.path).and_then(index);
                i.map(|i| (i, p.value * self.unit.factor))
            })
            .collect();
        published.dedup();
        Lines {
            title: &self.title(at),
            x_label: &format!("{}{unit}", short_path(&axis.path)),
            y_label: &self.y_label(),
            x: &places,
            y: self.range(),
            lines: &lines,
            published: &published,
        }
        .draw()
    }

    fn dots(&self, at: &At) -> Piece {
        let f = self.unit.factor;
        let row_of =
            |case: &String| self.rows.iter().find(|row| row.case == *case && is_at(row, at));
        let cases = self.manifest.cases.iter().zip(self.styles);
        let dots: Vec<Dot<'_>> = cases
            .filter_map(|(case, style)| {
                let Some(row) = row_of(case) else {
                    // A case that has the subject, but no value of the metric, says so.
                    let is_there = |row: &&Row| row.case == *case && is_at(row, at);
                    return self.of_subject.iter().any(is_there).then(|| Dot {
                        name: case,
                        style: *style,
                        point: Err("no values".to_owned()),
                        spread: None,
                        published: None,
                        says: String::new(),
                    });
                };
                let point = self.point(row);
                Some(Dot {
                    says: point.map_or_else(String::new, |point| self.says(row, &point)),
                    name: case,
                    style: *style,
                    point: point.ok_or_else(|| row.lacks(&self.chart.stat)),
                    spread: self.spread(row),
                    published: published_for(self.published, self.manifest, row)
                        .map(|p| p.value * f),
                })
            })
            .collect();
        let spreads = self.rows.iter().filter_map(|row| self.spread(row));
        let ends = spreads.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let range = self.range();
        let x = ends.map_or(range, |(low, high)| range.and(low, high));
        Dots { title: &self.title(at), label: &self.y_label(), x, dots: &dots }.draw()
    }

    /// The least and the largest value of a row, where they are drawn.
    fn spread(&self, row: &Row) -> Option<(f64, f64)> {
        let most = row.stat("max").or(row.at_least("max"));
        let ends = row.stat("min").zip(most).filter(|_| spread(&self.chart.stat))?;
        Some((ends.0 * self.unit.factor, ends.1 * self.unit.factor))
    }
}

fn value_at<'a>(at: &'a manifest::At, path: &str) -> Option<&'a str> {
    at.iter().find(|(name, _)| name == path).map(|(_, value)| value.as_str())
}

/// The figure that was published for a row of the summary.
pub(crate) fn published_for<'a>(
    all: &[&'a Published],
    manifest: &Manifest,
    row: &Row,
) -> Option<&'a Published> {
    all.iter().copied().find(|p| {
        p.subject == row.subject
            && p.metric == row.metric
            && p.cases.contains(&row.case)
            && p.at.iter().all(|(path, value)| {
                let axis = manifest.axes.iter().position(|axis| axis.path == *path);
                axis.is_none_or(|axis| row.at[axis] == *value)
            })
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn places_are_to_scale_where_values_are_quantities() {
        let values = |list: &[&str]| list.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let geometric = places(&values(&["10 kB", "100 kB", "1 MB"]));
        assert!((geometric[1] - 0.5).abs() < 1e-9, "{geometric:?}");
        let linear = places(&values(&["0 ms", "10 ms", "20 ms"]));
        assert!((linear[1] - 0.5).abs() < 1e-9);
        assert_eq!(places(&values(&["on", "off", "auto"])), [0.0, 0.5, 1.0]);
        assert_eq!(places(&values(&["5 ms"])), [0.5]);
    }

    /// A summary with a row of a metric for each case: mean, and half its interval, least, p99 and largest value.
    fn summary(metric: &str, rows: &[(&str, &str)]) -> (Manifest, Summary) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut text = String::from(
            "case,subject,metric,unit,runs,values,mean,ci95,sd,sd_of_runs,min,p50,p95,p99,p999,max\n",
        );
        for (case, cells) in rows {
            let _ = writeln!(text, "{case},link,{metric},,3,41,{cells}");
        }
        std::fs::write(dir.path().join("summary.csv"), text).expect("is written");
        let manifest = Manifest {
            dir: dir.path().to_owned(),
            experiment: "x".into(),
            cases: rows.iter().map(|(case, _)| (*case).to_owned()).collect(),
            ..Manifest::default()
        };
        let summary = Summary::read(&manifest).expect("is read");
        (manifest, summary)
    }

    fn drawn(metric: &str, stat: &str, log: bool, rows: &[(&str, &str)]) -> Figure {
        let (manifest, summary) = summary(metric, rows);
        let chart = Chart {
            kind: "lines".into(),
            subject: "link".into(),
            metric: metric.into(),
            stat: stat.into(),
            x: "case".into(),
            log,
            ..Chart::default()
        };
        let styles = vec![Style::default(); rows.len()];
        draw(&manifest, &summary, &styles, &chart).expect("is drawn")
    }

    /// From where to where each pale bar goes, and where each mean is.
    fn bars_and_means(figure: &Figure) -> Vec<(f64, f64, f64)> {
        let body = &figure.pieces[0].body;
        let numbers = |text: &str| -> Vec<f64> {
            let split = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
            text.split(split).filter_map(|number| number.parse().ok()).collect()
        };
        let bars = body.match_indices("stroke-width=\"5\"").map(|(at, _)| {
            let path = &body[body[..at].rfind(" d=\"M").expect("a path")..at];
            let ends = numbers(path);
            (ends[0], ends[2])
        });
        let means = body.match_indices("cx=\"").map(|(at, _)| numbers(&body[at..at + 12])[0]);
        bars.zip(means).map(|((from, to), mean)| (from, to, mean)).collect()
    }

    #[test]
    fn a_bar_from_minimum_to_maximum_is_not_cut_where_means_are_close() {
        for log in [false, true] {
            let rows = [("a", "0.940,,,,0.2,,,,,1.0"), ("b", "0.945,,,,0.3,,,,,0.99")];
            let figure = drawn("ce_share", "mean", log, &rows);
            let bars = bars_and_means(&figure);
            assert_eq!(bars.len(), 2);
            let share = |from: f64, value: f64, to: f64| match log {
                true => (value / from).ln() / (to / from).ln(),
                false => (value - from) / (to - from),
            };
            for ((from, to, mean), (low, wanted, high)) in
                bars.into_iter().zip([(0.2, 0.94, 1.0), (0.3, 0.945, 0.99)])
            {
                let shown = (mean - from) / (to - from);
                assert!((shown - share(low, wanted, high)).abs() < 0.02, "{log}: {shown}");
            }
        }
    }

    #[test]
    fn a_bar_far_beyond_the_means_ends_in_an_arrow() {
        let near = drawn("timeouts", "mean", false, &[("a", "10,,,,5,,,,,20")]);
        let far = drawn("timeouts", "mean", false, &[("a", "10,,,,5,,,,,2000")]);
        let arrows =
            |figure: &Figure| figure.pieces[0].body.matches("stroke-width=\"1.2\"").count();
        assert_eq!((arrows(&near), arrows(&far)), (0, 1));
    }

    #[test]
    fn an_interval_is_drawn_as_far_as_the_metric_goes() {
        let figure = drawn("jain", "mean", false, &[("a", "0.95,0.26,,,,,,,,")]);
        let body = &figure.pieces[0].body;
        // The axis ends where the interval does, and not at 1.21.
        assert!(!body.contains(">1.2<") && body.contains(">1<"), "{body}");
    }

    #[test]
    fn a_percentile_that_the_values_cannot_support_says_so() {
        let some =
            drawn("latency", "p99", false, &[("a", "1,,,,1,1,2,3,,4"), ("b", "1,,,,1,1,2,,,4")]);
        assert!(
            some.pieces[0].body.contains(">needs 100 values, has 41<"),
            "{}",
            some.pieces[0].body
        );
        let none =
            drawn("latency", "p99", false, &[("a", "1,,,,1,1,2,,,4"), ("b", "1,,,,1,1,2,,,4")]);
        let says = "No 99th percentile of a: it needs 100 values, has 41. 1 more";
        assert!(none.pieces.is_empty() && none.caption.starts_with(says), "{}", none.caption);
    }

    #[test]
    fn charts_of_links_begin_with_the_longest_queue() {
        let (manifest, mut summary) = summary("queue", &[]);
        for i in 0..20 {
            let dir = manifest.dir.clone();
            std::fs::create_dir_all(&dir).expect("is made");
            let waiting = if i == 13 { 90 } else { i };
            let text = format!(
                "case,subject,metric,unit,runs,values,mean,ci95,sd,min,p50,p95,p99,p999,max\n\
                 a,link{i},queue,pkts,3,41,{waiting},,,,,,,,\n"
            );
            std::fs::write(dir.join("summary.csv"), text).expect("is written");
            summary.rows.extend(Summary::read(&manifest).expect("is read").rows);
            std::fs::remove_dir_all(&dir).expect("is removed");
        }
        let none = Distributions::read(&manifest, None).expect("is read");
        let (drawn, left_out) = charts(&manifest, &summary, &[Style::default()], &none);
        assert_eq!(left_out, 19 - MOST_DEFAULT, "link0 has no queue at any time");
        assert!(drawn[0].title.starts_with("link13: "), "{}", drawn[0].title);
        assert!(drawn[1].title.starts_with("link19: "), "{}", drawn[1].title);
    }
}
