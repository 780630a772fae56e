//! Parameters and inside views of algorithms, and what is wrong with names and values that people give.

use std::fmt;

use crate::Algorithm;

/// Choices of a parameter that is on or off, as the kernel shows it.
pub(crate) const SWITCH: [&str; 2] = ["N", "Y"];

/// A parameter of an algorithm.
#[derive(Clone, Debug)]
pub struct ParamInfo {
    /// As in an experiment file's `params`.
    pub name: &'static str,
    /// The value if none is given.
    pub default: u32,
    /// Smallest value allowed.
    pub min: u32,
    /// Largest value allowed.
    pub max: u32,
    /// Values are two's complement, as a module's `int` is: they show and compare as signed.
    pub is_signed: bool,
    /// Names of the values 0, 1, ...; empty: a plain number.
    pub choices: Vec<&'static str>,
    /// What it does, one phrase.
    pub meaning: &'static str,
}

impl ParamInfo {
    /// The value as a person writes it.
    pub fn show(&self, value: u32) -> String {
        match self.choices.get(value as usize) {
            Some(choice) => (*choice).to_owned(),
            None if self.is_signed => (value as i32).to_string(),
            None => value.to_string(),
        }
    }

    /// Whether it may have this value.
    pub fn allows(&self, value: u32) -> bool {
        if self.is_signed {
            return (self.min as i32..=self.max as i32).contains(&(value as i32));
        }
        (self.min..=self.max).contains(&value)
    }

    /// What it may be, in words.
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

/// A value inside an algorithm, for inspection.
#[derive(Clone, Copy, Debug)]
pub struct DiagInfo {
    /// Name, as a column of a series.
    pub name: &'static str,
    /// Unit; empty: none.
    pub unit: &'static str,
    /// Names of the values 0, 1, ..., as `A|B`; empty: a plain number.
    pub choices: &'static str,
    /// Whether its 64 bits are two's complement.
    pub is_signed: bool,
}

/// Parameter values of one flow, in the order of [`Algorithm::params`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params(pub(crate) Box<[u32]>);

impl Params {
    /// The raw values, in the order of [`Algorithm::params`].
    pub fn values(&self) -> &[u32] {
        &self.0
    }
}

/// What is wrong with a name or a value given by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such algorithm; holds the name and those there are.
    UnknownAlgorithm(String),
    /// A file, where only algorithms that are built in will do; holds its path.
    FileHere(String),
    /// The algorithm has no such parameter.
    UnknownParam {
        algorithm: &'static str,
        /// The name given.
        name: String,
        known: Vec<&'static str>,
    },
    /// A file that was named as an algorithm cannot be one; says why, and the way out.
    File(String),
    /// A kernel's own, whose code is not here; holds its name.
    Elsewhere(&'static str),
    /// The source of a Linux module, where a file on the contract is meant; holds its path.
    KernelModule(String),
    /// The value is not allowed.
    BadValue {
        algorithm: &'static str,
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// What is allowed, in words.
        allowed: String,
    },
}

fn those_there_are() -> String {
    let names: Vec<_> = Algorithm::all().iter().map(Algorithm::name).collect();
    names.join(", ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownAlgorithm(name) => {
                write!(f, "no algorithm \"{name}\"; there are {}", those_there_are())
            }
            Error::FileHere(name) => write!(
                f,
                "\"{name}\" is a file, which knee run and knee load take; here it takes one of {}",
                those_there_are()
            ),
            Error::File(why) => f.write_str(why),
            Error::Elsewhere(name) => write!(
                f,
                "kernel:{name} is the kernel's own, which knee has no file of: name its source (--cc ./tcp_{name}.c), or run it on a \
                 kernel (--on vkernel)"
            ),
            Error::KernelModule(path) => write!(
                f,
                "{path}: this is a Linux module; the rules are for files on the contract (docs/modules.md)"
            ),
            Error::UnknownParam { algorithm, name, known } if known.is_empty() => {
                write!(f, "{algorithm} has no parameters, so no \"{name}\"")
            }
            Error::UnknownParam { algorithm, name, known } => {
                write!(f, "{algorithm} has no parameter \"{name}\"; it has {}", known.join(", "))
            }
            Error::BadValue { algorithm, name, value, allowed } => {
                write!(f, "{algorithm}: {name} = \"{value}\": must be {allowed}")
            }
        }
    }
}

impl std::error::Error for Error {}
