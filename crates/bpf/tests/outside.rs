//! Files of somebody's own become objects, and of objects only those that knee made of a file pass.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use knee_bpf::Embedded;
use knee_testbed::outside;

/// The object of the file of the tests; `None`: there is no clang.
fn object() -> Option<Vec<u8>> {
    if Embedded::all().is_empty() {
        writeln!(std::io::stderr(), "SKIPPED: knee was built without clang").unwrap();
        return None;
    }
    Some(Embedded::of_file(&outside::path(), None).unwrap().object().to_vec())
}

fn refusal(bytes: &[u8]) -> String {
    Embedded::of_object(Path::new("x.bpf.o"), bytes).err().unwrap().to_string()
}

/// With each of these texts, once or more, in place of another one of the same length.
fn with(object: &[u8], from: &str, to: &str) -> Vec<u8> {
    with_bytes(object, from.as_bytes(), to.as_bytes())
}

fn with_bytes(object: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut changed = object.to_vec();
    let places: Vec<usize> =
        (0..object.len() - from.len()).filter(|at| object[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "no {}", from.escape_ascii());
    for at in places {
        changed[at..at + to.len()].copy_from_slice(to);
    }
    changed
}

/// With another size in the header of this section.
fn with_size(object: &[u8], section: &str, bytes: u64) -> Vec<u8> {
    let number = |at: usize, len: usize| {
        let le = object[at..at + len].iter().rev();
        le.fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let header = |index: usize| number(40, 8) + 64 * index;
    let names = number(header(number(62, 2)) + 24, 8);
    let is_it = |index: &usize| {
        let name = &object[names + number(header(*index), 4)..];
        name.starts_with(section.as_bytes()) && name[section.len()] == 0
    };
    let at = header((0..number(60, 2)).find(is_it).unwrap()) + 32;
    let mut changed = object.to_vec();
    changed[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
    changed
}

#[test]
fn what_an_object_says_is_what_the_file_says() {
    let Some(object) = object() else { return };
    let made = Embedded::of_object(Path::new("gentle.bpf.o"), &object).unwrap();
    let (told, native) = (made.algorithm(), outside::native());
    assert_eq!(format!("{:?}", told.params()), format!("{:?}", native.params()));
    assert_eq!((told.name(), told.needs_ecn()), (outside::NAME, native.needs_ecn()));
    assert_eq!(told.operations(), native.operations());
    let source = made.source().unwrap();
    assert_eq!(source.file, "gentle.c");
    assert_eq!(source.sha256, native.module().unwrap().sha256());
}

#[test]
fn the_same_file_gives_the_same_object_wherever_it_lies() {
    let Some(object) = object() else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["gentle.c", "gentle.h"] {
        fs::copy(outside::path().with_file_name(name), dir.path().join(name)).unwrap();
    }
    // Headers of knee's are not taken from where the file is.
    fs::write(dir.path().join("tcp.h"), "#error another tcp.h\n").unwrap();
    let elsewhere = Embedded::of_file(&dir.path().join("gentle.c"), None).unwrap();
    assert!(elsewhere.object() == object);
}

#[test]
fn a_clang_that_is_none_is_refused() {
    let why = Embedded::of_file(&outside::path(), Some("/bin/true")).err().unwrap().to_string();
    assert!(why.contains("\"/bin/true\" is no clang 17 or later"), "{why}");
    assert!(why.contains("--object"), "{why}");
}

#[test]
fn objects_that_knee_did_not_make_of_a_file_are_refused() {
    let Some(object) = object() else { return };
    for (bytes, expected) in [
        (Vec::new(), "is no object for BPF"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "is no object for BPF"),
        (object[..object.len() / 2].to_vec(), "broken object"),
        (Embedded::by_name("dctcp").unwrap().object().to_vec(), "no section that names its source"),
        (knee_bpf::program("policy").unwrap().to_vec(), "no section that names its source"),
        (with(&object, "cc_open_records", "cc_mine_records"), "has a map \"cc_mine_records\""),
        (with(&object, "cc_ops_gentle", "cc_ops_gantle"), "they must be the same"),
        (with(&object, "keep\0\0share", "ke p\0\0share"), "parameters that cannot be read"),
    ] {
        let why = refusal(&bytes);
        assert!(why.starts_with("x.bpf.o: ") && why.contains(expected), "{expected}: {why}");
    }
}

/// Made so that root's kernel would do something else with it than with an algorithm.
#[test]
fn objects_that_ask_for_more_than_an_algorithm_does_are_refused() {
    let Some(object) = object() else { return };
    let call = |registers: u8, number: u8| [0x85, registers, 0, 0, number, 0, 0, 0];
    let load = |registers: u8| [0x18, registers, 0, 0, 0, 0, 0, 0];
    // As BTF has the arrays that tell of a map: the type of an element, that of the index, and how many.
    let array = |count: u32| {
        let at = (0..object.len() - 24)
            .find(|at| {
                object[*at..].starts_with(&[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0])
                    && object[at + 20..].starts_with(&count.to_le_bytes())
            })
            .unwrap();
        object[at..at + 24].to_vec()
    };
    let with_array = |count: u32, other: u32| {
        let from = array(count);
        let to = [&from[..20], &other.to_le_bytes()[..]].concat();
        with_bytes(&object, &from, &to)
    };
    const RINGBUF: u32 = 27;
    const HASH: u32 = 1;
    let get_time = call(0, 5);
    for (bytes, expected) in [
        (
            with(&object, "tcp_congestion_ops", "hid_congestion_ops"),
            "a table that is none of congestion control",
        ),
        (with_bytes(&object, &get_time, &call(0, 113)), "calls helper 113 of the kernel"),
        (with_bytes(&object, &get_time, &call(0x20, 5)), "by a number of its own"),
        (with_bytes(&object, &load(0x01), &load(0x31)), "things of the kernel by numbers"),
        (
            with(&object, "tcp_reno_cong_avoid", "bpf_reno_cong_avoid"),
            "uses \"bpf_reno_cong_avoid\" of the kernel",
        ),
        (with_array(RINGBUF, HASH), "a map cc_ring_slot of another kind"),
        (with_array(1 << 12, 1 << 24), "a map cc_ring_slot of another kind"),
        (with_size(&object, ".rodata.default", 8), "a map .rodata.default of another kind"),
        (with_size(&object, ".rodata.default", 4), "a map .rodata.default of another kind"),
        (with_size(&object, ".data.fallbacks", 4), "a map .data.fallbacks of another kind"),
    ] {
        let why = refusal(&bytes);
        assert!(why.starts_with("x.bpf.o: ") && why.contains(expected), "{expected}: {why}");
    }
}

/// Of a Linux module one more program is taken: its `module_init`, by its name.
#[test]
fn a_module_has_one_program_that_is_no_operation() {
    if object().is_none() {
        return;
    }
    let file = outside::path().with_file_name("../modules/tcp_shown.c");
    let object = Embedded::of_file(&file, None).unwrap().object().to_vec();
    assert!(Embedded::of_object(Path::new("x.bpf.o"), &object).is_ok());
    for (bytes, expected) in [
        (with(&object, "knee_module_init", "knee_module_exit"), "a program \"knee_module_exit\""),
        (with_size(&object, ".data.stopped", 8), "a map .data.stopped of another kind"),
    ] {
        let why = refusal(&bytes);
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn what_makes_the_compiler_go_on_for_ever_is_refused() {
    if object().is_none() {
        return;
    }
    // 2^26 lines of 8 bytes and more.
    let bomb = (0..26).fold("#define M0 int x ;\n".to_owned(), |text, i| {
        format!("{text}#define M{} M{i} M{i}\n", i + 1)
    });
    let text = fs::read_to_string(outside::path()).unwrap();
    let text = text.replace("#include \"gentle.h\"", &format!("{bomb}M26\n"));
    let why = Embedded::of_source(Path::new("gentle.c"), &text, None).err().unwrap().to_string();
    assert!(why.contains("makes the compiler write more than 32 MiB"), "{why}");
}

#[test]
fn a_path_that_is_no_text_is_refused_before_anything_is_done() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(std::ffi::OsStr::from_bytes(b"gentle\xff.c"));
    fs::copy(outside::path(), &path).unwrap();
    let why = Embedded::of_file(&path, None).err().unwrap().to_string();
    assert!(why.contains("has a path that is not text in UTF-8"), "{why}");
}

const MODULE: &str = r#"
#include <linux/module.h>
#include <net/tcp.h>
static int one = 3;
static int two = 5;
module_param(one, int, 0644);
module_param(two, int, 0644);
static u32 mine_ssthresh(struct sock *sk)
{
    return max(tcp_sk(sk)->snd_cwnd >> (one + two), 2U);
}
static struct tcp_congestion_ops mine = {
    .ssthresh = mine_ssthresh,
    .undo_cwnd = tcp_reno_undo_cwnd,
    .cong_avoid = tcp_reno_cong_avoid,
    .name = "outside_mine",
};
static int __init mine_register(void)
{
    return tcp_register_congestion_control(&mine);
}
module_init(mine_register);
"#;

/// What a `module_init` computes is a program that the loader runs, however it is written; one that only registers is none.
#[test]
fn a_module_init_that_computes_is_run_however_it_is_written() {
    if object().is_none() {
        return;
    }
    let has_init = |text: &str| {
        let made = Embedded::of_source(Path::new("mine.c"), text, None).unwrap();
        let name = b"knee_module_init\0";
        made.object().windows(name.len()).any(|bytes| bytes == name)
    };
    assert!(!has_init(MODULE));
    let computes =
        MODULE.replace("    return tcp_register", "    one = two * 2;\n    return tcp_register");
    for text in [
        computes.clone(),
        computes.replace("mine_register(void)", "mine_register()"),
        computes.replace("static int __init", "static int mine_register(void);\nstatic int __init"),
    ] {
        assert!(has_init(&text), "{text}");
    }
    let other = computes.replace("mine_register(void)", "mine_register(int a)");
    let why = Embedded::of_source(Path::new("mine.c"), &other, None).err().unwrap().to_string();
    assert!(why.contains("whose body is not found"), "{why}");
}

/// All that is missing comes at once, also behind a header that is not there, with what the simulator alone has.
#[test]
fn what_a_file_lacks_is_said_in_a_line_each() {
    if object().is_none() {
        return;
    }
    let lacks =
        MODULE.replace("#include <net/tcp.h>", "#include <net/none.h>\n#include <net/tcp.h>");
    let lacks = lacks.replace(
        "    return max(",
        "    u32 a = tcp_sk(sk)->rx_opt.rcv_tsval + tcp_none_of(sk);\n    kfree(kmalloc(LINUX_NONE, 0));\n    return max(a + ",
    );
    let why = Embedded::of_source(Path::new("a/mine.c"), &lacks, None).err().unwrap().to_string();
    assert!(why.starts_with("a/mine.c: does not compile for BPF with "), "{why}");
    let contract = "knee's contract has no such";
    let simulator = "the simulator has it, and BPF in a running kernel has not; see docs/modules.md#in-the-running-kernel";
    for (name, line, expected) in [
        ("<net/none.h>", 3, contract),
        ("tcp_none_of", 11, contract),
        ("struct tcp_sock.rx_opt", 11, simulator),
        ("LINUX_NONE", 12, contract),
        ("kmalloc", 12, simulator),
        ("kfree", 12, simulator),
    ] {
        let expected = format!("mine.c uses `{name}` (line {line}): {expected}");
        assert!(why.contains(&expected), "{expected}\n{why}");
    }
    assert_eq!(why.lines().count(), 7, "{why}");
    // One cause is one sentence, and a module of several files is told from one that lacks something.
    let one = MODULE.replace("one + two", "one + tcp_none_of(sk)");
    let why = Embedded::of_source(Path::new("mine.c"), &one, None).err().unwrap().to_string();
    assert!(why.starts_with("mine.c: mine.c uses `tcp_none_of` (line 10): "), "{why}");
    let other =
        MODULE.replace("static u32 mine_ssthresh", "u32 of_other(void);\nstatic u32 mine_ssthresh");
    let other = other.replace("one + two", "of_other()");
    let why = Embedded::of_source(Path::new("mine.c"), &other, None).err().unwrap().to_string();
    assert!(why.contains("calls `of_other`, which is of another file"), "{why}");
}

/// The parameters of a Linux module are variables, which an object names.
#[test]
fn objects_of_modules_name_only_variables_of_their_own() {
    if object().is_none() {
        return;
    }
    let made = Embedded::of_source(Path::new("mine.c"), MODULE, None).unwrap();
    let object = made.object();
    let again = Embedded::of_object(Path::new("x.bpf.o"), object).unwrap();
    let defaults: Vec<u32> = again.algorithm().params().iter().map(|param| param.default).collect();
    assert_eq!(defaults, [3, 5]);
    let told = |kind: u8| [&[kind][..], &[0; 11], b"two\0two\0"].concat();
    for (bytes, expected) in [
        (with(object, "two\0two\0", "one\0two\0"), "parameters that cannot be read"),
        (with_bytes(object, &told(5), &told(2)), "parameters that cannot be read"),
        (with(object, "two\0two\0", "two\0twe\0"), "parameters that cannot be read"),
        (with(object, "\0.data\0", "\0.link\0"), "parameters that cannot be read"),
    ] {
        let why = refusal(&bytes);
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

/// libbpf warns of an extern that is in one of the two tables alone, and calls it by its name: that must not be text.
#[test]
fn names_that_are_not_text_are_refused() {
    let Some(object) = object() else { return };
    let name = b"tcp_reno_cong_avoid\0";
    // Of the places that have it the symbols are the last.
    let at = (0..object.len() - name.len()).rfind(|at| object[*at..].starts_with(name)).unwrap();
    let mut changed = object;
    changed[at] = 0xff;
    let why = refusal(&changed);
    assert!(why.starts_with("x.bpf.o: cannot be read as an object for BPF"), "{why}");
    assert!(why.contains("\u{fffd}cp_reno_cong_avoid"), "{why}");
}

/// Whatever is changed in an object, it is refused or read, and what is read keeps to the bounds.
#[test]
fn changed_objects_do_no_harm() {
    let Some(object) = object() else { return };
    let mut random: u64 = 1;
    let mut next = |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut changed = object.clone();
        for _ in 0..1 + next(4) {
            let at = next(changed.len());
            changed[at] = next(256) as u8;
        }
        if let Ok(made) = Embedded::of_object(Path::new("x.bpf.o"), &changed) {
            assert!(made.name().len() < 16 && made.algorithm().params().len() <= 64);
        }
    }
}

/// Where a section's bytes are.
fn place_of(object: &[u8], section: &str) -> std::ops::Range<usize> {
    let number = |at: usize, len: usize| {
        let le = object[at..at + len].iter().rev();
        le.fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let header = |index: usize| number(40, 8) + 64 * index;
    let names = number(header(number(62, 2)) + 24, 8);
    let is_it = |index: &usize| {
        let name = &object[names + number(header(*index), 4)..];
        name.starts_with(section.as_bytes()) && name[section.len()] == 0
    };
    let at = header((0..number(60, 2)).find(is_it).unwrap());
    number(at + 24, 8)..number(at + 24, 8) + number(at + 32, 8)
}

/// libbpf divides by the sizes of an object's types, follows its numbers and believes its lengths
/// (a signal in `knee load`, issue 47). `KNEE_MUTATIONS` is the number of objects to try.
#[test]
fn an_object_with_changed_bytes_ends_no_process_and_takes_no_memory() {
    let Some(object) = object() else { return };
    let count = std::env::var("KNEE_MUTATIONS").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(60);
    let may_load = knee_testbed::kernel_is_ready();
    let places = [".BTF", ".BTF.ext", ".strtab", ".symtab"].map(|name| place_of(&object, name));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut signals, mut loads) = (0, 0);
    let mut note = |why: String| {
        assert_eq!(why.lines().count(), 1, "{why}");
        signals += u32::from(why.contains("would end by signal"));
    };
    for round in 0..count {
        let mut changed = object.clone();
        // Mostly the types, half of the time in their numbers rather than their names.
        let place = match round % 8 {
            0..4 => places[0].clone(),
            4..7 => places[1 + random(places.len() - 1)].clone(),
            _ => 0..object.len(),
        };
        let len = if round % 2 == 0 { place.len() / 2 } else { place.len() };
        for _ in 0..1 + random(3) {
            let values = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8];
            changed[place.start + random(len)] = values[random(values.len())];
        }
        match Embedded::of_object(Path::new("x.bpf.o"), &changed) {
            Err(why) => note(why.to_string()),
            Ok(made) if may_load => {
                loads += 1;
                let params = made.algorithm().default_params();
                let name = knee_testbed::own_name("changed");
                if let Err(why) = knee_bpf::Loaded::register_for_any_user(&made, name, &params) {
                    note(why.to_string());
                }
            }
            Ok(_) => {}
        }
        if loads > 0 {
            knee_testbed::wait_until_free(knee_testbed::own_name("changed"));
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    writeln!(std::io::stderr(), "{count} objects, {loads} loads, {signals} signals, {peak}")
        .unwrap();
}

/// Relocations of a bit field divide by the size of its type, and `void` has none.
#[test]
fn an_object_that_would_end_libbpf_by_a_signal_is_refused_in_a_sentence() {
    let Some(object) = object() else { return };
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    /// A struct (kind 4) of one member that has a number of bits.
    const STRUCT_OF_BITS: u32 = 1 << 31 | 4 << 24 | 1;
    const TYPE_OF_MEMBER: usize = 16;
    let types = place_of(&object, ".BTF");
    let word = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap());
    let is_one = |at: &usize| word(at + 4) == STRUCT_OF_BITS && word(at + 20) >> 24 != 0;
    let places: Vec<usize> = (types.start..types.end - 24).step_by(4).filter(is_one).collect();
    assert!(!places.is_empty());
    for at in places {
        let mut changed = object.clone();
        changed[at + TYPE_OF_MEMBER..at + TYPE_OF_MEMBER + 4].fill(0);
        let made = Embedded::of_object(Path::new("x.bpf.o"), &changed);
        let loaded = made.and_then(|made| {
            let params = made.algorithm().default_params();
            knee_bpf::Loaded::register_for_any_user(&made, knee_testbed::own_name("void"), &params)
        });
        let why = loaded.err().map_or_else(String::new, |why| why.to_string());
        assert!(why.contains("libbpf would end by signal 8"), "{at}: {why}");
    }
}
