//! A figure: pieces of SVG that the page lets flow as wide as it is, and that a file has side by side.

use std::fmt::Write as _;

use crate::palette;
use crate::text::escaped;

/// Width of a panel: one fits a phone, three a desk.
pub(crate) const PANEL: f64 = 340.0;

/// One drawing of a figure.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Elements of SVG.
    pub(crate) body: String,
}

/// A figure with its numbers.
pub(crate) struct Figure {
    /// Name of the file, and unique id in the page.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Caption below the drawing.
    pub(crate) caption: String,
    pub(crate) legend: Vec<Piece>,
    pub(crate) pieces: Vec<Piece>,
    /// The numbers drawn.
    pub(crate) csv: String,
}

/// A figure's file is at most as wide.
const WIDEST: f64 = 1060.0;
/// Pixels of the page in an inch on paper: text of 11 px is 7.5 points high.
const PER_INCH: f64 = 106.0;

/// How figures are written into files.
#[derive(Clone, Copy)]
pub(crate) enum Paper {
    /// As on the page, with their titles.
    Page,
    /// So many inches wide, without titles: the paper's captions have them.
    Inches(f64),
}

impl Paper {
    fn widest(self) -> f64 {
        match self {
            Paper::Page => WIDEST,
            Paper::Inches(inches) => inches * PER_INCH,
        }
    }

    /// The width of plots over time, which take all there is.
    pub(crate) fn plots(self) -> f64 {
        match self {
            Paper::Page => 1020.0,
            Paper::Inches(_) => self.widest() - 2.0 * self.margin(),
        }
    }

    fn margin(self) -> f64 {
        if matches!(self, Paper::Page) { MARGIN } else { 2.0 }
    }
}
const GAP: f64 = 14.0;
const MARGIN: f64 = 14.0;

impl Piece {
    /// The piece in the page.
    pub(crate) fn svg(&self, label: &str) -> String {
        self.svg_of("", label)
    }

    /// The same with a class.
    pub(crate) fn svg_of(&self, class: &str, label: &str) -> String {
        format!(
            "<svg{class} viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escaped(label),
            self.body,
            w = self.width,
            h = self.height
        )
    }
}

impl Figure {
    /// The figure in the page.
    pub(crate) fn html(&self) -> String {
        let mut out = format!(
            "<figure class=\"chart {}\" id=\"{}\" data-title=\"{}\">",
            self.room(),
            self.id,
            escaped(&self.title)
        );
        // Without pieces there is nothing to save.
        let buttons = if self.pieces.is_empty() { "" } else { BUTTONS };
        let _ = write!(out, "<div class=\"bar\"><h4>{}</h4>{buttons}</div>", escaped(&self.title));
        if !self.legend.is_empty() {
            out.push_str("<div class=\"legend\">");
            self.legend.iter().for_each(|piece| out.push_str(&piece.svg("")));
            out.push_str("</div>");
        }
        out.push_str("<div class=\"pieces\">");
        self.pieces.iter().for_each(|piece| out.push_str(&piece.svg(&self.title)));
        out.push_str("</div>");
        if !self.caption.is_empty() {
            let _ = write!(out, "<figcaption>{}</figcaption>", escaped(&self.caption));
        }
        let _ = write!(out, "<pre class=\"csv\" hidden>{}</pre></figure>", escaped(&self.csv));
        out
    }

    /// The class that says how much of the page it takes: a column, or all of them.
    fn room(&self) -> &'static str {
        if self.pieces.len() > 2 { "all" } else { "one" }
    }

    /// The figure as a file of its own.
    pub(crate) fn file(&self, paper: Paper) -> String {
        let (margin, widest_row) = (paper.margin(), paper.widest() - paper.margin());
        let mut body = String::new();
        let (mut y, mut widest) = (margin, paper.widest());
        if let Paper::Page = paper {
            y += 14.0;
            let _ = write!(
                body,
                "<text x=\"{margin}\" y=\"{y}\" class=\"b\" style=\"font-size:13px\">{}</text>",
                escaped(&self.title)
            );
            y += 12.0;
            widest = margin + self.title.chars().count() as f64 * 8.5;
        }
        for pieces in [&self.legend, &self.pieces] {
            let (mut x, mut row) = (margin, 0.0_f64);
            for piece in pieces {
                // What is wider than the paper is drawn smaller.
                let scale = (widest_row - margin).max(1.0) / piece.width;
                let scale = if matches!(paper, Paper::Page) { 1.0 } else { scale.min(1.0) };
                let (w, h) = (piece.width * scale, piece.height * scale);
                if x > margin && x + w > widest_row {
                    y += row + GAP;
                    (x, row) = (margin, 0.0);
                }
                let _ = write!(
                    body,
                    "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {} {}\">{}</svg>",
                    piece.width, piece.height, piece.body
                );
                x += w + GAP;
                row = row.max(h);
                widest = widest.max(x - GAP);
            }
            y += if pieces.is_empty() { 0.0 } else { row + 8.0 };
        }
        let (width, height) = match paper {
            Paper::Page => (widest + margin, y + 6.0),
            Paper::Inches(_) => (paper.widest(), y),
        };
        let size = match paper {
            Paper::Page => format!("width=\"{width}\" height=\"{height}\""),
            Paper::Inches(inches) => {
                format!("width=\"{inches}in\" height=\"{:.4}in\"", height / PER_INCH)
            }
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {width} {height}\">\
             <style>{}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}</svg>\n",
            palette::file_style()
        )
    }
}

/// Buttons of every plot; what they do is in `report.js`.
const BUTTONS: &str = "<span class=\"save\" role=\"group\" aria-label=\"Show the numbers, or save\">\
     <button type=\"button\" data-save=\"table\" aria-expanded=\"false\">Table</button><button type=\"button\" data-save=\"svg\">SVG</button>\
     <button type=\"button\" data-save=\"png\">PNG</button><button type=\"button\" data-save=\"csv\">CSV</button></span>";
