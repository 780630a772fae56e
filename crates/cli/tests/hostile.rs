//! Modules that crash, loop, recurse, write where they must not, or do not compile: a sentence each, within seconds, and other runs go on.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const EXPERIMENT: &str = r#"question = "Does it go on?"

[network]
topology = "many-to-one"
senders = 1
access = { rate = "1 Gbps" }
return = { delay = "500 us" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "100 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[run]
duration = "600 ms"
"#;

/// A loop is given two seconds of CPU time, on a machine that others use.
const SECONDS: Duration = Duration::from_secs(60);

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.toml"), EXPERIMENT).unwrap();
        Scratch(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `knee run` of a module and perhaps more.
    fn run(&self, cc: &str, more: &[&str]) -> Output {
        let began = Instant::now();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "300", env!("CARGO_BIN_EXE_knee"), "run", "x.toml"]);
        command.args(["--cc", cc, "-o", "results", "--threads", "1"]).args(more);
        command.env("XDG_CACHE_HOME", self.at("cache")).current_dir(self.0.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(began.elapsed() < SECONDS, "{cc}: {:?}", began.elapsed());
        output
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at("results").join(name)).unwrap_or_default()
    }
}

fn hostile(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/hostile");
    path.join(format!("{name}.c")).canonicalize().unwrap().display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run says that fails, in one line.
fn failure(name: &str) -> String {
    let scratch = Scratch::new();
    let output = scratch.run(&hostile(name), &[]);
    let why = said(&output);
    assert_eq!(output.status.code(), Some(2), "{name}: {why}");
    assert_eq!(why.lines().count(), 1, "{name}: {why}");
    assert!(!scratch.at("results/manifest.json").exists());
    why
}

#[test]
fn what_crashes_is_said_with_operation_line_flow_and_time() {
    let mut cases = vec![
        ("null", "null.c: cong_avoid followed a null pointer (null, null.c:13)"),
        ("recurses", "recurses.c: cong_avoid used up the stack: recursion without end"),
        (
            "outside",
            "outside.c: cong_avoid wrote behind the end of its private area (inet_csk_ca), which has 104 bytes (outside, outside.c:",
        ),
        ("bug", "bug.c:9: BUG_ON(tp->snd_cwnd > 40), where the kernel would have stopped too"),
        ("frees", "frees.c: cong_avoid stopped at kfree: it is given memory that is not allocated"),
        (
            "loops",
            "loops.c: cong_avoid has not returned after 2 s of CPU time: an endless loop (loops, loops.c:11)",
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        cases.push(("divides", "divides.c: cong_avoid divided by zero (divides, divides.c:11)"));
    }
    for (name, expected) in cases {
        let why = failure(name);
        assert!(why.contains(expected), "{name}: {why}");
        assert!(why.contains("; flow 0, at 0.") && why.contains(" s of simulated time"), "{why}");
    }
}

#[test]
fn what_cannot_be_left_ends_knee_with_a_sentence() {
    let scratch = Scratch::new();
    let output = scratch.run(&hostile("aborts"), &[]);
    let why = said(&output);
    assert!(!output.status.success(), "{why}");
    assert!(why.contains("aborts.c: cong_avoid ended the process, as the C library does where the memory of kmalloc is damaged (aborts, aborts.c:1"), "{why}");
    assert!(why.contains("; flow 0, at 0."), "{why}");
}

#[test]
fn runs_of_others_go_on_and_are_kept() {
    for name in ["null", "loops"] {
        let scratch = Scratch::new();
        let cc = format!("{},cubic", hostile(name));
        let output = scratch.run(&cc, &["--json"]);
        let why = said(&output);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains(&format!("{name}.c: cong_avoid ")), "{why}");
        assert!(why.contains("1 of 2 runs failed; the others are in results"), "{why}");
        let flows = scratch.read("flows.csv");
        assert_eq!(flows.lines().count(), 2, "{flows}");
        assert!(flows.contains(",cubic,"), "{flows}");
        assert!(scratch.read("manifest.json").contains("\"failed\""));
        let json = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(json.contains("\"runs_done\":1") && json.contains("\"failed\":["), "{json}");
    }
}

#[test]
fn what_no_algorithm_should_do_is_counted_and_said_once() {
    for (name, warning, words) in [
        ("stops", "cwnd_zero", "cong_avoid left cwnd at 0, so nothing is sent (stops, stops.c:"),
        ("wraps", "cwnd_huge", "cong_avoid left cwnd at 42939"),
        ("stays", "no_growth", "cwnd stayed at 10 packets or below for 100 RTTs"),
        ("unpaced", "pacing_zero", "the pacing rate is 0 while data waits"),
    ] {
        let scratch = Scratch::new();
        let output = scratch.run(&hostile(name), &["--json"]);
        let why = said(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {why}");
        assert!(why.contains("knee: warning: run 0 (") && why.contains(words), "{name}: {why}");
        assert!(why.contains("1 run with warnings: results/warnings.csv"), "{why}");
        let table = scratch.read("warnings.csv");
        assert!(table.lines().any(|line| line.contains(&format!(",0,bulk,{warning},"))), "{table}");
        let json = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(json.contains("\"warnings\":[\"run 0"), "{json}");
    }
    // And of what does nothing of the kind there is no word.
    let scratch = Scratch::new();
    let reno = Path::new(&hostile("null")).with_file_name("../tcp_reno.c").display().to_string();
    let output = scratch.run(&reno, &[]);
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    assert!(!scratch.at("results/warnings.csv").exists());
}

#[test]
fn what_is_missing_is_named_at_once_and_nothing_that_follows() {
    for compiler in ["gcc", "clang-19", "clang"] {
        if !Command::new(compiler).arg("--version").output().is_ok_and(|it| it.status.success()) {
            continue;
        }
        let scratch = Scratch::new();
        let module = hostile("missing");
        let run = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(["run", "x.toml", "--cc", &module]).args(more).env("CC", compiler);
            command.env("XDG_CACHE_HOME", scratch.at("cache")).current_dir(scratch.0.path());
            said(&command.output().unwrap())
        };
        let why = run(&[]);
        for (name, not) in [
            ("<net/no_such_header.h>", "header"),
            ("struct no_such_struct", "type"),
            ("no_such_type", "type"),
            ("no_such_function", "function"),
            ("NO_SUCH_CONSTANT", "variable, constant or macro"),
            ("struct tcp_sock.no_such_field", "field"),
        ] {
            let of =
                why.lines().filter(|line| line.contains(&format!("missing.c uses `{name}` (line")));
            let of: Vec<&str> = of.collect();
            assert!(
                of.len() == 1 && of[0].contains(&format!("knee's contract has no such {not}")),
                "{compiler}: {name}\n{why}"
            );
            assert!(of[0].ends_with("see docs/modules.md#contract"), "{why}");
        }
        assert_eq!(why.lines().count(), 7, "{compiler}: {why}");
        assert!(run(&["--verbose"]).contains("the compiler's words:\n"));
    }
}

#[test]
fn what_is_to_be_compiled_is_bounded_and_shows_no_other_file() {
    for (name, expected) in [
        ("bomb", "makes the compiler write more than 32 MiB"),
        ("itself", "itself.c: "),
        (
            "reads",
            "includes /etc/passwd, which is neither one of knee's headers nor in the file's own folder",
        ),
        ("calls", "uses `system`: knee's contract has no such function"),
        ("begins", "runs code when it is loaded"),
    ] {
        let scratch = Scratch::new();
        let why = said(&scratch.run(&hostile(name), &["--verbose"]));
        assert!(why.contains(expected), "{name}: {why}");
        assert!(!why.contains("root:"), "{why}");
    }
}

#[test]
fn root_takes_no_header_that_others_can_write() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let scratch = Scratch::new();
    if fs::metadata(scratch.0.path()).unwrap().uid() != 0 {
        return;
    }
    let from = PathBuf::from(hostile("stays"));
    for name in ["stays.c", "hostile.h"] {
        fs::copy(from.with_file_name(name), scratch.at(name)).unwrap();
    }
    let refused = || {
        let output = scratch.run("./stays.c", &[]);
        assert_eq!(output.status.code(), Some(2));
        said(&output)
    };
    fs::set_permissions(scratch.at("hostile.h"), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(refused().contains("root takes no header that others can have written"));
    fs::set_permissions(scratch.at("hostile.h"), fs::Permissions::from_mode(0o644)).unwrap();
    chown(scratch.at("hostile.h"), Some(65534), Some(65534)).unwrap();
    assert!(refused().contains("belongs to user 65534"));
}
