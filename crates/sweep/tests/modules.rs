//! Algorithms from files: modules in the kernel's style, and files on the contract, in whole sweeps.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_flight::{Reader, Replay, Report};
use knee_scenario::{Error, Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use tempfile::TempDir;

/// Losses, marks, idle times and reordering in little time.
const NETWORK: &str = r#"question = "Same?"

[network]
topology = "many-to-one"
senders = 3
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "60 pkts", k = "20 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
start_jitter = "1 ms"

[[traffic]]
name = "requests"
kind = "rpc"
from = "r"
to = "s3"
request = "100 B"
response = "50 kB"
count = 40

[run]
duration = "300 ms"
repeat = 2

[sample]
flows = "1 ms"
"#;

const SERIES: &str = "series-flows.csv";
const FILES: [&str; 4] = [SERIES, "flows.csv", "rpcs.csv", "runs.csv"];

/// A directory that goes away.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// Writes a source file; its path.
    fn source(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs an experiment; a file of its results by name.
    fn run(
        &self,
        text: &str,
        overrides: &Overrides,
        threads: usize,
    ) -> impl Fn(&str) -> String + use<> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let dir = self.0.path().join(format!("results-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let experiment =
            load(&self.0.path().join("x.toml"), text, overrides).unwrap_or_else(|e| panic!("{e}"));
        let options = Options { threads, ..Options::new(Arc::new(Simulator)) };
        let mut results = Results::at(&dir).unwrap();
        let swept = sweep(&Arc::clone(&experiment), &options, &mut results, &mut |_| {}).unwrap();
        results.finish(&experiment, &swept, &[]).unwrap();
        move |name| fs::read_to_string(dir.join(name)).unwrap()
    }
}

fn load(path: &Path, text: &str, overrides: &Overrides) -> Result<Arc<Experiment>, Error> {
    Experiment::parse(path, text, overrides).map(Arc::new)
}

/// A module of tests/modules, from the root of the clone.
fn module(name: &str) -> String {
    format!("{}/../../tests/modules/{name}.c", env!("CARGO_MANIFEST_DIR"))
}

fn text_of(name: &str) -> String {
    fs::read_to_string(module(name)).unwrap()
}

fn with_cc(names: &[&str]) -> Overrides {
    Overrides { cc: names.iter().map(|name| (*name).to_owned()).collect(), ..Overrides::default() }
}

fn set(mut overrides: Overrides, keys: &[&str]) -> Overrides {
    overrides.set = keys.iter().map(|key| (*key).to_owned()).collect();
    overrides
}

/// What is wrong with a file named as an algorithm.
fn refusal(scratch: &Scratch, name: &str, text: &str) -> String {
    let path = scratch.source(name, text);
    load(Path::new("x.toml"), NETWORK, &with_cc(&[&path])).expect_err("it is wrong").to_string()
}

/// The first columns of each row: the algorithms' inside views are last.
fn first_columns(csv: &str, columns: usize) -> String {
    let cut = |line: &str| line.split(',').take(columns).collect::<Vec<_>>().join(",") + "\n";
    csv.lines().map(cut).collect()
}

/// None of the inside views.
fn without_views(csv: &str) -> String {
    let header = csv.lines().next().unwrap();
    first_columns(csv, header.split(',').position(|column| column == "rto_us").unwrap() + 1)
}

/// The same rows with the columns that another table has too, by name.
fn in_common(csv: &str, other: &str) -> String {
    let names: Vec<&str> = other.lines().next().unwrap().split(',').collect();
    let header = csv.lines().next().unwrap().split(',');
    let wanted: Vec<bool> = header.map(|name| names.contains(&name)).collect();
    let cut = |line: &str| {
        let cells = line.split(',').zip(&wanted).filter(|(_, wanted)| **wanted);
        cells.map(|(cell, _)| cell).collect::<Vec<_>>().join(",") + "\n"
    };
    csv.lines().map(cut).collect()
}

/// A minimal module whose operations and registration are given.
fn small(operations: &str, more: &str, register: &str) -> String {
    format!(
        "#include <linux/module.h>\n#include <linux/slab.h>\n#include <net/tcp.h>\n{more}\n\
         static struct tcp_congestion_ops ops = {{\n\t{operations}\n\t.owner = THIS_MODULE,\n\t.name = \"small\",\n}};\n\
         static int __init small_register(void)\n{{\n\t{register}\n}}\nmodule_init(small_register);\nMODULE_LICENSE(\"GPL\");\n"
    )
}

const RENO: &str = ".ssthresh = tcp_reno_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,";
const REGISTER: &str = "return tcp_register_congestion_control(&ops);";

#[test]
fn our_algorithms_written_as_modules_give_the_same_bytes() {
    let scratch = Scratch::new();
    for name in ["reno", "cubic", "dctcp"] {
        let ours = scratch.run(NETWORK, &with_cc(&[name]), 2);
        let as_module = format!("tcp_{name}");
        let theirs = scratch.run(NETWORK, &with_cc(&[&module(&as_module)]), 2);
        for file in FILES {
            let (mut a, mut b) = (ours(file), theirs(file).replace(&as_module, name));
            assert!(a.lines().count() > 2, "{file} says something");
            if file == SERIES {
                // Ours has views that the module's get_info has not, and the module the fields of its struct.
                (a, b) = (in_common(&a, &b), in_common(&b, &a));
                assert!(name != "dctcp" || a.contains(",alpha_1/1024"), "get_info makes columns");
            }
            assert_eq!(a, b, "{name}: {file}");
        }
    }
}

#[test]
fn a_modules_parameters_are_set_like_any_others_and_variants_run_side_by_side() {
    let scratch = Scratch::new();
    let reno_m = module("tcp_reno_m");
    let cases = format!(
        "{NETWORK}\n[[case]]\nname = \"half\"\ncc = \"{reno_m}\"\n\n[[case]]\nname = \"most\"\ncc = \"{reno_m}\"\n\
         params = {{ beta = 900, increase = 2, slow_start = true }}\n\n[[case]]\nname = \"reno\"\ncc = \"reno\"\n"
    );
    let results = scratch.run(&cases, &Overrides::default(), 1);
    let flows = results("flows.csv");
    let rows = |case: &str| -> Vec<String> {
        let rows = flows.lines().filter(|line| line.contains(&format!(",{case},")));
        rows.map(|row| row.replace(case, "").replace("tcp_reno_m", "reno")).collect()
    };
    let unnumbered = |rows: Vec<String>| -> Vec<String> {
        rows.iter().map(|row| row.split_once(',').unwrap().1.replace(",reno", ",")).collect()
    };
    assert_eq!(unnumbered(rows("half")), unnumbered(rows("reno")), "its defaults are Reno's");
    assert_ne!(unnumbered(rows("half")), unnumbered(rows("most")));
    let manifest = results("manifest.json");
    for part in [
        "\"case.params.beta\": \"900\"",
        "\"case.params.slow_start\": \"Y\"",
        "\"sha256\"",
        "tcp_reno_m.c",
    ] {
        assert!(manifest.contains(part), "{part}: {manifest}");
    }
}

#[test]
fn a_value_that_a_parameters_type_cannot_hold_is_refused() {
    let with = |key: &str| {
        let overrides = set(with_cc(&[&module("tcp_reno_m")]), &[key]);
        load(Path::new("x.toml"), NETWORK, &overrides).err().map(|why| why.to_string())
    };
    assert_eq!(with("params.beta=-3"), None, "an int may be negative");
    let why = with("params.increase=-1").unwrap();
    assert!(why.contains("must be a whole number from 0 to 4294967295"), "{why}");
    let why = with("params.slow_start=2").unwrap();
    assert!(why.contains("one of N, Y"), "{why}");
    let why = with("params.betta=1").unwrap();
    assert!(why.contains("did you mean \"beta\"?"), "{why}");
}

/// A module with a global counter that every connection changes: it shows whatever leaks between runs,
/// hosts and threads.
fn counting() -> String {
    let more = "static u32 calls = 1;\nstatic unsigned int start = 0;\nmodule_param(start, uint, 0644);\n\
                struct own { u32 *block; };\n\
                static void own_init(struct sock *sk)\n{\n\tstruct own *own = inet_csk_ca(sk);\n\
                \town->block = kcalloc(4, sizeof(u32), GFP_KERNEL);\n}\n\
                static void own_release(struct sock *sk)\n{\n\tstruct own *own = inet_csk_ca(sk);\n\tkfree(own->block);\n}\n\
                static u32 own_ssthresh(struct sock *sk)\n{\n\tcalls += 1 + get_random_u32_below(3);\n\
                \treturn max(tcp_snd_cwnd(tcp_sk(sk)) * 3 / (4 + (calls + start) % 5), 2U);\n}";
    let operations = ".ssthresh = own_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd, \
                      .init = own_init, .release = own_release,";
    small(operations, more, REGISTER)
}

#[test]
fn global_variables_belong_to_one_host_of_one_run_whatever_the_threads() {
    let scratch = Scratch::new();
    let path = scratch.source("tcp_counting.c", &counting());
    let text = NETWORK.replace("repeat = 2", "repeat = 8");
    let with = |threads: usize| {
        let results = scratch.run(&text, &with_cc(&[&path, &module("tcp_model")]), threads);
        FILES.map(&results)
    };
    let once = with(1);
    assert_eq!(once, with(4), "threads");
    assert_eq!(once, with(1), "a second time in the same process");
    // A run by itself has what it has among others, whatever columns these add.
    let alone = scratch.run(&text.replace("repeat = 8", "repeat = 1"), &with_cc(&[&path]), 1);
    let first_run = |csv: &str| -> Vec<String> {
        let csv = without_views(csv);
        csv.lines().filter(|line| line.starts_with("0,")).map(str::to_owned).collect()
    };
    assert_eq!(first_run(&alone(SERIES)), first_run(&once[0]));
    let varied = scratch.run(&text, &set(with_cc(&[&path]), &["params.start=1"]), 2);
    assert_ne!(varied(SERIES), once[0]);
}

#[test]
fn either_form_of_cong_control_is_taken() {
    let scratch = Scratch::new();
    let text = text_of("tcp_model");
    let (before, rest) = text.split_once("#if LINUX_VERSION_CODE >=").unwrap();
    let (four, rest) = rest.split_once("#else\n").unwrap();
    let (two, after) = rest.split_once("#endif\n").unwrap();
    let four = four.split_once('\n').unwrap().1;
    let with = |name: &str, form: &str| {
        let path = scratch.source(&format!("{name}.c"), &format!("{before}{form}{after}"));
        let results = scratch.run(NETWORK, &with_cc(&[&path]), 1);
        FILES.map(|file| results(file).replace(name, ""))
    };
    let four = with("of_four", four);
    assert_eq!(four, with("of_two", two));
    assert!(
        four[0].lines().next().unwrap().contains(",pacing_gain_1/256,cwnd_gain_1/256"),
        "get_info makes columns"
    );
}

#[test]
fn a_module_that_falls_back_changes_its_table_for_the_connections_life() {
    let scratch = Scratch::new();
    // The listening side does not need ECN and refuses it to a SYN that is ECT.
    let text = NETWORK.replace("to = \"r\"\n", "to = \"r\"\npeer_cc = \"reno\"\n");
    let theirs = scratch.run(&text, &with_cc(&[&module("tcp_dctcp")]), 1);
    let ours = scratch.run(&text, &with_cc(&["dctcp"]), 1);
    let flows = theirs("flows.csv");
    let bulk: Vec<&str> = flows.lines().filter(|line| line.contains(",bulk,")).collect();
    assert!(
        !bulk.is_empty() && bulk.iter().all(|line| line.contains(",tcp_dctcp,dctcp-reno,")),
        "{flows}"
    );
    let of_bulk = |csv: &str| {
        without_views(csv)
            .lines()
            .filter(|l| l.contains(",bulk,"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(of_bulk(&theirs(SERIES)), of_bulk(&ours(SERIES)));
}

#[test]
fn a_file_on_the_contract_is_the_folders_algorithm_again() {
    let scratch = Scratch::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../algorithms");
    for name in ["cubic", "dctcp"] {
        let text = fs::read_to_string(format!("{root}/{name}.c")).unwrap();
        let path = scratch.source(&format!("my_{name}.c"), &text);
        let ours = scratch.run(NETWORK, &with_cc(&[name]), 2);
        let theirs = scratch.run(NETWORK, &with_cc(&[&path]), 2);
        for file in FILES {
            assert_eq!(
                ours(file),
                theirs(file).replace(&format!("my_{name}"), name),
                "{name}: {file}"
            );
        }
    }
}

#[test]
fn a_path_in_an_experiment_is_seen_from_its_file() {
    let scratch = Scratch::new();
    scratch.source("tcp_mine.c", &small(RENO, "", REGISTER));
    let text = format!("cc = [\"reno\", \"./tcp_mine.c\"]\n{NETWORK}");
    let summary = scratch.run(&text, &Overrides::default(), 1)("summary.csv");
    let rows = |case: &str| -> Vec<String> {
        let rows = summary.lines().filter_map(|line| line.strip_prefix(case));
        rows.map(str::to_owned).collect()
    };
    assert!(!rows("reno,").is_empty());
    assert_eq!(rows("reno,"), rows("tcp_mine,"));
}

#[test]
fn what_does_not_compile_is_shown_with_file_and_line_and_what_there_is() {
    let scratch = Scratch::new();
    let use_of = |code: &str| {
        let more = format!(
            "static void f(struct sock *sk)\n{{\n\tstruct tcp_sock *tp = tcp_sk(sk);\n\n\t{code}\n}}"
        );
        small(&format!("{RENO} .init = f,"), &more, REGISTER)
    };
    let why = refusal(&scratch, "field.c", &use_of("tp->retrans_stamp = 1;"));
    assert!(why.contains("field.c uses `struct tcp_sock.retrans_stamp` (line 8): "), "{why}");
    assert!(
        why.contains("knee's contract has no such field; it has snd_una, snd_nxt, snd_cwnd"),
        "{why}"
    );
    let why = refusal(&scratch, "function.c", &use_of("tcp_enter_loss(sk);"));
    let expected = "function.c uses `tcp_enter_loss` (line 8): knee's contract has no such function; see docs/modules.md#contract";
    assert!(why.contains(expected), "{why}");
    let why = refusal(&scratch, "header.c", &small(RENO, "#include <linux/netfilter.h>", REGISTER));
    let expected =
        "header.c uses `<linux/netfilter.h>` (line 4): knee's contract has no such header";
    assert!(why.contains(expected), "{why}");
    let why = refusal(
        &scratch,
        "array.c",
        &small(RENO, "static int v[2];\nmodule_param_array(v, int, NULL, 0);", REGISTER),
    );
    assert!(why.contains("module_param_array is not supported"), "{why}");
    let why = refusal(
        &scratch,
        "real.c",
        &use_of("tp->snd_cwnd = (u32)(tp->snd_cwnd * 1.5 / tp->mss_cache);"),
    );
    assert!(why.contains("floating point") || why.contains("SSE register"), "{why}");
    let why = refusal(
        &scratch,
        "missing.c",
        &small(RENO, "extern void nowhere(void);\nvoid (*p)(void) = nowhere;", REGISTER),
    );
    assert!(why.contains("uses `nowhere`: knee's contract has no such function"), "{why}");
}

#[test]
fn what_is_no_congestion_control_is_one_sentence() {
    let scratch = Scratch::new();
    for (name, text, expected) in [
        ("nothing.c", "int x;\n".to_owned(), "is no congestion control"),
        (
            "silent.c",
            small(RENO, "", "return 0;").replace(
                "return 0",
                "if (0) return tcp_register_congestion_control(&ops); return 0",
            ),
            "registers no congestion control",
        ),
        (
            "fails.c",
            small(RENO, "", "return -ENOMEM;").replace(
                "return -ENOMEM",
                "if (0) return tcp_register_congestion_control(&ops); return -ENOMEM",
            ),
            "its module_init returns -12",
        ),
        (
            "lacks.c",
            small(".ssthresh = tcp_reno_ssthresh,", "", REGISTER),
            "needs .ssthresh, .undo_cwnd",
        ),
        (
            "uninit.c",
            small(RENO, "", REGISTER).replace("module_init(small_register);", ""),
            "has no module_init",
        ),
        ("tcp.h", small(RENO, "", REGISTER), "name ends in .c"),
    ] {
        let why = refusal(&scratch, name, &text);
        assert!(why.contains(expected) && !why.contains('\n'), "{name}: {why}");
    }
    let why = load(Path::new("x.toml"), NETWORK, &with_cc(&["./none.c"])).unwrap_err().to_string();
    assert!(why.contains("./none.c: cannot read"), "{why}");
}

/// The recording of the "bulk" entry under an algorithm of a file.
fn traced(scratch: &Scratch, cc: &str, name: &str) -> PathBuf {
    let experiment = load(Path::new("x.toml"), NETWORK, &with_cc(&[cc])).unwrap();
    let options = Options { trace: Some("bulk".to_owned()), ..Options::new(Arc::new(Simulator)) };
    let dir = scratch.0.path().join(name);
    let mut results = Results::at(&dir).unwrap();
    let swept = sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap();
    results.finish(&experiment, &swept, &[]).unwrap();
    dir.join("bulk-run-0.flight")
}

/// The calls of a recording, made again by the file.
fn replayed(recording: &Path, cc: &str) -> Report {
    let mut reader =
        Reader::new(fs::File::open(recording).map(std::io::BufReader::new).unwrap()).unwrap();
    let header = reader.header().clone();
    let file = knee_algo::module::load(Path::new(cc)).unwrap();
    let (algorithm, params) = header.algorithm_of_file(file).unwrap();
    let mut replay = Replay::new(algorithm, params, header.hz).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        replay.step(&record);
    }
    replay.finish()
}

#[test]
fn modules_are_traced_and_their_calls_replay_the_same() {
    let scratch = Scratch::new();
    for name in ["tcp_reno", "tcp_cubic", "tcp_dctcp", "tcp_delay", "tcp_model", "tcp_copa"] {
        let report = replayed(&traced(&scratch, &module(name), name), &module(name));
        assert!(report.total() > 1000 && report.flows >= 2, "{name}: {report}");
        assert!(report.is_equal() && report.unchecked == 0, "{name}: {report}");
        assert_eq!(report.stretches, report.flows, "{name}");
    }
}

/// Keeps what it counts behind a pointer; in `global` it is a variable of all connections.
fn keeping(counter: &str) -> String {
    let more = "static u32 all;\nstruct own { u32 *block; u32 cuts; };\n\
                static void own_init(struct sock *sk)\n{\n\tstruct own *own = inet_csk_ca(sk);\n\
                \town->block = kcalloc(4, sizeof(u32), GFP_KERNEL);\n}\n\
                static void own_release(struct sock *sk)\n{\n\tstruct own *own = inet_csk_ca(sk);\n\tkfree(own->block);\n}\n\
                static u32 own_ssthresh(struct sock *sk)\n{\n\tstruct own *own = inet_csk_ca(sk);\n\
                \tu32 *count = COUNTER;\n\town->cuts++;\n\t*count += 1;\n\
                \treturn max(tcp_snd_cwnd(tcp_sk(sk)) * 3 / (4 + *count % 5), 2U);\n}";
    let operations = ".ssthresh = own_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd, \
                      .init = own_init, .release = own_release,";
    small(operations, &more.replace("COUNTER", counter), REGISTER)
}

#[test]
fn memory_behind_a_pointer_is_the_replays_own_and_no_recorded_address_is_followed() {
    let scratch = Scratch::new();
    let path = scratch.source("tcp_keeping.c", &keeping("own->block ? own->block : &all"));
    let recording = traced(&scratch, &path, "keeping");
    let report = replayed(&recording, &path);
    assert!(report.is_equal() && report.unchecked == 0, "{report}");
    // A recording that begins in the middle has an address of another process: nothing is called with it.
    let mut reader =
        Reader::new(fs::File::open(&recording).map(std::io::BufReader::new).unwrap()).unwrap();
    let algorithm = knee_algo::module::load(Path::new(&path)).unwrap();
    assert!(algorithm.keeps_addresses());
    let mut replay = Replay::new(algorithm, algorithm.default_params(), 1000).unwrap();
    let mut skipped = 0;
    while let Some(record) = reader.next_record().unwrap() {
        match record.number < 5 {
            true => skipped += 1,
            false => replay.step(&record),
        }
    }
    let report = replay.finish();
    assert!(skipped > 0 && report.unchecked == report.total() && report.total() > 100, "{report}");
}

#[test]
fn a_global_that_hosts_do_not_share_makes_a_difference_that_is_told() {
    let scratch = Scratch::new();
    let path = scratch.source("tcp_shared.c", &keeping("&all"));
    let report = replayed(&traced(&scratch, &path, "shared"), &path);
    let first =
        report.first_difference.expect("two senders count by themselves, the replay together");
    assert_eq!(first.field, "the return value", "{first}");
}

#[test]
fn a_modules_fields_have_their_own_names_in_the_series_and_in_what_is_plotted() {
    let scratch = Scratch::new();
    let text = NETWORK
        .replace("flows = \"1 ms\"", "flows = \"1 ms\"\nplot = [\"velocity\", \"cwnd_pkts\"]");
    let results = scratch.run(&text, &with_cc(&[&module("tcp_copa")]), 2);
    let series = results(SERIES);
    let mut lines = series.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    for name in [
        "base_rtt_us.s[2].v",
        "velocity",
        "last_step",
        "same_direction",
        "is_slow_start",
        "direction",
        "queueing_ns",
    ] {
        assert!(header.contains(&name), "{name}: {header:?}");
    }
    assert!(!header.contains(&"rttcnt"), "Vegas' names say nothing of Copa");
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let has = |name: &str, is_it: &dyn Fn(i64) -> bool| {
        let at = column(name);
        rows.iter().any(|row| row[at].parse().is_ok_and(is_it))
    };
    assert!(
        has("last_step", &|step| step < 0 && step > -100_000_000),
        "a signed number has its sign"
    );
    assert!(has("last_step", &|step| step > 0));
    assert!(has("is_slow_start", &|bit| bit == 1) && has("is_slow_start", &|bit| bit == 0));
    assert!(!has("is_slow_start", &|bit| bit > 1) && !has("same_direction", &|bits| bits > 3));
    let manifest = results("manifest.json");
    assert!(manifest.contains("\"column\": \"velocity\""), "{manifest}");
    let wrong = text.replace("velocity", "velocty");
    let cased = format!("{wrong}\n[[case]]\nname = \"copa\"\ncc = \"{}\"\n", module("tcp_copa"));
    let why = load(Path::new("x.toml"), &cased, &Overrides::default()).unwrap_err().to_string();
    assert!(why.contains("sample.plot") && why.contains("velocity"), "{why}");
    let unsampled = text.replace("flows = \"1 ms\"", "");
    let why = load(Path::new("x.toml"), &unsampled, &with_cc(&["reno"])).unwrap_err().to_string();
    assert!(why.contains("needs sample.flows"), "{why}");
    // Another algorithm that was asked for shows what it has.
    assert!(load(Path::new("x.toml"), &text, &with_cc(&["reno"])).is_ok());
}

#[test]
fn parameters_that_a_module_refuses_are_an_error_of_the_run() {
    let scratch = Scratch::new();
    let more = "static int level = 1;\nmodule_param(level, int, 0644);";
    let text = small(
        RENO,
        more,
        "if (level > 3) return -EINVAL;\n\treturn tcp_register_congestion_control(&ops);",
    );
    let path = scratch.source("tcp_level.c", &text);
    let experiment =
        load(Path::new("x.toml"), NETWORK, &set(with_cc(&[&path]), &["params.level=4"])).unwrap();
    let mut results = Results::at(&scratch.0.path().join("refused")).unwrap();
    let why = sweep(&experiment, &Options::new(Arc::new(Simulator)), &mut results, &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(why.contains("its module_init returns -22"), "{why}");
}

#[test]
fn what_knee_new_writes_outside_of_a_clone_runs_at_once() {
    let scratch = Scratch::new();
    assert_eq!(
        knee_algo::template::write_here(scratch.0.path(), "swift").unwrap(),
        ["swift/swift.c", "swift/swift.toml", "swift/README.md"]
    );
    let text = fs::read_to_string(scratch.0.path().join("swift/swift.toml")).unwrap();
    // The file that is run is beside that directory.
    let text = text.replace("./swift.c", "./swift/swift.c");
    let results = scratch.run(&text, &Overrides::default(), 2);
    let summary = results("summary.csv");
    let of = |case: &str| -> Vec<String> {
        summary.lines().filter_map(|line| line.strip_prefix(case)).map(str::to_owned).collect()
    };
    assert!(!of("reno,").is_empty());
    assert_eq!(of("reno,"), of("swift,"), "its defaults are Reno's");
    assert_ne!(of("swift,"), of("swift-717,"));
    assert!(results(SERIES).lines().next().unwrap().contains("reductions"));
}

/// A module whose state is as large as given, and has no `BUILD_BUG_ON`.
fn with_state(bytes: usize, access: &str) -> String {
    let more = format!(
        "struct wide {{ u8 fill[{bytes}]; }};\n\
         static void wide_init(struct sock *sk)\n{{\n\t{access}\n\tmemset(w, 0xff, sizeof(*w));\n}}"
    );
    small(&format!("{RENO} .init = wide_init,"), &more, REGISTER)
}

#[test]
fn a_state_beyond_the_private_area_is_refused_and_one_that_fills_it_is_not() {
    let scratch = Scratch::new();
    let accesses = [
        "struct wide *w = inet_csk_ca(sk);",
        "struct wide *w;\n\tw = (struct wide *)inet_csk_ca(sk);",
        "struct wide *w;\n\tw = inet_csk_ca(sk);",
    ];
    for (at, access) in accesses.iter().enumerate() {
        let name = format!("tcp_wide{at}.c");
        let why = refusal(&scratch, &name, &with_state(105, access));
        assert!(why.contains(&format!("{name}: its struct wide has 105 bytes")), "{why}");
        assert!(why.contains("private area (inet_csk_ca) has 104"), "{why}");
        let full = scratch.source(&format!("tcp_full{at}.c"), &with_state(104, access));
        load(Path::new("x.toml"), NETWORK, &with_cc(&[&full])).unwrap();
    }
}

/// Runs a test of this file that is ignored otherwise, in a process of its own. What that leaves behind when it crashes goes with its
/// directory for temporary files.
fn child(test: &str, vars: &[(&str, Option<&str>)]) -> std::process::Output {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test]);
    command.env("TMPDIR", temporary.path());
    for (name, value) in vars {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap()
}

#[test]
#[ignore = "what others run in a process of its own"]
fn child_that_runs_a_file() {
    let scratch = Scratch::new();
    let file = std::env::var("KNEE_TEST_FILE").unwrap();
    let flows = scratch.run(NETWORK, &with_cc(&[&file]), 1)("flows.csv");
    println!("flows: {}", flows.lines().count());
}

#[test]
fn a_file_that_crashes_ends_its_run_with_its_line_and_the_moment() {
    let scratch = Scratch::new();
    let crash = |name: &str, code: &str| {
        let more = format!(
            "static u32 zero;\nstatic u32 bad(struct sock *sk)\n{{\n\tu32 *nowhere = (u32 *)(unsigned long)zero;\n\t{code}\n}}"
        );
        let operations =
            ".ssthresh = bad, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,";
        let path = scratch.source(name, &small(operations, &more, REGISTER));
        let experiment = load(Path::new("x.toml"), NETWORK, &with_cc(&[&path])).unwrap();
        let mut results = Results::at(&scratch.0.path().join("crashed")).unwrap();
        let options = Options::new(Arc::new(Simulator));
        let why = sweep(&experiment, &options, &mut results, &mut |_| {}).unwrap_err().to_string();
        assert!(why.contains(&format!("{name}: ssthresh ")), "{why}");
        assert!(why.contains("; flow ") && why.contains(" s of simulated time"), "{why}");
        why
    };
    let why = crash("tcp_lost.c", "return *(volatile u32 *)nowhere;");
    assert!(why.contains("followed a null pointer (bad, tcp_lost.c:8)"), "{why}");
    if cfg!(target_arch = "x86_64") {
        let why = crash("tcp_zero.c", "(void)nowhere;\n\treturn 10 / *(volatile u32 *)&zero;");
        assert!(why.contains("divided by zero (bad, tcp_zero.c:9)"), "{why}");
    }
}

#[test]
fn objects_are_not_run_from_where_others_may_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let path = scratch.source("tcp_small.c", &small(RENO, "", REGISTER));
    let cache = scratch.0.path().join("cache");
    fs::create_dir_all(cache.join("knee")).unwrap();
    let with = |mode: u32| {
        fs::set_permissions(cache.join("knee"), fs::Permissions::from_mode(mode)).unwrap();
        let place = cache.to_str().unwrap();
        child(
            "modules::child_that_runs_a_file",
            &[("KNEE_TEST_FILE", Some(&path)), ("XDG_CACHE_HOME", Some(place))],
        )
    };
    let open = with(0o777);
    let said = [open.stdout, open.stderr].map(|part| String::from_utf8_lossy(&part).into_owned());
    let said = said.concat();
    assert!(!open.status.success() && said.contains("can be written by others"), "{said}");
    assert!(with(0o755).status.success(), "others may read");
}

#[test]
fn without_a_home_a_directory_of_its_own_is_made_and_goes_away() {
    let scratch = Scratch::new();
    let path = scratch.source("tcp_small.c", &small(RENO, "", REGISTER));
    let tmp = scratch.0.path().join("tmp");
    fs::create_dir_all(&tmp).unwrap();
    let output = child(
        "modules::child_that_runs_a_file",
        &[
            ("KNEE_TEST_FILE", Some(&path)),
            ("XDG_CACHE_HOME", None),
            ("HOME", None),
            ("TMPDIR", tmp.to_str()),
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("flows:"), "{said}");
    let left: Vec<_> = fs::read_dir(&tmp).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn jiffies_go_on_where_the_hosts_32_bits_wrap() {
    let scratch = Scratch::new();
    // The window shrinks by the clock alone: never again, if a wrap puts the mark into the far future.
    let more = "static void by_clock(struct sock *sk, u32 ack, u32 acked)\n{\n\
                \tstatic unsigned long mark;\n\tstruct tcp_sock *tp = tcp_sk(sk);\n\n\
                \tif (!mark)\n\t\tmark = jiffies;\n\
                \tif (time_after(jiffies, mark + 5)) {\n\t\tmark = jiffies;\n\
                \t\ttcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp) / 2, 2U));\n\t}\n\
                \ttcp_reno_cong_avoid(sk, ack, acked);\n}";
    let operations =
        ".ssthresh = tcp_reno_ssthresh, .cong_avoid = by_clock, .undo_cwnd = tcp_reno_undo_cwnd,";
    let path = scratch.source("tcp_by_clock.c", &small(operations, more, REGISTER));
    let from = |jiffies: u32| {
        let text = format!("{NETWORK}\n[hosts]\njiffies_at_start = {jiffies}\n");
        scratch.run(&text, &with_cc(&[&path]), 1)(SERIES)
    };
    // The low bits are the same: the kernel's timers are rounded by them.
    let plain = from(u32::MAX - 99 - (1 << 24));
    assert!(plain.lines().count() > 100);
    assert_eq!(plain, from(u32::MAX - 99), "it wraps after 100 of 300 ms");
}

#[test]
fn the_distance_of_two_unsigned_numbers_is_the_kernels() {
    let scratch = Scratch::new();
    let check = "static u32 one = 3, other = 5; static u64 wide = 3; static unsigned short narrow = 65535;\n\
                 static bool is_wrong(void)\n{\n\treturn abs(one - other) != 2 || abs(other - one) != 2 || abs((int)one - 9) != 6 ||\n\
                 \t       abs(wide - 10) != 7 || abs(narrow) != 1 ||\n\t       DIV_ROUND_CLOSEST((int)other - 45, 64) != -1;\n}";
    let register = format!("if (is_wrong()) return -EINVAL; {REGISTER}");
    let path = scratch.source("tcp_apart.c", &small(RENO, check, &register));
    load(Path::new("x.toml"), NETWORK, &with_cc(&[&path])).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn of_the_handshake_the_connecting_ends_module_hears_before_it_begins() {
    let scratch = Scratch::new();
    let operations = ".init = early_init, .pkts_acked = early_acked, .cong_avoid = early_avoid, .ssthresh = tcp_reno_ssthresh, .undo_cwnd = \
                      tcp_reno_undo_cwnd,";
    let code = "struct early { s32 rtt_us; bool begun; };\n\
                static void early_acked(struct sock *sk, const struct ack_sample *sample)\n{\n\tstruct early *ca = inet_csk_ca(sk);\n\n\
                \tif (!ca->begun)\n\t\tca->rtt_us = sample->rtt_us;\n}\n\
                static void early_avoid(struct sock *sk, u32 ack, u32 acked)\n{\n}\n\
                static void early_init(struct sock *sk)\n{\n\tstruct early *ca = inet_csk_ca(sk);\n\n\tca->begun = true;\n\
                \ttcp_snd_cwnd_set(tcp_sk(sk), ca->rtt_us > 100 && ca->rtt_us < 1000 ? 3 : 7);\n}";
    let path = scratch.source("tcp_early.c", &small(operations, code, REGISTER));
    let results = scratch.run(NETWORK, &set(with_cc(&[&path]), &["run.duration=5 ms"]), 1);
    let series = results(SERIES);
    let column = series.lines().next().unwrap().split(',').position(|name| name == "cwnd_pkts");
    let windows: Vec<&str> =
        series.lines().skip(1).filter_map(|line| line.split(',').nth(column?)).collect();
    assert!(!windows.is_empty() && windows.iter().all(|cwnd| *cwnd == "3"), "{series}");
}
