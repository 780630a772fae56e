//! `knee script --record`, as it is called.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn knee(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_knee")).current_dir(folder).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A folder of this test's own with an experiment of so many senders.
fn folder(name: &str, senders: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        r#"
        question = "What does a transfer send?"
        cc = ["cubic", "dctcp"]

        [network]
        topology = "many-to-one"
        senders = {senders}
        access = {{ rate = "10 Gbps" }}
        bottleneck = {{ rate = "1 Gbps", queue = {{ kind = "step", limit = "500 pkts", k = "20 pkts" }} }}
        return = {{ delay = "100 us" }}

        [[traffic]]
        name = "both"
        kind = "bulk"
        from = "s1..s{senders}"
        to = "r"
        size = "200 kB"

        [run]
        duration = "1 s"
        "#
    );
    fs::write(folder.join("run.toml"), text).unwrap();
    folder
}

#[test]
fn a_flow_of_an_experiment_is_recorded_and_plays() {
    let folder = folder("record-plays", 1);
    let made =
        knee(&folder, &["script", "--record", "run.toml", "--cc", "dctcp", "-o", "a.script"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let text = fs::read_to_string(folder.join("a.script")).unwrap();
    assert!(text.contains("algorithm dctcp\n"), "{text}");
    let played = knee(&folder, &["script", "a.script"]);
    assert_eq!(played.status.code(), Some(0), "{}{}", stdout(&played), stderr(&played));
    // A file that is there stays as it is.
    let again = knee(&folder, &["script", "--record", "run.toml", "-o", "a.script"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("a.script: cannot write"), "{}", stderr(&again));
    assert_eq!(fs::read_to_string(folder.join("a.script")).unwrap(), text);
}

#[test]
fn several_flows_are_listed_to_choose_from() {
    let folder = folder("record-lists", 2);
    let listed = knee(&folder, &["script", "--record", "run.toml"]);
    assert_eq!(listed.status.code(), Some(2));
    assert_eq!(stdout(&listed).lines().count(), 3, "{}", stdout(&listed));
    assert!(stderr(&listed).contains("choose one with --flow"), "{}", stderr(&listed));
    for flow in ["1", "both"] {
        let chosen = knee(&folder, &["script", "--record", "run.toml", "--flow", flow]);
        assert!(stdout(&chosen).contains("\nconnect\n") || stdout(&chosen).contains(" connect\n"));
    }
    let unknown = knee(&folder, &["script", "--record", "run.toml", "--flow", "neither"]);
    assert!(stderr(&unknown).contains("the names are both"), "{}", stderr(&unknown));
}

#[test]
fn a_built_in_experiment_is_recorded_by_its_name() {
    let folder = folder("record-built-in", 1);
    let listed = knee(&folder, &["script", "--record", "incast"]);
    assert_eq!(listed.status.code(), Some(2));
    assert!(stdout(&listed).starts_with("  flow  name"), "{}", stdout(&listed));
    assert!(stderr(&listed).contains("incast: it has "), "{}", stderr(&listed));
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let folder = folder("record-says", 1);
    let says = |args: &[&str]| {
        let output = knee(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        stderr(&output)
    };
    fs::write(folder.join("text.pcap"), "no capture, although it is called one").unwrap();
    let text = says(&["script", "--record", "text.pcap"]);
    assert_eq!(text, "knee: text.pcap: it is neither a pcap nor a pcapng file\n");
    assert!(says(&["script", "--record", "run.toml", "--on", "sim"]).contains("--on"));
    assert!(says(&["script", "--flow", "1", "a.script"]).contains("--record"));
    assert!(says(&["script", "--record", "run.toml", "text.pcap"]).contains("takes one"));
    assert!(says(&["script", "--record", "none.pcap"]).contains("none.pcap: cannot read"));
}
