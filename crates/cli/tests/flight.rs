//! `knee flight`, `--trace` and `knee replay` of an algorithm in a file of somebody's own.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const TEXT: &str = r#"question = "What does Copa hold?"

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "5 ms" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "60 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
read_at = "64 KiB"

[run]
duration = "1 s"

[sample]
flows = "10 ms"
plot = ["velocity", "queueing_ns"]
"#;

/// A folder with an experiment, and with what it was run to.
struct Ran(TempDir);

impl Ran {
    fn new(cc: &str) -> Ran {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("copa.toml"), TEXT).unwrap();
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules");
        fs::copy(modules.join("tcp_copa.c"), dir.path().join("tcp_copa.c")).unwrap();
        let ran = Ran(dir);
        ran.run(cc, "out");
        ran
    }

    fn run(&self, cc: &str, out: &str) {
        let done = self.knee(&["run", "copa.toml", "--cc", cc, "--trace", "bulk", "-o", out]);
        assert!(done.status.success(), "{}", stderr(&done));
    }

    fn knee(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(self.0.path()).output().unwrap()
    }

    fn said(&self, args: &[&str]) -> String {
        let output = self.knee(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const FLIGHT: &str = "out/bulk-run-0.flight";

#[test]
fn the_inside_of_a_module_outside_the_tree_is_traced_shown_replayed_and_drawn() {
    let ran = Ran::new("./tcp_copa.c");

    // In words: what each call changed, under the file's names.
    let text = ran.said(&["flight", "show", FLIGHT, "--flow", "0", "--op", "cong_avoid"]);
    let mut lines = text.lines();
    assert!(
        lines.next().unwrap().starts_with("tcp_copa: tcp_copa (of tcp_copa.c, sha256 "),
        "{text}"
    );
    assert!(
        lines
            .clone()
            .all(|line| line.contains(" flow 0 call ") && line.contains(" cong_avoid [ack_seq "))
    );
    assert!(text.contains("ca.velocity 1 -> 2") && text.contains("ca.direction "), "{text}");
    let late = ran.said(&[
        "flight", "show", FLIGHT, "--from", "900 ms", "--until", "0.95 s", "--fields", "velocity",
    ]);
    let calls: Vec<&str> = late.lines().skip(1).collect();
    assert!(calls.len() > 10 && calls.iter().all(|line| line.starts_with("0.9")), "{late}");
    assert!(calls.iter().all(|line| line.contains("ca.velocity ")), "asked for, so always there");
    assert_eq!(ran.said(&["flight", "show", FLIGHT, "--first", "3"]).lines().count(), 4);

    // As a table and as JSON: the same columns.
    let csv = ran.said(&[
        "flight",
        "show",
        FLIGHT,
        "--csv",
        "--fields",
        "snd_cwnd,velocity",
        "--first",
        "50",
    ]);
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(header[..6], ["at_us", "socket", "flow", "side", "call", "operation"]);
    let last = &header[header.len() - 4..];
    let four =
        ["before_snd_cwnd_pkts", "after_snd_cwnd_pkts", "before_ca_velocity", "after_ca_velocity"];
    assert_eq!(last, four);
    assert_eq!(csv.lines().count(), 51);
    let json = ran.said(&["flight", "show", FLIGHT, "--json", "--first", "50"]);
    let rows: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 50);
    assert!(
        rows.iter().all(|row| row["after_snd_cwnd_pkts"].is_u64() && row["operation"].is_string())
    );
    assert!(
        rows.iter().all(|row| row.as_object().unwrap().len() == rows[0].as_object().unwrap().len())
    );

    // The calls once more, by the file and by no other.
    let replayed = ran.said(&["replay", FLIGHT, "--source", "./tcp_copa.c"]);
    assert!(replayed.contains(" 0 not comparable, 0 differences"), "{replayed}");
    let changed = fs::read_to_string(ran.0.path().join("tcp_copa.c")).unwrap();
    fs::write(
        ran.0.path().join("other.c"),
        changed.replace("delta_pct __read_mostly = 50", "delta_pct = 51"),
    )
    .unwrap();
    let refused = ran.knee(&["replay", FLIGHT, "--source", "./other.c"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("is of a file tcp_copa.c whose SHA-256 is"),
        "{}",
        stderr(&refused)
    );

    // What it keeps is said without running it.
    let check = ran.knee(&["check", "./tcp_copa.c"]);
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(said.contains("./tcp_copa.c: a Linux module that compiles for the simulator; it keeps base_rtt_us.s[0].t, "), "{said}");

    // Drawn, since the experiment says so.
    ran.said(&["report", "out"]);
    let page = fs::read_to_string(ran.0.path().join("out/report.html")).unwrap();
    assert!(page.contains("Inside: velocity") && page.contains("Inside: queueing_ns"));
}

#[test]
fn two_recordings_are_set_side_by_side_connection_by_connection() {
    let ran = Ran::new("./tcp_copa.c");
    ran.run("./tcp_copa.c", "again");
    let same = ran.said(&["flight", "diff", FLIGHT, "again/bulk-run-0.flight"]);
    assert!(same.contains("\nequal: ") && same.contains(" of 4 sockets"), "{same}");
    let done = ran.knee(&[
        "run",
        "copa.toml",
        "--cc",
        "./tcp_copa.c",
        "--set",
        "params.delta_pct=10",
        "--trace",
        "bulk",
        "-o",
        "other",
    ]);
    assert!(done.status.success(), "{}", stderr(&done));
    let differ = ran.knee(&["flight", "diff", FLIGHT, "other/bulk-run-0.flight"]);
    assert_eq!(differ.status.code(), Some(1));
    let text = String::from_utf8(differ.stdout).unwrap();
    assert!(text.contains("delta_pct=50") && text.contains("delta_pct=10"), "{text}");
    assert!(text.contains("socket 1: ") && text.contains(" calls are the same; then "), "{text}");
    assert!(text.contains("\n  A 0.") && text.contains("\n  B 0."), "{text}");
    let json =
        ran.knee(&["flight", "diff", FLIGHT, "other/bulk-run-0.flight", "--json", "--flow", "0"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["sockets"], 2);
    assert!(json["differing"][0]["first"]["what"].is_string(), "{json}");
}

#[test]
fn bad_words_and_bad_files_are_one_sentence() {
    let ran = Ran::new("reno");
    let says = |args: &[&str], part: &str| {
        let output = ran.knee(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains(part), "{args:?}: {said}");
    };
    says(&["flight", "show", FLIGHT, "--op", "cong_avoi"], "must be one of ssthresh");
    says(&["flight", "show", FLIGHT, "--from", "3"], "must be a time");
    says(
        &["flight", "show", FLIGHT, "--fields", "velocity"],
        "has no field velocity; it has sk_pacing_rate",
    );
    says(&["flight", "show", "copa.toml"], "is no flight recording");
    let bytes = fs::read(ran.0.path().join(FLIGHT)).unwrap();
    fs::write(ran.0.path().join("cut.flight"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = ran.knee(&["flight", "show", "cut.flight"]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(cut.stdout.len() > 1000 && stderr(&cut).contains("it was cut off"), "{}", stderr(&cut));
    says(&["flight", "diff", FLIGHT, "cut.flight"], "it was cut off");
}
