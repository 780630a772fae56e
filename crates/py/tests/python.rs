//! Runs the tests of the Python package with the module that cargo has built beside this test. So nothing is compiled for them alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the environment of set-up is there. Without it the tests are left out, which is said, unless they must run.
fn has_environment() -> bool {
    // As the script has it, where it is run.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let is_there = root().join(target).join("venv/made-of").is_file();
    let must = std::env::var_os("KNEE_REQUIRE_PYTHON").is_some_and(|value| value == "1");
    assert!(is_there || !must, "target/venv is missing: scripts/python venv");
    if !is_there {
        // Not eprintln!, whose text the harness keeps to itself when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the Python package, without target/venv (scripts/python venv)"
        );
    }
    is_there
}

/// The module, beside this test: cargo has built it for tests, and only `cargo build` puts it elsewhere.
fn module() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.with_file_name("lib_knee.so")
}

fn script(args: &[&str]) {
    if !has_environment() {
        return;
    }
    let mut command = Command::new(root().join("scripts/python"));
    let output = command.args(args).current_dir(root()).output();
    let output = output.expect("scripts/python runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}

/// Runs a command with the package around the module.
fn with_module(command: &[&str]) {
    let module = module();
    script(&[&["with", module.to_str().expect("a path of text")], command].concat());
}

#[test]
fn the_package_does_what_it_says() {
    with_module(&["python", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
}

#[test]
fn notebooks_run() {
    let all = "for book in notebooks/*.py; do KNEE_NOTEBOOK_REPEAT=3 python -P $book; done";
    with_module(&["sh", "-ec", all]);
}

#[test]
fn types_and_style_hold() {
    script(&["style"]);
}
