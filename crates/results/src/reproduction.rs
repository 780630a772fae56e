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
    /// [`Manifest::FORMAT`](crate::Manifest::FORMAT) of the knee that wrote it; 0: it is older than that.
    pub format: u64,
    pub full: bool,
    pub back_end: String,
    pub interrupted: bool,
    pub wall_s: Option<f64>,
    pub cpu_s: Option<f64>,
    pub sections: Vec<Section>,
    pub absent: Vec<Absent>,
}

/// Experiments of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    pub title: String,
    pub about: String,
    pub experiments: Vec<Entry>,
}

/// An experiment of a reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    pub name: String,
    /// Results directory, inside that of the reproduction; `None`: not run.
    pub dir: Option<String>,
    pub skipped: Option<String>,
    pub wall_s: Option<f64>,
    pub cpu_s: Option<f64>,
    pub claims: Vec<Claimed>,
}

/// A claim of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub name: String,
    pub verdict: ClaimVerdict,
    /// The verdict that was blessed, where there is one.
    pub blessed: Option<String>,
}

/// An experiment that was not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Absent {
    pub title: String,
    pub source: String,
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
        read_json(&dir.join(Reproduction::FILE), "list of re-run experiments", again)
    }
}
