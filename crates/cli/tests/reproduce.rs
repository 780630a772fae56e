//! `knee reproduce` and its like, as a user meets them; and what the quick set says, byte for byte.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use knee_exp::golden;
use serde_json::Value as Json;

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir =
            std::env::temp_dir().join(format!("knee-reproduce-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn knee(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_knee")).args(args).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The quick set says what it said when it was blessed: figures and verdicts.
#[test]
fn the_quick_set_says_what_it_said() {
    let scratch = Scratch::new("golden");
    said(&knee(&["reproduce", "--bless", "now", "-o", "all", "--json"], &scratch.0));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = entries
            .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let now = scratch.0.join("now");
    assert_eq!(
        names(&kept),
        names(&now),
        "files of tests/golden, and experiments of the quick set: make bless"
    );
    let mut out = String::new();
    for name in names(&now) {
        let read = |dir: &Path| fs::read_to_string(dir.join(&name)).unwrap();
        let (before, after) = (read(&kept), read(&now));
        if before != after {
            out.push_str(&format!("{name}\n{}\n", golden::difference(&before, &after)));
        }
    }
    assert!(
        out.is_empty(),
        "the quick set says something else than tests/golden:\n\n{out}\nIf that is meant: make bless, and say why in the commit."
    );
}

#[test]
fn one_experiment_leaves_its_results_and_the_index() {
    let scratch = Scratch::new("one");
    let shown = said(&knee(&["reproduce", "incast", "-o", "out"], &scratch.0));
    for words in
        ["DOES NOT STAND: For the larger sizes", "because: The link is busy", "claims by verdict"]
    {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let index: Json =
        serde_json::from_str(&fs::read_to_string(scratch.0.join("out/reproduce.json")).unwrap())
            .unwrap();
    assert_eq!(index["full"], false);
    let experiment = &index["sections"][0]["experiments"][0];
    assert_eq!(
        (experiment["name"].as_str(), experiment["dir"].as_str()),
        (Some("incast"), Some("incast"))
    );
    let manifest = fs::read_to_string(scratch.0.join("out/incast/manifest.json")).unwrap();
    let manifest: Json = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["claims"][1]["verdict"], "does not stand");
    assert_eq!(manifest["quick"], true);
    assert_eq!(manifest["network"]["topology"], "many-to-one");
    assert_eq!(manifest["claims"][1]["checks"][0]["terms"][1]["case"], "dctcp");
    let again = knee(&["reproduce", "incast", "-o", "out"], &scratch.0);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("holds a reproduction already"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn the_answer_for_programs_has_verdicts() {
    let scratch = Scratch::new("json");
    let answer = said(&knee(&["reproduce", "--only", "incast", "--json", "-o", "out"], &scratch.0));
    let answer: Json = serde_json::from_str(&answer).unwrap();
    let claims = &answer["sections"][0]["experiments"][0]["claims"];
    assert_eq!(
        (claims[0]["name"].as_str(), claims[0]["verdict"].as_str()),
        (Some("almost-the-same"), Some("stands"))
    );
    assert_eq!(answer["back_end"], "sim");
}

#[test]
fn what_cannot_be_reproduced_is_said_in_one_sentence() {
    let scratch = Scratch::new("bad");
    let cases: [(&[&str], &str); 4] = [
        (&["reproduce", "incats"], "did you mean \"incast\"?"),
        (
            &["reproduce", "--only", "nothing-*"],
            "--only nothing-*: no experiment and no section is called so",
        ),
        (&["reproduce", "--on", "moon"], "--on moon: must be sim or lab"),
        (&["explain", "incats"], "did you mean \"incast\"?"),
    ];
    for (args, expected) in cases {
        let output = knee(args, &scratch.0);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn the_list_and_the_explanation_need_no_clone() {
    let scratch = Scratch::new("list");
    let list = said(&knee(&["reproduce", "--list"], &scratch.0));
    assert!(list.contains("  bulk-mix ") && list.contains("DCTCP for FreeBSD"), "{list}");
    let words = said(&knee(&["explain", "bulk-mix"], &scratch.0));
    for part in [
        "source",
        "set-up",
        "network many-to-one: hosts s1, s2, s3, r",
        "switch-r: 1.000 Gbps",
        "what was not stated",
        "33.7 ms",
        "STANDS IN PART: Beside bulk transfers",
        "knee reproduce bulk-mix --full",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn shells_get_their_completions() {
    let scratch = Scratch::new("shells");
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let words = said(&knee(&["completions", shell], &scratch.0));
        assert!(words.contains("reproduce") && words.contains("explain"), "{shell}");
    }
}
