//! The project's scripts.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use knee_script::Script;

/// Every script of `tests/scripts` with its name there, in order.
pub(crate) fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let mut found = Vec::new();
    collect(&root, &mut found);
    found.sort();
    assert!(!found.is_empty());
    found
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The same, read.
#[allow(dead_code, reason = "not every test of this folder reads them")]
pub(crate) fn scripts() -> Vec<Script> {
    let read = |(name, text): (String, String)| {
        Script::parse(&name, &text).unwrap_or_else(|why| panic!("{why}"))
    };
    texts().into_iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "script") {
            found.push(path);
        }
    }
}
