//! Beside other users: what they put into directories of theirs is not followed, and root keeps out of these.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The user `nobody`.
const OTHER: u32 = 65534;

const SMALL: &str = r#"question = "Who waits?"
cc = "dctcp"

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

[run]
duration = "2 s"
until_done = true
"#;

/// A directory of root's that goes away, in one where everybody can make some.
struct Scratch(TempDir);

impl Scratch {
    /// `None`: only root can be beside others.
    fn new() -> Option<Scratch> {
        if !rustix::process::geteuid().is_root() {
            let why = "SKIPPED: this is about what root does, and this is not root";
            let mut err = std::io::stderr();
            writeln!(err, "{why}").unwrap();
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("small.toml"), SMALL).unwrap();
        Some(Scratch(dir))
    }

    fn knee(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        command.output().unwrap()
    }

    fn run(&self, into: &str, more: &[&str]) -> Output {
        self.knee(&[&["run", "small.toml", "--repeat", "1", "-o", into], more].concat())
    }

    /// What a link of somebody else's leads to.
    fn victim(&self) -> PathBuf {
        let path = self.0.path().join("victim");
        fs::write(&path, "mine").unwrap();
        path
    }
}

/// Gives a directory and all that is in it to the other user.
fn give(path: &Path) {
    lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// What the other user does.
fn other(script: &str, dir: &Path) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script]);
    assert!(command.current_dir(dir).status().unwrap().success(), "{script}");
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn root_leaves_no_results_where_others_can_put_links() {
    let Some(scratch) = Scratch::new() else { return };
    for name in ["theirs", "open", "mine"] {
        fs::create_dir(scratch.0.path().join(name)).unwrap();
    }
    give(&scratch.0.path().join("theirs"));
    fs::set_permissions(scratch.0.path().join("open"), Permissions::from_mode(0o777)).unwrap();
    other("mkdir out; ln -s ../mine link", &scratch.0.path().join("theirs"));
    for into in ["theirs/new", "theirs/out", "theirs", "theirs/link", "open", "open/new"] {
        for more in [&[][..], &["--pcap"]] {
            let refused = scratch.run(into, more);
            let said = err(&refused);
            assert_eq!(refused.status.code(), Some(2), "{into}: {said}");
            let words = "as root, knee does not write where other users can place links (";
            assert!(said.contains(words) && said.lines().count() == 1, "{into}: {said}");
        }
    }
    let reproduce = scratch.knee(&["reproduce", "incast", "-o", "theirs/new"]);
    assert!(
        reproduce.status.code() == Some(2)
            && err(&reproduce).contains("as root, knee does not write")
    );
    assert_eq!(fs::read_dir(scratch.0.path().join("theirs")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(scratch.0.path().join("mine")).unwrap().count(), 0);
    assert!(scratch.run("mine/new", &["--pcap"]).status.success());
}

#[test]
fn captures_are_for_who_made_them() {
    let Some(scratch) = Scratch::new() else { return };
    let output = scratch.run("out", &["--pcap"]);
    assert!(output.status.success(), "{}", err(&output));
    let mode =
        |name: &str| fs::metadata(scratch.0.path().join("out").join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("r-run-0.pcapng"), mode("runs.csv") & 0o044), (0o600, 0o044));
}

#[test]
fn a_report_of_the_results_of_others_follows_no_link_of_theirs() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(scratch.run("theirs", &["--pcap"]).status.success());
    let (theirs, victim) = (scratch.0.path().join("theirs"), scratch.victim());
    // Under every name that could be guessed.
    symlink(&victim, theirs.join("report.html")).unwrap();
    let begin = std::process::id();
    for process in begin..begin + 1000 {
        symlink(&victim, theirs.join(format!(".report.html.{process}.partial"))).unwrap();
    }
    give(&theirs);
    let output = scratch.knee(&["report", "theirs"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    let report = theirs.join("report.html");
    assert!(report.symlink_metadata().unwrap().is_file());
    assert!(fs::read_to_string(report).unwrap().starts_with("<!"));
    let found = theirs.join("report-captures/run-0/findings.json");
    assert!(found.is_file(), "{}", found.display());
}

#[test]
fn tables_of_captures_follow_no_link() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(scratch.run("mine", &["--pcap"]).status.success());
    let (theirs, victim) = (scratch.0.path().join("theirs"), scratch.victim());
    fs::create_dir(&theirs).unwrap();
    let names =
        ["flows.csv", "rounds.csv", "events.csv", "packets.csv", "findings.json", "flows.csv.new"];
    for name in names {
        symlink(&victim, theirs.join(name)).unwrap();
    }
    give(&theirs);
    let captures = ["mine/s1-run-0.pcapng", "mine/r-run-0.pcapng"];
    for captures in [&captures[..1], &captures] {
        let output = scratch.knee(&[&["pcap"], captures, &["--csv", "theirs"]].concat());
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(theirs.join("flows.csv").symlink_metadata().unwrap().is_file());
    }
    let flows = fs::read_to_string(theirs.join("flows.csv")).unwrap();
    let views = flows.lines().skip(1).map(|line| line.split(',').nth(2).unwrap());
    assert!(views.clone().any(|view| view == "true") && views.clone().any(|view| view == "false"));
}

#[test]
fn what_scripts_leave_follows_no_link() {
    let Some(scratch) = Scratch::new() else { return };
    let (theirs, victim) = (scratch.0.path().join("theirs"), scratch.victim());
    fs::create_dir(&theirs).unwrap();
    for name in ["seen.pcap", "made.script"] {
        symlink(&victim, theirs.join(name)).unwrap();
    }
    give(&theirs);
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/scripts/receiver/delayed-ack-adapts.script");
    let output =
        scratch.knee(&["script", &script.display().to_string(), "--pcap", "theirs/seen.pcap"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(theirs.join("seen.pcap").symlink_metadata().unwrap().is_file());
    assert!(scratch.run("mine", &["--pcap"]).status.success());
    let record = ["script", "--record", "mine/s1-run-0.pcapng", "-o", "theirs/made.script"];
    let output = scratch.knee(&record);
    assert!(
        output.status.code() == Some(2) && err(&output).contains("File exists"),
        "{}",
        err(&output)
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

/// In /tmp anybody can leave a file of a built-in experiment's name.
#[test]
fn a_word_of_roots_names_no_file_of_others() {
    let Some(scratch) = Scratch::new() else { return };
    let planted = scratch.0.path().join("incast");
    fs::write(&planted, SMALL).unwrap();
    let names_mine = |word: &str| scratch.knee(&["explain", word]);
    let own = names_mine("incast");
    assert!(own.status.success(), "{}", err(&own));
    assert!(String::from_utf8_lossy(&own.stdout).contains("Who waits?"));
    give(&planted);
    let theirs = names_mine("incast");
    assert_eq!(theirs.status.code(), Some(2));
    let why = err(&theirs);
    assert!(why.contains("a file here that other users may have written"), "{why}");
    assert!(why.contains("belongs to user 65534") && why.contains("./incast"), "{why}");
    assert!(names_mine("./incast").status.success());
    assert!(names_mine("published/incast").status.success());
}
