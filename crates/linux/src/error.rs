//! Why something cannot take place.

/// Why a run or a build cannot take place, in one sentence with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Makes an [`Error`] of what was tried and what the system answered.
pub fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Error {
    move |why| Error(format!("{what}: {why}"))
}
