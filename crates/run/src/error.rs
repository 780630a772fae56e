//! Why there is no outcome.

use std::fmt;
use std::io;
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a run has no outcome, in one sentence.
#[derive(Clone, Debug)]
pub enum Error {
    /// It contradicts itself, or asks for what the back end does not do. The sentence has the way out.
    Refused(String),
    /// Whoever asked for it has stopped it.
    Stopped,
    /// What carries it out has failed, or lacks something.
    Failed(String),
    /// A file that was asked for beside the outcome cannot be written.
    File {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: Arc<io::Error>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) | Error::Failed(why) => f.write_str(why),
            Error::Stopped => f.write_str("stopped"),
            Error::File { path, source } => {
                write!(f, "{}: cannot write: {source}", path.display())
            }
        }
    }
}

/// Equal are those of one kind that say the same: what a system answered cannot be compared.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        discriminant(self) == discriminant(other) && self.to_string() == other.to_string()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// The same with where it came up before its sentence.
    #[must_use]
    pub fn at(self, place: &str) -> Error {
        match self {
            Error::Refused(why) => Error::Refused(format!("{place}: {why}")),
            Error::Failed(why) => Error::Failed(format!("{place}: {why}")),
            other => other,
        }
    }
}

/// Makes an [`Error`] of what was tried and what the system answered.
pub fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Error {
    move |why| Error::Failed(format!("{what}: {why}"))
}
