//! Errors of reference data and options.

use std::io;
use std::path::PathBuf;

/// Why it could not be compared, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Unprinted(#[source] io::Error),
    #[error("cannot make JSON: {0}")]
    Json(#[from] serde_json::Error),

    // The reference.
    #[error("{file}: {source}")]
    Csv { file: String, source: csv::Error },
    #[error("{file}: line {line}: {column} = {value:?}: must be {wanted}")]
    Cell { file: String, line: u64, column: String, value: String, wanted: &'static str },

    // The list of exceptions.
    #[error("{}: {source}", path.display())]
    Exceptions { path: PathBuf, source: toml::de::Error },
    #[error("{label}: {source}")]
    Run { label: String, source: knee_run::Error },
    #[error("cannot start a thread: {0}")]
    NoThread(#[source] io::Error),
}
