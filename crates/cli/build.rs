//! Puts the published experiments, and what was blessed of them, into the binary: `knee reproduce` needs no clone.
//!
//! They go into the command and not into knee-exp, whose users bring files of their own, so that an edited experiment
//! builds the command alone again. The list is the folder's: a macro would need one by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut out = String::new();
    let folders =
        [("EXPERIMENTS", "scenarios/published", "toml"), ("GOLDEN", "tests/golden", "txt")];
    for (constant, folder, extension) in folders {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == extension));
        paths.sort();
        let _ = writeln!(out, "pub(crate) const {constant}: &[(&str, &str)] = &[");
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let _ =
                writeln!(out, "    ({name:?}, include_str!({:?})),", path.display().to_string());
        }
        out.push_str("];\n");
    }
    let dir = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(why) = fs::write(dir.join("library.rs"), out) {
        println!("cargo::error=cannot write the list of experiments: {why}");
    }
}
