//! `reproduce.json`: what `knee reproduce` ran.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::manifest::read_json;
use crate::verdict::ClaimVerdict;

/// A directory with a results directory for each experiment. Keys are written in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reproduction {
    /// All of each experiment, and not the quick set.
    pub full: bool,
    /// What carried the runs out.
    pub back_end: String,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Wall-clock time.
    pub wall_s: Option<f64>,
    /// CPU time.
    pub cpu_s: Option<f64>,
    /// By source.
    pub sections: Vec<Section>,
    /// What could not be run at all.
    pub absent: Vec<Absent>,
}

/// Experiments of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it is about.
    pub about: String,
    /// In the order of the catalogue.
    pub experiments: Vec<Entry>,
}

/// An experiment of a reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its results directory, inside that of the reproduction; `None`: it was not run.
    pub dir: Option<String>,
    /// Why it was not run.
    pub skipped: Option<String>,
    /// Wall-clock time.
    pub wall_s: Option<f64>,
    /// CPU time.
    pub cpu_s: Option<f64>,
    /// The verdicts on its claims.
    pub claims: Vec<Claimed>,
}

/// A claim of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub verdict: ClaimVerdict,
    /// The verdict that was blessed, where there is one.
    pub blessed: Option<String>,
}

/// What could not be run at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Absent {
    /// What it is.
    pub title: String,
    /// Who published it.
    pub source: String,
    /// Why it could not be run.
    pub why: String,
}

impl Reproduction {
    /// The name of its file.
    pub const FILE: &str = "reproduce.json";

    /// Reads that of a directory.
    ///
    /// # Errors
    /// [`Error`] if it is not there, too long, or none.
    pub fn read(dir: &Path) -> Result<Reproduction, Error> {
        let again = "run knee reproduce again";
        read_json(&dir.join(Reproduction::FILE), "list of what was run again", again)
    }
}
