//! Captures.

use std::path::PathBuf;

use knee_pcap::{AnalysisOptions, Csv, Flow, Input};
use pyo3::prelude::*;

use crate::failure::{Failure, apart};

/// Analyses captures of one path into a directory of tables, with the packets of these flows. Returns the analysis as JSON.
#[pyfunction]
pub(crate) fn analyse(
    py: Python<'_>,
    files: Vec<PathBuf>,
    dir: PathBuf,
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
        let mut csv = Csv::create(&dir).map_err(Failure::says)?;
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
