use std::fs;
use std::path::Path;

use super::*;
use tempfile::TempDir;

/// Returns a valid file with `code` appended.
fn with(code: &str) -> String {
    format!("#include \"tcp.h\"\nCC_NO_STATE(x)\nCC_NO_PARAMS(x)\nCC_NO_DIAG(x)\n{code}\n")
}

/// Returns the rules that a piece of code breaks, with line numbers counted from its first line.
fn broken(code: &str) -> Vec<(Rule, u32)> {
    text_of(&with(code)).into_iter().map(|finding| (finding.rule, finding.line - 4)).collect()
}

#[test]
fn the_folders_algorithms_are_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [root.join("../../algorithms"), root.join("src/testing")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "c") {
                let mut findings = file(&path).unwrap().findings;
                if path.ends_with("stamped.c") {
                    // The file writes a field that old kernels protect, to test the loader's
                    // refusal.
                    let all = findings.len();
                    findings.retain(|finding| !finding.message.contains("snd_cwnd_stamp"));
                    assert_eq!(all - findings.len(), 1);
                }
                assert_eq!(findings, [], "{}", path.display());
            }
        }
    }
}

#[test]
fn what_is_no_c_file_does_not_pass() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let said = file(&path).unwrap_err().to_string();
    assert!(
        said.ends_with("Cargo.toml: must be C source, in a file whose name ends in .c"),
        "{said}"
    );
}

#[test]
fn floating_point_is_found_and_hexadecimal_is_not() {
    assert_eq!(broken("static u32 f(void)\n{ float a = 1; return a; }"), [(Rule::Float, 2)]);
    assert_eq!(broken("static u32 f(u32 a) { return a * 1.5; }"), [(Rule::Float, 1)]);
    assert_eq!(broken("#define G 1e3\n"), [(Rule::Float, 1)]);
    assert_eq!(broken("#define G 0x1e3f\nstatic u32 f(u32 a) { return a & G; } /* 1.5 */"), []);
}

#[test]
fn wide_integers_and_assembly_are_found() {
    assert_eq!(
        broken("static u64 f(u64 a)\n{\n\treturn (unsigned __int128)a >> 2;\n}"),
        [(Rule::Wide, 3)]
    );
    assert_eq!(broken("static void f(void) { __asm__(\"nop\"); }"), [(Rule::Assembly, 1)]);
}

#[test]
fn state_that_belongs_to_no_connection_is_found() {
    assert_eq!(broken("static u32 flows;"), [(Rule::GlobalState, 1)]);
    assert_eq!(broken("static u32 table[3] = { 1, 2, 3 };"), [(Rule::GlobalState, 1)]);
    assert_eq!(broken("static struct foo now = { .a = 1 };"), [(Rule::GlobalState, 1)]);
    assert_eq!(
        broken("static u32 f(void)\n{\n\tstatic u32 n;\n\treturn n++;\n}"),
        [(Rule::GlobalState, 3)]
    );
    let fine = "struct foo { u32 a; };\nenum e { ONE };\ntypedef u32 packets;\nstatic u32 f(u32 a);\n\
                static const u32 table[] = { 1, 2 };\nstatic u32 f(u32 a)\n{\n\tstatic const u32 b[] = { 1 };\n\treturn b[a & 0];\n}\n\
                CC_STATE(x, struct foo)\nCC_ALGORITHM(x) = { .init = CC_FN(f), .name = \"x\" };";
    assert_eq!(broken(fine), []);
}

#[test]
fn more_than_five_arguments_are_found() {
    assert_eq!(
        broken("static u32 f(u32 a, u32 b, u32 c, u32 d, u32 e, u32 g)\n{\n\treturn a;\n}"),
        [(Rule::Arguments, 1)]
    );
    assert_eq!(broken("static u32 f(u32 a, u32 b, u32 c, u32 d, u32 e) { return a; }"), []);
    assert_eq!(
        broken("CC_OP(void, f, struct sock *sk, u32 a, s32 b, const struct rate_sample *rs) { }"),
        []
    );
}

#[test]
fn loops_need_a_constant_bound() {
    let f =
        |code: &str| broken(&format!("static u32 f(u32 n)\n{{\n\tint i;\n{code}\n\treturn n;\n}}"));
    assert_eq!(f("while (n) n >>= 1;"), [(Rule::Loop, 4)]);
    assert_eq!(f("for (i = 0; i < n; i++) n--;"), [(Rule::Loop, 4)]);
    assert_eq!(f("for (;;) n--;"), [(Rule::Loop, 4)]);
    assert_eq!(f("again:\nn--;\nif (n) goto again;"), [(Rule::Loop, 6)]);
    assert_eq!(f("for (i = 0; i < 8; i++) n--;"), []);
    assert_eq!(f("for (i = LIMIT - 1; i >= 0; i--) n--;"), []);
    assert_eq!(f("for (i = 0; i < LIMIT && i < n; i++) n--;"), []);
    assert_eq!(f("do { n--; } while (0);\nif (n) goto out;\nout:"), []);
}

#[test]
fn recursion_is_found_through_others_too() {
    assert_eq!(
        broken("static u32 f(u32 n)\n{\n\treturn n ? f(n - 1) : 0;\n}"),
        [(Rule::Recursion, 3)]
    );
    let two = "static u32 g(u32 n);\nstatic u32 f(u32 n) { return g(n); }\nstatic u32 g(u32 n) { return f(n); }";
    assert_eq!(broken(two), [(Rule::Recursion, 2), (Rule::Recursion, 3)]);
}

#[test]
fn functions_that_the_contract_lacks_are_found_with_what_stands_for_them() {
    let code = with("static void f(struct sock *sk)\n{\n\tstruct x *ca = inet_csk_ca(sk);\n}");
    let found = text_of(&code);
    assert_eq!((found.len(), found[0].rule, found[0].line), (1, Rule::Call, 7));
    assert_eq!(
        found[0].message,
        "uses `inet_csk_ca`: knee's contract has no such function: use cc_state(sk)"
    );
    assert_eq!(broken("static u32 f(void) { return strlen(\"a\"); }"), [(Rule::Call, 1)]);
    let fine = "#define TWICE(a) (2 * (a))\nstatic u32 g(u32 a) { return a; }\n\
                static u32 f(struct sock *sk)\n{\n\ttcp_slow_start(tcp_sk(sk), g(TWICE(1)));\n\
                \treturn min_u32((u32)(sizeof(u64)), cc_random_u32(sk)) + usecs_to_jiffies(3) + HZ;\n}";
    assert_eq!(broken(fine), []);
}

#[test]
fn writes_that_the_kernel_refuses_are_found() {
    let f = |code: &str| {
        broken(&format!("static void f(struct sock *sk, struct tcp_sock *tp)\n{{\n{code}\n}}"))
    };
    assert_eq!(f("tp->prior_cwnd = 3;"), [(Rule::ReadOnly, 3)]);
    assert_eq!(f("tcp_sk(sk)->snd_cwnd_clamp++;"), [(Rule::ReadOnly, 3)]);
    assert_eq!(f("--tp->delivered;"), [(Rule::ReadOnly, 3)]);
    assert_eq!(f("sk->sk_max_pacing_rate = 1;"), [(Rule::ReadOnly, 3)]);
    assert_eq!(
        f("tp->snd_cwnd = tp->prior_cwnd; sk->sk_pacing_rate = 1; if (tp->lost == 1) return;"),
        []
    );
    assert_eq!(
        f("inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;\ncc_state(sk)->delivered = 1;"),
        []
    );
}

#[test]
fn headers_and_conditions_are_found() {
    assert_eq!(broken("#include <linux/module.h>"), [(Rule::Include, 1)]);
    assert_eq!(broken("#ifdef __bpf__\n#endif"), [(Rule::Include, 1)]);
}

/// A file in a temporary directory.
struct Scratch(TempDir);

impl Scratch {
    fn new(code: &str) -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.c"), with(code)).unwrap();
        Scratch(dir)
    }

    /// Returns what one compiler finds, with line numbers counted as above.
    fn found(&self, by: &str, is_for_bpf: bool) -> Vec<(u32, String)> {
        let path = self.0.path().join("x.c");
        let text = fs::read_to_string(&path).unwrap();
        let looked = compiler::compiled(&path, &text, by, is_for_bpf);
        let mut found = looked.expect("a compiler is there to test with").findings;
        found.sort_by_key(|finding| finding.line);
        found.dedup();
        found.into_iter().map(|finding| (finding.line - 4, finding.message)).collect()
    }
}

/// This crate also builds without clang.
fn clang() -> Option<String> {
    module::find_clang(None).ok().map(|(clang, _)| clang)
}

#[test]
fn clang_sees_what_bpf_lacks() {
    let Some(clang) = clang() else { return };
    let divides = Scratch::new(
        "s32 f(s32 a, s32 b)\n{\n\treturn a / b;\n}\nu32 g(u32 a, u32 b)\n{\n\treturn a / b;\n}\n\
         s32 h(s32 a)\n{\n\treturn a % 7;\n}\ns32 i(s32 a)\n{\n\treturn a / 8;\n}",
    );
    let found = divides.found(&clang, true);
    let lines: Vec<u32> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 11, 15]);
    assert!(found[0].1.starts_with("a signed division or remainder, which BPF has only"));
    let stack = Scratch::new(
        "u32 f(u32 n)\n{\n\tvolatile u32 a[200];\n\n\ta[n & 127] = n;\n\treturn a[n & 63];\n}",
    );
    let found = stack.found(&clang, true);
    assert!(!found.is_empty(), "more than 512 bytes");
    assert!(
        found.iter().all(|(_, what)| what.starts_with("more than 512 bytes of local variables"))
    );
}

#[test]
fn compilers_see_what_is_no_c() {
    let wrong = Scratch::new("u32 f(u32 n)\n{\n\treturn m;\n}");
    let (gcc, _) = module::find_compiler().unwrap();
    for (by, is_for_bpf) in clang().map(|clang| (clang, true)).into_iter().chain([(gcc, false)]) {
        let found = wrong.found(&by, is_for_bpf);
        let expected = "uses `m`: knee's contract has no such name; tcp.h, native.h and bpf.h have what there is";
        assert_eq!(found, [(3, expected.to_owned())]);
    }
}

#[test]
fn a_linux_module_is_one_sentence() {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/modules/tcp_reno.c");
    let why = file(Path::new(module)).unwrap_err().to_string();
    assert!(why.contains("this is a Linux module") && !why.contains('\n'), "{why}");
}

#[test]
fn the_stamp_of_the_window_is_named_with_the_kernel_that_lets_it_be_written() {
    let found = text_of("void f(struct tcp_sock *tp)\n{\n\ttp->snd_cwnd_stamp = 1;\n}");
    assert!(found.len() == 1 && found[0].rule == Rule::ReadOnly && found[0].line == 3, "{found:?}");
    assert!(found[0].message.contains("before 6.10"), "{found:?}");
}
