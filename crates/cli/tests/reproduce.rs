//! `knee reproduce` and its like, as a user meets them; and what the quick set says, byte for byte.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use knee_evidence::golden;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value as Json;

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

/// The quick set below runs in this profile: a number of the published files that overflows is a panic there, not another figure.
#[test]
#[should_panic(expected = "attempt to add with overflow")]
fn arithmetic_of_this_build_is_checked() {
    let most = std::hint::black_box(u32::MAX);
    std::hint::black_box(most + std::hint::black_box(1));
}

/// The quick set says what it said when it was blessed: figures and verdicts.
#[test]
fn the_quick_set_says_what_it_said() {
    let scratch = tempfile::tempdir().unwrap();
    let shown = said(&knee(&["reproduce", "--bless", "now", "-o", "all"], scratch.path()));
    let end: Vec<&str> = shown.lines().rev().take(70).collect();
    assert_eq!(end[0], "report in all/report.html");
    let table = end.iter().rev().skip_while(|line| **line != "claims by verdict");
    let remarks = ["not re-runnable", "not run", "changed"];
    let is_remark = |line: &&str| remarks.iter().any(|remark| line.starts_with(remark));
    assert!(table.clone().count() > 0 && !table.clone().any(is_remark), "{end:?}");
    assert!(shown.contains("not re-runnable: ") && shown.contains("knee reproduce --list"));
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
    let now = scratch.path().join("now");
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
    let scratch = tempfile::tempdir().unwrap();
    let shown = said(&knee(&["reproduce", "incast", "-o", "out"], scratch.path()));
    for words in [
        "DOES NOT STAND: For larger sizes",
        "because, in the full set: Every algorithm keeps",
        "claims by verdict",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    // The verdicts are what is on the screen at the end, and last the way to the report.
    let end: Vec<&str> = shown.lines().rev().take(60).collect();
    assert_eq!(end[0], "report in out/report.html");
    assert!(end.contains(&"claims by verdict"), "{shown}");
    let index: Json = serde_json::from_str(
        &fs::read_to_string(scratch.path().join("out/reproduce.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(index["full"], false);
    let experiment = &index["sections"][0]["experiments"][0];
    assert_eq!(
        (experiment["name"].as_str(), experiment["dir"].as_str()),
        (Some("incast"), Some("incast"))
    );
    let manifest = fs::read_to_string(scratch.path().join("out/incast/manifest.json")).unwrap();
    let manifest: Json = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["claims"][1]["verdict"], "does not stand");
    assert_eq!(manifest["quick"], true);
    assert_eq!(manifest["network"]["topology"], "many-to-one");
    assert_eq!(manifest["claims"][1]["checks"][0]["terms"][1]["case"], "dctcp");
    let again = knee(&["reproduce", "incast", "-o", "out"], scratch.path());
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr)
            .contains("it already holds a reproduction: choose another directory with -o"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn the_answer_for_programs_has_verdicts() {
    let scratch = tempfile::tempdir().unwrap();
    let answer =
        said(&knee(&["reproduce", "--only", "incast", "--json", "-o", "out"], scratch.path()));
    let answer: Json = serde_json::from_str(&answer).unwrap();
    let claims = &answer["sections"][0]["experiments"][0]["claims"];
    assert_eq!(
        (claims[2]["name"].as_str(), claims[2]["verdict"].as_str()),
        (Some("less-queue"), Some("stands"))
    );
    assert_eq!(answer["back_end"], "sim");
}

#[test]
fn what_cannot_be_reproduced_is_said_in_one_sentence() {
    let scratch = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["reproduce", "incats"], "did you mean \"incast\"?"),
        (
            &["reproduce", "--only", "nothing-*"],
            "--only nothing-*: no experiment or section has this name",
        ),
        (&["reproduce", "--on", "moon"], "--on moon: must be sim, vkernel or lab"),
        (&["reproduce", "--on", "vkernel="], "--on vkernel=: must be sim, vkernel or lab"),
        (&["explain", "incats"], "did you mean \"incast\"?"),
    ];
    for (args, expected) in cases {
        let output = knee(args, scratch.path());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn without_a_kernel_in_virtual_time_the_way_to_one_is_said() {
    let scratch = tempfile::tempdir().unwrap();
    let empty = scratch.path().join("cache");
    fs::create_dir(&empty).unwrap();
    let some = "(some minutes, once)";
    for (args, expected) in [
        (
            &["--on", "vkernel"][..],
            format!("no kernel is built yet: run knee vkernel build {some}"),
        ),
        (
            &["--on", "vkernel=6.12", "incast"],
            format!("no kernel 6.12 is built yet: run knee vkernel build --version 6.12 {some}"),
        ),
        (&["--on", "vkernel=5.15"], "Linux 5.15: knee has patches for 6.1, 6.12, 7.3".to_owned()),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.arg("reproduce").args(args).current_dir(scratch.path());
        command.env("XDG_CACHE_HOME", &empty).env_remove("KNEE_VKERNEL");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stderr), format!("knee: --on vkernel: {expected}\n"));
    }
    let blessed = knee(&["reproduce", "--on", "vkernel", "--bless", "golden"], scratch.path());
    assert_eq!(blessed.status.code(), Some(2));
    assert!(text(&blessed.stderr).contains("use --on sim"), "{}", text(&blessed.stderr));
    // Nothing is run, so nothing is left; what there is can be listed all the same.
    assert!(
        said(&knee(&["reproduce", "--on", "vkernel", "--list"], scratch.path())).contains("incast")
    );
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn the_list_and_the_explanation_need_no_clone() {
    let scratch = tempfile::tempdir().unwrap();
    let list = said(&knee(&["reproduce", "--list"], scratch.path()));
    assert!(list.contains("Not re-runnable") && list.contains("is not stated"), "{list}");
    assert!(list.contains("  bulk-mix ") && list.contains("DCTCP for FreeBSD"), "{list}");
    let words = said(&knee(&["explain", "bulk-mix"], scratch.path()));
    for part in [
        "source",
        "set-up",
        "network many-to-one: hosts s1, s2, s3, r",
        "switch-r: 1.000 Gbps",
        "not stated in the source",
        "33.7 ms",
        "STANDS IN PART: Beside bulk transfers",
        "knee reproduce bulk-mix --full",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn shells_get_their_completions() {
    let scratch = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let words = said(&knee(&["completions", shell], scratch.path()));
        assert!(words.contains("KNEE_COMPLETE"), "{shell}: {words}");
    }
}

#[test]
fn names_are_completed() {
    let scratch = tempfile::tempdir().unwrap();
    for dir in ["results/mine", "elsewhere"] {
        fs::create_dir_all(scratch.path().join(dir)).unwrap();
    }
    for file in ["incast-mine.toml", "tcp_mine.c"] {
        fs::write(scratch.path().join(file), "").unwrap();
    }
    for (words, expected) in [
        (&["run", "incast-"][..], &["incast-19", "incast-basic", "incast-mine.toml"][..]),
        (&["run", "--cc", ""], &["bbr", "dctcp", "tcp_mine.c"]),
        (&["scenarios", "rac"], &["rack", "rack-speeds"]),
        (&["compare", "m"], &["mine"]),
        (&["report", "el"], &["elsewhere/"]),
        (&["rep"], &["report", "reproduce"]),
    ] {
        let bin = env!("CARGO_BIN_EXE_knee");
        let completed = Command::new(bin)
            .args(["--", "knee"])
            .args(words)
            .envs([("KNEE_COMPLETE", "fish")])
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let text = text(&completed.stdout);
        let found: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        assert!(expected.iter().all(|name| found.contains(name)), "{words:?}: {text}");
    }
}

/// A command whose standard error is a terminal, and whose standard output is none.
struct OnTerminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    fn start(args: &[&str], dir: &Path) -> OnTerminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(slave).spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = shown.clone();
        let reader = thread::spawn(move || {
            let (mut master, mut buffer) = (File::from(master), [0; 4096]);
            // When nobody has the terminal open any more, reading it is an error.
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                all.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        OnTerminal { child, shown, reader }
    }

    /// What it has shown so far.
    fn so_far(&self) -> String {
        text(&self.shown.lock().unwrap())
    }

    /// Exit code, what it showed and what it printed.
    fn end(self) -> (Option<i32>, String, String) {
        let output = self.child.wait_with_output().unwrap();
        self.reader.join().unwrap();
        (output.status.code(), text(&self.shown.lock().unwrap()), text(&output.stdout))
    }
}

#[test]
fn a_terminal_shows_how_far_it_is_and_a_pipe_a_line_in_30_s() {
    let scratch = tempfile::tempdir().unwrap();
    let words = ["reproduce", "incast", "bufferbloat", "--full", "--threads", "1", "-o"];
    let run = |out: &'static str| [&words[..], &[out]].concat();
    let (code, shown, tables) = OnTerminal::start(&run("shown"), scratch.path()).end();
    assert_eq!(code, Some(0), "{shown}");
    // Each line takes the place of the one before, and the last leaves nothing.
    let lines: Vec<&str> = shown.split("\r\x1b[K").collect();
    assert!(lines.len() > 3 && !shown.contains('\n'), "{shown:?}");
    assert_eq!((lines[0], *lines.last().unwrap()), ("", ""), "{shown:?}");
    for line in lines.iter().filter(|line| !line.is_empty()) {
        // As "1 of 2: incast: 3 of 60 runs, 0 s, about 2 s left".
        let (n, rest) = line.split_once(" of 2: ").unwrap();
        let (name, rest) = rest.split_once(": ").unwrap();
        assert!([("1", "incast"), ("2", "bufferbloat")].contains(&(n, name)), "{line}");
        let (done, rest) = rest.split_once(" of ").unwrap();
        let (all, rest) = rest.split_once(" runs, ").unwrap();
        let (done, all): (u32, u32) = (done.parse().unwrap(), all.parse().unwrap());
        assert!(done <= all && rest.contains(" s"), "{line}");
    }
    assert!(shown.contains(" s left"), "{shown:?}");
    assert!(tables.contains("claims by verdict") && !tables.contains('\x1b'), "{tables}");
    let start = Instant::now();
    let piped = knee(&run("piped"), scratch.path());
    let most = start.elapsed().as_secs() / 30;
    let told = text(&piped.stderr);
    assert_eq!(piped.status.code(), Some(0), "{told}");
    assert!(told.lines().count() as u64 <= most && !told.contains('\r'), "{most}: {told:?}");
}

/// Runs of an experiment that have finished, by the progress shown.
fn runs_done(shown: &str, name: &str) -> u32 {
    let of_name = shown.rsplit("\r\x1b[K").find_map(|line| line.split_once(&format!("{name}: ")));
    of_name.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn ctrl_c_keeps_what_has_finished_for_the_report() {
    let scratch = tempfile::tempdir().unwrap();
    let args = ["reproduce", "incast", "nv-rpc", "plb", "--full", "-o", "out"];
    let running = OnTerminal::start(&args, scratch.path());
    let patience = Instant::now() + Duration::from_secs(60);
    while runs_done(&running.so_far(), "nv-rpc") == 0 {
        assert!(Instant::now() < patience, "{:?}", running.so_far());
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&running.child), Signal::INT).unwrap();
    let (code, shown, tables) = running.end();
    assert_eq!(code, Some(2), "{shown}");
    let complaint = shown.rsplit("\r\x1b[K").next().unwrap();
    assert_eq!(
        complaint,
        "knee: stopped: 1 of 3 experiments had finished and is kept in out, with part of \
            nv-rpc\r\n"
    );
    assert!(tables.contains("plb: stopped before"), "{tables}");
    let index = fs::read_to_string(scratch.path().join("out/reproduce.json")).unwrap();
    let index: Json = serde_json::from_str(&index).unwrap();
    assert_eq!(index["interrupted"], true);
    let manifest = |name: &str| -> Json {
        let path = scratch.path().join("out").join(name).join("manifest.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    assert_eq!(manifest("incast")["interrupted"], false);
    let part = manifest("nv-rpc");
    assert_eq!(part["interrupted"], true);
    assert!(part["runs_done"].as_u64() < part["runs"].as_u64());
    assert!(!scratch.path().join("out/plb").exists());
    said(&knee(&["report", "out", "-o", "again.html"], scratch.path()));
    let html = fs::read_to_string(scratch.path().join("again.html")).unwrap();
    for words in
        ["Stopped before the end", "id=\"incast\"", "id=\"nv-rpc\"", "<b>plb</b> was not run"]
    {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn a_path_that_exists_is_meant_before_a_name_and_by_every_command() {
    let scratch = tempfile::tempdir().unwrap();
    let short = ["--repeat", "1", "--set", "run.duration=\"300 ms\""];
    for name in ["two-flows", "examples/two-flows", "scenarios/examples/two-flows.toml"] {
        let run = knee(&[&["run", name][..], &short].concat(), scratch.path());
        assert!(said(&run).contains("two-flows: How fast"), "{}", said(&run));
    }
    // Results are found by their names, too.
    let same = said(&knee(&["compare", "two-flows", "two-flows-2"], scratch.path()));
    assert!(same.contains("two-flows"), "{same}");
    // Two groups have this name, and each is found by its own.
    let published = said(&knee(&["explain", "plb"], scratch.path()));
    let example = said(&knee(&["explain", "examples/plb"], scratch.path()));
    assert!(
        published.contains("knee reproduce plb --full")
            && example.contains("knee run examples/plb")
    );
    // A file in the place of a built-in one, of its own question.
    let incast = said(&knee(&["scenarios", "incast"], scratch.path()));
    let mine = incast.replace("What does it cost if ten senders", "Mine: what if ten senders");
    fs::write(scratch.path().join("incast"), &mine).unwrap();
    fs::write(scratch.path().join("incast.toml"), &mine).unwrap();
    for args in [
        &["explain", "incast"][..],
        &["run", "incast", "--quick"],
        &["reproduce", "incast.toml", "--json"],
    ] {
        let answer = knee(args, scratch.path());
        assert_eq!(answer.status.code(), Some(0), "{args:?}: {}", text(&answer.stderr));
        match args[0] {
            "reproduce" => assert!(said(&answer).contains("incast"), "{args:?}"),
            _ => assert!(said(&answer).contains("Mine: what if"), "{args:?}: {}", said(&answer)),
        }
    }
    let manifest = scratch.path().join("results/reproduce/incast/manifest.json");
    assert!(fs::read_to_string(manifest).unwrap().contains("Mine: what if"));
    for command in ["run", "explain"] {
        let refused = knee(&[command, "incats"], scratch.path());
        assert_eq!(refused.status.code(), Some(2));
        let why = text(&refused.stderr);
        let expected = "knee: \"incats\": neither a file nor a built-in experiment (knee \
            scenarios); did you mean \"incast\"?";
        assert!(why.starts_with(expected) && why.lines().count() == 1, "{why}");
        // The question is the end of the sentence.
        let several = text(&knee(&[command, "bulk-mx"], scratch.path()).stderr);
        assert!(several.ends_with("; did you mean \"bulk-mix\"?\n"), "{several}");
    }
}

#[test]
fn built_in_experiments_are_listed_shown_and_written_and_nothing_is_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    let list = said(&knee(&["scenarios"], scratch.path()));
    for part in
        ["published: ", "examples: ", "hosts: ", "  incast ", "  examples/plb ", "  two-flows "]
    {
        assert!(list.contains(part), "{part}: {list}");
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples/two-flows.toml");
    let own = fs::read_to_string(own).unwrap();
    assert_eq!(said(&knee(&["scenarios", "two-flows"], scratch.path())), own);
    assert_eq!(
        said(&knee(&["scenarios", "two-flows", "--write", "."], scratch.path())),
        "./two-flows.toml\n"
    );
    assert_eq!(fs::read_to_string(at("two-flows.toml")).unwrap(), own);
    assert!(
        said(&knee(&["scenarios", "--write", "all"], scratch.path()))
            .ends_with(" experiments in all\n")
    );
    assert_eq!(fs::read_to_string(at("all/examples/two-flows.toml")).unwrap(), own);
    assert!(at("all/published/plb.toml").is_file() && at("all/examples/plb.toml").is_file());
    // Neither a file nor what a link leads to, and no link in the place of a folder.
    fs::write(at("kept"), "kept").unwrap();
    symlink(at("kept"), at("link")).unwrap();
    fs::create_dir_all(at("elsewhere")).unwrap();
    fs::create_dir_all(at("half")).unwrap();
    symlink(at("elsewhere"), at("half/published")).unwrap();
    for args in [
        &["scenarios", "two-flows", "--write", "."][..],
        &["scenarios", "two-flows", "--write", "link"],
        &["scenarios", "--write", "all"],
        &["scenarios", "--write", "half"],
        &["scenarios", "none"],
    ] {
        let refused = knee(args, scratch.path());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&refused.stderr).lines().count(), 1, "{args:?}: {}", text(&refused.stderr));
    }
    assert_eq!(fs::read_to_string(at("kept")).unwrap(), "kept");
    assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let scratch = tempfile::tempdir().unwrap();
    said(&knee(&["man", "."], scratch.path()));
    for (page, part) in
        [("knee.1", "reproduce"), ("knee-run.1", "\\-\\-quick"), ("knee-new-algorithm.1", "clone")]
    {
        let page = fs::read_to_string(scratch.path().join(page)).unwrap();
        assert!(page.starts_with(".ie") && page.contains(part), "{page}");
    }
    assert!(!scratch.path().join("knee-agent.1").exists());
}
