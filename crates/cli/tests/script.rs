//! `knee script`, as it is called.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

const PASSES: &str = "title It passes\nopen active, rtt 10ms\nwrite mss\nout [.] len mss\n";
const DIFFERS: &str = "title It differs\nopen active, rtt 10ms\nwrite mss\nout [.] len 7\n";
const NOT_FOR_THIS: &str = "title Newer\nneeds linux >= 6.12\nopen active, rtt 10ms\n";

fn knee(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_knee")).current_dir(folder).args(args).output().unwrap()
}

/// Exit code, standard output, standard error.
fn says(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = knee(folder, args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A folder of this test's own with these scripts.
fn folder(name: &str, scripts: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in scripts {
        fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn the_exit_code_says_how_it_ended_and_counts_of_0_are_left_out() {
    let folder =
        folder("script-exit", &[("a.script", PASSES), ("b.script", DIFFERS), ("c.script", "out")]);
    let (code, out, err) = says(&folder, &["script", "a.script"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "pass     a.script\n1 passed\n", ""));
    let (code, out, err) = says(&folder, &["script", "b.script", "a.script"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.starts_with("DIFFERS  b.script:4: seq: expected 1:8, came 1:1001"), "{out}");
    assert!(out.ends_with("pass     a.script\n1 passed, 1 differs\n"), "{out}");
    // One message for each that could not be played; the others are played.
    let (code, out, err) = says(&folder, &["script", "c.script", "none.script", "."]);
    assert_eq!(code, 2);
    assert!(out.ends_with("1 passed, 1 differs, 3 could not be played\n"), "{out}");
    assert_eq!(err.lines().count(), 3, "{err}");
    assert!(err.contains("knee: c.script:1: ") && err.contains("./c.script:1: "), "{err}");
    assert!(err.contains("knee: none.script: cannot read: "), "{err}");
}

/// packetdrill's files are found beside scripts. What is not applicable is counted, and is no success by itself.
#[test]
fn files_of_packetdrill_play_or_are_not_applicable() {
    let connects = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 connect(3, ..., ...) = 0\n";
    let plays = format!("{connects}+0 > S 0:0(0) <...>\n");
    let lacks = format!("{connects}+0 epoll_create(1) = 4\n");
    let differs = format!("{connects}+0 > S 0:0(0)\n");
    let files = [("a.script", PASSES), ("b.pkt", &plays), ("c.pkt", &lacks)];
    let folder = folder("script-pkt", &files);
    let (code, out, err) = says(&folder, &["script", "."]);
    let not_applicable = "n/a      ./c.pkt:3: the call epoll_create\n";
    let all = "pass     ./a.script\npass     ./b.pkt\n";
    let expected = format!("{all}{not_applicable}2 passed, 1 not applicable\n");
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected.as_str(), ""));
    let (code, out, _) = says(&folder, &["script", "c.pkt"]);
    assert_eq!((code, out.lines().last()), (2, Some("1 not applicable")));
    let (code, out, _) = says(&folder, &["script", "c.pkt", "--json"]);
    let json: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &json[0]["verdict"], &json[0]["line"]),
        (2, &"not applicable".into(), &3.into())
    );
    fs::write(folder.join("b.pkt"), differs).unwrap();
    let (code, out, _) = says(&folder, &["script", "b.pkt", "c.pkt"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.starts_with("DIFFERS  b.pkt:3: "), "{out}");
    fs::write(folder.join("b.pkt"), "0 listen(").unwrap();
    let (code, _, err) = says(&folder, &["script", "b.pkt"]);
    assert_eq!((code, err.as_str()), (2, "knee: b.pkt:1: a call has no end: close it with `)`\n"));
}

/// A script plays a file of one's own, named on the command line or in the script itself.
#[test]
fn a_script_plays_the_algorithm_of_a_file() {
    // Outside of the clone, where knee new writes into a folder of the algorithm's.
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().to_owned();
    assert_eq!(says(&folder, &["new", "algorithm", "foo"]).0, 0);
    let plays = "open active, rtt 10ms\nwrite mss\nout [.] len mss\nexpect algorithm == foo\n";
    fs::write(folder.join("a.script"), plays).unwrap();
    fs::write(folder.join("foo/b.script"), format!("algorithm ./foo.c\n{plays}")).unwrap();
    let (code, out, err) = says(&folder, &["script", "a.script", "--cc", "./foo/foo.c"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let (code, out, err) = says(&folder, &["script", "foo/b.script"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let (code, out, _) = says(&folder, &["script", "a.script", "--cc", "cubic"]);
    assert_eq!(code, 1);
    assert!(out.contains("algorithm"), "{out}");
    let (code, _, err) = says(&folder, &["script", "a.script", "--cc", "./none.c"]);
    assert_eq!(code, 2);
    assert!(err.contains("none.c"), "{err}");
}

#[test]
fn a_long_account_says_how_many_lines_it_leaves_out() {
    let long = "open active, rtt 10ms\nrepeat 10500\n  +1ms wait\n  show\nend\n";
    let folder = folder("script-long", &[("a.script", long)]);
    let (_, out, err) = says(&folder, &["script", "a.script", "--account"]);
    let cut = out.lines().find(|line| line.contains("lines are left out here"));
    assert!(cut.is_some(), "{} lines: {err} {}", out.lines().count(), &out[..out.len().min(2000)]);
    assert!(out.lines().count() > 10_000);
}

#[test]
fn what_cannot_be_asked_for_is_said() {
    let folder = folder("script-asked", &[("a.script", PASSES), ("b.script", PASSES)]);
    fs::create_dir(folder.join("empty")).unwrap();
    let refused = |args: &[&str]| {
        let (code, out, err) = says(&folder, &[&["script"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        err
    };
    assert_eq!(refused(&["empty"]), "knee: empty: it has neither *.script nor *.pkt\n");
    let known = "knee: --linux 5.4: the simulator knows 6.1, 6.12, 6.18, 7.3, or all\n";
    assert_eq!(refused(&["a.script", "--linux", "6.1,5.4"]), known);
    assert_eq!(refused(&["a.script", "--hz", "99"]), "knee: --hz 99: must be 100, 250 or 1000\n");
    assert!(refused(&["a.script", "--on", "kernel", "--linux", "6.1"]).contains("simulator"));
    assert!(refused(&[".", "--pcap", "a.pcap"]).contains("--pcap takes one script"));
    assert!(refused(&["a.script", "--jobs", "0"]).contains("--jobs"));
}

#[test]
fn several_versions_are_told_apart() {
    let folder = folder("script-versions", &[("a.script", NOT_FOR_THIS), ("b.script", DIFFERS)]);
    let (code, out, _) = says(&folder, &["script", "a.script", "--linux", "6.1,6.18"]);
    assert_eq!(code, 0);
    let expected = "not      a.script (Linux 6.1): it does not apply to Linux 6.1\n\
                    pass     a.script (Linux 6.18)\n1 passed, 1 not for this version\n";
    assert_eq!(out, expected);
    let (code, out, _) = says(&folder, &["script", "b.script", "--linux", "all"]);
    assert_eq!(code, 1);
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        assert!(out.contains(&format!("DIFFERS (Linux {version})  b.script:4: ")), "{out}");
    }
}

#[test]
fn the_order_is_that_of_the_files_however_many_are_played_at_once() {
    // The first takes the longest.
    let long = format!("{PASSES}repeat 20000\n  +1ns wait\nend\n");
    let names: Vec<String> = (0..40).map(|n| format!("{n:02}.script")).collect();
    let scripts: Vec<(&str, &str)> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), if n == 0 { long.as_str() } else { PASSES }))
        .collect();
    let folder = folder("script-order", &scripts);
    let (_, one, _) = says(&folder, &["script", ".", "--jobs", "1"]);
    let (_, many, _) = says(&folder, &["script", ".", "--jobs", "8"]);
    assert_eq!(one, many);
    assert!(one.starts_with("pass     ./00.script\n") && one.ends_with("40 passed\n"), "{one}");
}

#[test]
fn a_script_that_never_ends_is_stopped() {
    let text = format!("{PASSES}repeat 1000000000\n  wait\nend\n");
    let folder = folder("script-never", &[("a.script", &text)]);
    let (code, out, err) = says(&folder, &["script", "a.script"]);
    assert_eq!((code, out.as_str()), (2, "1 could not be played\n"));
    assert!(err.contains("does not end within 200000 events"), "{err}");
}

#[test]
fn json_says_all_of_each() {
    let scripts = [("a.script", PASSES), ("b.script", DIFFERS), ("c.script", "out")];
    let folder = folder("script-json", &scripts);
    let (code, out, err) =
        says(&folder, &["script", ".", "--json", "--linux", "6.18", "--hz", "250"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("knee: ./c.script:1: "), "{err}");
    let all: Json = serde_json::from_str(&out).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 3);
    for one in all {
        assert_eq!((&one["on"], &one["linux"]), (&"sim".into(), &"6.18".into()));
        assert_eq!((&one["hz"], &one["algorithms"]), (&250.into(), &"ours".into()));
    }
    let verdicts: Vec<_> = all.iter().map(|one| one["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["passed", "differs", "could not be played"]);
    assert_eq!((&all[1]["line"], &all[1]["attempts"]), (&4.into(), &1.into()));
    assert!(all[2]["message"].as_str().unwrap().starts_with("./c.script:1: "));
    assert!(all[0]["took_ns"].as_u64().unwrap() >= 10_000_000);
}

#[test]
fn a_pcap_file_of_a_play_can_be_recorded_again() {
    let folder = folder("script-pcap", &[("a.script", PASSES)]);
    let (code, out, err) = says(&folder, &["script", "a.script", "--pcap", "a.pcap"]);
    assert_eq!((code, out.as_str()), (0, "pass     a.script\n1 passed\n"), "{err}");
    let made = knee(&folder, &["script", "--record", "a.pcap", "-o", "again.script"]);
    assert!(made.status.success());
    assert_eq!(says(&folder, &["script", "again.script"]).0, 0);
    let (code, _, err) = says(&folder, &["script", "a.script", "--pcap", "none/a.pcap"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("knee: none/a.pcap: cannot write: "), "{err}");
}

#[test]
fn ctrl_c_lets_running_scripts_end() {
    let long = format!("{PASSES}repeat 90000\n  +1us wait\nend\n");
    let names: Vec<String> = (0..400).map(|n| format!("{n:03}.script")).collect();
    let scripts: Vec<_> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
    let folder = folder("script-stop", &scripts);
    let mut child = Command::new(env!("CARGO_BIN_EXE_knee"))
        .current_dir(&folder)
        .args(["script", ".", "--jobs", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Results come while others are still to be played.
    let mut first = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"pass");
    let started = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.ends_with(" not played: stopped\n"), "{out}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_kernel_without_root_is_said_so() {
    let folder = folder("script-root", &[("a.script", PASSES)]);
    if !rustix::process::geteuid().is_root() {
        let (code, _, err) = says(&folder, &["script", "a.script", "--on", "kernel"]);
        assert_eq!(code, 2);
        assert!(err.contains("needs root"), "{err}");
        return;
    }
    // As nobody, who can read what is under a folder that all can.
    let reachable = tempfile::tempdir().unwrap();
    fs::set_permissions(&reachable, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let knee = reachable.path().join("knee");
    fs::copy(env!("CARGO_BIN_EXE_knee"), &knee).unwrap();
    fs::copy(folder.join("a.script"), reachable.path().join("a.script")).unwrap();
    let output = std::os::unix::process::CommandExt::uid(&mut Command::new(&knee), 65_534)
        .current_dir(&reachable)
        .args(["script", "a.script", "--on", "kernel"])
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("it needs root"), "{err}");
}
