//! Distributions of completion times, exchanges and pings: all values of all runs, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use knee_results::rows::{Flow, Ping, Rpc, Sketch as Rows};
use knee_results::{Bucket, CASE, Error, Manifest, Metric, ResultFile, Sketch, quoted as cell};

use crate::charts::MOST_PANELS;
use crate::figure::{Figure, Piece};
use crate::palette::Style;
use crate::plot::{PANEL, Range, head, legend, panel_title};
use crate::text::{Unit, digits, escaped, short_path, slug};

/// Values that are so close become one.
const RESOLUTION: f64 = 0.005;
/// Fewer values are no distribution.
const FEWEST: u64 = 50;
/// From so many on the tail is worth as much room as the rest.
const MANY: u64 = 1000;
/// Cases at varied values.
const MOST_CURVES: usize = 4096;

/// Sources of distributions: file, columns of traffic entry and values, metric.
const SOURCES: [(ResultFile, &str, &str, Metric); 3] = [
    (ResultFile::Flow, Flow::traffic, Flow::completion_s, Metric::Completion),
    (ResultFile::Rpc, Rpc::traffic, Rpc::latency_s, Metric::Latency),
    (ResultFile::Ping, Ping::traffic, Ping::rtt_s, Metric::Rtt),
];

/// Values counted by their logarithm.
#[derive(Default)]
struct Counts {
    by_log: BTreeMap<i64, u64>,
    all: u64,
}

impl Counts {
    fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }

    fn add_many(&mut self, value: f64, count: u64) {
        // Times are far from the ends of 64 bits, whatever the unit.
        let log = (value.max(1e-12).ln() / RESOLUTION).floor() as i64;
        let of_log = self.by_log.entry(log).or_default();
        // A damaged file may have any counts.
        *of_log = of_log.saturating_add(count);
        self.all = self.all.saturating_add(count);
    }

    /// Values with the share that is at most as large.
    fn curve(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.all as f64;
        self.by_log.iter().scan(0u64, move |sum, (log, count)| {
            *sum = sum.saturating_add(*count);
            Some((((*log as f64 + 0.5) * RESOLUTION).exp(), *sum as f64 / all))
        })
    }
}

/// Traffic entry; case; varied values that tell panels apart.
type Key = (String, String, Vec<String>);

/// A figure for each traffic entry with enough values.
pub(crate) fn figures(manifest: &Manifest, styles: &[Style]) -> Result<Vec<Figure>, Error> {
    let mut all = Vec::new();
    // Rows may be of some connections only; sketches have all values.
    let mut sketched = read_sketches(manifest)?;
    for (file, traffic, value, metric) in SOURCES {
        let (curves, error) = match sketched.remove(metric.name()) {
            Some(curves) => (curves, RESOLUTION + Sketch::ERROR),
            None => match read(manifest, file, [CASE, traffic, value])? {
                Some(curves) => (curves, RESOLUTION),
                None => continue,
            },
        };
        let mut entries: Vec<&String> = Vec::new();
        for (entry, ..) in curves.keys() {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        entries.sort();
        for entry in entries {
            all.extend(figure(manifest, styles, entry, &metric.heading(), (&curves, error)));
        }
    }
    Ok(all)
}

fn read(
    manifest: &Manifest,
    file: ResultFile,
    columns: [&str; 3],
) -> Result<Option<HashMap<Key, Counts>>, Error> {
    let Some(mut table) = file.open(&manifest.dir)? else { return Ok(None) };
    let [case, traffic, value] = table.columns(columns)?;
    let axes = table.axes(&manifest.axes)?;
    let mut curves: HashMap<Key, Counts> = HashMap::new();
    let mut key: Key = Default::default();
    let mut cells: Vec<String> = Vec::new();
    while let Some(row) = table.next()? {
        let Some(seconds) = row.number(value)? else { continue };
        if key.0 != row.text(traffic) {
            key.0 = row.text(traffic).to_owned();
        }
        if key.1 != row.text(case) {
            key.1 = row.text(case).to_owned();
        }
        // A row mostly has the values of the one before.
        if !axes.iter().zip(&cells).all(|(axis, cell)| row.text(*axis) == cell)
            || cells.len() != axes.len()
        {
            cells = axes.iter().map(|axis| row.text(*axis).to_owned()).collect();
            let values = cells.iter().zip(&manifest.axes);
            key.2 = values.map(|(cell, axis)| axis.value(cell).to_owned()).collect();
        }
        if let Some(counts) = curves.get_mut(&key) {
            counts.add(seconds);
        } else if curves.len() < MOST_CURVES {
            curves.entry(key.clone()).or_default().add(seconds);
        }
    }
    Ok(Some(curves))
}

/// Values by metric, from sketches; empty where there are none.
fn read_sketches(manifest: &Manifest) -> Result<HashMap<String, HashMap<Key, Counts>>, Error> {
    let mut all: HashMap<String, HashMap<Key, Counts>> = HashMap::new();
    let Some(mut table) = ResultFile::Sketch.open(&manifest.dir)? else { return Ok(all) };
    let columns = [CASE, Rows::subject, Rows::metric, Rows::bucket, Rows::count];
    let [case, subject, metric, bucket, count] = table.columns(columns)?;
    let axes = table.axes(&manifest.axes)?;
    while let Some(row) = table.next()? {
        let Some(about) = Metric::by_name(row.text(metric)) else { continue };
        let number = u16::try_from(row.index(bucket)?).ok();
        let Some(bucket) = number.and_then(Bucket::numbered) else { continue };
        let values = axes.iter().zip(&manifest.axes);
        let values = values.map(|(at, axis)| axis.value(row.text(*at)).to_owned()).collect();
        let key = (row.text(subject).to_owned(), row.text(case).to_owned(), values);
        let curves = all.entry(row.text(metric).to_owned()).or_default();
        if curves.contains_key(&key) || curves.len() < MOST_CURVES {
            let value = bucket.middle() / about.scale();
            curves.entry(key).or_default().add_many(value, row.index(count)?);
        }
    }
    Ok(all)
}

fn figure(
    manifest: &Manifest,
    styles: &[Style],
    entry: &str,
    what: &str,
    (curves, error): (&HashMap<Key, Counts>, f64),
) -> Option<Figure> {
    let of_entry =
        || curves.iter().filter(|((traffic, ..), counts)| traffic == entry && counts.all >= FEWEST);
    let largest =
        of_entry().filter_map(|(_, counts)| Some(counts.curve().last()?.0)).fold(0.0, f64::max);
    let most = of_entry().map(|(_, counts)| counts.all).max()?;
    let unit = Unit::of("s", largest);
    let range_of = |at: Option<&Vec<String>>| {
        let here = of_entry().filter(|((_, _, of), _)| at.is_none_or(|at| at == of));
        let ends =
            here.flat_map(|(_, counts)| counts.curve().map(|(value, _)| value * unit.factor));
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
    for ((_, _, at), _) in of_entry() {
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
    csv.push_str(",at_most_s,share\n");
    let mut pieces = Vec::new();
    let mut shown = vec![false; manifest.cases.len()];
    for at in panels {
        let varied = at.iter().zip(&manifest.axes).filter(|(_, axis)| axis.values.len() > 1);
        let title = varied.map(|(value, axis)| format!("{} {value}", short_path(&axis.path)));
        let title = title.collect::<Vec<_>>().join(", ");
        let mut drawn = Vec::new();
        for (i, case) in manifest.cases.iter().enumerate() {
            let counts = curves.get(&(entry.to_owned(), case.clone(), at.clone()));
            let Some(counts) = counts.filter(|counts| counts.all >= FEWEST) else { continue };
            shown[i] = true;
            let curve: Vec<(f64, f64)> = counts.curve().collect();
            let values = at.iter().zip(&manifest.axes).map(|(value, axis)| axis.cell(value));
            let label = std::iter::once(case.clone())
                .chain(values)
                .map(|part| cell(&part).into_owned())
                .collect::<Vec<_>>()
                .join(",");
            // A tenth of a percent is as fine as the drawing, but for the tail.
            let mut prior = -1.0;
            for (value, share) in &curve {
                if share - prior >= 0.005 || *share > 0.99 {
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
        "All values of all runs, up to {} %; unfinished transfers are left out.",
        error * 100.0
    );
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
        let mut out = panel_title(self.title);
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
            let _ = write!(
                out,
                "<path class=\"g\" d=\"M{left} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        for tick in self.x.ticks(4.0) {
            let x = at_x(tick);
            let _ = write!(
                out,
                "<path class=\"g\" d=\"M{x:.1} {top}V{bottom}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                digits(tick)
            );
        }
        let _ = write!(
            out,
            "<text class=\"m\" x=\"2\" y=\"{:.1}\">cumulative share</text><path class=\"a\" \
                d=\"M{left} {bottom}H{right}\"/>",
            top - 8.0
        );
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
            let _ = write!(
                out,
                "<path class=\"k{}\" d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.8\" stroke-dasharray=\"{}\"/>",
                style.colour,
                style.dashes()
            );
        }
        let _ = write!(
            out,
            "<text class=\"m\" x=\"{}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (left + right) / 2.0,
            height - 8.0,
            escaped(self.label)
        );
        Piece { width, height, body: out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_percentiles_to_their_resolution() {
        let mut counts = Counts::default();
        (1..=10_000).for_each(|i| counts.add(f64::from(i) * 1e-6));
        let at = |share: f64| counts.curve().find(|(_, s)| *s >= share).expect("reaches one").0;
        for share in [0.01, 0.5, 0.99, 0.999] {
            let wanted = share * 1e-2;
            assert!((at(share) / wanted - 1.0).abs() < 2.0 * RESOLUTION, "{share}: {}", at(share));
        }
        assert_eq!(counts.curve().last().map(|(_, share)| share), Some(1.0));
    }
}
