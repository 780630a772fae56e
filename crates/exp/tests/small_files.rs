//! Small files that would be large lists: refused in little memory and time.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Command;

use knee_exp::{Experiment, Overrides};

/// Address space of the process that reads a file, KiB, with what the test's own program and its threads have; and its CPU time, s.
const MOST_KIB: u32 = 500_000;
const MOST_CPU_S: u32 = 10;
/// Says which file the test's own program reads.
const WHICH: &str = "KNEE_SMALL_FILE";

fn with(from: &str, queue: &str) -> String {
    format!(
        r#"question = "?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 10000
access = {{ rate = "1 Gbps" }}
bottleneck = {{ rate = "1 Gbps", queue = {queue} }}

[[traffic]]
name = "bulk"
kind = "bulk"
from = {from}
to = "r"
size = "10 kB"

[run]
duration = "1 s"
"#
    )
}

const DROPS: &str = r#"{ kind = "droptail", limit = "100 pkts" }"#;

fn ranges(count: usize) -> String {
    format!("[{}]", vec!["\"s1..s10000\""; count].join(", "))
}

/// Files by name, and what is said of them.
fn files() -> Vec<(&'static str, String, &'static str)> {
    let two = |count| {
        format!(r#"{{ kind = "two-buffers", second = {}, queue = {DROPS} }}"#, ranges(count))
    };
    let long = "s".repeat(50_000);
    vec![
        ("inputs", with("\"s1\"", &two(70_000)), "must name at most 10000 in all, not 700000000"),
        ("distinct-inputs", with("\"s1\"", &two(1)), "must name at most 200 inputs, not 10000"),
        ("senders", with(&ranges(70_000), DROPS), "must name at most 10000 in all, not 700000000"),
        (
            "long-names",
            with(&format!("\"{long}1..{long}10000\""), DROPS),
            "must be a host or a range of hosts, as in \"s1..s10\"",
        ),
        // Each of them has the list of sizes, which is there once. What is wrong comes after it.
        (
            "each",
            with("\"s1..s10000\"", DROPS)
                .replace("size =", "each = true\nsize =")
                .replace("\"10 kB\"", &format!("[{}]", vec!["\"1 kB\""; 50_000].join(", ")))
                .replace("\"1 s\"", "\"0 s\""),
            "must be above 0 s, as in \"2 s\"",
        ),
    ]
}

#[test]
fn lists_are_counted_before_they_are_made() {
    let which = std::env::var(WHICH).ok();
    for (name, text, expected) in files() {
        if which.as_deref() == Some(name) {
            let why = Experiment::parse(Path::new("small.toml"), &text, &Overrides::default());
            let why = why.map(|_| ()).unwrap_err().to_string();
            assert!(why.ends_with(expected), "{}", why.chars().take(300).collect::<String>());
            assert!(!why.contains('\n'), "{why}");
        }
        if which.is_some() {
            continue;
        }
        let this = std::env::current_exe().unwrap();
        let limited =
            format!("ulimit -v {MOST_KIB} && ulimit -t {MOST_CPU_S} && exec \"$0\" \"$@\"");
        let mut child = Command::new("sh");
        child.arg("-c").arg(limited).arg(this).env(WHICH, name).env("RUST_BACKTRACE", "0");
        child.args(["--exact", "lists_are_counted_before_they_are_made", "--test-threads=1"]);
        let done = child.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{name}: {} {said}", done.status);
    }
}
