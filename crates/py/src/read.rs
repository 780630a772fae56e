//! What results say, beside their tables.

use std::path::PathBuf;

use knee_evidence::compare::{
    Options, Picked, Side, answers, answers_json, compare, json, render, render_answers,
};
use knee_evidence::difference::TOLERANCE;
use knee_results::Manifest;
use pyo3::prelude::*;

use crate::failure::{Failure, apart};

/// The manifest of a results directory, as JSON.
#[pyfunction]
pub(crate) fn manifest(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    apart(py, move || serde_json::to_string(&Manifest::read(&folder)?).map_err(Failure::says))
}

/// Compares cases, each of a directory, with the first. Returns words and JSON.
#[pyfunction]
pub(crate) fn compare_cases(
    py: Python<'_>,
    cases: Vec<(PathBuf, String)>,
    within: Option<f64>,
) -> PyResult<(String, String)> {
    apart(py, move || {
        let picked: Vec<Picked> =
            cases.into_iter().map(|(dir, case)| Picked { dir, case }).collect();
        let of = answers(&picked, None, checked(within)?)?;
        Ok((render_answers(&of, false), answers_json(&of).to_string()))
    })
}

/// Compares two results directories. Returns words and JSON.
#[pyfunction]
pub(crate) fn compare_results(
    py: Python<'_>,
    one: PathBuf,
    other: PathBuf,
    within: Option<f64>,
    force: bool,
) -> PyResult<(String, String)> {
    apart(py, move || {
        let options = Options { within: checked(within)?, force, show_all: false };
        let pair = compare(Side::read(&one)?, Side::read(&other)?, options)?;
        let json = json(&pair).to_string();
        Ok((render(&[pair]), json))
    })
}

fn checked(within: Option<f64>) -> Result<f64, Failure> {
    let within = within.unwrap_or(TOLERANCE);
    match (0.0..=1.0).contains(&within) {
        true => Ok(within),
        false => Err(Failure::says(format!("within = {within}: must be a share from 0 to 1"))),
    }
}

/// The look of each case in a report: its name, its colour as #rrggbb, and its dashes as lengths in pixels.
#[pyfunction]
pub(crate) fn styles(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<(String, String, Vec<f64>)>> {
    apart(py, move || {
        let manifest = Manifest::read(&folder)?;
        let looks = knee_report::looks(&manifest);
        Ok(manifest.cases.iter().cloned().zip(looks).map(|(case, (c, d))| (case, c, d)).collect())
    })
}
