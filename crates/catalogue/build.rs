//! Puts the experiments, and what was blessed of the published ones, into the library: it needs no clone. The lists are the
//! folders': a macro would need them by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a name stands in several, the first is meant.
const GROUPS: [&str; 3] = ["published", "examples", "hosts"];
/// Of the published ones, and none itself.
const CATALOGUE: &str = "catalogue";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut out = String::from(
        "/// All of them. Where a name stands in several groups, the first is meant.\npub const BUILT_IN: &[BuiltIn] = &[\n",
    );
    for group in GROUPS {
        for (name, path) in files(&root.join("scenarios").join(group), "toml") {
            if name != CATALOGUE {
                let _ = writeln!(
                    out,
                    "    BuiltIn {{ group: {group:?}, name: {name:?}, text: include_str!({path:?}) }},"
                );
            }
        }
    }
    out.push_str("];\nconst GOLDEN: &[(&str, &str)] = &[\n");
    for (name, path) in files(&root.join("tests/golden"), "txt") {
        let _ = writeln!(out, "    ({name:?}, include_str!({path:?})),");
    }
    out.push_str("];\n");
    let catalogue = root.join(format!("scenarios/published/{CATALOGUE}.toml"));
    let _ = writeln!(
        out,
        "const CATALOGUE: (&str, &str) = ({CATALOGUE:?}, include_str!({:?}));",
        catalogue.display().to_string()
    );
    let dir = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(why) = fs::write(dir.join("library.rs"), out) {
        println!("cargo::error=cannot write the list of experiments: {why}");
    }
}

/// Names without extension, and paths, of a folder's files.
fn files(folder: &Path, extension: &str) -> Vec<(String, String)> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == extension));
    paths.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), path.display().to_string())).collect()
}
