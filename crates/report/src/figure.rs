//! A figure: pieces of SVG that the page lets flow as wide as it is, and that a file has side by side.

use std::fmt::Write as _;

use crate::palette;
use crate::text::escaped;

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
            "<figure class=\"chart\" id=\"{}\" data-title=\"{}\">",
            self.id,
            escaped(&self.title)
        );
        let _ = write!(out, "<div class=\"bar\"><h4>{}</h4>{BUTTONS}</div>", escaped(&self.title));
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

    /// The figure as a file of its own.
    pub(crate) fn file(&self) -> String {
        let mut body = String::new();
        let mut y = MARGIN + 14.0;
        let _ = write!(
            body,
            "<text x=\"{MARGIN}\" y=\"{y}\" class=\"b\" style=\"font-size:13px\">{}</text>",
            escaped(&self.title)
        );
        y += 12.0;
        let mut widest = MARGIN + self.title.chars().count() as f64 * 8.5;
        for pieces in [&self.legend, &self.pieces] {
            let (mut x, mut row) = (MARGIN, 0.0_f64);
            for piece in pieces {
                if x > MARGIN && x + piece.width > WIDEST {
                    y += row + GAP;
                    (x, row) = (MARGIN, 0.0);
                }
                let _ = write!(
                    body,
                    "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\">{}</svg>",
                    piece.body,
                    w = piece.width,
                    h = piece.height
                );
                x += piece.width + GAP;
                row = row.max(piece.height);
                widest = widest.max(x - GAP);
            }
            y += if pieces.is_empty() { 0.0 } else { row + 8.0 };
        }
        let (width, height) = (widest + MARGIN, y + 6.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\
             <style>{}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}</svg>\n",
            palette::file_style()
        )
    }
}

/// Buttons of every plot; what they do is in `report.js`.
pub(crate) const BUTTONS: &str = "<span class=\"save\" role=\"group\" aria-label=\"Save\"><button type=\"button\" data-save=\"svg\">SVG</button>\
     <button type=\"button\" data-save=\"png\">PNG</button><button type=\"button\" data-save=\"csv\">CSV</button></span>";
