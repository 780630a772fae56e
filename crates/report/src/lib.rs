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
