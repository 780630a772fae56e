//! Results as a person reads them: one HTML file, or figures one by one.
//!
//! [`write()`] reads a results directory of `knee run`, or a directory of `knee reproduce` with several, or of
//! `knee pcap --csv`, and writes a file that needs nothing beside it and asks nobody for anything. [`write_figures`] writes every chart and series as SVG and
//! PNG with its numbers as CSV; whoever calls it draws the PNG. [`write_analysed`] has captures of runs analysed, too, by whoever calls it. What directories hold is in `docs/results.md`; nothing here knows how it was made.
#![forbid(unsafe_code)]

mod bars;
mod capture;
mod captured;
mod charts;
mod claims;
mod colours;
mod contents;
mod distribution;
mod error;
mod figure;
mod findings;
mod heat;
mod label;
mod limited;
mod network;
mod overview;
mod page;
mod palette;
mod panels;
mod plot;
mod section;
mod series;
mod summary;
mod svg;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod together;
mod tradeoff;

pub use captured::Analyse;
pub use error::Error;
pub use page::{Draw, write, write_analysed, write_figures};

/// Draws the network of a manifest as SVG, as in its report. `None` if it has none, or if nobody could read the drawing.
pub fn network_svg(manifest: &knee_results::Manifest) -> Option<String> {
    Some(network::figure(manifest)?.file(figure::Paper::Page))
}

/// Returns how lines of each case look in a report, on white: the colour as `#rrggbb`, and the lengths of dashes and gaps in pixels.
pub fn looks(manifest: &knee_results::Manifest) -> Vec<(String, Vec<f64>)> {
    palette::styles(manifest).into_iter().map(palette::Style::look).collect()
}
