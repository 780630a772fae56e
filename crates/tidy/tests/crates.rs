//! The crates that others wrote, held to `deny.toml` without its tool: licences, where they come from, and that no version is open.
//! Known weaknesses need a database that is not here: `cargo deny check advisories`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The list of a key of `deny.toml`.
fn listed(text: &str, key: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| *line != format!("{key} = [").as_str()).skip(1);
    let lines = lines.take_while(|line| *line != "]").map(str::trim);
    let entries = lines.filter(|line| !line.starts_with('#'));
    entries.map(|line| line.trim_matches(|c| c == '"' || c == ',').to_owned()).collect()
}

/// Whether licences that are allowed are enough for an expression, which `AND` binds more closely in than `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // An old way to write OR, and parentheses as words.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let is = any(&mut words, allowed);
    is && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut is = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is |= all(words, allowed);
    }
    is
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut is = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is &= one(words, allowed);
    }
    is
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => {
            let is = any(words, allowed);
            is && words.next() == Some(")")
        }
        Some(licence) => match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
            Some(exception) => allowed.iter().any(|a| *a == format!("{licence} WITH {exception}")),
            None => allowed.iter().any(|a| a == licence),
        },
        None => false,
    }
}

/// Output of `cargo metadata` for this clone and machine; `None`, with a notice, if cargo cannot.
fn metadata() -> Option<Json> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let host = Command::new("rustc").arg("-vV").output().ok()?;
    let host = String::from_utf8(host.stdout).ok()?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "))?;
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host]);
    let output = command.current_dir(root()).output().ok()?;
    if !output.status.success() {
        say(&format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    serde_json::from_slice(&output.stdout).ok()
}

#[test]
fn licences_of_crates_are_allowed() {
    let deny = fs::read_to_string(root().join("deny.toml")).expect("the tree has it");
    let allowed = listed(&deny, "allow");
    assert!(allowed.len() > 4, "{allowed:?}");
    let Some(metadata) = metadata() else {
        assert!(std::env::var_os("CI").is_none(), "cargo metadata must work here");
        say("SKIPPED: licences of crates, for want of cargo metadata");
        return;
    };
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let foreign: Vec<&Json> =
        packages.iter().filter(|package| !package["source"].is_null()).collect();
    assert!(foreign.len() > 100, "{}", foreign.len());
    let wrong: Vec<String> = foreign
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default(), &allowed))
        .map(|package| {
            format!("{} {}: {}", package["name"], package["version"], package["license"])
        })
        .collect();
    assert!(wrong.is_empty(), "not allowed by deny.toml:\n{}", wrong.join("\n"));
    say(
        "SKIPPED: known weaknesses of crates, whose database is not here: cargo deny check advisories",
    );
}

#[test]
fn crates_come_from_the_registry_or_this_tree_and_are_pinned() {
    let mut of_registry = 0;
    let text = fs::read_to_string(root().join("Cargo.lock")).expect("the tree has it");
    for package in text.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|line| line.trim_matches('"'))
        };
        let name = value("name").unwrap_or_default();
        match value("source") {
            None => assert!(name.starts_with("knee"), "{name} is of no registry"),
            Some(source) => {
                let is_registry = source == "registry+https://github.com/rust-lang/crates.io-index";
                assert!(is_registry, "{name} is from {source}");
                assert!(value("checksum").is_some(), "{name} has no checksum");
                of_registry += 1;
            }
        }
    }
    assert!(of_registry > 100, "{of_registry}");
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT AND Apache-2.0", true),
        ("(MIT OR GPL-3.0-only) AND Unicode-3.0", true),
        ("(GPL-3.0-only) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("", false),
        ("MIT )", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}
