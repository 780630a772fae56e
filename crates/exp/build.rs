//! Notes the commit that is built, where git knows it.

use std::path::Path;
use std::process::Command;

fn main() {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = output.ok().filter(|output| output.status.success());
    if let Some(commit) = commit.and_then(|output| String::from_utf8(output.stdout).ok()) {
        println!("cargo::rustc-env=KNEE_COMMIT={}", commit.trim());
    }
    println!("cargo::rerun-if-changed=build.rs");
    // HEAD changes with the branch, its log with each commit.
    for file in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
        // A file that is not there would make cargo run this every time.
        if Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}
