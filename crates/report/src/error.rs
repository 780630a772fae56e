//! Why there is no report.

use std::fmt;

use knee_files::write_as_text;

/// Why a report could not be written.
#[derive(Debug)]
pub enum Error {
    /// The results cannot be read, or the report cannot be written.
    Results(knee_results::Error),
    /// Captures could not be analysed; why, in a sentence.
    Analysis(String),
}

impl From<knee_results::Error> for Error {
    fn from(error: knee_results::Error) -> Error {
        Error::Results(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Results(error) => write!(f, "{error}"),
            Error::Analysis(why) => write_as_text(f, why, &[]),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Results(source) => Some(source),
            Error::Analysis(_) => None,
        }
    }
}
