//! What tests share: a file that goes away.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file in a directory of its own, which goes with it.
pub(crate) struct TestFile {
    root: PathBuf,
    path: PathBuf,
}

/// A file of this name, which may have directories before it, and this text.
pub(crate) fn file(name: &str, text: &str) -> TestFile {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("knee-report-{}-{number}", std::process::id()));
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("a temporary directory");
    std::fs::write(&path, text).expect("a temporary file");
    TestFile { root, path }
}

impl Deref for TestFile {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
