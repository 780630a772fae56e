//! Trade-offs: a figure against another, a curve for each case along a varied key.

use std::fmt::Write as _;

use knee_results::manifest::{Chart, Figure as Wanted};
use knee_results::{Better, Manifest, Metric, ResultFile, quoted as cell};

use crate::figure::{Figure, PANEL, Piece};
use crate::label::{LINE, Label};
use crate::palette::Style;
use crate::panels::{
    At, MOST_PANELS, chart_id, facets, is_at, panel_title as titled, without_unit,
};
use crate::plot::{Range, fitted, head, legend, panel_title, through, width_of, y_axis};
use crate::summary::{Row, Summary};
use crate::svg::{Align, Area, Svg, around};
use crate::text::{self, Unit, digits, short_path};

/// A side of the trade-off.
struct Side<'a> {
    wanted: &'a Wanted,
    rows: Vec<&'a Row>,
    unit: Unit,
}

/// A value with its interval, where it is drawn.
#[derive(Clone, Copy)]
struct Value {
    value: f64,
    low: f64,
    high: f64,
}

impl<'a> Side<'a> {
    fn new(summary: &'a Summary, wanted: &'a Wanted) -> Option<Side<'a>> {
        let rows: Vec<&Row> = summary.of(&wanted.subject, &wanted.metric).collect();
        let largest = rows.iter().filter_map(|row| row.stat(&wanted.stat)).reduce(f64::max)?;
        let unit = Unit::of_metric(&wanted.metric, &rows.first()?.unit, largest);
        Some(Side { wanted, rows, unit })
    }

    /// The value of the same case and varied values.
    fn beside(&self, row: &Row) -> Option<(&'a Row, Value)> {
        let is_it = |of: &&&Row| of.case == row.case && of.at == row.at;
        let row = *self.rows.iter().find(is_it)?;
        Some((row, self.value(row)?))
    }

    fn value(&self, row: &Row) -> Option<Value> {
        let value = row.stat(&self.wanted.stat)?;
        let (low, high) = row.interval(&self.wanted.stat, value);
        let f = self.unit.factor;
        Some(Value { value: value * f, low: low * f, high: high * f })
    }

    fn label(&self) -> String {
        let stat = match self.wanted.stat.as_str() {
            "mean" => String::new(),
            stat => format!(", {}", text::stat(stat)),
        };
        let Wanted { subject, metric, .. } = self.wanted;
        format!("{subject}: {}{stat}{}", text::metric(metric), self.unit.suffix())
    }

    /// Where along its axis it is better, if one end is.
    fn better<'w>(&self, lower: &'w str, higher: &'w str) -> Option<&'w str> {
        match Metric::by_name(&self.wanted.metric)?.better() {
            Better::Lower => Some(lower),
            Better::Higher => Some(higher),
            _ => None,
        }
    }

    fn shown(&self, value: f64) -> String {
        format!("{}{}", digits(value), self.unit.suffix().replace(',', ""))
    }
}

/// A point of a curve.
struct Spot {
    x: Value,
    y: Value,
    label: String,
    says: String,
}

/// The figure. `None` if no row has both values.
pub(crate) fn draw(
    manifest: &Manifest,
    summary: &Summary,
    styles: &[Style],
    chart: &Chart,
) -> Option<Figure> {
    let own = Wanted {
        subject: chart.subject.clone(),
        metric: chart.metric.clone(),
        stat: chart.stat.clone(),
    };
    let (up, along) = (Side::new(summary, &own)?, Side::new(summary, chart.against.as_ref()?)?);
    let key = manifest.axes.iter().position(|axis| axis.path == chart.x && axis.values.len() > 1);
    let pairs: Vec<(&Row, Value, Value)> = up
        .rows
        .iter()
        .filter_map(|row| Some((*row, along.beside(row)?.1, up.value(row)?)))
        .collect();
    let range = |of: &dyn Fn(&(&Row, Value, Value)) -> Value| {
        let values = pairs.iter().map(of);
        let ends = values.flat_map(|v| if chart.log { [v.value; 2] } else { [v.low, v.high] });
        Range::holding(ends.collect::<Vec<_>>().into_iter(), chart.log)
    };
    let (x, y) = (range(&|pair| pair.1), range(&|pair| pair.2));
    let rows: Vec<&Row> = pairs.iter().map(|(row, ..)| *row).collect();
    let panels = facets(&manifest.axes, key.as_slice(), &rows);
    let left_out = panels.len().saturating_sub(MOST_PANELS);
    let labels: Vec<(String, String)> = key.map_or_else(Vec::new, |key| {
        let values = &manifest.axes[key].values;
        values.iter().cloned().zip(without_unit(values).0).collect()
    });
    let curves = |at: &At| {
        let of_case = |(case, style): (&String, &Style)| {
            let here = pairs.iter().filter(|(row, ..)| row.case == *case && is_at(row, at));
            let spots = here.map(|(row, x, y)| {
                let place = key.and_then(|key| labels.iter().position(|(v, _)| *v == row.at[key]));
                let whose = text::configuration(&row.case, &manifest.axes, &row.at);
                let says = format!(
                    "{whose}: {} {}, {} {}",
                    up.wanted.subject,
                    up.shown(y.value),
                    along.wanted.subject,
                    along.shown(x.value)
                );
                let label = place.map_or_else(|| case.clone(), |place| labels[place].1.clone());
                (place, Spot { x: *x, y: *y, label, says })
            });
            let mut spots: Vec<(Option<usize>, Spot)> = spots.collect();
            spots.sort_by_key(|(place, _)| *place);
            (*style, spots.into_iter().map(|(_, spot)| spot).collect::<Vec<_>>())
        };
        manifest.cases.iter().zip(styles).map(of_case).collect::<Vec<_>>()
    };
    let pieces = panels
        .iter()
        .take(MOST_PANELS)
        .map(|at| panel(&titled(manifest, at), (x, &along.label()), (y, &up.label()), &curves(at)));
    let pieces: Vec<Piece> = pieces.collect();
    let shown = |case: &&String| rows.iter().any(|row| row.case == **case);
    let cases = manifest.cases.iter().zip(styles).filter(|(case, _)| shown(case));
    let mut captions = Vec::new();
    if let Some(key) = key {
        let unit = without_unit(&manifest.axes[key].values).1;
        captions.push(format!("Labels: {}{unit}.", short_path(&manifest.axes[key].path)));
    }
    if let (Some(y), Some(x)) = (up.better("lower", "upper"), along.better("left", "right")) {
        captions.push(format!("Better is {y} {x}."));
    }
    match up.rows.len() - pairs.len() {
        0 => {}
        1 => captions.push("1 point is missing: the values are too few, or cut off.".into()),
        more => {
            captions
                .push(format!("{more} points are missing: the values are too few, or cut off."));
        }
    }
    if left_out > 0 {
        let all = ResultFile::Summary.name_by(manifest);
        captions.push(format!("{left_out} more panels are left out; see {all}."));
    }
    Some(Figure {
        id: chart_id(manifest, &chart.title, "tradeoff"),
        title: chart.title.clone(),
        caption: captions.join(" "),
        legend: cases.map(|(case, style)| legend(case, *style, key.is_some(), true)).collect(),
        pieces,
        csv: csv(manifest, &up, &along),
    })
}

/// Draws one panel.
fn panel(
    title: &str,
    (x, x_label): (Range, &str),
    (y, y_label): (Range, &str),
    curves: &[(Style, Vec<Spot>)],
) -> Piece {
    let head = head(title);
    let (width, height) = (PANEL * 1.2, 280.0 + head);
    let (left, right, top, bottom) = (56.0, width - 24.0, 22.0 + head, height - 40.0);
    let mut out = Svg::default();
    panel_title(&mut out, title);
    let at_x = |value: f64| left + x.share(value) * (right - left);
    let at_y = |value: f64| bottom - y.share(value) * (bottom - top);
    y_axis(&mut out, y, (y_label, top - 9.0), left, right, &at_y);
    for tick in x.ticks(6.0) {
        out.rule("g", format_args!("M{:.1} {top}V{bottom}", at_x(tick)));
        out.text("", (at_x(tick), bottom + 16.0), Align::Middle, &digits(tick));
    }
    out.rule("a", format_args!("M{left} {bottom}H{right}"));
    out.text(
        "m",
        ((left + right) / 2.0, height - 8.0),
        Align::Middle,
        &fitted(x_label, right - left),
    );
    let mut taken: Vec<Area> = Vec::new();
    for (style, spots) in curves {
        let at = |spot: &Spot| (at_x(spot.x.value), at_y(spot.y.value));
        if spots.len() > 1 {
            out.curve(*style, through(spots.iter().map(at)), 1.6);
        }
        for spot in spots {
            let (px, py) = at(spot);
            let (a, b) = (at_x(spot.x.low), at_x(spot.x.high));
            let (c, d) = (at_y(spot.y.low), at_y(spot.y.high));
            if b - a > 2.0 || c - d > 2.0 {
                out.line(style, format_args!("M{a:.1} {py:.1}H{b:.1}M{px:.1} {c:.1}V{d:.1}"), 1.0);
            }
            out.mark((px, py), *style);
            taken.push(around((px, py), (8.0, 8.0)));
            out.spot((px, py), &spot.says);
        }
    }
    // Labels stand where they cover no mark and no other label; what has no room is read by pointing.
    let whole = Area { left, top: top - 6.0, right: width, bottom };
    let placed = curves.iter().flat_map(|(_, spots)| (0..spots.len()).map(move |i| (spots, i)));
    for (spots, i) in placed {
        let spot = &spots[i];
        let at = |spot: &Spot| (at_x(spot.x.value), at_y(spot.y.value));
        let (px, py) = at(spot);
        // Values along which nothing changes have one label, of the first.
        let is_there = |other: &Spot| {
            let (x, y) = at(other);
            (x - px).abs() + (y - py).abs() < 4.0
        };
        if spots[..i].iter().any(is_there) {
            continue;
        }
        let wide = width_of(&spot.label);
        let places = [
            (px + 8.0, py - 5.0),
            (px + 8.0, py + LINE),
            (px - 8.0 - wide, py - 5.0),
            (px - 8.0 - wide, py + LINE),
            (px + 8.0, py + 4.0),
        ];
        let free = places.into_iter().find_map(|(x, y)| {
            let label = Label { lines: vec![spot.label.clone()], x, y, is_middle: false };
            let area = label.areas().next()?;
            let fits = area.is_inside(&whole) && !taken.iter().any(|other| other.covers(&area));
            fits.then_some((label, area))
        });
        if let Some((label, area)) = free {
            label.draw(&mut out);
            taken.push(area);
        }
    }
    Piece { width, height, body: out.0 }
}

fn csv(manifest: &Manifest, up: &Side<'_>, along: &Side<'_>) -> String {
    let mut out = String::from("case");
    manifest.axes.iter().for_each(|axis| {
        let _ = write!(out, ",{}", cell(axis.column()));
    });
    for side in [along, up] {
        let Wanted { subject, metric, stat } = side.wanted;
        let unit = side.rows.first().map_or("", |row| row.unit.as_str());
        let unit = if unit.is_empty() { String::new() } else { format!("_{unit}") };
        let _ = write!(
            out,
            ",{},{}",
            cell(&format!("{subject} {metric} {stat}{unit}")),
            cell(&format!("{subject} {metric} ci95{unit}"))
        );
    }
    out.push('\n');
    for row in &up.rows {
        let Some((other, _)) = along.beside(row) else { continue };
        out.push_str(&cell(&row.case));
        row.at.iter().zip(&manifest.axes).for_each(|(value, axis)| {
            let _ = write!(out, ",{}", cell(&axis.cell(value)));
        });
        for (side, row) in [(along, other), (up, *row)] {
            let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
            let ci95 = row.half(&side.wanted.stat);
            let _ = write!(out, ",{},{}", number(row.stat(&side.wanted.stat)), number(ci95));
        }
        out.push('\n');
    }
    out
}
