//! All that knee writes goes through `knee_files`, which keeps root out of directories that others can change. A write in any other
//! way would be a door that nobody looks at.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources that change the file system themselves, each with the reason. A path that ends in `/` means all below it.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("crates/files/src/", "the one place"),
    ("crates/testbed/src/", "tests only"),
    ("crates/report/src/testing.rs", "tests only"),
    ("crates/bpf/src/host/", "/run/knee and the BPF file system, which `bpffs.rs` checks"),
    ("crates/bpf/src/label.rs", "pins, below the same directory"),
    ("crates/lab/src/switch/priority.rs", "writes to /proc"),
    ("crates/lab/src/site/settings.rs", "writes to /proc/sys"),
    ("crates/netns/src/own.rs", "writes to /proc/sys"),
    ("crates/script/src/kernel/device.rs", "writes to /proc/sys, opens /dev/net/tun"),
    ("crates/algo/src/module/confine.rs", "opens to read only"),
];

/// What changes the file system; a word before it belongs to it (`HostFile::create` is none of these).
const CALLS: [&str; 18] = [
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::create_dir",
    "fs::remove_",
    "fs::hard_link(",
    "fs::soft_link(",
    "fs::set_permissions(",
    "unix::fs::symlink",
    "unix::fs::chown",
    "fs::File::create",
    "File::options(",
    "OpenOptions",
    "DirBuilder",
    "mkdtemp",
    "unlinkat(",
    "renameat(",
    "mkdirat(",
];
/// The same in a list of imports.
const IMPORTED: [&str; 8] = [
    "write",
    "copy",
    "rename",
    "create_dir",
    "create_dir_all",
    "remove_file",
    "remove_dir",
    "remove_dir_all",
];

fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// The text without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// What a line changes the file system with.
fn call(line: &str, imports_file: bool) -> Option<&'static str> {
    let code = line.split("//").next().unwrap_or(line);
    let is_word_before =
        |at: usize| code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut files = code.match_indices("File::create");
    if imports_file && files.any(|(at, _)| !is_word_before(at) && !code[..at].ends_with("::")) {
        return Some("File::create");
    }
    let imports = code.trim_start().strip_prefix("use std::fs::").and_then(|list| {
        let words: Vec<&str> = list.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        IMPORTED.into_iter().find(|name| words.contains(name))
    });
    let calls = || {
        CALLS.into_iter().find(|call| code.match_indices(call).any(|(at, _)| !is_word_before(at)))
    };
    imports.or_else(calls)
}

#[test]
fn files_are_written_in_one_place_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for one in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        sources(&one.path().join("src"), &mut all);
    }
    assert!(all.len() > 100, "only {} sources", all.len());
    let mut found = Vec::new();
    let mut used = [false; EXCEPTIONS.len()];
    for path in all {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let is_test = name.ends_with("/tests.rs") || name.contains("/src/tests/");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let text = without_tests(&text);
        let imports_file = text.lines().any(|line| {
            line.starts_with("use std::fs")
                && line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "File")
        });
        let excepted = EXCEPTIONS.iter().position(|(except, _)| match except.ends_with('/') {
            true => name.starts_with(except),
            false => name == *except,
        });
        for (number, line) in text.lines().enumerate() {
            let Some(call) = call(line, imports_file).filter(|_| !is_test) else { continue };
            match excepted {
                Some(at) => used[at] = true,
                None => found.push(format!("{name}:{}: {call}", number + 1)),
            }
        }
    }
    assert!(
        found.is_empty(),
        "write through knee_files, or say in crates/tidy/tests/writes.rs why not:\n{}",
        found.join("\n")
    );
    for ((except, why), is_used) in EXCEPTIONS.iter().zip(used) {
        assert!(is_used, "{except} ({why}) needs no exception any more");
    }
}

#[test]
fn calls_are_told_from_words_like_them() {
    for line in [
        "    std::fs::write(path, text)?;",
        "let made = fs::create_dir_all(dir);",
        "OpenOptions::new().create(true)",
        "use std::fs::{self, rename};",
        "let file = File::create(path)?;",
        "std::os::unix::fs::symlink(a, b)?;",
    ] {
        assert!(call(line, true).is_some(), "{line}");
    }
    for line in [
        "    knee_files::write(path, text)?;",
        "HostFile::create(dir, name)",
        "NewFile::create(path)",
        "// fs::write(path) is elsewhere",
        "use std::fs::{self, File};",
        "fs::read_to_string(path)",
        "knee_files::rename(a, b)",
    ] {
        assert!(call(line, true).is_none(), "{line}");
    }
    assert!(call("File::create(&path, &interfaces)", false).is_none());
}
