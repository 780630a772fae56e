//! `knee sweep` and `knee cache`.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn knee(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What it prints, and complains.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn run(args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    said(&knee(args, dir).output().unwrap())
}

/// Files of a sweep but its manifest, which tells of the time.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let in_store = fs::read_dir(dir.join("store")).unwrap();
    let entries = fs::read_dir(dir).unwrap().chain(in_store).map(Result::unwrap);
    let files =
        entries.filter(|entry| entry.path().is_file() && entry.file_name() != "manifest.json");
    let named = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    files.map(named).collect()
}

#[test]
fn a_killed_sweep_goes_on_by_the_same_command_and_shards_give_the_same_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    let sweep = |dir: &str| ["sweep", "incast", "--quick", "-o", dir].map(str::to_owned);
    let ended = |args: &[String]| {
        let (code, _, why) = run(&args.iter().map(String::as_str).collect::<Vec<_>>(), here);
        assert_eq!(code, Some(0), "{why}");
    };
    ended(&sweep("whole"));
    let whole = files(&here.join("whole"));

    for (kill, signal) in [Signal::KILL, Signal::INT, Signal::KILL].into_iter().enumerate() {
        let args = sweep("killed");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut child = knee(&args, here).spawn().unwrap();
        thread::sleep(Duration::from_millis(150 * (kill as u64 + 1)));
        if child.try_wait().unwrap().is_none() {
            let _ = kill_process(Pid::from_child(&child), signal);
        }
        let (_, _, why) = said(&child.wait_with_output().unwrap());
        assert!(!why.contains("panicked"), "{why}");
    }
    ended(&sweep("killed"));
    let killed = files(&here.join("killed"));
    assert_eq!(killed.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    let other: Vec<_> = whole.iter().filter(|(name, bytes)| killed[*name] != **bytes).collect();
    assert!(other.is_empty(), "{:?}", other.iter().map(|(name, _)| name).collect::<Vec<_>>());

    for shard in ["2/3", "1/3", "3/3"] {
        let args = sweep("shards");
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--shard", shard]).collect();
        let (code, told, why) = run(&args, here);
        assert!(code == Some(0) && told.contains("of this shard"), "{told}{why}");
        assert!(!here.join("shards/manifest.json").exists());
    }
    let (_, told, _) = run(&["sweep", "incast", "--quick", "-o", "shards"], here);
    assert!(told.contains("of them from before"), "{told}");
    assert!(files(&here.join("shards")) == whole, "of shards");
}

#[test]
fn stores_are_listed_verified_and_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    let two = ["sweep", "two-flows", "--repeat", "2", "-o", "two"];
    let (code, _, why) = run(&two, here);
    assert_eq!(code, Some(0), "{why}");
    let (_, told, _) = run(&["cache", "ls", "two", "--names"], here);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("two/store: ") && lines[0].contains("in 1 part"), "{told}");
    assert!(lines.len() > 1 && lines[1..].iter().all(|name| name.len() == 32), "{told}");
    let (code, told, _) = run(&["cache", "verify", "two", "two-flows", "--repeat", "2"], here);
    assert!(code == Some(0) && told.contains("all have the same bytes"), "{told}");
    let (code, _, why) =
        run(&["cache", "verify", "two", "two-flows", "--repeat", "2", "--seed", "9"], here);
    assert!(code == Some(2) && why.contains("seed was 1 and is 9"), "{why}");
    let (code, _, why) = run(&["cache", "verify", "none", "two-flows"], here);
    assert!(code == Some(2) && !here.join("none").exists(), "{why}");
    assert_eq!(run(&["cache", "compact", "two"], here).0, Some(0));
    assert_eq!(run(&["cache", "rm", "two"], here).0, Some(0));
    assert!(!here.join("two/store").exists() && here.join("two/manifest.json").exists());
    let (code, _, why) = run(&["cache", "ls", "two"], here);
    assert!(code == Some(2) && why.contains("it is no store: it has no sweep.json"), "{why}");
}

#[test]
fn what_a_sweep_cannot_do_says_the_way_out() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let all: Vec<&str> =
            ["sweep", "two-flows", "--repeat", "2"].iter().chain(args).copied().collect();
        let (code, _, why) = run(&all, scratch.path());
        assert_eq!(code, Some(2), "{why}");
        why
    };
    assert!(refused(&[]).contains("--output <DIR>"));
    assert!(refused(&["-o", "a", "--shard", "4/3"]).contains("as 3/100"));
    let why = refused(&["-o", "a", "--shard", "1/3", "--until", "mean of both within 5 %"]);
    assert!(why.contains("cannot be used with"), "{why}");
    let python = std::env::temp_dir().join("no-python");
    let mut command = knee(&["sweep", "two-flows", "-o", "a", "--ray", "auto"], scratch.path());
    let (code, _, why) = said(&command.env("KNEE_PYTHON", python).output().unwrap());
    assert!(code == Some(2) && why.contains("install its wheel (docs/sweep.md)"), "{why}");
    assert!(!scratch.path().join("a").exists());

    assert_eq!(run(&["run", "two-flows", "--repeat", "2", "-o", "run"], scratch.path()).0, Some(0));
    assert!(refused(&["-o", "run"]).contains("it holds runs of knee run"));
    assert!(!scratch.path().join("run/store").exists());
}
