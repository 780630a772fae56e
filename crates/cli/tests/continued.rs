//! `knee run --continue`: a sweep that is killed at any moment costs the runs that went on, and nothing else.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

const KILLS: u32 = 15;

fn sweep(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.args(["run", "incast", "--quick", "--continue", "-o"]).arg(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The files of results, without what differs between two equal runs: journal, and the manifest's time and cost.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let others = named.filter(|(name, _)| name != "runs.journal" && name != "manifest.json");
    others.map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect()
}

fn ended(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_sweep_that_is_killed_at_any_moment_has_the_bytes_of_one_that_was_not() {
    let scratch = tempfile::tempdir().unwrap();
    let (whole, dir) = (scratch.path().join("whole"), scratch.path().join("killed"));
    let started = Instant::now();
    ended(&sweep(&whole).output().unwrap());
    let took = started.elapsed();
    let whole = files(&whole);
    let mut kills = 0;
    while kills < KILLS {
        let _ = fs::remove_dir_all(&dir);
        // Each sweep is killed at later and later moments, until it ends before one.
        loop {
            let mut child = sweep(&dir).spawn().unwrap();
            // Some half of a sweep at most, so that most are killed several times.
            thread::sleep(took.mul_f64(f64::from(kills * 37 % KILLS) / f64::from(KILLS) / 2.0));
            if child.try_wait().unwrap().is_some() {
                ended(&child.wait_with_output().unwrap());
                break;
            }
            let signal = if kills % 3 == 0 { Signal::INT } else { Signal::KILL };
            let _ = kill_process(Pid::from_child(&child), signal);
            let output = child.wait_with_output().unwrap();
            kills += 1;
            if output.status.success() {
                break;
            }
            let said = text(&output.stderr);
            assert!(!said.contains("panicked"), "{said}");
        }
        ended(&sweep(&dir).output().unwrap());
        let killed = files(&dir);
        assert_eq!(killed.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
        for (name, text) in &whole {
            assert!(killed[name] == *text, "{name} after {kills} kills");
        }
    }
}

#[test]
fn what_cannot_be_continued_says_the_way_out() {
    let scratch = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(["run", "incast", "--quick"]).args(args).current_dir(scratch.path());
        let output = command.output().unwrap();
        (output.status.success(), text(&output.stderr))
    };
    let (is_done, said) = run(&["--continue"]);
    assert!(!is_done && said.contains("--output <DIR>"), "{said}");
    assert!(run(&["-o", "all"]).0);
    let (is_done, said) = run(&["-o", "all"]);
    assert!(!is_done && said.contains("already holds results"), "{said}");
    let (is_done, said) = run(&["-o", "all", "--continue", "--seed", "2"]);
    assert!(
        !is_done && said.contains("seed was 1 and is 2: run the experiment as it was"),
        "{said}"
    );
    let (is_done, said) = run(&["-o", "all", "--continue", "--pcap"]);
    assert!(!is_done && said.contains("cannot be used with"), "{said}");
    assert!(run(&["-o", "all", "--continue"]).0, "nothing is missing");
}
