//! Drawing: scales, ticks, and the kinds of panels that charts are made of.

use std::fmt::Write as _;

use crate::figure::{PANEL, Piece};
use crate::palette::Style;
use crate::series::{Plot, Points};
use crate::svg::{Align, Svg, stroke};
use crate::text::{Unit, digits};

/// Values along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) log: bool,
}

impl Range {
    /// Holds these values; a linear one begins at zero where that does not hide what differs.
    pub(crate) fn holding(values: impl Iterator<Item = f64>, log: bool) -> Range {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        let usable = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        for value in values.filter(usable) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            return Range { low: if log { 0.1 } else { 0.0 }, high: 1.0, log };
        }
        if log {
            // A factor of two at least, and some air.
            let middle = (low * high).sqrt();
            let (low, high) = (low.min(middle / 1.5), high.max(middle * 1.5));
            return Range { low: low / 1.12, high: high * 1.12, log };
        }
        if low >= 0.0 && (high - low) > 0.15 * high || low == high {
            let (low, high) = (low.min(0.0), high.max(0.0));
            let high = if low == high { 1.0 } else { high };
            return Range { low, high: high + (high - low) * 0.05, log };
        }
        let air = (high - low) * 0.08;
        Range { low: low - air, high: high + air, log }
    }

    /// Also holds values from `low` to `high`, but at most two and a half times what a linear one held: the rest would hide
    /// what it is there to show.
    pub(crate) fn and(self, low: f64, high: f64) -> Range {
        if self.log {
            // A log axis has no 0, and takes everything else.
            let low = if low > 0.0 { low / 1.12 } else { self.low };
            return Range { low: self.low.min(low), high: self.high.max(high * 1.12), ..self };
        }
        let (low, high) = (self.low.min(low), self.high.max(high.min(self.high * 2.5)));
        let air = (high - low) * 0.03;
        let beyond = |own: f64, end: f64, air: f64| if end == own { own } else { end + air };
        let wide =
            Range { low: beyond(self.low, low, -air), high: beyond(self.high, high, air), ..self };
        // What is never negative has no axis below zero.
        Range { low: if low >= 0.0 { wide.low.max(0.0) } else { wide.low }, ..wide }
    }

    /// From 0 at the low end to 1 at the high one, and not beyond.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        share.clamp(0.0, 1.0)
    }

    /// Round values within, about as many as wished.
    pub(crate) fn ticks(&self, wished: f64) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        // Below a decade round numbers at equal distances are more than 1, 2 and 5 of it.
        if self.log && decades > 0.8 {
            let steps: &[f64] = match decades {
                d if d > wished => &[1.0],
                d if d > 2.2 => &[1.0],
                d if d > 1.2 => &[1.0, 3.0],
                _ => &[1.0, 2.0, 5.0],
            };
            let every = (decades / (wished + 1.0)).ceil().max(1.0) as i32;
            let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let values = (from..=to).filter(|decade| decade.rem_euclid(every) == 0);
            let values =
                values.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            return values.filter(|value| (self.low..=self.high).contains(value)).collect();
        }
        let rough = (self.high - self.low) / wished;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(power * 10.0);
        let first = (self.low / step).ceil();
        let ticks = (0..=(wished as i32) * 3).map(|i| (first + f64::from(i)) * step);
        ticks.take_while(|tick| *tick <= self.high + step * 1e-9).collect()
    }
}

/// About the width of text of 11 px.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}

/// Text cut to a width, with dots where something is missing.
pub(crate) fn fitted(text: &str, width: f64) -> String {
    let most = (width / 6.4) as usize;
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A legend's entry.
pub(crate) fn legend(name: &str, style: Style, line: bool, marked: bool) -> Piece {
    let mut out = Svg::default();
    let at = if line { 13.0 } else { 6.0 };
    if line {
        out.curve(style, "M1 8h24", 2.0);
    }
    if marked {
        out.mark((at, 8.0), style);
    }
    let name = fitted(name, 260.0);
    out.text("", (at + 18.0, 12.0), Align::Start, &name);
    Piece { width: at + 23.0 + width_of(&name), height: 16.0, body: out.0 }
}

/// The legend's entry of what was published.
pub(crate) fn legend_published() -> Piece {
    let mut out = Svg::default();
    out.published((8.0, 8.0));
    out.text("", (19.0, 12.0), Align::Start, "published");
    Piece { width: 84.0, height: 16.0, body: out.0 }
}

/// A value with an interval.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether the value is the least that it can be, because the ends of runs cut values off.
    pub(crate) is_bound: bool,
}

/// A line of a panel: where along x, and what.
pub(crate) struct Line {
    pub(crate) style: Style,
    /// Place, value and what it says.
    pub(crate) points: Vec<(usize, Point, String)>,
}

/// Lines over the values of an axis.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    /// Places along x, from 0 to 1, with their labels.
    pub(crate) x: &'a [(f64, String)],
    pub(crate) y: Range,
    pub(crate) lines: &'a [Line],
    pub(crate) published: &'a [(usize, f64)],
}

impl Lines<'_> {
    pub(crate) fn draw(&self) -> Piece {
        let head = head(self.title);
        let (width, height) = (PANEL, 212.0 + head);
        let (left, right, top, bottom) = (56.0, width - 14.0, 20.0 + head, height - 40.0);
        let mut out = Svg::default();
        panel_title(&mut out, self.title);
        let at_y = |value: f64| bottom - self.y.share(value) * (bottom - top);
        // Half a mark of air at both ends.
        let at_x = |i: usize| left + 8.0 + self.x[i].0 * (right - left - 16.0);
        y_axis(&mut out, self.y, (self.y_label, top - 8.0), left, right, &at_y);
        // The first and the last are always named, and between them whichever has room.
        let last = self.x.len().saturating_sub(1);
        let end = self.x.last().map_or(right, |(_, label)| at_x(last) - width_of(label) / 2.0);
        let mut free = f64::NEG_INFINITY;
        for (i, (_, label)) in self.x.iter().enumerate() {
            let (x, half) = (at_x(i), width_of(label) / 2.0);
            out.rule("a", format_args!("M{x:.1} {bottom}v4"));
            if x - half < free || i != last && i > 0 && x + half + 5.0 > end {
                continue;
            }
            free = x + half + 5.0;
            let middle = x.min(width - half - 1.0);
            out.text("", (middle, bottom + 16.0), Align::Middle, label);
        }
        out.rule("a", format_args!("M{left} {bottom}H{right}"));
        let label = fitted(self.x_label, right - left);
        out.text("m", ((left + right) / 2.0, height - 8.0), Align::Middle, &label);
        for (i, value) in self.published {
            out.published((at_x(*i), at_y(*value)));
        }
        let many = self.lines.len() as f64;
        for (n, line) in self.lines.iter().enumerate() {
            // Beside each other, so that intervals do not cover each other.
            let aside = (n as f64 - (many - 1.0) / 2.0) * (10.0 / many).min(3.0);
            let at = |(i, point, _): &(usize, Point, String)| (at_x(*i) + aside, at_y(point.value));
            out.curve(line.style, through(line.points.iter().map(at)), 1.8);
            for each in &line.points {
                let ((x, y), point) = (at(each), each.1);
                let (low, high) = (at_y(point.low), at_y(point.high));
                if low - high > 2.0 {
                    out.line(line.style, format_args!("M{x:.1} {low:.1}V{high:.1}"), 1.2);
                }
                out.mark((x, y), line.style);
                if point.is_bound {
                    out.shape(line.style, (x, y), ARROW, stroke(1.3));
                }
                out.spot((x, y), &each.2);
            }
        }
        Piece { width, height, body: out.0 }
    }
}

/// Above a mark: the figure is there or beyond.
pub(crate) const ARROW: &str = "M0-4V-15M-3-11.5 0-15.5 3-11.5";

/// A path from point to point.
pub(crate) fn through(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
    }
    path
}

/// A path that keeps each value until the next point.
fn stepped(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let _ = match path.is_empty() {
            true => write!(path, "M{x:.1} {y:.1}"),
            false => write!(path, "H{x:.1}V{y:.1}"),
        };
    }
    path
}

/// Height of a panel's title.
pub(crate) fn head(title: &str) -> f64 {
    if title.is_empty() { 0.0 } else { 14.0 }
}

/// The title of a panel, above it.
pub(crate) fn panel_title(out: &mut Svg, title: &str) {
    out.text("b", (2.0, 12.0), Align::Start, &fitted(title, PANEL - 4.0));
}

/// Grid, ticks and the label of the y axis, which stands above it.
pub(crate) fn y_axis(
    out: &mut Svg,
    y: Range,
    (label, label_y): (&str, f64),
    left: f64,
    right: f64,
    at: &impl Fn(f64) -> f64,
) {
    for tick in y.ticks(4.0) {
        let py = at(tick);
        out.rule("g", format_args!("M{left} {py:.1}H{right}"));
        out.text("", (left - 6.0, py + 4.0), Align::End, &digits(tick));
    }
    out.text("m", (2.0, label_y), Align::Start, label);
}

/// A row of a dot panel.
pub(crate) struct Dot<'a> {
    pub(crate) name: &'a str,
    pub(crate) style: Style,
    /// The value, or why there is none.
    pub(crate) point: Result<Point, String>,
    /// From the least to the largest value.
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) published: Option<f64>,
    /// What it says when pointed at.
    pub(crate) says: String,
}

/// A value for each case, one below the other.
pub(crate) struct Dots<'a> {
    pub(crate) title: &'a str,
    pub(crate) label: &'a str,
    pub(crate) x: Range,
    pub(crate) dots: &'a [Dot<'a>],
}

impl Dots<'_> {
    pub(crate) fn draw(&self) -> Piece {
        let row = 21.0;
        let names = self.dots.iter().map(|dot| width_of(dot.name)).fold(40.0, f64::max).min(118.0);
        let (width, top) = (PANEL, 8.0 + head(self.title));
        let values =
            self.dots.iter().filter_map(|dot| dot.point.as_ref().ok()).map(|point| {
                width_of(&digits(point.value)) + if point.is_bound { 14.0 } else { 0.0 }
            });
        let (left, right) = (names + 12.0, width - values.fold(40.0, f64::max) - 20.0);
        let bottom = top + row * self.dots.len() as f64;
        let height = bottom + 36.0;
        let mut out = Svg::default();
        panel_title(&mut out, self.title);
        let at = |value: f64| left + self.x.share(value) * (right - left);
        for tick in self.x.ticks(3.0) {
            let x = at(tick);
            out.rule("g", format_args!("M{x:.1} {top}V{bottom}"));
            out.text("", (x, bottom + 14.0), Align::Middle, &digits(tick));
        }
        out.rule("a", format_args!("M{left} {bottom}H{right}"));
        for (i, dot) in self.dots.iter().enumerate() {
            let y = top + row * (i as f64 + 0.5);
            out.text("", (left - 9.0, y + 4.0), Align::End, &fitted(dot.name, names));
            if let Some((low, high)) = dot.spread {
                out.bar(dot.style, (at(low), at(high)), y, (5, ".22"));
                // A bar that goes on beyond the edge says so.
                for (is_beyond, x, back) in
                    [(high > self.x.high, right, -5.0), (low < self.x.low, left, 5.0)]
                {
                    if is_beyond {
                        let tip = [(x + back, y - 4.0), (x, y), (x + back, y + 4.0)];
                        out.line(dot.style, through(tip.into_iter()), 1.2);
                    }
                }
            }
            if let Some(published) = dot.published {
                out.published((at(published), y));
            }
            let point = match &dot.point {
                Ok(point) => point,
                Err(why) => {
                    let why = fitted(why, width - left - 8.0);
                    out.text("m", (left + 4.0, y + 4.0), Align::Start, &why);
                    continue;
                }
            };
            let (low, high) = (at(point.low), at(point.high));
            if high - low > 2.0 {
                let (a, ends) = (y - 3.0, format!("M{low:.1} {y}H{high:.1}"));
                let whisker = format!("{ends}M{low:.1} {a}v6M{high:.1} {a}v6");
                out.line(dot.style, whisker, 1.5);
            }
            out.mark((at(point.value), y), dot.style);
            let mut value = digits(point.value);
            if point.is_bound {
                let arrow = "M4 0H15M11.5-3 15.5 0 11.5 3";
                out.shape(dot.style, (at(point.value), y), arrow, stroke(1.3));
                value = format!("> {value}");
            }
            out.text("b", (width - 6.0, y + 4.0), Align::End, &value);
            out.spot((at(point.value), y), &dot.says);
        }
        out.text("m", ((left + right) / 2.0, bottom + 30.0), Align::Middle, self.label);
        Piece { width, height, body: out.0 }
    }
}

/// Values over time, with the names of lines below.
pub(crate) fn traces(plot: &Plot, points: &Points, end_s: f64, width: f64) -> Piece {
    let left = if plot.names.is_empty() { 50.0 } else { 84.0 };
    let (right, top, bottom) = (width - 8.0, 34.0, 190.0);
    let all = || points.y.iter().flatten().filter(|y| y.is_finite()).map(|y| f64::from(*y));
    let unit = Unit::of(&plot.unit, all().fold(0.0, |a, b| a.max(b.abs())));
    // From zero: what hardly moves shall look so.
    let last = (plot.names.len() as f64 - 1.0).max(0.0);
    let y = Range::holding(all().chain([0.0, last]).map(|y| y * unit.factor), false);
    let time = Unit::of("s", end_s);
    let x = Range { low: 0.0, high: end_s * time.factor, log: false };
    let at_y = |value: f64| bottom - y.share(value) * (bottom - top);
    let at_x = |value: f64| left + x.share(value) * (right - left);
    let mut out = Svg::default();
    out.text("b", (2.0, 12.0), Align::Start, &plot.title);
    if plot.names.is_empty() {
        y_axis(&mut out, y, (unit.name, top - 8.0), left, right, &at_y);
    }
    for (value, name) in plot.names.iter().enumerate() {
        let py = at_y(value as f64);
        out.rule("g", format_args!("M{left} {py:.1}H{right}"));
        out.text("", (left - 6.0, py + 4.0), Align::End, &fitted(name, left - 6.0));
    }
    for tick in x.ticks((width / 128.0).max(3.0)) {
        let (name, last) = (digits(tick), width - 2.0);
        let x = at_x(tick).min(last - width_of(&name) / 2.0);
        out.text("", (x, bottom + 16.0), Align::Middle, &name);
    }
    out.text("m", (2.0, bottom + 16.0), Align::Start, time.name);
    let (mut legend_x, mut legend_y) = (left, bottom + 36.0);
    for (line, values) in plot.lines.iter().zip(&points.y) {
        let known = points.x.iter().zip(values).filter(|(_, value)| value.is_finite());
        let points = known.map(|(x, value)| {
            (at_x(f64::from(*x) * time.factor), at_y(f64::from(*value) * unit.factor))
        });
        // A name holds until the next.
        let path = if plot.names.is_empty() { through(points) } else { stepped(points) };
        out.curve(line.style, path, 1.2);
        let room = width_of(&line.label) + 44.0;
        if legend_x + room > right && legend_x > left {
            (legend_x, legend_y) = (left, legend_y + 16.0);
        }
        out.curve(line.style, format_args!("M{legend_x} {}h22", legend_y - 4.0), 2.0);
        out.text("", (legend_x + 27.0, legend_y), Align::Start, &line.label);
        legend_x += room;
    }
    Piece { width, height: legend_y + 8.0, body: out.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let linear = Range { low: 0.0, high: 10.3, log: false };
        assert_eq!(linear.ticks(4.0), [0.0, 5.0, 10.0]);
        let log = Range { low: 0.9, high: 350.0, log: true };
        assert_eq!(log.ticks(4.0), [1.0, 10.0, 100.0]);
        let near = Range { low: 12.0, high: 45.0, log: true };
        assert_eq!(near.ticks(4.0), [20.0, 30.0, 40.0]);
        let far = Range { low: 1e-6, high: 1e6, log: true };
        assert!(far.ticks(4.0).len() <= 6, "{:?}", far.ticks(4.0));
    }

    #[test]
    fn a_range_holds_its_values_and_survives_none() {
        let range = Range::holding([0.5, 0.9, f64::NAN].into_iter(), false);
        assert_eq!((range.low, range.share(range.high)), (0.0, 1.0));
        let close = Range::holding([0.97, 0.99].into_iter(), false);
        assert!(close.low > 0.9, "zero would hide the difference");
        for log in [false, true] {
            let none = Range::holding(std::iter::empty(), log);
            assert!(none.low < none.high && none.share(0.5).is_finite());
            let one = Range::holding([0.0, 0.0].into_iter(), log);
            assert!(one.low < one.high);
        }
    }
}
