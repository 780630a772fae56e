//! Errors of this crate, each in one sentence.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use knee_file::{Origin, Reason};
use knee_files::Unreadable;
use knee_files::write_as_text;

/// Reason why an experiment could not be read, run or recorded.
#[derive(Debug)]
pub enum Error {
    /// The experiment file, or an override on the command line, contains something invalid.
    Input(knee_file::Error),
    /// A file or directory could not be read or written.
    Io {
        path: PathBuf,
        /// The failed action, as "cannot write".
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A results directory cannot be read.
    Results(knee_results::Error),
    /// A back end cannot carry out what a file asks for.
    Refused {
        file: PathBuf,
        /// Name of the back end in `--on`.
        back_end: &'static str,
        /// All reasons.
        refusals: Vec<Refusal>,
    },
    /// A run could not be carried out.
    Simulation { file: PathBuf, run: String, source: knee_run::Error },
}

impl Error {
    /// Returns whether the error concerns one run alone, so that the others continue.
    pub fn is_of_one_run(&self) -> bool {
        matches!(self, Error::Simulation { source, .. } if source.is_of_one_run())
    }

    /// Makes the error of a key of a file, or of an option in its place.
    pub fn input(
        file: &Path,
        origin: Origin,
        key: impl Into<String>,
        reason: impl Into<Reason>,
    ) -> Error {
        knee_file::Error::new(file, origin, key, reason).into()
    }

    pub(crate) fn unreadable(path: &Path, why: Unreadable) -> Error {
        match why {
            Unreadable::Io(source) => Error::io(path, "cannot read", source),
            Unreadable::NotText { line } => {
                Error::input(path, Origin::Line(line), "", why.to_string())
            }
            other => Error::input(path, Origin::Nowhere, "", other.to_string()),
        }
    }

    /// Makes the error of a file or directory. The action is as in [`Error::Io`].
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }
}

impl From<knee_file::Error> for Error {
    fn from(error: knee_file::Error) -> Error {
        Error::Input(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = String::new();
        let sentence = match self {
            Error::Input(error) => return write!(f, "{error}"),
            Error::Results(error) => error.to_string(),
            Error::Io { path, action, source } => format!("{}: {action}: {source}", path.display()),
            Error::Refused { file, back_end, refusals } => match refusals.as_slice() {
                [one] => format!("{}: --on {back_end}: {one}", file.display()),
                _ => {
                    lines = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
                    format!("{}: --on {back_end} cannot run all of it:", file.display())
                }
            },
            Error::Simulation { file, run, source } => {
                format!("{}: {run}: {source}", file.display())
            }
        };
        // Names and values come from files, so they are escaped.
        write_as_text(f, &sentence, &[])?;
        write_as_text(f, &lines, &['\n'])
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Input(source) => Some(source),
            Error::Io { source, .. } => Some(source),
            Error::Results(source) => Some(source),
            Error::Simulation { source, .. } => Some(source),
            Error::Refused { .. } => None,
        }
    }
}

impl From<knee_results::Error> for Error {
    fn from(error: knee_results::Error) -> Error {
        Error::Results(error)
    }
}

/// A reason, and the rows that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, in one sentence of the back end.
    pub why: String,
    /// Affected rows, as text. Empty means all.
    pub of: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of.as_str() {
            "" => write!(f, "{}", self.why),
            of => write!(f, "{of}: {}", self.why),
        }
    }
}
