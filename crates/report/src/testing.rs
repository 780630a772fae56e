//! What tests share: files that are removed with the process's temporary directory.

use std::path::PathBuf;

/// A file of this text in a directory of this process.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("knee-report-{}", std::process::id()));
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("a temporary directory");
    std::fs::write(&path, text).expect("a temporary file");
    path
}
