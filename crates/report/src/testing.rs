//! What tests share: a file that goes away.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A file in a directory of its own, which goes with it.
pub(crate) struct TestFile {
    path: PathBuf,
    _root: TempDir,
}

/// A file of this name, which may have directories before it, and this text.
pub(crate) fn file(name: &str, text: &str) -> TestFile {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join(name);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("a temporary directory");
    std::fs::write(&path, text).expect("a temporary file");
    TestFile { path, _root: root }
}

impl Deref for TestFile {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}
