//! What can go wrong, each in one sentence.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use knee_files::Unreadable;

/// Why an experiment could not be read, run or recorded.
#[derive(Debug)]
pub enum Error {
    /// The experiment file (or an override on the command line) says something that is not allowed.
    Input {
        /// The file.
        file: PathBuf,
        /// Where in it.
        origin: Origin,
        /// The key with its path, as `network.bottleneck.rate`; empty: the file as a whole.
        key: String,
        /// The value as written; empty: no particular one.
        value: String,
        /// What was expected.
        message: String,
    },
    /// A file or directory could not be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried, as "cannot write".
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A results directory cannot be read.
    Results(knee_results::Error),
    /// The source of an algorithm does not compile.
    Source {
        /// Where it is named, and what it is.
        input: Box<Error>,
        /// What the compiler said, in its own lines.
        lines: String,
    },
    /// A back end cannot carry out what a file asks for.
    Refused {
        /// The file.
        file: PathBuf,
        /// As `--on` calls it.
        back_end: &'static str,
        /// Every reason.
        refusals: Vec<Refusal>,
    },
    /// A run could not be carried out.
    Simulation {
        /// The file.
        file: PathBuf,
        /// Which of its runs.
        run: String,
        /// Why.
        message: String,
    },
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere in particular.
    #[default]
    Nowhere,
    /// On this line of the file, from 1.
    Line(u32),
    /// In `--set`.
    CommandLine,
}

impl Error {
    pub(crate) fn input(
        file: &Path,
        origin: Origin,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Error {
        Error::Input {
            file: file.to_owned(),
            origin,
            key: key.into(),
            value: String::new(),
            message: message.into(),
        }
    }

    /// The same, with lines of somebody else's below if there are any.
    pub(crate) fn with_lines(self, lines: &str) -> Error {
        if lines.is_empty() {
            return self;
        }
        Error::Source { input: Box::new(self), lines: lines.to_owned() }
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

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }
}

impl Error {
    fn sentence(&self) -> String {
        match self {
            Error::Input { file, origin, key, value, message } => {
                let at = match origin {
                    Origin::Nowhere => String::new(),
                    Origin::Line(line) => format!("{line}:"),
                    Origin::CommandLine => " --set".into(),
                };
                let what = match (key.as_str(), value.as_str()) {
                    ("", _) => String::new(),
                    (key, "") => format!("{key}: "),
                    (key, value) => format!("{key} = {value}: "),
                };
                format!("{}:{at} {what}{message}", file.display())
            }
            Error::Io { path, action, source } => format!("{}: {action}: {source}", path.display()),
            Error::Results(error) => error.to_string(),
            Error::Source { input, .. } => input.sentence(),
            Error::Refused { file, back_end, refusals } => match refusals.as_slice() {
                [one] => format!("{}: --on {back_end}: {one}", file.display()),
                _ => format!("{}: --on {back_end} cannot run all of it:", file.display()),
            },
            Error::Simulation { file, run, message } => {
                format!("{}: {run}: {message}", file.display())
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names and values come from files, and a terminal obeys what is not text.
        let mut write = |text: &str, kept: &[char]| {
            text.chars().try_for_each(|c| match c.is_control() && !kept.contains(&c) {
                true => write!(f, "{}", c.escape_default()),
                false => write!(f, "{c}"),
            })
        };
        write(&self.sentence(), &[])?;
        match self {
            Error::Source { lines, .. } => write(&format!("\n{lines}"), &['\n', '\t']),
            Error::Refused { refusals, .. } if refusals.len() > 1 => {
                refusals.iter().try_for_each(|refusal| write(&format!("\n  {refusal}"), &['\n']))
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<knee_results::Error> for Error {
    fn from(error: knee_results::Error) -> Error {
        Error::Results(error)
    }
}

/// A reason, and the rows that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in one sentence of the back end.
    pub why: String,
    /// Which rows, in words; empty: all of them.
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
