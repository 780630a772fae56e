//! `knee new`, `knee check`, and algorithms from files, as people use them.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A directory to run in, which goes away.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn knee(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_knee"))
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_new_algorithm_is_checked_shown_and_run_as_it_is_written() {
    let scratch = Scratch::new();
    let new = scratch.knee(&["new", "algorithm", "swift"]);
    assert_eq!((new.status.code(), err(&new)), (Some(0), String::new()));
    assert!(
        out(&new).starts_with("written:\n  swift/swift.c\n  swift/swift.toml\n  swift/README.md\n"),
        "{}",
        out(&new)
    );
    let check = scratch.knee(&["check", "swift/swift.c"]);
    assert_eq!(out(&check), "swift/swift.c: no construct that BPF is known to refuse\n");
    assert_eq!(check.status.code(), Some(0));
    let shown = out(&scratch.knee(&["algorithms", "./swift/swift.c"]));
    assert!(
        shown.contains("swift: grow by `increase` packets") && shown.contains("beta"),
        "{shown}"
    );
    let run = scratch.knee(&["run", "swift/swift.toml", "--repeat", "1"]);
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    assert!(out(&run).contains("swift-717"), "{}", out(&run));
    let again = scratch.knee(&["new", "algorithm", "swift"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(err(&again), "knee: swift is there already: nothing was written\n");
}

#[test]
fn what_bpf_refuses_is_named_by_line_and_exit_1() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    let path = scratch.0.path().join("swift/swift.c");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("(cwnd * beta) >> SWIFT_BETA_SHIFT", "(u32)(cwnd * 0.5)");
    fs::write(&path, text).unwrap();
    let check = scratch.knee(&["check", "swift/swift.c"]);
    assert_eq!(check.status.code(), Some(1));
    assert!(out(&check).contains("0.5 is floating point"), "{}", out(&check));
    let json = out(&scratch.knee(&["check", "swift/swift.c", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["findings"][0]["rule"], "Float");
    assert_eq!(scratch.knee(&["check", "none.c"]).status.code(), Some(2));
    let both = scratch.knee(&["check", "none.c", "swift/swift.c"]);
    assert_eq!(both.status.code(), Some(2));
    assert!(out(&both).contains("0.5 is floating point") && err(&both).contains("none.c"));
}

#[test]
fn files_that_do_not_compile_show_the_compilers_lines_and_exit_2() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    let path = scratch.0.path().join("swift/swift.c");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("ca->reductions++;", "ca->reduction++;")).unwrap();
    let run = scratch.knee(&["run", "swift/swift.toml"]);
    assert_eq!(run.status.code(), Some(2));
    let first = err(&run).lines().next().unwrap().to_owned();
    assert!(
        first.starts_with("knee: swift/swift.toml:") && first.contains("does not compile"),
        "{first}"
    );
    assert!(err(&run).contains("swift.c:66: "), "{}", err(&run));
    assert!(err(&run).contains("no member named"), "{}", err(&run));
}

/// A function that the contract lacks: `knee run` and `knee check` say the same of it.
#[test]
fn check_and_run_give_one_answer_about_what_the_contract_lacks() {
    let scratch = Scratch::new();
    assert_eq!(scratch.knee(&["new", "algorithm", "swift"]).status.code(), Some(0));
    let file = scratch.0.path().join("swift/swift.c");
    let text = fs::read_to_string(&file).unwrap();
    let at = text.find("CC_OP(").unwrap();
    let lacks = "static u32 base(struct sock *sk)\n{\n\treturn tcp_min_rtt(tcp_sk(sk)) + tcp_nothing(sk);\n}\n\n";
    fs::write(&file, format!("{}{lacks}{}", &text[..at], &text[at..])).unwrap();
    let (check, run) = (
        out(&scratch.knee(&["check", "swift/swift.c"])),
        err(&scratch.knee(&["run", "swift/swift.toml", "--cc", "./swift/swift.c"])),
    );
    let has = "knee's contract has no such function";
    for answer in [
        format!("{has}: use cc_min_rtt_us(tp)"),
        format!("{has}; tcp.h, native.h and bpf.h have what there is"),
    ] {
        assert!(check.contains(&answer) && run.contains(&answer), "{answer}\n{check}\n{run}");
    }
    assert!(check.contains("uses `tcp_min_rtt`") && run.contains("uses `tcp_min_rtt`"), "{run}");
    assert!(!run.contains("modules.md#contract"), "{run}");
}

/// The source of a BPF program is told how it becomes a module.
#[test]
fn a_bpf_program_for_struct_ops_is_told_how_to_become_a_module() {
    let scratch = Scratch::new();
    let text = "#include \"vmlinux.h\"\n#include <bpf/bpf_tracing.h>\nSEC(\"struct_ops/foo_init\")\n\
                void BPF_PROG(foo_init, struct sock *sk) {}\nSEC(\".struct_ops\")\n\
                struct tcp_congestion_ops foo = { .init = (void *)foo_init, .name = \"foo\" };\n";
    fs::write(scratch.0.path().join("foo.c"), text).unwrap();
    for args in [
        &["run", "two-flows", "--cc", "./foo.c"][..],
        &["check", "foo.c"],
        &["algorithms", "./foo.c"],
    ] {
        let output = scratch.knee(args);
        let said = format!("{}{}", out(&output), err(&output));
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("docs/modules.md#from-bpf-struct_ops"), "{args:?}: {said}");
    }
}

#[test]
fn a_machine_without_a_compiler_is_told_how_to_get_one() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command
        .args(["run", "swift/swift.toml"])
        .current_dir(scratch.0.path())
        .env("PATH", scratch.0.path());
    let run = command.env_remove("CC").output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(
        err(&run).contains("there is no C compiler") && err(&run).contains("apt-get install gcc"),
        "{}",
        err(&run)
    );
}

#[test]
fn a_division_by_zero_in_a_module_ends_the_run_with_its_place() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    let module = "#include <linux/module.h>\n#include <net/tcp.h>\n\
                  static void zero_init(struct sock *sk)\n{\n\
                  \ttcp_sk(sk)->snd_cwnd = div_u64(10, tcp_sk(sk)->lost);\n}\n\
                  static struct tcp_congestion_ops zero = { .init = zero_init, .ssthresh = tcp_reno_ssthresh,\n\
                  .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd, .name = \"zero\" };\n\
                  static int __init zero_register(void) { return tcp_register_congestion_control(&zero); }\n\
                  module_init(zero_register);\n";
    fs::write(scratch.0.path().join("zero.c"), module).unwrap();
    let run = scratch.knee(&["run", "swift/swift.toml", "--cc", "./zero.c"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(err(&run).contains("zero.c:5: division by zero: "), "{}", err(&run));
}

#[test]
fn a_file_that_is_not_there_is_not_loaded() {
    let scratch = Scratch::new();
    let load = scratch.knee(&["load", "./tcp_foo.c"]);
    assert_eq!(load.status.code(), Some(2));
    assert!(
        err(&load).contains("./tcp_foo.c: cannot read") || err(&load).contains("no kernel side"),
        "{}",
        err(&load)
    );
}

#[test]
fn in_a_clone_an_algorithm_that_is_not_built_yet_is_told_from_one_that_is_not_there() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    for file in ["algorithms/include/tcp.h", "crates/algo/src/lib.rs", "algorithms/fresh.c"] {
        let path = scratch.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let said = |cc: &str| err(&scratch.knee(&["run", "swift/swift.toml", "--cc", cc]));
    let fresh = said("fresh");
    assert!(
        fresh.contains("this knee lacks algorithms/fresh.c: run make build, or use --cc"),
        "{fresh}"
    );
    assert!(said("stale").contains("must be one of"), "{}", said("stale"));
}

#[test]
fn cc_replaces_cases_of_a_file_that_cannot_be_run() {
    let scratch = Scratch::new();
    scratch.knee(&["new", "algorithm", "swift"]);
    let path = scratch.0.path().join("swift/swift.toml");
    // As in a clone, where the name is that of an algorithm which is not built in yet.
    let text = fs::read_to_string(&path).unwrap().replace("\"./swift.c\"", "\"swift\"");
    fs::write(&path, text).unwrap();
    let run = ["run", "swift/swift.toml", "--repeat", "1", "--set", "run.duration=\"600 ms\""];
    let with = |more: &[&str]| scratch.knee(&[&run[..], more].concat());
    let others = with(&["--cc", "./swift/swift.c,cubic"]);
    assert_eq!((others.status.code(), err(&others)), (Some(0), String::new()));
    assert!(out(&others).contains("cubic") && out(&others).contains("swift"), "{}", out(&others));
    // Where it is to be run, it is refused as before.
    for more in [&[][..], &["--cc", "swift"], &["--cc", "cubic,swift-717"]] {
        let refused = with(more);
        assert_eq!(refused.status.code(), Some(2));
        assert!(err(&refused).contains("must be one of"), "{}", err(&refused));
    }
}
