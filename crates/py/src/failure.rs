//! Errors and panics as exceptions of Python.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use knee_file::Origin;
use knee_scenario::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Reason why something could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A sentence of knee about what the user gave: `knee.ExperimentError`.
    Says(Said),
    /// An exception that Python code raised meanwhile.
    Raised(PyErr),
}

/// A sentence and what it is about.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) sentence: String,
    /// Path of the key.
    pub(crate) key: Option<String>,
    /// Line in the text of the experiment, from 1.
    pub(crate) line: Option<u32>,
    /// What is allowed, in words.
    pub(crate) allowed: Option<String>,
}

impl Failure {
    pub(crate) fn says(why: impl std::fmt::Display) -> Failure {
        Failure::Says(Said { sentence: why.to_string(), ..Said::default() })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let sentence = error.to_string();
        let Error::Input(input) = &error else {
            return Failure::Says(Said { sentence, ..Said::default() });
        };
        let line = match input.origin {
            Origin::Line(line) => Some(line),
            _ => None,
        };
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let allowed = match input.more.allowed.as_slice() {
            [] => some(&input.message),
            words => Some(words.join(", ")),
        };
        Failure::Says(Said { sentence, key: some(&input.key), line, allowed })
    }
}

impl From<knee_results::Error> for Failure {
    fn from(error: knee_results::Error) -> Failure {
        Failure::says(error)
    }
}

impl From<PyErr> for Failure {
    fn from(raised: PyErr) -> Failure {
        Failure::Raised(raised)
    }
}

impl Failure {
    fn into_exception(self, py: Python<'_>) -> PyErr {
        let said = match self {
            Failure::Raised(raised) => return raised,
            Failure::Says(said) => said,
        };
        let Said { sentence, key, line, allowed } = said;
        let made = py
            .import("knee._errors")
            .and_then(|module| module.getattr("ExperimentError"))
            .and_then(|class| class.call1((sentence, key, line, allowed)));
        made.map_or_else(|why| why, PyErr::from_value)
    }
}

/// Does something without Python's lock. A panic becomes an exception, as every other failure.
pub(crate) fn apart<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(failure)) => Err(failure.into_exception(py)),
        Err(panic) => Err(PyRuntimeError::new_err(format!(
            "knee panicked: {}: this is a bug",
            message(&*panic)
        ))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Panics, for the test that panics are exceptions.
#[pyfunction]
pub(crate) fn panic(py: Python<'_>) -> PyResult<()> {
    apart(py, || panic!("as asked"))
}
