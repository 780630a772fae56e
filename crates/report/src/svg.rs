//! Elements of a drawing. Lengths are those of the page's pixels.

use std::fmt::{Display, Write as _};

use crate::palette::Style;
use crate::text::escaped;

/// Filled with the colour of the class.
pub(crate) const FILLED: &str = "fill=\"currentColor\"";

/// Where a text's x is.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Start,
    Middle,
    End,
}

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

/// Elements, one behind the other.
#[derive(Default)]
pub(crate) struct Svg(pub(crate) String);

impl Svg {
    /// A path with further attributes; what classes look like is in `palette.rs` and `report.css`.
    pub(crate) fn path(&mut self, class: impl Display, path: impl Display, more: impl Display) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"{path}\" {more}/>");
    }

    /// A path of the grid (`g`), an axis (`a`) or a bound, which its class says all of.
    pub(crate) fn rule(&mut self, class: &str, path: impl Display) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A line in the colour of the class.
    pub(crate) fn line(&mut self, class: impl Display, path: impl Display, width: f64) {
        self.path(class, path, stroke(width));
    }

    /// A line in the colour and with the dashes of a case.
    pub(crate) fn curve(&mut self, style: Style, path: impl Display, width: f64) {
        let dashes = format!("{} stroke-dasharray=\"{}\"", stroke(width), style.dashes());
        self.path(style, path, dashes);
    }

    /// A pale bar, this wide and opaque, from one x to another.
    pub(crate) fn bar(
        &mut self,
        class: impl Display,
        (low, high): (f64, f64),
        y: f64,
        (width, opacity): (u8, &str),
    ) {
        let _ = write!(
            self.0,
            "<path class=\"{class}\" d=\"M{low:.1} {y}H{high:.1}\" stroke=\"currentColor\" \
             stroke-width=\"{width}\" stroke-opacity=\"{opacity}\"/>"
        );
    }

    /// A shape around a point.
    pub(crate) fn shape(
        &mut self,
        class: impl Display,
        (x, y): (f64, f64),
        path: &str,
        more: impl Display,
    ) {
        let _ = write!(
            self.0,
            "<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{path}\" {more}/>"
        );
    }

    /// The mark that stands for a case, filled.
    pub(crate) fn mark(&mut self, (x, y): (f64, f64), style: Style) {
        let path = match style.mark % 5 {
            0 => {
                let _ = write!(
                    self.0,
                    "<circle class=\"{style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" {FILLED}/>"
                );
                return;
            }
            1 => "M-3.4-3.4h6.8v6.8h-6.8z",
            2 => "M0-4.4 4.2 3.2h-8.4z",
            3 => "M0 4.4 4.2-3.2h-8.4z",
            _ => "M-1.3-4.2h2.6v2.9h2.9v2.6h-2.9v2.9h-2.6v-2.9h-2.9v-2.6h2.9z",
        };
        self.shape(style, (x, y), path, FILLED);
    }

    /// A place whose value is read by pointing at it. It shows nothing; the page's script finds the nearest.
    pub(crate) fn spot(&mut self, (x, y): (f64, f64), says: &str) {
        let says = escaped(says);
        let _ = write!(
            self.0,
            "<circle class=\"v\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"none\"><title>{says}</title></circle>"
        );
    }

    /// The mark of what was published: a hollow diamond, large enough to be seen behind one of ours.
    pub(crate) fn published(&mut self, at: (f64, f64)) {
        self.shape("p", at, "M0-6.5 6.5 0 0 6.5-6.5 0z", "stroke-width=\"1.5\"");
    }

    /// A text: `b` is bold, `m` pale, and nothing plain.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), align: Align, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let anchor = match align {
            Align::Start => "",
            Align::Middle => " text-anchor=\"middle\"",
            Align::End => " text-anchor=\"end\"",
        };
        let text = escaped(text);
        let _ = write!(self.0, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>");
    }

    /// A text around a point, in a colour that stands out from what is behind it in every theme.
    pub(crate) fn text_in(&mut self, colour: &str, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        let _ = write!(
            self.0,
            "<text style=\"fill:{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
        );
    }

    /// A rectangle with further attributes.
    pub(crate) fn rect(&mut self, class: &str, area: Area, more: &str) {
        let _ = write!(
            self.0,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {more}/>",
            area.left,
            area.top,
            area.right - area.left,
            area.bottom - area.top
        );
    }
}

/// The attributes of a line in the colour of its class.
pub(crate) fn stroke(width: f64) -> String {
    format!("fill=\"none\" stroke=\"currentColor\" stroke-width=\"{width}\"")
}
