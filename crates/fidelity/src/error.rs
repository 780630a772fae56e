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
    Exceptions { path: PathBuf, source: Box<Error> },
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    #[error("unknown key {0}: only [[exception]] is known")]
    UnknownKey(String),
    #[error("exception: must be a table")]
    NoTable,
    #[error("exception: unknown key {0}: must be case, metric or cause")]
    UnknownPart(String),
    #[error("exception: {0}: must be a text")]
    NoText(&'static str),

    #[error("{label}: {source}")]
    Run { label: String, source: knee_run::Error },
    #[error("cannot start a thread: {0}")]
    NoThread(#[source] io::Error),

    // The command line.
    #[error("{0} wants a value; see --help")]
    NoValue(String),
    #[error("{option} {value}: must be a whole number above 0")]
    NoCount { option: String, value: String },
    #[error("unknown option {0}; see --help")]
    UnknownOption(String),
}
