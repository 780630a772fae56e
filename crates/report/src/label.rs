//! Labels of a drawing, and the room that they take.

use crate::plot::width_of;
use crate::svg::{Align, Area, Svg};

/// From one line of a label to the next.
pub(crate) const LINE: f64 = 13.0;

/// Of what stands behind a text: whatever it covers shines through.
pub(crate) const VEIL: &str = "fill-opacity=\".85\"";

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

    pub(crate) fn draw(&self, out: &mut Svg) {
        let align = if self.is_middle { Align::Middle } else { Align::Start };
        for (line, area) in self.lines.iter().zip(self.areas()) {
            out.rect("w", area, VEIL);
            out.text("", (self.x, area.top + 10.0), align, line);
        }
    }
}
