//! Why there is no outcome.

use std::fmt;
use std::io;
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a run has no outcome, in one sentence.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It contradicts itself, or asks for what the back end does not do. The sentence has the way out.
    #[error("{0}")]
    Refused(String),
    /// Whoever asked for it has stopped it.
    #[error("stopped")]
    Stopped,
    /// The back end failed, or lacks a requirement.
    #[error("{0}")]
    Failed(String),
    /// It takes more memory than it may.
    #[error("takes more than {limit}, mostly for {mostly}")]
    Memory {
        /// What it may take, as "the 4.3 GB of memory that a run may take".
        limit: String,
        /// What takes most of it, as "9000000 samples of flows (sample.flows)".
        mostly: String,
    },
    /// Code of a file that was named as an algorithm crashed, or does not return. Other runs are not concerned.
    #[error("{0}")]
    Algorithm(String),
    /// The same, by what the system or another crate says.
    #[error("{what}{source}")]
    Caused {
        /// The failed action, as "the guest: "; may be empty.
        what: String,
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A file that was asked for beside the outcome cannot be written.
    #[error("{}: cannot write: {source}", path.display())]
    File {
        path: PathBuf,
        /// Error of the system.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Returns whether it concerns one run alone, so that others continue.
    pub fn is_of_one_run(&self) -> bool {
        matches!(self, Error::Algorithm(_) | Error::Memory { .. })
    }
}

/// Equal are those of one kind that say the same: what a system answered cannot be compared.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        discriminant(self) == discriminant(other) && self.to_string() == other.to_string()
    }
}

impl Error {
    /// The same with where it came up before its sentence.
    #[must_use]
    pub fn at(self, place: &str) -> Error {
        match self {
            Error::Refused(why) => Error::Refused(format!("{place}: {why}")),
            Error::Failed(why) => Error::Failed(format!("{place}: {why}")),
            Error::Caused { what, source } => {
                Error::Caused { what: format!("{place}: {what}"), source }
            }
            other => other,
        }
    }
}

/// Makes an [`Error`] of what was tried and what the system answered.
pub fn failed<E>(what: impl fmt::Display) -> impl FnOnce(E) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |why| Error::Caused { what: format!("{what}: "), source: Arc::new(why) }
}

/// Makes an [`Error`] of another crate's, whose sentence says enough.
pub fn caused(why: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Caused { what: String::new(), source: Arc::new(why) }
}

/// Refuses, in one sentence with the way out.
pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_has_its_cause_and_says_where() {
        let why = failed("a timer")(io::Error::from(io::ErrorKind::OutOfMemory)).at("host h1");
        assert_eq!(why.to_string(), "host h1: a timer: out of memory");
        let source = std::error::Error::source(&why).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("out of memory"));
        assert_ne!(why, Error::Failed(why.to_string()));
        assert_eq!(caused(Error::Stopped).to_string(), "stopped");
    }
}
