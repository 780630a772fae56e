//! Labels of a drawing, and the room that they take.

use std::fmt::Write as _;

use crate::plot::width_of;
use crate::text::escaped;

/// From one line of a label to the next.
pub(crate) const LINE: f64 = 13.0;

/// Room in the drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    /// Whether they have room in common, and do not just touch.
    pub(crate) fn covers(&self, other: &Area) -> bool {
        const TOUCH: f64 = 0.1;
        self.left + TOUCH < other.right
            && other.left + TOUCH < self.right
            && self.top + TOUCH < other.bottom
            && other.top + TOUCH < self.bottom
    }

    pub(crate) fn is_inside(&self, whole: &Area) -> bool {
        self.left >= whole.left
            && self.right <= whole.right
            && self.top >= whole.top
            && self.bottom <= whole.bottom
    }
}

/// The area of this width and height around a point.
pub(crate) fn around((x, y): (f64, f64), (width, height): (f64, f64)) -> Area {
    let (x_half, y_half) = (width / 2.0, height / 2.0);
    Area { left: x - x_half, top: y - y_half, right: x + x_half, bottom: y + y_half }
}

/// Lines of text, one below the other.
pub(crate) struct Label {
    pub(crate) lines: Vec<String>,
    /// Where its first line stands, or the middle of it.
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) is_middle: bool,
}

impl Label {
    /// The area of each line.
    pub(crate) fn areas(&self) -> impl Iterator<Item = Area> + '_ {
        self.lines.iter().enumerate().map(|(i, line)| {
            let width = width_of(line) + 4.0;
            let left = if self.is_middle { self.x - width / 2.0 } else { self.x - 2.0 };
            let top = self.y + i as f64 * LINE - 10.0;
            Area { left, top, right: left + width, bottom: top + LINE }
        })
    }

    pub(crate) fn draw(&self, out: &mut String) {
        let anchor = if self.is_middle { "middle" } else { "start" };
        for (line, area) in self.lines.iter().zip(self.areas()) {
            let _ = write!(
                out,
                "<rect class=\"w\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"13\" fill-opacity=\".85\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                area.left,
                area.top,
                area.right - area.left,
                self.x,
                area.top + 10.0,
                escaped(line)
            );
        }
    }
}
