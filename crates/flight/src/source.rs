//! The source file of a recorded algorithm.

/// A source file, identified by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// File name without its directory.
    pub name: String,
    /// SHA-256 of the content, as `sha256sum` prints it.
    pub sha256: String,
}
