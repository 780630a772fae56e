//! Parameters and internal values of algorithms, and errors in names and values that users give.

use std::sync::Arc;

use crate::Algorithm;

/// Choices of a Boolean parameter, as the kernel shows them.
pub(crate) const SWITCH: [&str; 2] = ["N", "Y"];

/// A parameter of an algorithm.
#[derive(Clone, Debug)]
pub struct ParamInfo {
    /// Key of the parameter in `params` of an experiment file.
    pub name: &'static str,
    /// Default value.
    pub default: u32,
    /// Smallest allowed value.
    pub min: u32,
    /// Largest allowed value.
    pub max: u32,
    /// Values are two's complement, like an `int` parameter of a module. They print and compare as
    /// signed numbers.
    pub is_signed: bool,
    /// Names of the values 0, 1, ...; empty for a plain number.
    pub choices: Vec<&'static str>,
    /// Meaning of the parameter, in one phrase.
    pub meaning: &'static str,
}

impl ParamInfo {
    /// Formats a value for users.
    pub fn show(&self, value: u32) -> String {
        match self.choices.get(value as usize) {
            Some(choice) => (*choice).to_owned(),
            None if self.is_signed => (value as i32).to_string(),
            None => value.to_string(),
        }
    }

    /// Returns whether the parameter may have this value.
    pub fn allows(&self, value: u32) -> bool {
        if self.is_signed {
            return (self.min as i32..=self.max as i32).contains(&(value as i32));
        }
        (self.min..=self.max).contains(&value)
    }

    /// Describes the allowed values in words.
    pub fn range(&self) -> String {
        match self.choices.as_slice() {
            [] => format!("{} to {}", self.show(self.min), self.show(self.max)),
            choices => choices.join(" | "),
        }
    }

    pub(crate) fn parse(&self, text: &str) -> Option<u32> {
        if let Some(index) = self.choices.iter().position(|choice| *choice == text) {
            return Some(index as u32);
        }
        if self.choices == SWITCH && matches!(text, "false" | "true") {
            return Some(u32::from(text == "true"));
        }
        let value = match self.is_signed {
            true => text.parse::<i32>().ok()? as u32,
            false => text.parse().ok()?,
        };
        self.allows(value).then_some(value)
    }

    pub(crate) fn allowed(&self) -> String {
        if self.choices.is_empty() {
            format!("a whole number from {}", self.range())
        } else {
            format!("one of {}", self.choices.join(", "))
        }
    }
}

/// An internal value of an algorithm that can be inspected.
#[derive(Clone, Copy, Debug)]
pub struct DiagInfo {
    /// Name, used as the column of a series.
    pub name: &'static str,
    /// Unit; empty if there is none.
    pub unit: &'static str,
    /// Names of the values 0, 1, ..., as `A|B`; empty for a plain number.
    pub choices: &'static str,
    /// The 64 bits are two's complement.
    pub is_signed: bool,
}

/// Parameter values of flows, in the order of [`Algorithm::params`]. Clones share their memory, so that
/// it stays in a near cache however many flows there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params(pub(crate) Arc<[u32]>);

impl Params {
    /// Returns the raw values, in the order of [`Algorithm::params`].
    pub fn values(&self) -> &[u32] {
        &self.0
    }
}

/// An error in a name or a value that the user gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The algorithm does not exist. Holds the name and the known names.
    #[error("no algorithm \"{}\"; there are {}", .0, those_there_are())]
    UnknownAlgorithm(String),
    /// A file was given where only built-in algorithms are possible. Holds its path.
    #[error(
        "\"{}\" is a file, which knee run and knee load take; here it takes one of {}",
        .0,
        those_there_are()
    )]
    FileHere(String),
    /// The algorithm has no such parameter.
    #[error("{}", no_param(algorithm, name, known))]
    UnknownParam {
        algorithm: &'static str,
        /// The given name.
        name: String,
        known: Vec<&'static str>,
    },
    /// The file cannot be an algorithm. Holds the reason and the way out.
    #[error("{0}")]
    File(String),
    /// The algorithm is part of a kernel, so its code is not in this process. Holds its name.
    #[error(
        "kernel:{0} is the kernel's own, which knee has no file of: name its source (--cc ./tcp_{0}.c), or run it on a kernel (--on vkernel)"
    )]
    Elsewhere(&'static str),
    /// The file is the source of a Linux module where a file on the contract is needed. Holds its
    /// path.
    #[error(
        "{0}: this is a Linux module; the rules are for files on the contract (docs/modules.md)"
    )]
    KernelModule(String),
    /// The value is not allowed.
    #[error("{algorithm}: {name} = \"{value}\": must be {allowed}")]
    BadValue {
        algorithm: &'static str,
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The allowed values, in words.
        allowed: String,
    },
}

fn those_there_are() -> String {
    let names: Vec<_> = Algorithm::all().iter().map(Algorithm::name).collect();
    names.join(", ")
}

fn no_param(algorithm: &str, name: &str, known: &[&str]) -> String {
    match known {
        [] => format!("{algorithm} has no parameters, so no \"{name}\""),
        known => format!("{algorithm} has no parameter \"{name}\"; it has {}", known.join(", ")),
    }
}
