//! What can go wrong, each in one sentence.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use knee_files::{Unreadable, write_as_text};

/// Why a results directory could not be read or written.
#[derive(Debug)]
pub enum Error {
    /// A file says something that is not allowed.
    Input {
        file: PathBuf,
        /// Line in the file, from 1; 0: the whole file.
        line: u64,
        /// The fault and the way out.
        message: String,
    },
    /// A file or directory could not be read or written.
    Io {
        path: PathBuf,
        /// The failed action, as "cannot write".
        action: &'static str,
        source: io::Error,
    },
}

impl Error {
    /// About a line of a file; 0: the file as a whole.
    pub fn input(file: &Path, line: u64, message: impl Into<String>) -> Error {
        Error::Input { file: file.to_owned(), line, message: message.into() }
    }

    /// An error of the system.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }

    /// An error of a file that cannot be read.
    pub fn unreadable(path: &Path, why: Unreadable) -> Error {
        match why {
            Unreadable::Io(source) => Error::io(path, "cannot read", source),
            Unreadable::NotText { line } => Error::input(path, line.into(), why.to_string()),
            other => Error::input(path, 0, other.to_string()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Error::Input { file, line: 0, message } => format!("{}: {message}", file.display()),
            Error::Input { file, line, message } => format!("{}:{line}: {message}", file.display()),
            Error::Io { path, action, source } => format!("{}: {action}: {source}", path.display()),
        };
        // Names and values come from files.
        write_as_text(f, &sentence, &[])
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Input { .. } => None,
            Error::Io { source, .. } => Some(source),
        }
    }
}
