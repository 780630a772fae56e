//! Captures.

use std::path::PathBuf;

use knee_pcap::{AnalysisOptions, Csv, Flow, Input};
use knee_results::{Column, Type};
use pyo3::prelude::*;

use crate::failure::{Failure, apart};
use crate::table::Table;

/// Analyses captures of one path into a directory of tables, with the packets of these flows.
#[pyfunction]
pub(crate) fn analyse(
    py: Python<'_>,
    files: Vec<PathBuf>,
    folder: PathBuf,
    flows: Vec<u32>,
) -> PyResult<()> {
    apart(py, move || {
        for file in &files {
            // Without this, the error of a missing file would not name what was expected.
            knee_files::open_file(file, "capture")
                .map_err(|why| Failure::says(format!("{}: {why}", file.display())))?;
        }
        let inputs = files.iter().map(|file| Input::named(file)).collect();
        let options = AnalysisOptions { flows, ..AnalysisOptions::default() };
        let mut csv = Csv::create(&folder).map_err(Failure::says)?;
        let mut failed = None;
        let mut each = |flow: &Flow| {
            if failed.is_none() {
                failed = csv.flow(flow).err();
            }
        };
        let mut analysis =
            knee_pcap::analyse(inputs, &options, &mut each).map_err(Failure::says)?;
        analysis.findings = knee_pcap::diagnosis::findings(&analysis);
        failed.map_or(Ok(()), Err).map_err(Failure::says)?;
        csv.finish(&analysis).map_err(Failure::says)
    })
}

/// Columns of words and of texts; of fractions; and of flags. All others hold whole numbers.
const WORDS: [&str; 5] = ["direction", "kind", "receiver", "family", "ecn"];
const TEXTS: [&str; 4] = ["from", "to", "flags", "sacks"];
const NUMBERS: [&str; 4] = ["goodput_bps", "rate_bps", "ack_ratio", "confidence"];

/// A table of an analysis, by the name of its file without extension.
#[pyfunction]
pub(crate) fn capture_table(py: Python<'_>, folder: PathBuf, name: String) -> PyResult<Table> {
    apart(py, move || {
        let path = folder.join(format!("{name}.csv"));
        let opened = knee_results::Table::open(&path)?;
        let columns = opened.header().iter().map(|name| {
            let kind = match name.as_str() {
                name if WORDS.contains(&name) => Type::Word,
                name if TEXTS.contains(&name) => Type::Text,
                name if NUMBERS.contains(&name) => Type::Number,
                // Words true and false.
                name if name.starts_with("is_") || name == "why" => Type::Word,
                _ => Type::Whole,
            };
            Column::new(name.clone(), kind)
        });
        let columns = columns.collect();
        Ok(Table::in_file(path, columns, Vec::new()))
    })
}
