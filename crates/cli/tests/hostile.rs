//! Modules that crash, loop, recurse, write where they must not, or do not compile: a sentence each, within seconds, and other runs go on.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const EXPERIMENT: &str = r#"question = "Does it go on?"

[network]
topology = "many-to-one"
senders = 1
access = { rate = "1 Gbps" }
return = { delay = "500 us" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "100 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[run]
duration = "600 ms"
"#;

/// A loop is given two seconds of CPU time, on a machine that others use.
const SECONDS: Duration = Duration::from_secs(60);

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.toml"), EXPERIMENT).unwrap();
        Scratch(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `knee run` of a module and perhaps more.
    fn run(&self, cc: &str, more: &[&str]) -> Output {
        let began = Instant::now();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "300", env!("CARGO_BIN_EXE_knee"), "run", "x.toml"]);
        command.args(["--cc", cc, "-o", "results", "--threads", "1"]).args(more);
        command.env("XDG_CACHE_HOME", self.at("cache")).current_dir(self.0.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(began.elapsed() < SECONDS, "{cc}: {:?}", began.elapsed());
        output
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at("results").join(name)).unwrap_or_default()
    }
}

fn hostile(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/hostile");
    path.join(format!("{name}.c")).canonicalize().unwrap().display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run says that fails, in one line.
fn failure(name: &str) -> String {
    let scratch = Scratch::new();
    let output = scratch.run(&hostile(name), &[]);
    let why = said(&output);
    assert_eq!(output.status.code(), Some(2), "{name}: {why}");
    assert_eq!(why.lines().count(), 1, "{name}: {why}");
    assert!(!scratch.at("results/manifest.json").exists());
    why
}

#[test]
fn what_crashes_is_said_with_operation_line_flow_and_time() {
    let mut cases = vec![
        ("null", "null.c: cong_avoid followed a null pointer (null, null.c:13)"),
        ("recurses", "recurses.c: cong_avoid used up the stack: recursion without end"),
        (
            "outside",
            "outside.c: cong_avoid wrote behind the end of its private area (inet_csk_ca), which has 104 bytes (outside, outside.c:",
        ),
        ("bug", "bug.c:9: BUG_ON(tp->snd_cwnd > 40), where the kernel would have stopped too"),
        ("frees", "frees.c: cong_avoid stopped at kfree: it is given memory that is not allocated"),
        (
            "loops",
            "loops.c: cong_avoid has not returned after 2 s of CPU time: an endless loop (loops, loops.c:11)",
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        cases.push(("divides", "divides.c: cong_avoid divided by zero (divides, divides.c:11)"));
    }
    for (name, expected) in cases {
        let why = failure(name);
        assert!(why.contains(expected), "{name}: {why}");
        assert!(why.contains("; flow 0, at 0.") && why.contains(" s of simulated time"), "{why}");
    }
}

/// The simulator finds no read behind the end of allocated memory; memcheck does, and nothing else in all of knee.
#[test]
fn memcheck_names_the_line_of_a_bad_read_and_no_other() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        std::io::stderr().write_all(b"SKIPPED: there is no valgrind\n").unwrap();
        return;
    }
    for (name, line) in [("past", Some("past (past.c:9)")), ("stays", None)] {
        let scratch = Scratch::new();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "300", "valgrind", "-q", "--error-exitcode=9"]);
        command.args([env!("CARGO_BIN_EXE_knee"), "run", "x.toml", "-o", "results"]);
        command.args(["--cc", &hostile(name)]).env("XDG_CACHE_HOME", scratch.at("cache"));
        let output = command.current_dir(scratch.0.path()).stdin(Stdio::null()).output().unwrap();
        let why = said(&output);
        assert_eq!(output.status.code(), Some(if line.is_some() { 9 } else { 0 }), "{name}: {why}");
        let first = why.lines().find(|line| line.contains(" at 0x")).unwrap_or_default();
        assert!(first.contains(line.unwrap_or_default()), "{name}: {why}");
        assert_eq!(
            why.matches("Invalid read").count(),
            usize::from(line.is_some()),
            "{name}: {why}"
        );
        assert!(scratch.at("results/manifest.json").exists(), "{name}: {why}");
    }
}

#[test]
fn the_larger_private_area_is_looked_after_as_well() {
    let scratch = Scratch::new();
    let why = said(&scratch.run(&hostile("outside_v3"), &[]));
    let expected = "outside_v3.c: cong_avoid wrote behind the end of its private area (inet_csk_ca), which has 216 bytes (outside_v3, outside_v3.c:";
    assert!(why.contains(expected) && why.contains("; flow 0, at 0."), "{why}");
}

#[test]
fn what_cannot_be_left_ends_knee_with_a_sentence() {
    let scratch = Scratch::new();
    let output = scratch.run(&hostile("aborts"), &[]);
    let why = said(&output);
    assert!(!output.status.success(), "{why}");
    assert!(why.contains("aborts.c: cong_avoid ended the process, as the C library does where the memory of kmalloc is damaged (aborts, aborts.c:1"), "{why}");
    assert!(why.contains("; flow 0, at 0."), "{why}");
}

#[test]
fn runs_of_others_go_on_and_are_kept() {
    for name in ["null", "loops"] {
        let scratch = Scratch::new();
        let cc = format!("{},cubic", hostile(name));
        let output = scratch.run(&cc, &["--json"]);
        let why = said(&output);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains(&format!("{name}.c: cong_avoid ")), "{why}");
        assert!(why.contains("1 of 2 runs failed; the others are in results"), "{why}");
        let flows = scratch.read("flows.csv");
        assert_eq!(flows.lines().count(), 2, "{flows}");
        assert!(flows.contains(",cubic,"), "{flows}");
        assert!(scratch.read("manifest.json").contains("\"failed\""));
        let json = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(json.contains("\"runs_done\":1") && json.contains("\"failed\":["), "{json}");
    }
}

/// Cases of `writes.c`, each with what it writes and the value, and one of knee's own algorithm behind them.
fn writing(scratch: &Scratch, cases: &[(u32, u32)], traffic: &str) -> Output {
    let module = hostile("writes");
    let mut text = format!("{EXPERIMENT}{traffic}");
    for (field, value) in cases {
        text += &format!(
            "[[case]]\nname = \"{field}-{value}\"\ncc = {module:?}\nparams = {{ field = {field}, value = {value} }}\n\n"
        );
    }
    text += "[[case]]\nname = \"own\"\ncc = \"cubic\"\n";
    fs::write(scratch.at("cases.toml"), text).unwrap();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "300", env!("CARGO_BIN_EXE_knee"), "run", "cases.toml"]);
    command.args(["-o", "results", "--json"]).env("XDG_CACHE_HOME", scratch.at("cache"));
    command.current_dir(scratch.0.path()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn what_tcp_keeps_for_itself_is_written_by_no_file() {
    let fields = [
        "snd_una",
        "snd_nxt",
        "packets_out",
        "sacked_out",
        "lost_out",
        "retrans_out",
        "delivered",
        "mss_cache",
        "rcv_nxt",
        "write_seq",
        "high_seq",
        "max_window",
        "undo_retrans",
        "snd_wnd",
        "tlp_high_seq",
        "tcp_mstamp",
        "tcp_wstamp_ns",
        "icsk_retransmits",
        "srtt_us",
        "reordering",
    ];
    let scratch = Scratch::new();
    let cases: Vec<(u32, u32)> = (1..=21).map(|field| (field, 77)).collect();
    let output = writing(&scratch, &cases, "");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<&str> =
        json["failed"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect();
    assert_eq!((failed.len(), json["runs_done"].as_u64()), (21, Some(1)), "{json}");
    for (why, field) in failed.iter().zip(fields) {
        let expected = format!("writes.c: cong_avoid wrote `{field}`, which an algorithm may not");
        assert!(why.contains(&expected), "{why}");
        assert!(why.contains(" (writes, writes.c:7") && why.contains("; flow 0, at 0."), "{why}");
    }
    assert!(failed[20].contains("cong_avoid set `sk_pacing_shift` to 77: the most is 63"));
    let flows = scratch.read("flows.csv");
    assert!(flows.lines().count() == 2 && flows.contains(",cubic,"), "{flows}");
}

#[test]
fn whatever_a_file_leaves_in_its_own_fields_ends_no_other_run() {
    let mut cases = Vec::new();
    for field in (50..=67).chain(80..=83) {
        cases.extend([0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX].map(|value| (field, value)));
    }
    // Losses, and a connection that its application limits.
    let more = "[[traffic]]\nname = \"some\"\nkind = \"rpc\"\nfrom = \"r\"\nto = \"s1\"\n\
                request = \"100 B\"\nresponse = \"50 kB\"\ncount = 40\n\n";
    let scratch = Scratch::new();
    let output = writing(&scratch, &cases, more);
    let why = said(&output);
    assert!(!why.contains("panicked"), "{why}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&why);
    let failed = json["failed"].as_array().map_or(0, Vec::len);
    assert_eq!(failed + json["runs_done"].as_u64().unwrap() as usize, cases.len() + 1, "{why}");
    for why in json["failed"].as_array().into_iter().flatten() {
        let why = why.as_str().unwrap();
        assert!(why.contains("writes.c: ") && why.contains(" of simulated time"), "{why}");
    }
}

#[test]
fn what_no_algorithm_should_do_is_counted_and_said_once() {
    for (name, warning, words) in [
        ("stops", "cwnd_zero", "; line 11 sets snd_cwnd)"),
        ("wraps", "cwnd_huge", "; line 11 sets snd_cwnd)"),
        ("stays", "no_growth", "cwnd stayed at 10 packets or below for 100 RTTs"),
        ("unpaced", "pacing_zero", "(line 13 sets sk_pacing_rate)"),
    ] {
        let scratch = Scratch::new();
        let output = scratch.run(&hostile(name), &["--json"]);
        let why = said(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {why}");
        assert!(why.contains("knee: warning: run 0 (") && why.contains(words), "{name}: {why}");
        assert!(why.contains("1 run with warnings: results/warnings.csv"), "{why}");
        let table = scratch.read("warnings.csv");
        assert!(table.lines().any(|line| line.contains(&format!(",0,bulk,{warning},"))), "{table}");
        let json = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(json.contains("\"warnings\":[\"run 0"), "{json}");
    }
    // A receiver whose window holds as many packets is the limit, too; one with more room is not.
    for (size, warns) in [("30 kB", false), ("200 kB", true)] {
        let scratch = Scratch::new();
        let hosts = format!("[hosts]\nrcvbuf_initial = \"{size}\"\nrcvbuf_max = \"{size}\"\n");
        fs::write(scratch.at("x.toml"), format!("{EXPERIMENT}\n{hosts}")).unwrap();
        let why = said(&scratch.run(&hostile("stays"), &[]));
        assert_eq!(why.contains("cwnd stayed at 10 packets"), warns, "{size}: {why}");
    }
    // And of what does nothing of the kind there is no word.
    let scratch = Scratch::new();
    let reno = Path::new(&hostile("null")).with_file_name("../tcp_reno.c").display().to_string();
    let output = scratch.run(&reno, &[]);
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    assert!(!scratch.at("results/warnings.csv").exists());
}

#[test]
fn what_is_missing_is_named_at_once_and_nothing_that_follows() {
    for compiler in ["gcc", "clang-19", "clang"] {
        if !Command::new(compiler).arg("--version").output().is_ok_and(|it| it.status.success()) {
            continue;
        }
        let scratch = Scratch::new();
        let module = hostile("missing");
        let why = {
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(["run", "x.toml", "--cc", &module]).env("CC", compiler);
            command.env("XDG_CACHE_HOME", scratch.at("cache")).current_dir(scratch.0.path());
            said(&command.output().unwrap())
        };
        for (name, not) in [
            ("<net/no_such_header.h>", "header"),
            ("struct no_such_struct", "name"),
            ("no_such_type", "name"),
            ("no_such_function", "function"),
            ("NO_SUCH_CONSTANT", "name"),
            ("struct tcp_sock.no_such_field", "field"),
        ] {
            let of =
                why.lines().filter(|line| line.contains(&format!("missing.c uses `{name}` (line")));
            let of: Vec<&str> = of.collect();
            assert!(
                of.len() == 1 && of[0].contains(&format!("knee's contract has no such {not}")),
                "{compiler}: {name}\n{why}"
            );
            assert!(of[0].ends_with("see docs/modules.md#contract"), "{why}");
        }
        assert_eq!(why.lines().count(), 7, "{compiler}: {why}");
    }
}

#[test]
fn what_is_to_be_compiled_is_bounded_and_shows_no_other_file() {
    for (name, expected) in [
        ("bomb", "makes the compiler write more than 32 MiB"),
        ("itself", "itself.c: "),
        (
            "reads",
            "includes /etc/passwd, which is neither one of knee's headers nor in the file's own folder",
        ),
        ("calls", "uses `system`: knee's contract has no such function"),
        ("begins", "runs code when it is loaded"),
    ] {
        let scratch = Scratch::new();
        let why = said(&scratch.run(&hostile(name), &["--verbose"]));
        assert!(why.contains(expected), "{name}: {why}");
        assert!(!why.contains("root:"), "{why}");
    }
}

#[test]
fn root_takes_no_header_that_others_can_write() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let scratch = Scratch::new();
    if fs::metadata(scratch.0.path()).unwrap().uid() != 0 {
        return;
    }
    let from = PathBuf::from(hostile("stays"));
    for name in ["stays.c", "hostile.h"] {
        fs::copy(from.with_file_name(name), scratch.at(name)).unwrap();
    }
    let refused = || {
        let output = scratch.run("./stays.c", &[]);
        assert_eq!(output.status.code(), Some(2));
        said(&output)
    };
    fs::set_permissions(scratch.at("hostile.h"), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(refused().contains("root takes no header that others can have written"));
    fs::set_permissions(scratch.at("hostile.h"), fs::Permissions::from_mode(0o644)).unwrap();
    chown(scratch.at("hostile.h"), Some(65534), Some(65534)).unwrap();
    assert!(refused().contains("belongs to user 65534"));
}

/// `knee check` of a file, as it was when it was found.
fn check(scratch: &Scratch, file: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.args(["check", file]).args(more).env("XDG_CACHE_HOME", scratch.at("cache"));
    command.current_dir(scratch.0.path()).output().unwrap()
}

const RENO: &str = "#include <linux/module.h>\n#include <net/tcp.h>\n#ifdef FOO\nstruct foo { u64 v[GAIN]; };\n#else\nstruct foo { u64 v[1]; };\n#endif\n\
     static void foo_init(struct sock *sk)\n{\n\tstruct foo *foo = inet_csk_ca(sk);\n\n\tfoo->v[0] = 1;\n\tINIT\n}\n\
     static struct tcp_congestion_ops foo = {\n\t.init = foo_init,\n\t.ssthresh = tcp_reno_ssthresh,\n\t.cong_avoid = tcp_reno_cong_avoid,\n\
     \t.undo_cwnd = tcp_reno_undo_cwnd,\n\t.name = \"foo\",\n};\n\
     static int __init foo_register(void)\n{\n\treturn tcp_register_congestion_control(&foo);\n}\nmodule_init(foo_register);\n";

#[test]
fn check_says_of_a_module_what_run_says() {
    let scratch = Scratch::new();
    let write = |name: &str, init: &str| {
        fs::write(scratch.at(name), RENO.replace("INIT", init)).unwrap();
        format!("./{name}")
    };
    let timers = write("timers.c", "mod_timer(0, 1);");
    let large = write("large.c", "((struct large *)inet_csk_ca(sk))->v[0] = 1;");
    let text = fs::read_to_string(scratch.at("large.c")).unwrap();
    fs::write(
        scratch.at("large.c"),
        text.replace("struct foo {", "struct large { u64 v[14]; };\nstruct foo {"),
    )
    .unwrap();
    for (file, expected) in [
        (&*timers, "timers.c: uses mod_timer (line 13): timers and threads of its own"),
        (&large, "large.c: its struct large has 112 bytes"),
        (&hostile("calls"), "calls.c: uses `system`: knee's contract has no such function"),
        (&hostile("begins"), "begins.c: runs code when it is loaded"),
    ] {
        let ran = said(&scratch.run(file, &[]));
        assert!(ran.contains(expected), "{ran}");
        let checked = check(&scratch, file, &["--json"]);
        let found = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert_eq!(checked.status.code(), Some(1), "{file}: {found}{}", said(&checked));
        let sentence = expected.replace('"', "\\\"");
        assert!(found.contains(&sentence), "{file}: {found}");
    }
    // The same options, and modules of several files.
    let plain = write("plain.c", "");
    for (more, code, expected) in [
        (&[][..], 0, "it keeps v[0]\n"),
        (&["--cc-define", "FOO", "--cc-define", "GAIN=2"], 0, "it keeps v[0], v[1]\n"),
        (&["--cc-define", "FOO", "--cc-define", "GAIN=14"], 1, "its struct foo has 112 bytes"),
        (&["--cc-define", "FOO", "--cc-define", "GAIN=14", "--api", "v3"], 0, "(api = v3)"),
    ] {
        let output = check(&scratch, &plain, more);
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {found}{}", said(&output));
        assert!(found.contains(expected), "{more:?}: {found}");
        let cannot = "for BPF it was not looked at: several files";
        assert_eq!(found.contains(cannot), !more.is_empty(), "{found}");
    }
    let helper =
        "#include <net/tcp.h>\nu32 helped(void)\n{\n\treturn 1;\n}\nMODULE_LICENSE(\"GPL\");\n";
    fs::write(scratch.at("helper.c"), helper).unwrap();
    let two = write("two.c", "helped();").replace(".c", ".c+helper.c");
    let text = fs::read_to_string(scratch.at("two.c")).unwrap();
    fs::write(scratch.at("two.c"), text.replace("struct foo {", "u32 helped(void);\nstruct foo {"))
        .unwrap();
    let output = check(&scratch, &two, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let alone = check(&scratch, "./two.c", &[]);
    assert_eq!(alone.status.code(), Some(1), "{}", said(&alone));
    assert!(String::from_utf8_lossy(&alone.stdout).contains("uses `helped`"));
}

#[test]
fn run_check_compiles_as_the_experiment_says() {
    let scratch = Scratch::new();
    let text = "#ifndef GAIN\n#error no GAIN\n#endif\n".to_owned() + &RENO.replace("INIT", "");
    fs::write(scratch.at("foo.c"), text).unwrap();
    let checked = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(["run", "x.toml", "--cc", "./foo.c", "--check"]);
        command.env("XDG_CACHE_HOME", scratch.at("cache")).current_dir(scratch.0.path());
        command.output().unwrap()
    };
    let alone = said(&checked());
    assert!(alone.contains("no GAIN"), "{alone}");
    let table = format!("{EXPERIMENT}\n[module]\ndefine = [\"GAIN=3\"]\n");
    fs::write(scratch.at("x.toml"), table).unwrap();
    for output in [checked(), scratch.run("./foo.c", &[])] {
        assert_eq!((output.status.code(), &*said(&output)), (Some(0), ""));
    }
}
