//! Whatever a name leads to, a command says in a sentence why it cannot read it, at once.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory that goes away, with a named pipe, a directory, and files that are too long for anything.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let made = tempfile::tempdir().unwrap();
        let dir = made.path();
        fs::create_dir(dir.join("folder")).unwrap();
        assert!(Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
        for name in ["long", "long.c", "long.script"] {
            // A file with a hole: no disk holds it.
            File::create(dir.join(name)).unwrap().set_len(1 << 40).unwrap();
        }
        Scratch(made)
    }
}

fn scenario() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples/two-flows.toml")
}

/// Under a limit of address space that a file read without bound does not fit into, and of time.
fn knee(scratch: &Scratch, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", "prlimit", "--as=2147483648"]);
    command.arg(env!("CARGO_BIN_EXE_knee")).args(args).current_dir(scratch.0.path());
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn what_is_no_file_of_its_kind_is_refused_in_a_sentence() {
    let scratch = Scratch::new();
    let scenario = scenario().display().to_string();
    let mut commands: Vec<(&str, Vec<&str>)> = vec![
        ("experiment file", vec!["run", "FILE"]),
        ("experiment file", vec!["explain", "./FILE"]),
        ("experiment file", vec!["script", "--record", "FILE.toml"]),
        ("packet script", vec!["script", "FILE"]),
        ("algorithm's source", vec!["check", "FILE.c"]),
        ("algorithm's source", vec!["run", &scenario, "--cc", "./FILE.c"]),
        ("recording", vec!["replay", "FILE"]),
        ("capture", vec!["script", "--record", "FILE"]),
        ("capture", vec!["pcap", "FILE"]),
        ("capture", vec!["pcap", "--report", "FILE.html", "FILE"]),
        ("manifest of knee run", vec!["compare", "results", "results"]),
        ("manifest of knee run", vec!["report", "results"]),
    ];
    if cfg!(feature = "kernel") {
        commands.push(("policy file", vec!["policy", "apply", "FILE"]));
        commands.push(("file of machines", vec!["run", &scenario, "--on", "hosts=FILE"]));
    }
    let results = scratch.0.path().join("results");
    fs::create_dir(&results).unwrap();
    for (what, args) in &commands {
        for (target, is) in [
            ("pipe", "is a named pipe, not "),
            ("folder", "is a directory, not "),
            ("/dev/zero", "is a device, not "),
            ("long", "is longer than "),
        ] {
            let streamed = ["recording", "capture"].contains(what);
            // Scripts of a folder are played, and what is read as it comes has no largest size.
            if *what == "packet script" && target == "folder" || streamed && target == "long" {
                continue;
            }
            for name in ["FILE", "FILE.c", "FILE.toml", "results/manifest.json"] {
                let link = scratch.0.path().join(name);
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(scratch.0.path().join(target), link).unwrap();
            }
            let output = knee(&scratch, args);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?} of {target}: {said}");
            // A report is of whichever of its files is there.
            let is =
                if args[0] == "report" && target != "long" { "holds no manifest.json" } else { is };
            assert!(
                said.contains(is) && (said.contains(what) || is.starts_with("holds")),
                "{args:?} of {target}: {said}"
            );
            assert_eq!(said.lines().count(), 1, "{args:?} of {target}: {said}");
        }
    }
}

#[test]
fn a_pipe_that_was_given_is_a_file() {
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command
        .args(["run", "--check", "/dev/stdin"])
        .current_dir(scratch.0.path())
        .stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(scenario()).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("can run with"), "{said}");
}

#[test]
fn programs_get_an_error_as_json() {
    let scratch = Scratch::new();
    let scenario = scenario().display().to_string();
    let run = ["run", &scenario, "--repeat", "1", "--json", "-o", "results"];
    assert!(knee(&scratch, &run).status.success());
    let again = "results: cannot write here: it already holds results (runs.csv): choose another \
        directory with -o, or remove it";
    for (args, expected) in [
        (&run[..], again),
        (&["compare", "none", "none", "--json"], "none/manifest.json: cannot read: "),
        (&["replay", "pipe", "--json"], "pipe: is a named pipe, not a recording"),
        (&["pcap", "folder", "--json"], "folder: is a directory, not a capture"),
        (&["algorithms", "nonesuch", "--json"], "no algorithm \"nonesuch\""),
        (&["reproduce", "incats", "--json"], "did you mean \"incast\"?"),
        // Also of what the command line is no command for.
        (&["run", "--json", "--nonesuch"], "unexpected argument '--nonesuch' found"),
    ] {
        let output = knee(&scratch, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(expected), "{args:?}: {error}");
        assert_eq!(answer.as_object().unwrap().len(), 1);
        assert!(String::from_utf8_lossy(&output.stderr).contains(error), "{args:?}");
    }
    // What there is to say of several files is one answer, which says of each what is wrong.
    for args in [["check", "pipe", "--json"], ["script", "pipe", "--json"]] {
        let output = knee(&scratch, &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer[0]["file"], "pipe", "{args:?}");
    }
    // Without the flag there is nothing on standard output.
    assert!(knee(&scratch, &["replay", "pipe"]).stdout.is_empty());
}
