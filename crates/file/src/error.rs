//! Errors of configuration files, each in one sentence.

use std::fmt;
use std::path::{Path, PathBuf};

use knee_files::write_as_text;

/// A file, or an override on the command line, says something that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub file: PathBuf,
    pub origin: Origin,
    /// The key with its path, as `network.bottleneck.rate`; empty: the file as a whole.
    pub key: String,
    /// The value as written; empty: no particular one.
    pub value: String,
    /// The expected value, in words.
    pub message: Box<str>,
    /// What few errors have, apart so that results stay small.
    pub more: Box<More>,
}

/// What few errors have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// What set or replaced the key, if it was not where `origin` is alone: a case, a varied value, `--set`; usually empty.
    pub set_by: String,
    /// Output of a compiler or another tool; usually empty.
    pub lines: String,
    /// The words that are allowed, where the value or key is one of some; usually empty.
    pub allowed: Vec<String>,
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere in particular.
    #[default]
    Nowhere,
    /// On this line of the file, from 1.
    Line(u32),
    /// Not in the file, but by this, in the words of whoever calls: the option `--set`.
    Given(&'static &'static str),
}

/// What is wrong with a value, and what it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// The expected value, in words.
    pub message: String,
    /// The words that are allowed, where it is one of some.
    pub allowed: Vec<String>,
}

impl From<String> for Reason {
    fn from(message: String) -> Reason {
        Reason { message, allowed: Vec::new() }
    }
}

impl From<&str> for Reason {
    fn from(message: &str) -> Reason {
        message.to_owned().into()
    }
}

impl From<std::borrow::Cow<'_, str>> for Reason {
    fn from(message: std::borrow::Cow<'_, str>) -> Reason {
        message.into_owned().into()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// About a key, or with an empty one about the file, and no particular value.
    pub fn new(
        file: &Path,
        origin: Origin,
        key: impl Into<String>,
        reason: impl Into<Reason>,
    ) -> Error {
        let Reason { message, allowed } = reason.into();
        Error {
            file: file.to_owned(),
            origin,
            key: key.into(),
            value: String::new(),
            message: message.into(),
            more: Box::new(More { allowed, ..More::default() }),
        }
    }

    /// Adds the value to the error.
    pub fn with_value(self, value: String) -> Error {
        Error { value, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.origin {
            Origin::Nowhere => String::new(),
            Origin::Line(line) => format!("{line}:"),
            Origin::Given(by) => format!(" {by}"),
        };
        let what = match (self.key.as_str(), self.value.as_str()) {
            ("", _) => String::new(),
            (key, "") => format!("{key}: "),
            (key, value) => format!("{key} = {value}: "),
        };
        let set_by = match self.more.set_by.as_str() {
            "" => String::new(),
            set_by => format!(" ({set_by})"),
        };
        let sentence = format!("{}:{at} {what}{}{set_by}", self.file.display(), self.message);
        write_as_text(f, &sentence, &[])?;
        match self.more.lines.as_str() {
            "" => Ok(()),
            lines => write_as_text(f, &format!("\n{lines}"), &['\n', '\t']),
        }
    }
}

impl std::error::Error for Error {}

// Functions return results that are moved, most of them without an error.
const _: () = assert!(size_of::<Error>() <= 112);

impl std::error::Error for Reason {}
