//! Bars from zero, in groups.

use crate::figure::{PANEL, Piece};
use crate::palette::Style;
use crate::plot::{ARROW, Point, Range, fitted, head, panel_title, width_of, y_axis};
use crate::svg::{Align, Area, FILLED, Svg, stroke};

/// A bar: in which group, and its place there.
pub(crate) struct Bar {
    pub(crate) group: usize,
    pub(crate) within: usize,
    pub(crate) style: Style,
    pub(crate) point: Point,
    pub(crate) says: String,
}

/// Bars of a panel.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) groups: &'a [String],
    /// Places in a group.
    pub(crate) many: usize,
    pub(crate) y: Range,
    pub(crate) bars: &'a [Bar],
}

impl Bars<'_> {
    pub(crate) fn draw(&self) -> Piece {
        let head = head(self.title);
        let (width, height) = (PANEL, 212.0 + head);
        let (left, right, top, bottom) = (56.0, width - 8.0, 20.0 + head, height - 40.0);
        let mut out = Svg::default();
        panel_title(&mut out, self.title);
        let at_y = |value: f64| bottom - self.y.share(value) * (bottom - top);
        y_axis(&mut out, self.y, (self.y_label, top - 8.0), left, right, &at_y);
        let room = (right - left) / self.groups.len().max(1) as f64;
        let each = (room * 0.8 / self.many.max(1) as f64).min(46.0);
        let middle = |group: usize| left + room * (group as f64 + 0.5);
        let mut free = f64::NEG_INFINITY;
        for (group, label) in self.groups.iter().enumerate() {
            let label = fitted(label, room.max(64.0));
            let half = width_of(&label) / 2.0;
            if middle(group) - half < free {
                continue;
            }
            free = middle(group) + half + 5.0;
            out.text("", (middle(group), bottom + 16.0), Align::Middle, &label);
        }
        for bar in self.bars {
            let x = middle(bar.group) + each * (bar.within as f64 - self.many as f64 / 2.0);
            let (y, zero) = (at_y(bar.point.value), at_y(0.0));
            let area = Area {
                left: x + 0.5,
                top: y.min(zero),
                right: x + each - 0.5,
                bottom: y.max(zero),
            };
            // Bars of one colour differ by how dense they are.
            let opacity = [".85", ".6", ".42", ".28"][bar.style.dash % 4];
            let look = format!("{FILLED} fill-opacity=\"{opacity}\" stroke=\"currentColor\"");
            out.rect(&bar.style.to_string(), area, &look);
            let (low, high, at) = (at_y(bar.point.low), at_y(bar.point.high), x + each / 2.0);
            if low - high > 2.0 {
                let (a, b) = (at - 3.0, at + 3.0);
                let ends = format!(
                    "M{at:.1} {low:.1}V{high:.1}M{a:.1} {low:.1}H{b:.1}M{a:.1} {high:.1}H{b:.1}"
                );
                out.path("t", ends, "fill=\"none\" stroke-width=\"1.2\"");
            }
            if bar.point.is_bound {
                out.shape(bar.style, (at, y), ARROW, stroke(1.3));
            }
            out.spot((at, y), &bar.says);
        }
        out.rule("a", format_args!("M{left} {bottom}H{right}"));
        let label = fitted(self.x_label, right - left);
        out.text("m", ((left + right) / 2.0, height - 8.0), Align::Middle, &label);
        Piece { width, height, body: out.0 }
    }
}
