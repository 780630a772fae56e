//! Results as Parquet.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const SMALL: &str = r#"question = "Who waits?"
cc = ["cubic", "dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "200 pkts", k = "20 pkts" } }

[[traffic]]
name = "both"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "200 kB"

[vary]
"network.bottleneck.queue.k" = ["10 pkts", "20 pkts"]

[sample]
flows = "100 us"
queues = "100 us"

[run]
duration = "2 s"
until_done = true
repeat = 2
"#;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("small.toml"), SMALL).unwrap();
        Scratch(dir)
    }

    fn knee(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// Standard output of a command that must succeed.
    fn says(&self, args: &[&str]) -> String {
        let output = self.knee(args);
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {why}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The sentence of a command that cannot run.
    fn refuses(&self, args: &[&str]) -> String {
        let output = self.knee(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Names of a directory's tables.
    fn tables(&self, dir: &str) -> Vec<String> {
        let is_table = |name: &String| name.ends_with(".csv") || name.ends_with(".parquet");
        let entries = fs::read_dir(self.0.path().join(dir)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(is_table).collect();
        names.sort();
        names
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn readers_say_the_same_of_both_formats() {
    let scratch = Scratch::new();
    scratch.says(&["run", "small.toml", "-o", "csv/x"]);
    scratch.says(&["run", "small.toml", "-o", "parquet/x", "--format", "parquet"]);
    let names = scratch.tables("csv/x").into_iter();
    let names: Vec<_> = names.map(|name| name.replace(".csv", ".parquet")).collect();
    assert_eq!(scratch.tables("parquet/x"), names);
    let manifest = fs::read_to_string(scratch.path("parquet/x/manifest.json")).unwrap();
    assert!(manifest.contains("\"tables\": \"parquet\"") && manifest.contains("flows.parquet"));
    let agree = scratch.says(&["compare", "csv/x", "parquet/x"]);
    assert!(agree.contains("agree") && !agree.contains("differ "), "{agree}");
    let of = |dir: &str| scratch.says(&["compare", dir, "--cases", "cubic,dctcp", "--all"]);
    let with_name = |dir: &str| of(dir).replace(dir, "DIR");
    assert_eq!(with_name("parquet/x"), with_name("csv/x"));
    let pages = ["csv/x", "parquet/x"].map(|dir| {
        scratch.says(&["report", dir, "-o", "page.html"]);
        fs::read_to_string(scratch.path("page.html")).unwrap()
    });
    // Only names of files, times and the size of what was measured of the machine differ.
    let figures = |page: &String| -> Vec<String> {
        page.split("<svg")
            .skip(1)
            .map(|figure| figure.split("</svg>").next().unwrap().into())
            .collect()
    };
    assert!(figures(&pages[0]).len() > 3);
    assert_eq!(figures(&pages[1]), figures(&pages[0]));
}

#[test]
fn the_format_of_a_directory_stays_until_another_is_asked_for() {
    let scratch = Scratch::new();
    scratch.says(&["run", "small.toml", "-o", "x", "--format", "parquet"]);
    let before = scratch.tables("x");
    let more = ["run", "small.toml", "-o", "x", "--continue", "--repeat", "3"];
    scratch.says(&more);
    assert_eq!(scratch.tables("x"), before);
    scratch.says(&[&more[..], &["--format", "csv"]].concat());
    let names: Vec<_> = before.iter().map(|name| name.replace(".parquet", ".csv")).collect();
    assert_eq!(scratch.tables("x"), names);
    scratch.says(&["run", "small.toml", "-o", "y", "--repeat", "3"]);
    for name in names {
        let [x, y] = ["x", "y"].map(|dir| fs::read(scratch.path(dir).join(&name)).unwrap());
        assert!(x == y, "{name}");
    }
    scratch.says(&["run", "small.toml", "-o", "z", "--repeat", "3", "--format", "parquet"]);
    scratch.says(&[&more[..], &["--format", "parquet"]].concat());
    for name in before {
        let [x, z] = ["x", "z"].map(|dir| fs::read(scratch.path(dir).join(&name)).unwrap());
        assert!(x == z, "{name}");
    }
}

#[test]
fn what_cannot_be_read_is_one_sentence() {
    let scratch = Scratch::new();
    scratch.says(&["run", "small.toml", "-o", "x", "--format", "parquet"]);
    let wrong = scratch.refuses(&["run", "small.toml", "--format", "parqet"]);
    assert!(wrong.contains("csv") && wrong.contains("parquet"), "{wrong}");
    assert!(
        scratch
            .refuses(&["run", "small.toml", "-o", "x"])
            .contains("already holds results (runs.parquet)")
    );
    copy(&scratch.path("x"), &scratch.path("cut"));
    let measures = scratch.path("cut/measures.parquet");
    let whole = fs::read(&measures).unwrap();
    fs::write(&measures, &whole[..whole.len() - 20]).unwrap();
    let why = scratch.refuses(&["compare", "cut", "--cases", "cubic,dctcp"]);
    assert!(
        why.ends_with("measures.parquet: has no end: the file is cut, or is being written\n"),
        "{why}"
    );
    copy(&scratch.path("x"), &scratch.path("both"));
    fs::write(scratch.path("both/runs.csv"), "run,case\n").unwrap();
    let why = scratch.refuses(&["report", "both", "-o", "page.html"]);
    assert!(
        why.contains("runs.parquet: runs.csv is there, too") && why.lines().count() == 1,
        "{why}"
    );
}
