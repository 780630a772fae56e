//! The commands of README, scenarios/README.md and docs print what the pages say.
//!
//! A block of ` ```console ` has commands after `$ `, their further lines after `> `, and below each what it prints; a line `...` stands for
//! any lines. The blocks of a page run in one directory, which is empty but for links to this tree's `tests` and `scenarios`, as in a clone.
//! What needs root, a kernel or other machines is in other blocks.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command of a page, and what it is said to print.
struct Example<'a> {
    line: usize,
    command: String,
    printed: Vec<&'a str>,
}

fn examples(page: &str) -> Vec<Example<'_>> {
    let mut found: Vec<Example<'_>> = Vec::new();
    let mut is_in_console = false;
    for (index, text) in page.lines().enumerate() {
        if text.starts_with("```") {
            is_in_console = text == "```console";
        } else if is_in_console {
            if let Some(command) = text.strip_prefix("$ ") {
                let command = command.to_owned();
                found.push(Example { line: index + 1, command, printed: Vec::new() });
                continue;
            }
            let last = found.last_mut().expect("a command comes first");
            match text.strip_prefix('>') {
                Some(more) if last.printed.is_empty() => {
                    last.command.push('\n');
                    last.command.push_str(more.strip_prefix(' ').unwrap_or(more));
                }
                _ => last.printed.push(text),
            }
        }
    }
    found
}

/// Whether lines are those of a page, in which `...` stands for any.
fn fits(printed: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|from| fits(&printed[from..], rest)),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, others)| {
            first.trim_end() == line.trim_end() && fits(others, rest)
        }),
    }
}

/// Returns what a command prints, and whether knee could not do it.
fn run(command: &str, dir: &Path) -> (String, bool) {
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_knee"));
    let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .env("PATH", path)
        .current_dir(dir)
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code() == Some(2))
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.collect();
    pages.extend(["README.md", "scenarios/README.md"].map(|page| root.join(page)));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

#[test]
fn commands_of_the_pages_print_what_the_pages_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for folder in ["tests", "scenarios"] {
            std::os::unix::fs::symlink(root.join(folder), dir.path().join(folder)).unwrap();
        }
        for example in examples(&text) {
            count += 1;
            let (printed, could_not) = run(&example.command, dir.path());
            let lines: Vec<&str> = printed.lines().collect();
            let shows_why = example.printed.iter().any(|line| line.starts_with("knee: "));
            if !fits(&lines, &example.printed) || could_not && !shows_why {
                let (page, line) = (page.display(), example.line);
                wrong.push(format!("{page}:{line}: {} prints\n{printed}", example.command));
            }
        }
    }
    assert!(count >= 10, "only {count} commands: are blocks still marked ```console?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dots_stand_for_any_lines_and_for_nothing_else() {
    assert!(fits(&["a", "b", "c"], &["a", "...", "c"]));
    assert!(fits(&["a", "c"], &["a", "...", "c", "..."]));
    assert!(!fits(&["a", "b"], &["a", "...", "c"]));
    assert!(!fits(&["a", "b"], &["a"]));
}
