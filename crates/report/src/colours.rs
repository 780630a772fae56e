//! A statistic as a colour for each pair of two varied values.

use std::fmt::Write as _;

use knee_results::manifest::Chart;
use knee_results::{Manifest, ResultFile};

use crate::figure::{Figure, PANEL, Piece};
use crate::panels::{
    At, MOST_PANELS, chart_id, csv, facets, is_at, panel_title as titled, without_unit,
};
use crate::plot::{Range, fitted, head, panel_title, width_of};
use crate::summary::{Row, Summary};
use crate::svg::{Align, Area, Svg};
use crate::text::{self, Unit, short_path};

/// Colours from the least to the largest value. Eyes of every kind tell them apart (cividis: Nunez, Anderton, Renslow 2018).
const COLOURS: [[f64; 3]; 5] = [
    [0.0, 34.0, 78.0],
    [67.0, 78.0, 108.0],
    [125.0, 124.0, 120.0],
    [188.0, 174.0, 108.0],
    [254.0, 232.0, 56.0],
];
/// Height of a cell.
const CELL: f64 = 26.0;
/// Room for the values up the side.
const NAMES: f64 = 72.0;

/// The colour of a share from 0 to 1, and that of text on it.
fn colour(share: f64) -> (String, &'static str) {
    let at = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let i = (at as usize).min(COLOURS.len() - 2);
    let part = at - i as f64;
    let [r, g, b] =
        [0, 1, 2].map(|k| (COLOURS[i][k] * (1.0 - part) + COLOURS[i + 1][k] * part).round() as u8);
    (format!("#{r:02x}{g:02x}{b:02x}"), if share > 0.5 { "#000" } else { "#fff" })
}

/// What all panels have in common.
struct Map<'a> {
    manifest: &'a Manifest,
    chart: &'a Chart,
    x: usize,
    y: usize,
    unit: Unit,
    range: Range,
}

/// The figure. `None` if no row has the value.
pub(crate) fn draw(manifest: &Manifest, summary: &Summary, chart: &Chart) -> Option<Figure> {
    let axis = |path: &str| manifest.axes.iter().position(|axis| axis.path == path);
    let (x, y) = (axis(&chart.x)?, axis(chart.y.as_deref()?)?);
    let rows: Vec<&Row> = summary.of(&chart.subject, &chart.metric).collect();
    let of = |row: &&Row| row.stat(&chart.stat).or(row.at_least(&chart.stat));
    let values = || rows.iter().filter_map(of);
    let largest = values().reduce(f64::max)?;
    let least = values().fold(largest, f64::min);
    let file_unit = &rows.first()?.unit;
    let unit = Unit::of_metric(&chart.metric, file_unit, largest);
    let is_log = chart.log && least > 0.0;
    let range = Range {
        low: least,
        high: if largest > least { largest } else { least + 1.0 },
        log: is_log,
    };
    let map = Map { manifest, chart, x, y, unit, range };
    let mut pieces = Vec::new();
    for at in facets(&manifest.axes, &[x, y], &rows) {
        for case in &manifest.cases {
            let here = rows.iter().filter(|row| row.case == *case && is_at(row, &at));
            let here: Vec<&Row> = here.copied().collect();
            if !here.is_empty() {
                pieces.push(map.panel(case, &at, &here));
            }
        }
    }
    let left_out = pieces.len().saturating_sub(MOST_PANELS);
    pieces.truncate(MOST_PANELS);
    let mut caption = format!(
        "Colour: {}, {}, on one scale for all.",
        text::metric(&chart.metric),
        text::stat(&chart.stat)
    );
    if left_out > 0 {
        let all = ResultFile::Summary.name_by(manifest);
        let _ = write!(caption, " {left_out} more panels are left out; see {all}.");
    }
    Some(Figure {
        id: chart_id(manifest, &chart.title, "heat"),
        title: chart.title.clone(),
        caption,
        legend: vec![map.scale()],
        pieces,
        csv: csv(manifest, chart, &rows, file_unit),
    })
}

impl Map<'_> {
    /// Values of an axis that rows have, and their labels.
    fn values(&self, axis: usize) -> (Vec<(String, String)>, String) {
        let values = &self.manifest.axes[axis].values;
        let (labels, unit) = without_unit(values);
        let name = format!("{}{unit}", short_path(&self.manifest.axes[axis].path));
        (values.iter().cloned().zip(labels).collect(), name)
    }

    fn panel(&self, case: &str, at: &At, rows: &[&Row]) -> Piece {
        let title = match titled(self.manifest, at) {
            none if none.is_empty() => case.to_owned(),
            at => format!("{case}, {at}"),
        };
        let ((columns, x_label), (lines, y_label)) = (self.values(self.x), self.values(self.y));
        let top = 22.0 + head(&title);
        let (left, right) = (NAMES, PANEL - 6.0);
        let bottom = top + CELL * lines.len() as f64;
        let wide = (right - left) / columns.len() as f64;
        let mut out = Svg::default();
        panel_title(&mut out, &title);
        out.text("m", (2.0, top - 8.0), Align::Start, &fitted(&y_label, PANEL - 4.0));
        for (j, (value, label)) in lines.iter().enumerate() {
            // The largest value is at the top, as on any axis.
            let y = bottom - CELL * (j as f64 + 1.0);
            let middle = y + CELL / 2.0;
            out.text("", (left - 6.0, middle + 4.0), Align::End, &fitted(label, NAMES - 8.0));
            for (i, (of_x, _)) in columns.iter().enumerate() {
                let row =
                    rows.iter().find(|row| row.at[self.x] == *of_x && row.at[self.y] == *value);
                let x = left + wide * i as f64;
                let area = Area { left: x, top: y, right: x + wide, bottom: y + CELL };
                let of =
                    |row: &&&Row| row.stat(&self.chart.stat).or(row.at_least(&self.chart.stat));
                let Some(shown) = row.as_ref().and_then(of) else {
                    out.rect("n", area, "");
                    continue;
                };
                let (fill, ink) = colour(self.range.share(shown));
                out.rect("c", area, &format!("fill=\"{fill}\" stroke=\"{fill}\""));
                let says = text::configuration(
                    case,
                    &self.manifest.axes,
                    &row.map_or_else(Vec::new, |row| row.at.clone()),
                );
                // What the end of the run cut off is at least so large.
                let is_known = row.is_some_and(|row| row.stat(&self.chart.stat).is_some());
                let least = if is_known { "" } else { "> " };
                let number = format!("{least}{}", self.unit.show(shown));
                if width_of(&number) + 4.0 <= wide {
                    out.text_in(ink, (x + wide / 2.0, middle + 4.0), &number);
                }
                out.spot(
                    (x + wide / 2.0, middle),
                    &format!("{says}: {least}{}", self.unit.named(shown)),
                );
            }
        }
        let mut free = f64::NEG_INFINITY;
        for (i, (_, label)) in columns.iter().enumerate() {
            let (x, half) = (left + wide * (i as f64 + 0.5), width_of(label) / 2.0);
            if x - half >= free {
                out.text("", (x.min(PANEL - half - 1.0), bottom + 16.0), Align::Middle, label);
                free = x + half + 5.0;
            }
        }
        out.text(
            "m",
            ((left + right) / 2.0, bottom + 32.0),
            Align::Middle,
            &fitted(&x_label, right - left),
        );
        Piece { width: PANEL, height: bottom + 40.0, body: out.0 }
    }

    /// What the colours stand for.
    fn scale(&self) -> Piece {
        const STEPS: usize = 24;
        let mut out = Svg::default();
        let low = self.unit.named(self.range.low);
        let high = self.unit.named(self.range.high);
        let left = width_of(&low) + 8.0;
        out.text("", (2.0, 12.0), Align::Start, &low);
        for i in 0..STEPS {
            let x = left + 6.0 * i as f64;
            let (fill, _) = colour((i as f64 + 0.5) / STEPS as f64);
            let area = Area { left: x, top: 2.0, right: x + 6.0, bottom: 14.0 };
            out.rect("c", area, &format!("fill=\"{fill}\" stroke=\"{fill}\""));
        }
        let right = left + 6.0 * STEPS as f64 + 6.0;
        out.text("", (right, 12.0), Align::Start, &high);
        Piece { width: right + width_of(&high) + 4.0, height: 16.0, body: out.0 }
    }
}
