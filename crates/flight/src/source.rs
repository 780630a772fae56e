//! Which file the algorithm of a recording was compiled from.

/// A file that an algorithm was compiled from: known by what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without its directory.
    pub name: String,
    /// What `sha256sum` says of it.
    pub sha256: String,
}
