//! Distributions of times and other values of traffic: those that the summary's percentiles are of, in bounded memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use knee_results::rows::Distribution as Rows;
use knee_results::{
    Bucket, CASE, Error, Manifest, Metric, ResultFile, Sketch, Sketched, quoted as cell,
};

use crate::charts::MOST_PANELS;
use crate::figure::{Figure, Piece};
use crate::palette::Style;
use crate::plot::{PANEL, Range, head, legend, panel_title};
use crate::svg::{Align, Svg};
use crate::text::{Unit, digits, slug, varied};

/// Fewer values are no distribution.
const FEWEST: u64 = 50;
/// From so many on the tail is worth as much room as the rest.
const MANY: u64 = 1000;
/// Cases at varied values, of all entries and metrics.
const MOST_CURVES: usize = 16_384;

/// Case; varied values that tell panels apart.
type Key = (String, Vec<String>);
/// Values of a metric of a traffic entry.
type Curves = BTreeMap<Key, Sketched>;

/// Values with the share that is at most as large, by the estimate of Kaplan and Meier (1958): what was cut off counts among
/// those that may end as long as it was seen. The curve ends at the largest value or age; beyond, nothing is known.
fn curve(values: &Sketched, metric: Metric) -> Vec<(f64, f64)> {
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
    points
}

/// A figure for each metric of each traffic entry with enough values, in the order of the file.
pub(crate) fn figures(manifest: &Manifest, styles: &[Style]) -> Result<Vec<Figure>, Error> {
    let all = read(manifest)?;
    Ok(all
        .iter()
        .filter_map(|of| figure(manifest, styles, &of.entry, of.metric, &of.curves))
        .collect())
}

/// Values of a metric of a traffic entry, of all cases.
struct Values {
    entry: String,
    metric: Metric,
    curves: Curves,
}

fn read(manifest: &Manifest) -> Result<Vec<Values>, Error> {
    let mut all: Vec<Values> = Vec::new();
    let Some(mut table) = ResultFile::Distribution.open(&manifest.dir)? else { return Ok(all) };
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
        let known = all.iter().position(|of| of.metric == metric && of.entry == entry);
        let of = known.unwrap_or_else(|| {
            all.push(Values { entry: entry.to_owned(), metric, curves: Curves::new() });
            all.len() - 1
        });
        if curves < MOST_CURVES || all[of].curves.contains_key(&key) {
            let values = all[of].curves.entry(key).or_insert_with(|| {
                curves += 1;
                Sketched::default()
            });
            values.finished.add_many(bucket, count);
            let cut_off = cut_off.map_or(Ok(0), |column| row.index(column))?;
            values.cut_off.add_many(bucket, cut_off);
        }
    }
    Ok(all)
}

fn figure(
    manifest: &Manifest,
    styles: &[Style],
    entry: &str,
    metric: Metric,
    curves: &Curves,
) -> Option<Figure> {
    let what = metric.heading();
    let enough = || curves.iter().filter(|(_, values)| values.count() >= FEWEST);
    let largest = |values: &Sketched| curve(values, metric).last().map_or(0.0, |(value, _)| *value);
    let largest = enough().map(|(_, values)| largest(values)).fold(0.0, f64::max);
    let most = enough().map(|(_, values)| values.count()).max()?;
    let unit = Unit::of_metric(metric.name(), metric.unit(), largest);
    let range_of = |at: Option<&Vec<String>>| {
        let here = enough().filter(|((_, of), _)| at.is_none_or(|at| at == of));
        let ends = here.flat_map(|(_, values)| curve(values, metric));
        let ends = ends.map(|(value, _)| value * unit.factor);
        Range::holding(ends.collect::<Vec<_>>().into_iter(), true)
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
    let decades = |range: Range| (range.high / range.low).log10();
    let mut widths: Vec<f64> = panels.iter().map(|at| decades(range_of(Some(at)))).collect();
    widths.sort_by(f64::total_cmp);
    let is_shared = decades(whole) < 2.5 * widths[widths.len() / 2];
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
            let Some(values) = values.filter(|values| values.count() >= FEWEST) else { continue };
            shown[i] = true;
            let curve = curve(values, metric);
            cut_off[i] += values.cut_off.count();
            let values = at.iter().zip(&manifest.axes).map(|(value, axis)| axis.cell(value));
            let label = std::iter::once(case.clone())
                .chain(values)
                .map(|part| cell(&part).into_owned())
                .collect::<Vec<_>>()
                .join(",");
            // Half a percent is as fine as the drawing, but for the tail and the percentiles that summaries have.
            let mut prior = -1.0;
            for (value, share) in &curve {
                let is_named = [0.5, 0.95].iter().any(|named| prior < *named && share >= named);
                if share - prior >= 0.005 || *share > 0.99 || is_named {
                    let _ = writeln!(csv, "{label},{},{}", digits5(*value), digits5(*share));
                    prior = *share;
                }
            }
            drawn.push((styles[i], curve.into_iter().map(|(v, s)| (v * unit.factor, s)).collect()));
        }
        let label = format!("{what}{}", unit.suffix());
        let x = if is_shared { whole } else { range_of(Some(at)) };
        pieces.push(
            Steps { title: &title, label: &label, x, nines: most >= MANY, curves: &drawn }.draw(),
        );
    }
    let cases = manifest.cases.iter().zip(styles).zip(shown).filter(|(_, shown)| *shown);
    let mut caption = format!(
        "The values that the summary's percentiles are of, within {} %.",
        Sketch::ERROR * 100.0
    );
    let of_cases = manifest.cases.iter().zip(&cut_off).filter(|(_, count)| **count > 0);
    let of_cases: Vec<String> = of_cases.map(|(case, count)| format!("{case}: {count}")).collect();
    if !of_cases.is_empty() {
        let _ = write!(
            caption,
            " Cut off by the end of the run: {}; Kaplan-Meier estimate, which ends where nothing more is known.",
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
        id: format!("{}-cdf-{}", slug(&manifest.experiment), slug(&format!("{entry} {what}"))),
        title: format!("{entry}: distribution of {what}"),
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
    /// Values with the share at most as large, ascending.
    curves: &'a [(Style, Vec<(f64, f64)>)],
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
        for (style, curve) in self.curves {
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
        }
        out.text("m", ((left + right) / 2.0, height - 8.0), Align::Middle, self.label);
        Piece { width, height, body: out.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_the_percentiles_of_its_values() {
        let mut values = Sketched::default();
        (1..=10_000).for_each(|i| values.finished.add(i * 1000));
        let points = curve(&values, Metric::Latency);
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
        let points = curve(&values, Metric::Latency);
        let shares: Vec<f64> =
            points.iter().map(|(_, share)| (share * 1e6).round() / 1e6).collect();
        assert_eq!(shares, [0.25, 0.25, 0.625, 0.625]);
        assert!((points[3].0 / 4e-6 - 1.0).abs() < Sketch::ERROR);
    }
}
