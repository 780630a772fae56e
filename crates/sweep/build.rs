//! Notes the commit that is built: as it is given, as git knows it, or as `git archive` wrote it into its archive.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Where `git archive` writes it (`.gitattributes`).
const NOTE: &str = "archived-commit";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NOTE}");
    println!("cargo::rerun-if-env-changed=KNEE_COMMIT");
    let given = env::var("KNEE_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(of_git).or_else(of_archive) {
        println!("cargo::rustc-env=KNEE_COMMIT={commit}");
    }
}

/// Of this tree's own repository: one that an unpacked archive happens to lie in knows nothing of it.
fn of_git() -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    // HEAD changes with the branch, its log with each commit.
    for file in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
        // A file that is not there would make cargo run this every time.
        if Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = String::from_utf8(output.ok().filter(|o| o.status.success())?.stdout).ok()?;
    Some(commit.trim().to_owned())
}

fn of_archive() -> Option<String> {
    let note = fs::read_to_string(NOTE).ok()?;
    let commit = note.split_whitespace().next()?.get(..12)?;
    commit.chars().all(|c| c.is_ascii_hexdigit()).then(|| commit.to_owned())
}
